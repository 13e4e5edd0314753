//! Runs that call tools: the library, on SQLite, with a model in the process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use andon_runtime::{Agent, Answer, FnTool, Model, ModelError, ModelRequest, ModelStop, Piece, Runtime};
use andon_store::SqliteJournal;
use andon_testkit::bench::{cpu, now};
use serde_json::json;
use tokio::runtime::Builder;

use crate::Length;
use crate::process::folder;
use crate::table::Table;

/// How many calls a turn has.
const A_TURN: usize = 8;

/// What a call costs in a run with this many.
pub(crate) fn calls(length: Length) -> Table {
    let mut table = Table::new("tool calls in a run", &["a call (µs)", "CPU (µs)"]);
    for calls in length.steps([256, 1_024, 5_120, 20_480]) {
        // The number of runs gives each row the same number of calls.
        let runs = (5_120 / calls).max(1);
        let Cost { time, cpu } = call(Calls { calls, ids: Ids::Own }, 100, runs);
        table.add(calls, vec![time, cpu]);
    }
    table
}

/// The same with a provider that gives its calls no ids, as Gemini and Ollama do.
pub(crate) fn without_ids(length: Length) -> Table {
    let mut table =
        Table::new("tool calls in a run, with a provider that gives them no ids", &["a call (µs)", "CPU (µs)"]);
    for calls in length.steps([64, 256, 1_024, 4_096]) {
        let Cost { time, cpu } = call(Calls { calls, ids: Ids::None }, 100, (1_024 / calls).max(1));
        table.add(calls, vec![time, cpu]);
    }
    table
}

/// What a call costs whose result is this large.
pub(crate) fn results(length: Length) -> Table {
    let mut table = Table::new("bytes in a tool's result", &["a call (µs)", "CPU (µs)", "CPU per KB (µs)"]);
    for bytes in length.steps([1_000, 10_000, 100_000, 1_000_000]) {
        // CPU time is reported in steps of 10 ms.
        let runs = if bytes < 100_000 { 32 } else { 4 };
        let Cost { time, cpu } = call(Calls { calls: 64, ids: Ids::Own }, bytes, runs);
        table.add(bytes, vec![time, cpu, cpu / (bytes as f64 / 1e3)]);
    }
    table
}

/// What one call took, in µs.
struct Cost {
    time: f64,
    cpu: f64,
}

/// Runs a model that calls tools whose results have this many bytes.
fn call(model: Calls, bytes: usize, runs: usize) -> Cost {
    let folder = folder();
    let journal = SqliteJournal::open(folder.path().join("andon.db")).expect("a database");
    let runtime = Runtime::builder().journal(Arc::new(journal)).build();
    let schema = json!({ "type": "object" });
    let text = "result ".repeat(bytes / 7);
    let look = FnTool::new("look", "Looks.", schema, move |_| std::future::ready(Ok(text.clone().into())));
    let agent = Agent::builder().name("bench").model(model).tool(look).runtime(&runtime).build();
    let agent = agent.expect("an agent");
    let threads = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    threads.block_on(async {
        let (before, began) = (cpu(), now());
        for number in 0..runs {
            let session = agent.session("bench", number.to_string()).expect("a session");
            let outcome = session.run("Go.").await.expect("an outcome");
            assert_eq!(outcome.stop_reason(), "end_turn", "the run completes");
        }
        let each = |seconds: f64| seconds * 1e6 / (model.calls * runs) as f64;
        Cost { time: each(began.elapsed().as_secs_f64()), cpu: each((cpu() - before).as_secs_f64()) }
    })
}

/// A model that asks for this many calls, some at a time.
#[derive(Debug, Clone, Copy)]
struct Calls {
    calls: usize,
    ids: Ids,
}

/// Whether calls have ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    /// Each has a unique one.
    Own,
    None,
}

impl Model for Calls {
    fn name(&self) -> &str {
        "bench"
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        // A prompt, and then an answer and its results for each turn.
        let done = request.history.len() / 2 * A_TURN;
        if done >= self.calls {
            return Box::new(Said(VecDeque::from([Piece::Text("Done.".to_owned()), Piece::End(ModelStop::EndTurn)])));
        }
        let call = |index: usize| {
            let id = if self.ids == Ids::Own { format!("call_{}", done + index) } else { String::new() };
            let start = Piece::Call { id, name: "look".to_owned() };
            [start, Piece::CallInput { index, json: "{}".to_owned() }, Piece::CallEnd { index }]
        };
        let mut pieces: VecDeque<Piece> = (0..A_TURN.min(self.calls - done)).flat_map(call).collect();
        pieces.push_back(Piece::End(ModelStop::ToolUse));
        Box::new(Said(pieces))
    }
}

struct Said(VecDeque<Piece>);

impl Answer for Said {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}
