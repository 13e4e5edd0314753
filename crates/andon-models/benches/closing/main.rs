//! How soon a pull closes the connection to the provider: providers × phases × protocols. `cargo xtask bench closing`
//! prints the table.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

/// The allocator that the program uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod silent;

use std::sync::Arc;
use std::time::Duration;

use andon_models::CutPolicy;
use andon_runtime::{Agent, Cancel, MemoryJournal, Run, Runtime};
use andon_testkit::bench::quantile;
use andon_testkit::provider::{BadProvider, Dialect, Protocol, Reply, Script};
use tokio::time::Instant;

/// Runs of each provider in each phase over each protocol: a thousand for each phase and protocol in all.
const RUNS: usize = 200;
/// The goals for all runs of a phase.
const P99: Duration = Duration::from_millis(5);
const MOST: Duration = Duration::from_millis(100);

/// Where a call is when the cord is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    BeforeHeaders,
    BeforeText,
    InText,
    InFrame,
    Flooding,
}

impl Phase {
    const ALL: [Self; 6] =
        [Self::Connecting, Self::BeforeHeaders, Self::BeforeText, Self::InText, Self::InFrame, Self::Flooding];

    fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting (TLS)",
            Self::BeforeHeaders => "before the headers",
            Self::BeforeText => "before the first word",
            Self::InText => "in the text",
            Self::InFrame => "in the middle of a frame",
            Self::Flooding => "in a flood",
        }
    }

    /// What the provider does, and the step at which the cord is pulled.
    fn script(self, dialect: Dialect) -> (Script, &'static str) {
        let frames = dialect.frames(&Reply::text(["One ", "two ", "three ", "four "]));
        let some = || frames.iter().take(4).cloned();
        let stream = Script::stream(dialect);
        match (self, frames.get(4)) {
            (Self::Connecting | Self::BeforeHeaders, _) => (stream.stall_before_headers(), "stall"),
            (Self::BeforeText, _) => (stream.stall(), "stall"),
            (Self::InFrame, Some(next)) => (stream.frames(some()).half(next).stall(), "stall"),
            (Self::InText | Self::InFrame, _) => (stream.frames(some()).stall(), "stall"),
            (Self::Flooding, _) => (stream.frames(some()).flood(dialect.text_frame(64)), "flood"),
        }
    }
}

fn agent(dialect: Dialect, base_url: String, protocol: Protocol) -> Agent {
    let model = dialect.adapter("bad-model-1").base_url(base_url).key("a-key").cut_policy(CutPolicy::Cut);
    let model = if protocol == Protocol::Http2 { model.http2_prior_knowledge() } else { model };
    let runtime = Runtime::builder().journal(Arc::new(MemoryJournal::new())).build();
    let model = model.build().expect("the model can be set up");
    Agent::builder().model(model).runtime(&runtime).build().expect("the agent can be built")
}

/// Pulls, and returns when.
fn pull(run: &Run) -> Instant {
    let pulled = Instant::now();
    run.cancel(Cancel::now());
    pulled
}

async fn measure(phase: Phase, dialect: Dialect, protocol: Protocol) -> Vec<Duration> {
    if phase == Phase::Connecting {
        return silent::measure(dialect, protocol, RUNS).await;
    }
    let provider = BadProvider::start_on_thread(protocol);
    let agent = agent(dialect, provider.base_url(), protocol);
    let mut took = Vec::with_capacity(RUNS);
    for number in 0..RUNS {
        let (script, step) = phase.script(dialect);
        provider.answer(script);
        let run = agent.start("Tell me a story.").expect("the session is free");
        let seen = provider.seen(number).await;
        assert!(seen.reached(step).await, "the provider never came to {step}");
        let pulled = pull(&run);
        let closed = seen.closed().await;
        assert!(closed.by_client(), "{phase:?}: {:?}", closed.how);
        took.push(closed.at.saturating_duration_since(pulled));
        run.outcome().await;
    }
    assert_eq!(provider.open_streams(), 0, "a stream was left open");
    took
}

fn row(name: &str, what: &str, took: &mut [Duration]) {
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| quantile(took, share).as_secs_f64() * 1e3);
    println!("{name:<26} {what:<18} {:>6} {p50:>10.3} {p99:>10.3} {most:>10.3}", took.len());
}

/// The phases that the command line names, or all.
fn is_wanted(phase: &Phase) -> bool {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--")).peekable();
    words.peek().is_none() || words.any(|word| phase.name().contains(&word))
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        let mut missed = 0;
        for protocol in Protocol::ALL {
            println!("{protocol:?}: from the pull to the closed connection, in milliseconds");
            println!("{:<26} {:<18} {:>6} {:>10} {:>10} {:>10}", "phase", "provider", "runs", "p50", "p99", "most");
            for phase in Phase::ALL.into_iter().filter(is_wanted) {
                let mut all = Vec::new();
                for dialect in Dialect::ALL {
                    let mut took = measure(phase, dialect, protocol).await;
                    row(phase.name(), &format!("{dialect:?}"), &mut took);
                    all.extend(took);
                }
                row(phase.name(), "all", &mut all);
                missed += usize::from(quantile(&mut all, 0.99) > P99) + usize::from(quantile(&mut all, 1.0) > MOST);
            }
            println!();
        }
        println!("goals: p99 at most {P99:?}, never more than {MOST:?}; {missed} goals missed");
    });
}
