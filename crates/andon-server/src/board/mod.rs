//! The board: every run as one small row, live.
//!
//! The runtime tells the [`Board`] about every event, and the board keeps one row per run. Readers ask for what has
//! changed since they last looked.
//!
//! # Invariants
//!
//! 1. The time to fold an event does not depend on the number of runs or readers, nor on the length of the run or its
//!    prompt: work that does is done before the lock is taken. The exception is addenda, which are rare: for these, a
//!    run's events are read under the lock.
//! 2. Nothing is kept for a reader but its position: a slow reader gets each row as it is when it reads on.
//! 3. A reader sees only the runs that its principal can reach, and the counts cover only those.

mod later;
mod names;
pub(crate) mod row;
pub(crate) mod rows;
pub(crate) mod seconds;
pub(crate) mod tokens;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use andon_runtime::{JournalError, Observer, Record, Run, RunId, Runtime, SessionKey, ShownAddendum, ShownFact};
use parking_lot::Mutex;

use crate::options::prices::Prices;

use row::BoardRow;
use rows::Rows;
use seconds::second;

/// How many counts of pieces are kept, for readers that are a little late.
const COUNTS: usize = 4;

/// How many runs that wait for their agent are read for one reader.
const MOST_PARKED: usize = 1_000;

/// How many runs are checked for new pieces in one batch.
const CHUNK: usize = 500;

/// All runs as rows, for `GET /v1/board`. Add it to the runtime as an observer before creating the server:
///
/// ```
/// use andon_runtime::Runtime;
/// use andon_server::Board;
///
/// let runtime = Runtime::builder().observer(Board::new()).build();
/// ```
pub struct Board {
    pub(crate) rows: Mutex<Rows>,
    /// The second in which pieces were last counted, plus one; 0 if they never were.
    counted: AtomicU64,
    /// The results of the last few counts.
    pieces: Mutex<VecDeque<Arc<Pieces>>>,
}

/// The rows that have more pieces than at the previous count.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// The number of this count.
    number: u64,
    /// The row, its total number of pieces, and its session.
    pub(crate) changed: Vec<(u64, u64, SessionKey)>,
}

impl Board {
    /// An empty board.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { rows: Mutex::default(), counted: AtomicU64::new(0), pieces: Mutex::default() })
    }

    /// Removes all runs of a session from the board. The server does this when it deletes a session; a program that
    /// deletes sessions directly through the runtime must call this.
    pub fn forget(&self, session: &SessionKey) {
        self.rows.lock().forget(session);
    }

    /// Shows costs in the rows of runs that are added from now on.
    pub(crate) fn price(&self, prices: &Prices) {
        self.rows.lock().price(prices);
    }

    /// Counts the pieces of all runs in progress, unless that was already done in this second. Runs in progress that
    /// are not on the board, because another process started them, are added. Only readers call this, so it costs
    /// nothing without any.
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

    /// The results of all counts after this one, and the number of the last count; `None` if it is too long ago.
    pub(crate) fn pieces_since(&self, number: u64) -> (Option<Vec<Arc<Pieces>>>, u64) {
        let pieces = self.pieces.lock();
        let last = pieces.back().map_or(0, |last| last.number);
        let is_known = pieces.front().is_none_or(|first| first.number <= number + 1);
        let new = || pieces.iter().filter(|pieces| pieces.number > number).cloned().collect();
        (is_known.then(new), last)
    }

    /// Adds the runs that wait for their agent. Nobody drives these, so they are read from the journal.
    pub(crate) async fn find_parked(&self, runtime: &Runtime) {
        let mut unknown = runtime.parked();
        unknown.retain(|run| self.rows.lock().get(run).is_none());
        for run in unknown.into_iter().take(MOST_PARKED) {
            // A run that cannot be read now is not shown; listing the runs shows why.
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

    /// A new row. It is made before the lock is taken, because that takes longer the longer the run is (invariant 1).
    fn row(&self, facts: &[Arc<Record>]) -> Option<BoardRow> {
        let prices = self.rows.lock().prices();
        BoardRow::new(facts, prices.as_deref())
    }
}

impl Observer for Board {
    fn fact(&self, seen: &ShownFact<'_>) {
        if seen.record.seq > 1 && self.rows.lock().fact(seen) {
            return;
        }
        let facts = if seen.past.is_empty() { std::slice::from_ref(seen.record) } else { seen.past };
        if let Some(row) = self.row(facts) {
            self.rows.lock().begin(row, seen);
        }
    }

    fn addendum(&self, learned: &ShownAddendum<'_>) {
        self.rows.lock().addendum(learned);
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
