//! What a collector gets, decoded from the real protocol: every span that began is ended once, with its outcome.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::event::Event;
use andon_runtime::{Agent, AgentBuilder, Cancel, Record, Runtime};
use andon_telemetry::span::{SpanId, TraceId, of_run};
use andon_telemetry::{Collector, Figures, Traces};
use andon_testkit::tools::{self, ToolLog};
use andon_testkit::{Act, ScriptedModel, TestJournal, until, until_shown};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use parking_lot::Mutex;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A collector that keeps what it gets.
#[derive(Clone, Default)]
struct Receiver {
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    async fn open() -> (Self, Collector) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let receiver = Self::default();
        let own = receiver.clone();
        drop(beside(async move {
            while let Ok((stream, _)) = listener.accept().await {
                own.clone().serve(stream).await;
            }
        }));
        (receiver, Collector::at(&address))
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        loop {
            let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                    return;
                }
                continue;
            };
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            let whole = end + 4 + length.unwrap();
            while bytes.len() < whole {
                assert!(stream.read_buf(&mut bytes).await.unwrap() > 0);
            }
            self.requests.lock().push(ExportTraceServiceRequest::decode(&bytes[end + 4..whole]).unwrap());
            self.heads.lock().push(head);
            bytes.drain(..whole);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        }
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "the receiver is not part of what is tested")]
fn beside(work: impl Future<Output = ()> + Send + 'static) -> tokio::task::JoinHandle<()> {
    tokio::spawn(work)
}

/// A runtime whose spans go to a receiver.
struct Watched {
    receiver: Receiver,
    traces: Arc<Traces>,
    figures: Arc<Figures>,
    runtime: Runtime,
}

impl Watched {
    async fn new() -> Self {
        Self::on(TestJournal::new(andon_runtime::MemoryJournal::new(), None), 1).await
    }

    async fn on(journal: TestJournal, seed: u64) -> Self {
        let (receiver, collector) = Receiver::open().await;
        let figures = Figures::new();
        let traces = Traces::to(&collector, &figures).unwrap();
        let builder = Runtime::builder().journal(Arc::new(journal)).seed(seed);
        let runtime = builder.observer(Arc::clone(&traces)).observer(Arc::clone(&figures)).build();
        Self { receiver, traces, figures, runtime }
    }

    fn agent(&self, answers: impl IntoIterator<Item = Vec<Act>>) -> AgentBuilder {
        Agent::builder().name("clerk").model(ScriptedModel::new(answers)).runtime(&self.runtime)
    }

    /// Everything that the collector got, once all runs are over.
    async fn spans(&self) -> Vec<Span> {
        self.runtime.idle().await;
        let traces = Arc::clone(&self.traces);
        assert!(tokio::task::spawn_blocking(move || traces.end(Duration::from_secs(10))).await.unwrap());
        self.receiver.spans()
    }
}

fn attribute<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a Value> {
    attributes.iter().find(|pair| pair.key == name)?.value.as_ref()?.value.as_ref()
}

fn text(span: &Span, name: &str) -> String {
    match attribute(&span.attributes, name) {
        Some(Value::StringValue(text)) => text.clone(),
        other => panic!("{name} of {} is {other:?}", span.name),
    }
}

fn is_error(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

/// What must hold in any case: each span that the facts began is there once, under its run, and ended.
fn check(spans: &[Span], records: &[Arc<Record>]) {
    let run = match &records[0].event {
        Event::RunAccepted { accepted } => accepted.run.clone(),
        other => panic!("{other:?}"),
    };
    let spans: Vec<&Span> = spans.iter().filter(|span| span.trace_id == TraceId::of(&run).0).collect();
    let ids: HashSet<_> = spans.iter().map(|span| span.span_id.clone()).collect();
    assert_eq!(ids.len(), spans.len(), "two spans have one id");
    let begun = records.iter().filter(|record| {
        matches!(
            record.event,
            Event::RunAccepted { .. }
                | Event::ModelStarted { .. }
                | Event::ToolStarted { .. }
                | Event::ToolRefused { .. }
        )
    });
    let begun: HashSet<_> = begun.map(|record| SpanId::of(&run, record.seq).0.to_vec()).collect();
    assert_eq!(ids, begun);
    let root = SpanId::of(&run, 1).0.to_vec();
    for span in &spans {
        let is_root = span.span_id == root;
        assert_eq!(span.parent_span_id, if is_root { Vec::new() } else { root.clone() }, "{}", span.name);
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano && span.start_time_unix_nano > 0);
        assert_eq!(span.name.starts_with("invoke_agent "), is_root);
    }
    assert_eq!(of_run(records, None).len(), spans.len(), "the facts alone tell the same spans");
}

fn asks(calls: &[(&str, &str, &str)]) -> Vec<Act> {
    let calls = calls.iter().enumerate().flat_map(|(index, (id, tool, input))| Act::call(index, id, tool, input));
    calls.chain([Act::usage(10, 2), Act::tool_use()]).collect()
}

fn says(words: &str) -> Vec<Act> {
    vec![Act::text(words), Act::usage(20, 3), Act::end()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completed_run_with_a_refused_call() {
    let watched = Watched::new().await;
    let answers = [asks(&[("a", "look", "{}"), ("b", "no_such_tool", "{}")]), says("A secret answer.")];
    let agent = watched.agent(answers).tool(tools::quick("look", &ToolLog::new())).build().unwrap();
    let run = agent.start("A secret question.").unwrap();
    run.outcome().await;
    let spans = watched.spans().await;
    check(&spans, &run.records());
    let names: HashSet<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let expected = ["chat scripted", "execute_tool look", "execute_tool other", "invoke_agent clerk"];
    assert_eq!(names, HashSet::from(expected));
    let by_name = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let root = by_name("invoke_agent clerk");
    assert_eq!((text(root, "andon.outcome"), is_error(root)), ("completed".to_owned(), false));
    assert_eq!(text(root, "gen_ai.operation.name"), "invoke_agent");
    // A name that a model made up is in no span's name.
    let refused = by_name("execute_tool other");
    assert_eq!(text(refused, "gen_ai.tool.name"), "no_such_tool");
    assert_eq!((text(refused, "error.type"), is_error(refused)), ("unknown_tool".to_owned(), true));
    let chat = by_name("chat scripted");
    assert_eq!(attribute(&chat.attributes, "gen_ai.usage.output_tokens"), Some(&Value::IntValue(2)));
    // Nothing that was said is in what was sent.
    assert!(!format!("{:?}", watched.receiver.requests.lock()).contains("secret"));
    let resource = watched.receiver.requests.lock()[0].resource_spans[0].resource.clone().unwrap();
    assert_eq!(attribute(&resource.attributes, "service.name"), Some(&Value::StringValue("andon".to_owned())));
    assert!(watched.figures.render(&watched.runtime).contains("andon_spans_sent_total 5"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_stopped_in_its_text_is_marked_and_is_not_an_error() {
    let watched = Watched::new().await;
    let agent = watched.agent([vec![Act::text("Half"), Act::Silence]]).build().unwrap();
    let run = agent.start("Go.").unwrap();
    until_shown(&run, "Half").await;
    run.cancel(Cancel::graceful().by("ada").note("a private note"));
    run.outcome().await;
    let spans = watched.spans().await;
    check(&spans, &run.records());
    let root = spans.iter().find(|span| span.parent_span_id.is_empty()).unwrap();
    assert!(spans.iter().all(|span| !is_error(span)));
    assert_eq!(text(root, "andon.outcome"), "cancelled");
    assert_eq!(text(root, "andon.cancel.reason"), "requested");
    assert_eq!(text(root, "andon.cancel.by"), "ada");
    assert_eq!(text(root, "andon.cancel.phase"), "model");
    assert!(matches!(attribute(&root.attributes, "andon.cancel.settled_us"), Some(Value::IntValue(1..))));
    let cancel = root.events.iter().find(|event| event.name == "andon.cancel").unwrap();
    assert!(attribute(&cancel.attributes, "andon.cancel.force").is_some());
    let chat = spans.iter().find(|span| span.name == "chat scripted").unwrap();
    assert_eq!(text(chat, "andon.model.end"), "cut");
    // Unknown is left out, and not 0.
    assert_eq!(attribute(&chat.attributes, "gen_ai.usage.input_tokens"), None);
    assert!(!format!("{spans:?}").contains("private"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_tools_one_of_which_had_finished_when_the_stop_came() {
    let watched = Watched::new().await;
    let (log, model) = (ToolLog::new(), asks(&[("a", "quick", "{}"), ("b", "slow", "{}")]));
    let agent = watched.agent([model]).tool(tools::quick("quick", &log));
    let agent = agent.tool(tools::slow("slow", Duration::from_secs(600), &log)).build().unwrap();
    let run = agent.start("Go.").unwrap();
    let finished = |event: &Event| matches!(event, Event::ToolFinished { .. });
    let within = Duration::from_secs(90);
    tokio::time::timeout(within, until(&run, finished)).await.expect("the quick tool finishes");
    run.cancel(Cancel::now());
    tokio::time::timeout(within, run.outcome()).await.expect("the run settles");
    let spans = watched.spans().await;
    check(&spans, &run.records());
    let verdicts: HashMap<String, String> = spans
        .iter()
        .filter(|span| span.name.starts_with("execute_tool"))
        .map(|span| (text(span, "gen_ai.tool.name"), text(span, "andon.tool.verdict")))
        .collect();
    assert_eq!(verdicts["quick"], "finished");
    assert!(["cut", "unknown", "never_started"].contains(&verdicts["slow"].as_str()), "{verdicts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_fails_is_an_error_of_the_call_and_of_the_run() {
    let watched = Watched::new().await;
    let agent = watched.agent([vec![Act::text("Half"), Act::Break]]).build().unwrap();
    let run = agent.start("Go.").unwrap();
    run.outcome().await;
    let spans = watched.spans().await;
    check(&spans, &run.records());
    assert!(!spans.is_empty() && spans.iter().all(is_error), "{spans:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_run_has_its_open_spans_ended_by_the_process_that_recovers_it() {
    let journal = TestJournal::new(andon_runtime::MemoryJournal::new(), None);
    let first = Watched::on(journal.clone(), 1).await;
    let agent = first.agent([vec![Act::text("Half"), Act::Silence]]).build().unwrap();
    let run = agent.start("Go.").unwrap();
    until_shown(&run, "Half").await;
    journal.crash();

    let second = Watched::on(TestJournal::new(journal.durable(), None), 2).await;
    second.runtime.recover().await.unwrap();
    let records = second.runtime.find(run.id()).await.unwrap().unwrap().records();
    let spans = second.spans().await;
    check(&spans, &records);
    assert_eq!(spans.len(), 2);
    assert!(spans.iter().all(is_error), "{spans:?}");
    let root = spans.iter().find(|span| span.parent_span_id.is_empty()).unwrap();
    assert_eq!(text(root, "andon.outcome"), "lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_not_there_delays_nothing_and_is_counted() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let collector = Collector::at(&format!("http://{}", nobody.local_addr().unwrap()));
    drop(nobody);
    let figures = Figures::new();
    let traces = Traces::to(&collector, &figures).unwrap();
    let runtime = Runtime::builder().observer(Arc::clone(&traces)).build();
    let agent = Agent::builder().model(ScriptedModel::new([says("Done.")])).runtime(&runtime).build().unwrap();
    assert_eq!(agent.run("Go.").await.unwrap().stop_reason(), "end_turn");
    runtime.idle().await;
    tokio::task::spawn_blocking(move || traces.end(Duration::from_secs(10))).await.unwrap();
    assert!(figures.render(&runtime).contains("andon_spans_dropped_total 2"), "{}", figures.render(&runtime));
}
