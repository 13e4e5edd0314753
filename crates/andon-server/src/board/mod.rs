//! The board: every run as one small row, live.
//!
//! The [`Board`] is told of every fact by the runtime, and keeps one row a run. Readers look at what has changed since they
//! looked last.
//!
//! # Invariants
//!
//! 1. A fact is folded in a time that does not depend on how many runs or readers there are, nor on how long the run or its
//!    prompt is: what takes as long as these is done before the lock is taken. Only what is learnt behind the facts, which is
//!    rare, looks at a run's facts under it.
//! 2. Nothing is kept for a reader but its place: one that is slow is told of each row as it is when it reads on.
//! 3. A reader is told only of runs that its principal reaches, and counts are of those.

mod later;
mod names;
pub(crate) mod row;
pub(crate) mod rows;
pub(crate) mod seconds;
mod spent;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use andon_runtime::{JournalError, Observer, Record, Run, RunId, Runtime, Seen, SeenLater, SessionKey};
use parking_lot::Mutex;

use crate::options::prices::Prices;

use row::Row;
use rows::Rows;
use seconds::second;

/// How many counts of pieces are kept, for readers that are a little late.
const COUNTS: usize = 4;

/// How many runs that wait for their agent are read for one reader.
const MOST_PARKED: usize = 1_000;

/// How many runs are looked at in one go for their pieces.
const CHUNK: usize = 500;

/// All runs as rows, for `GET /v1/board`. Set it as an observer of the runtime, before the server is made:
///
/// ```
/// use andon_runtime::Runtime;
/// use andon_server::Board;
///
/// let runtime = Runtime::builder().observer(Board::new()).build();
/// ```
pub struct Board {
    pub(crate) rows: Mutex<Rows>,
    /// In which second pieces were counted last, and one more; 0 if they never were.
    counted: AtomicU64,
    /// What was found then, and the few times before.
    pieces: Mutex<VecDeque<Arc<Pieces>>>,
}

/// Rows whose pieces have become more.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// How often they were counted.
    number: u64,
    /// The row, how many it has in all, and whose it is.
    pub(crate) changed: Vec<(u64, u64, SessionKey)>,
}

impl Board {
    /// A board with nothing on it.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { rows: Mutex::default(), counted: AtomicU64::new(0), pieces: Mutex::default() })
    }

    /// Takes all runs of a session off the board. The server does so when it deletes one; a program that deletes sessions
    /// by the runtime alone says it here.
    pub fn forget(&self, session: &SessionKey) {
        self.rows.lock().forget(session);
    }

    /// Rows of runs that come from now on say what they cost.
    pub(crate) fn price(&self, prices: &Prices) {
        self.rows.lock().price(prices);
    }

    /// Counts the pieces of all runs in progress, if nobody has done so in this second; what is in progress and not on the
    /// board, because another process began it, joins. Only readers call it, so that it costs nothing while there are none.
    pub(crate) fn count_pieces(&self, runtime: &Runtime) {
        let now = second(runtime.now().mono_us) + 1;
        if self.counted.fetch_max(now, Ordering::Relaxed) >= now {
            return;
        }
        let mut changed = Vec::new();
        let runs = runtime.in_progress();
        for runs in runs.chunks(CHUNK) {
            let counted: Vec<(&Run, Option<u64>)> = runs.iter().map(|run| (run, run.pieces())).collect();
            let mut unknown = Vec::new();
            {
                let mut rows = self.rows.lock();
                for (run, pieces) in counted {
                    if rows.get(run.id()).is_none() {
                        unknown.push(run);
                    } else if let Some(pieces) = pieces
                        && let Some(row) = rows.pieces(run.id(), pieces)
                    {
                        changed.push((row.n, pieces, row.session.clone()));
                    }
                }
            }
            unknown.into_iter().for_each(|run| self.adopt(runtime, run));
        }
        let mut pieces = self.pieces.lock();
        let number = pieces.back().map_or(0, |last| last.number) + 1;
        pieces.push_back(Arc::new(Pieces { number, changed }));
        if pieces.len() > COUNTS {
            pieces.pop_front();
        }
    }

    /// What was found each time since a count, and how many there were by now; `None` if that is too long ago.
    pub(crate) fn pieces_since(&self, number: u64) -> (Option<Vec<Arc<Pieces>>>, u64) {
        let pieces = self.pieces.lock();
        let last = pieces.back().map_or(0, |last| last.number);
        let is_known = pieces.front().is_none_or(|first| first.number <= number + 1);
        let new = || pieces.iter().filter(|pieces| pieces.number > number).cloned().collect();
        (is_known.then(new), last)
    }

    /// Puts runs on the board that wait for their agent: nobody drives these, so they are read.
    pub(crate) async fn find_parked(&self, runtime: &Runtime) {
        let mut unknown = runtime.parked();
        unknown.retain(|run| self.rows.lock().get(run).is_none());
        for run in unknown.into_iter().take(MOST_PARKED) {
            // One that cannot be read now is not shown; who lists runs is told why.
            if let Ok(Some(run)) = runtime.find(&run).await {
                self.adopt(runtime, &run);
            }
        }
    }

    fn adopt(&self, runtime: &Runtime, run: &Run) {
        if let Some(mut row) = self.row(&run.records()) {
            row.pieces = run.pieces();
            self.rows.lock().adopt(runtime, row);
        }
    }

    /// A row that is not on the board yet: made before the lock is taken, for it takes as long as the run (invariant 1).
    fn row(&self, facts: &[Arc<Record>]) -> Option<Row> {
        let prices = self.rows.lock().prices();
        Row::new(facts, prices.as_deref())
    }
}

impl Observer for Board {
    fn fact(&self, seen: &Seen<'_>) {
        if seen.record.seq > 1 && self.rows.lock().fact(seen) {
            return;
        }
        let facts = if seen.past.is_empty() { std::slice::from_ref(seen.record) } else { seen.past };
        if let Some(row) = self.row(facts) {
            self.rows.lock().begin(row, seen);
        }
    }

    fn addendum(&self, learnt: &SeenLater<'_>) {
        self.rows.lock().addendum(learnt);
    }

    fn stalled(&self, run: &RunId, _: &SessionKey, why: &JournalError) {
        self.rows.lock().stall(run, why);
    }

    fn broken_off(&self, run: &RunId, _: &SessionKey, _: &JournalError) {
        self.rows.lock().leave(run);
    }
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod agree_tests;
