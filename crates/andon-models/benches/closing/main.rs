//! How soon a provider's connection is closed when the cord is pulled: 1,000 runs over both protocols, all dialects and
//! every phase of a call. `cargo xtask bench models` prints the table.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

use std::time::Duration;

use andon::{Agent, Cancel};
use andon_models::{Anthropic, CutPolicy, Gemini, Ollama, OpenAi, OpenAiResponses};
use andon_testkit::bench::{Goal, Line, Scene, quantile, table};
use andon_testkit::provider::{BadProvider, Dialect, Protocol, Reply, Script};
use tokio::time::Instant;

/// The allocator that the program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs of one dialect in one phase over one protocol: 5 dialects, 5 phases and 2 protocols make 1,000.
const RUNS: usize = 20;

const SCENES: [Scene; 2] = [
    Scene { name: "closing http1", measure: || measure(Protocol::Http1) },
    Scene { name: "closing http2", measure: || measure(Protocol::Http2) },
];

fn main() {
    table(&SCENES);
}

/// Where in a call the cord is pulled.
#[derive(Debug, Clone, Copy)]
enum Phase {
    BeforeHeaders,
    BeforeTheFirstWord,
    BetweenWords,
    InMidFrame,
    InAFlood,
}

impl Phase {
    const ALL: [Self; 5] =
        [Self::BeforeHeaders, Self::BeforeTheFirstWord, Self::BetweenWords, Self::InMidFrame, Self::InAFlood];

    fn words(self) -> &'static str {
        match self {
            Self::BeforeHeaders => "before headers",
            Self::BeforeTheFirstWord => "before the first word",
            Self::BetweenWords => "between words",
            Self::InMidFrame => "in mid-frame",
            Self::InAFlood => "in a flood",
        }
    }

    /// The script, and the step at which it is pulled.
    fn script(self, dialect: Dialect) -> (Script, &'static str) {
        let script = Script::stream(dialect);
        let frames = dialect.frames(&Reply::text(["One ", "two ", "three"]));
        let some = frames.iter().take(3).cloned();
        match self {
            Self::BeforeHeaders => (script.stall_before_headers(), "stall"),
            Self::BeforeTheFirstWord => (script.stall(), "stall"),
            Self::BetweenWords => (script.frames(some).stall(), "stall"),
            Self::InMidFrame => (script.frames(some).half(&dialect.text_frame(100)).stall(), "stall"),
            Self::InAFlood => (script.frames(some).flood(dialect.text_frame(100)), "flood"),
        }
    }
}

fn measure(protocol: Protocol) -> Vec<Line> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let name = match protocol {
        Protocol::Http1 => "HTTP/1.1",
        Protocol::Http2 => "HTTP/2",
    };
    let mut lines = Vec::new();
    let mut all = Vec::new();
    for phase in Phase::ALL {
        let mut times = runtime.block_on(phase_times(protocol, phase));
        lines.push(line(
            format!("{name}, {}, p99 of {}", phase.words(), times.len()),
            quantile(&mut times, 0.99),
            Goal::None,
        ));
        all.extend(times);
    }
    let runs = all.len();
    lines.push(line(format!("{name}, p99 of {runs}"), quantile(&mut all, 0.99), Goal::AtMost(5.0)));
    lines.push(line(format!("{name}, longest of {runs}"), quantile(&mut all, 1.0), Goal::AtMost(100.0)));
    lines
}

fn line(what: String, took: Duration, goal: Goal) -> Line {
    Line { what: what.leak(), reached: took.as_secs_f64() * 1e3, unit: "ms", goal }
}

/// From the pull to when the provider sees the connection or the stream closed, for all dialects.
async fn phase_times(protocol: Protocol, phase: Phase) -> Vec<Duration> {
    let mut times = Vec::new();
    for dialect in Dialect::ALL {
        let provider = BadProvider::start_on_thread(protocol);
        let agent = agent(&provider, protocol, dialect);
        for number in 0..RUNS {
            let (script, step) = phase.script(dialect);
            provider.answer(script);
            let run = agent.start("Count").expect("a run starts");
            let seen = provider.seen(number).await;
            assert!(seen.reached(step).await, "the provider gets there");
            let pulled = Instant::now();
            run.cancel(Cancel::now());
            let closed = seen.closed().await;
            assert!(closed.by_client(), "the client closes it");
            times.push(closed.at.saturating_duration_since(pulled));
            run.outcome().await;
        }
        assert_eq!(provider.open_streams(), 0, "none is left open");
    }
    times
}

fn agent(provider: &BadProvider, protocol: Protocol, dialect: Dialect) -> Agent {
    let model = "bad-model-1";
    let builder = match dialect {
        Dialect::OpenAiChat => OpenAi::builder(model),
        Dialect::OpenAiResponses => OpenAiResponses::builder(model),
        Dialect::Anthropic => Anthropic::builder(model),
        Dialect::Gemini => Gemini::builder(model),
        Dialect::Ollama => Ollama::builder(model),
    };
    let builder = builder.base_url(provider.base_url()).key("a-key").cut_policy(CutPolicy::Cut);
    let builder = match protocol {
        Protocol::Http1 => builder,
        Protocol::Http2 => builder.http2_prior_knowledge(),
    };
    Agent::builder().model(builder.build().expect("a model")).build().expect("an agent")
}
