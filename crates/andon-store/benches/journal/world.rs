//! What the scenes share: a database on the disk that the project is built on, and runs to fill it with.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use andon_runtime::core::answer::{Kind, Lump, Piece, Span};
use andon_runtime::core::event::{Accepted, Entry, Event, Record};
use andon_runtime::core::id::{CallId, RunId, SessionKey};
use andon_runtime::core::message::{Message, ResultStatus, ToolResult};
use andon_runtime::core::outcome::ModelStop;
use andon_runtime::core::time::Stamp;
use andon_runtime::{Answer, Batch, Model, ModelError, ModelRequest, Probe, Runtime};
use andon_store::{Options, SqliteJournal};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::time::{Sleep, sleep};

/// A database, which is deleted when this is dropped.
pub(crate) struct Database {
    pub(crate) journal: Arc<SqliteJournal>,
    pub(crate) commits: Arc<Commits>,
    folder: TempDir,
}

/// Counts commits.
#[derive(Default)]
pub(crate) struct Commits(AtomicU64);

impl Commits {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Probe for Commits {
    fn hit(&self, seam: &'static str) {
        if seam == "store: after commit" {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A folder on the disk that the project is built on: the system's temporary folder may be in memory.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

impl Database {
    pub(crate) fn new() -> Self {
        let folder = folder();
        let commits = Arc::new(Commits::default());
        let options = Options::new().probe(Arc::clone(&commits) as Arc<dyn Probe>);
        let journal = SqliteJournal::open_with(folder.path().join("andon.db"), &options).expect("a database");
        Self { journal: Arc::new(journal), commits, folder }
    }

    /// The same file, opened by the next process.
    pub(crate) fn reopen(self) -> Self {
        let Self { journal, commits, folder } = self;
        drop(Arc::into_inner(journal).expect("nobody holds the journal any more"));
        let journal = SqliteJournal::open(folder.path().join("andon.db")).expect("the same database");
        Self { journal: Arc::new(journal), commits, folder }
    }

    pub(crate) fn runtime(&self) -> Runtime {
        Runtime::builder().journal(Arc::clone(&self.journal)).build()
    }
}

pub(crate) fn on_two_threads<T>(future: impl Future<Output = T>) -> T {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime").block_on(future)
}

pub(crate) fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

/// A run that is written event by event.
pub(crate) struct Written {
    run: RunId,
    seq: u64,
    result: Arc<ToolResult>,
}

impl Written {
    pub(crate) fn new(name: &str) -> Self {
        let call = CallId::new("call-1").expect("an id");
        // A fact of about 300 bytes, with its envelope.
        let result = Arc::new(ToolResult::text(call, ResultStatus::Ok, "x".repeat(100)));
        Self { run: RunId::new(name).expect("an id"), seq: 0, result }
    }

    fn record(&mut self, event: Event) -> Entry {
        self.seq += 1;
        let at = Stamp::default();
        Entry::Fact(Arc::new(Record::new(self.seq, 1, at, event)))
    }

    fn batch(&self, entries: Vec<Entry>) -> Batch {
        Batch::new(self.run.clone(), 1, entries)
    }

    pub(crate) fn accepted(&mut self) -> Batch {
        let session = SessionKey::new("bench", "local", self.run.as_str()).expect("a key");
        let input = Arc::new(Message::user("Go."));
        let accepted = Arc::new(Accepted::new(self.run.clone(), session, input));
        let entry = self.record(Event::RunAccepted { accepted });
        self.batch(vec![entry])
    }

    pub(crate) fn fact(&mut self) -> Batch {
        let (call, result) = (self.result.call.clone(), Arc::clone(&self.result));
        let entry = self.record(Event::ToolFinished {
            call,
            end: andon_runtime::core::event::ToolEnd::Finished,
            result,
            remains: None,
            state: None,
        });
        self.batch(vec![entry])
    }

    /// A run whose process died in the middle of an answer, with a call open.
    pub(crate) fn left_open(&mut self) -> Batch {
        let mut entries = self.accepted().entries;
        entries.push(self.record(Event::RunStarted));
        entries.push(self.record(Event::model_started(1, "bench")));
        let mut span = Span::new(self.seq);
        span.push(&Kind::Text, &"Half an answer. ".repeat(8));
        entries.extend(span.lump_from(0, 0).map(|lump: Lump| Entry::Lump(Arc::new(lump))));
        self.batch(entries)
    }
}

/// What a bench model does.
#[derive(Clone, Copy)]
pub(crate) enum Says {
    /// One word.
    Hello,
    /// One word, and then silence forever.
    HelloAndNothing,
    /// A word every few milliseconds, forever.
    AndOn,
    /// Calls a tool, this many times.
    Calls(usize),
}

impl Model for Says {
    fn name(&self) -> &str {
        "bench"
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        let hello = Piece::Text("Hello.".to_owned());
        let (pieces, beat) = match *self {
            Self::Hello => (vec![hello, Piece::End(ModelStop::EndTurn)], None),
            Self::HelloAndNothing => (vec![hello], None),
            Self::AndOn => (Vec::new(), Some(Box::pin(sleep(BEAT)))),
            Self::Calls(turns) if request.history.len() > 2 * turns => {
                (vec![hello, Piece::End(ModelStop::EndTurn)], None)
            }
            Self::Calls(_) => {
                let call = Piece::Call { id: String::new(), name: "look".to_owned() };
                let input = Piece::CallInput { index: 0, json: "{}".to_owned() };
                (vec![hello, call, input, Piece::CallEnd { index: 0 }, Piece::End(ModelStop::ToolUse)], None)
            }
        };
        Box::new(Pieces { left: pieces.into_iter(), beat })
    }
}

/// How often a model that never ends sends a piece.
const BEAT: Duration = Duration::from_millis(5);

struct Pieces {
    left: std::vec::IntoIter<Piece>,
    beat: Option<Pin<Box<Sleep>>>,
}

impl Answer for Pieces {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        if let Some(piece) = self.left.next() {
            return Poll::Ready(Some(Ok(piece)));
        }
        let Some(beat) = &mut self.beat else { return Poll::Pending };
        std::task::ready!(beat.as_mut().poll(cx));
        beat.set(sleep(BEAT));
        Poll::Ready(Some(Ok(Piece::Text("word ".to_owned()))))
    }
}
