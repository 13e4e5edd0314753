//! What is counted. Each scene runs on one thread, except for the journal's own.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Poll};

use andon_models::decode::Decode as _;
use andon_models::decode::openai_chat::OpenAiChat;
use andon_models::sse::Sse;
use andon_runtime::{
    Agent, Answer, Cancel, Journal, MemoryJournal, Model, ModelError, ModelRequest, ModelStop, Piece, Run, Runtime,
};
use andon_testkit::provider::{Dialect, Reply};
use tokio::runtime::Builder;

use crate::world::{Database, Written};

/// One count.
pub(crate) struct Figure {
    /// Its name in the file.
    pub(crate) name: &'static str,
    /// What it is, for the table.
    pub(crate) what: &'static str,
    /// The number of rounds.
    pub(crate) rounds: u64,
    /// Part of each round is setup, whose count is subtracted.
    pub(crate) has_setup: bool,
    play: fn(u64, Part),
}

/// How much of a round is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// Only the setup.
    Setup,
}

impl Part {
    /// The name of this part of a figure on the command line.
    pub(crate) fn name(self, figure: &Figure) -> String {
        match self {
            Self::Whole => figure.name.to_owned(),
            Self::Setup => format!("{}-setup", figure.name),
        }
    }
}

/// All figures.
pub(crate) const FIGURES: [Figure; 6] = [
    figure("piece", "a streamed piece, with one reader", 20_000, piece),
    Figure { has_setup: true, ..figure("pull", "a pull, until its run has settled", 500, pull) },
    figure("run", "a trivial run, in memory", 500, trivial),
    figure("append-memory", "an append of a fact, in memory", 2_000, append_in_memory),
    figure("append-sqlite", "an append of a fact on SQLite, with its commit", 500, append_on_disk),
    Figure { has_setup: true, ..figure("frame", "a decoded frame of OpenAI Chat, bytes to piece", 5_000, frame) },
];

const fn figure(name: &'static str, what: &'static str, rounds: u64, play: fn(u64, Part)) -> Figure {
    Figure { name, what, rounds, has_setup: false, play }
}

/// Plays this many rounds of a figure, or of its setup.
pub(crate) fn play(name: &str, rounds: u64) {
    for figure in &FIGURES {
        for part in [Part::Whole, Part::Setup] {
            if part.name(figure) == name {
                return (figure.play)(rounds, part);
            }
        }
    }
}

/// The clock is paused, so that no timer interferes.
fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime").block_on(future)
}

/// A model that says this many words, or is silent forever.
#[derive(Clone, Copy)]
enum Says {
    Words(u64),
    Nothing,
}

impl Model for Says {
    fn name(&self) -> &str {
        "bench"
    }

    fn call(&self, _: ModelRequest) -> Box<dyn Answer> {
        Box::new(Saying(*self))
    }
}

struct Saying(Says);

impl Answer for Saying {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        match &mut self.0 {
            Says::Nothing => Poll::Pending,
            Says::Words(0) => Poll::Ready(Some(Ok(Piece::End(ModelStop::EndTurn)))),
            Says::Words(left) => {
                *left -= 1;
                Poll::Ready(Some(Ok(Piece::Text("word ".to_owned()))))
            }
        }
    }
}

fn agent(says: Says) -> Agent {
    Agent::builder().model(says).runtime(&Runtime::builder().build()).build().expect("an agent")
}

fn piece(rounds: u64, _: Part) {
    on_one_thread(async {
        let run = agent(Says::Words(rounds)).start("Go.").expect("a run");
        let mut feed = run.feed();
        while feed.next().await.is_some() {}
    });
}

/// All runs are started first, and starting them is subtracted: the pull and the run's end remain.
fn pull(rounds: u64, part: Part) {
    on_one_thread(async {
        let agent = agent(Says::Nothing);
        let start =
            |number: u64| agent.session("bench", number.to_string()).expect("a session").start("Go.").expect("a run");
        let runs: Vec<Run> = (0..rounds).map(start).collect();
        while runs.iter().any(|run| run.passed().models == 0) {
            tokio::task::yield_now().await;
        }
        if part == Part::Whole {
            for run in &runs {
                run.cancel(Cancel::graceful());
                run.outcome().await;
            }
        }
        // Exits without dropping anything, because that would be counted.
        std::process::exit(0);
    });
}

fn trivial(rounds: u64, _: Part) {
    on_one_thread(async {
        let agent = agent(Says::Words(1));
        for number in 0..rounds {
            agent.session("bench", number.to_string()).expect("a session").run("Go.").await.expect("an outcome");
        }
        std::process::exit(0);
    });
}

async fn append(journal: Arc<dyn Journal>, rounds: u64) {
    let mut run = Written::new("run");
    journal.append(run.accepted()).await.expect("a fact that is kept");
    for _ in 0..rounds {
        journal.append(run.fact()).await.expect("a fact that is kept");
    }
}

fn append_in_memory(rounds: u64, _: Part) {
    on_one_thread(append(Arc::new(MemoryJournal::new()), rounds));
}

fn append_on_disk(rounds: u64, _: Part) {
    let database = Database::new();
    on_one_thread(append(Arc::clone(&database.journal) as _, rounds));
}

/// Making the answer is subtracted.
fn frame(rounds: u64, part: Part) {
    let words = (0..rounds).map(|number| format!("word {} ", number % 10));
    let body = Dialect::OpenAiChat.body(&Reply::text(words));
    if part == Part::Setup {
        return;
    }
    let (mut sse, mut decoder, mut pieces) = (Sse::default(), OpenAiChat::default(), VecDeque::new());
    for packet in body.chunks(16 * 1024) {
        sse.push(packet);
        while let Some(frame) = sse.frame().expect("frames are short") {
            decoder.frame(frame, &mut pieces).expect("the stream is whole");
            pieces.drain(..).for_each(|piece| drop(black_box(piece)));
        }
    }
}
