//! All rows, and the order in which they changed.
//!
//! # Invariants
//!
//! 1. A reader needs the rows whose version is after its mark. Nothing is kept for the reader itself.
//! 2. Everything kept is bounded: live rows by the runs in progress, settled and removed rows by constants.
//! 3. If no reader can have seen a row since its last change, the next change leaves its version as it is. So the cost
//!    of an event does not depend on the number of rows, and a slow reader gets to every row.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use andon_runtime::core::time::Stamp;
use andon_runtime::{Ending, JournalError, RunId, Runtime, SessionKey, ShownAddendum, ShownFact};

use super::names::Names;
use super::row::BoardRow;
use super::seconds::{Change, HISTORY, Seconds};
use crate::options::prices::Prices;

/// How many settled rows are kept.
pub(crate) const MOST_SETTLED: usize = 1_000;

/// For how many seconds a settled row is kept.
pub(crate) const KEPT: u64 = 2 * HISTORY;

/// How many removed rows are remembered, for readers that have seen them.
const MOST_GONE: usize = 10_000;

/// How many rows are examined in one batch.
const LOOK: usize = 1_000;

/// How many rows are sent in one batch. It is small because rows that have been handed out are not updated any more,
/// and a slow link needs seconds to send them.
pub(crate) const AT_ONCE: usize = 25;

/// The position of a row in the order of arrival.
type RowPlace = u64;

/// A counter of changes.
pub(crate) type Version = u64;

#[derive(Debug)]
struct VersionedRow {
    row: Arc<BoardRow>,
    version: Version,
    /// The key in `settled`, once the run has settled.
    settled: Option<RowPlace>,
}

/// A row that was removed.
#[derive(Debug)]
struct Gone {
    version: Version,
    n: u64,
    session: SessionKey,
}

/// All rows.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: BTreeMap<RowPlace, VersionedRow>,
    by_run: HashMap<RunId, RowPlace>,
    changed: BTreeMap<Version, RowPlace>,
    /// The settled rows in the order in which they settled, each with its second.
    settled: BTreeMap<RowPlace, (RowPlace, u64)>,
    gone: VecDeque<Gone>,
    /// Rows that were removed up to here are forgotten.
    forgotten: Version,
    version: Version,
    /// No reader has seen anything newer.
    read: Version,
    next: RowPlace,
    names: Names,
    prices: Option<Arc<Prices>>,
    pub(crate) seconds: Seconds,
}

/// What has changed since a mark.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) rows: Vec<Arc<BoardRow>>,
    /// Everything up to here is included.
    pub(crate) mark: Version,
}

/// A page of the rows that exist at the start.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Arc<BoardRow>>,
    /// The row after which the next page starts; `None` if this is the last page.
    pub(crate) next: Option<RowPlace>,
}

impl Rows {
    /// Sets the prices. Rows that already exist show no cost.
    pub(crate) fn price(&mut self, prices: &Prices) {
        self.prices.get_or_insert_with(|| Arc::new(prices.clone()));
    }

    pub(crate) fn prices(&self) -> Option<Arc<Prices>> {
        self.prices.clone()
    }

    /// Moves to the current second, and removes rows that settled long ago.
    pub(crate) fn advance(&mut self, now: Stamp) {
        if !self.seconds.advance(now) {
            return;
        }
        let second = self.seconds.now();
        while let Some((_, (place, settled_in))) = self.settled.first_key_value()
            && (settled_in + KEPT < second)
        {
            self.remove(*place);
        }
    }

    /// Folds an event of a run. Returns whether the run is on the board.
    pub(crate) fn fact(&mut self, seen: &ShownFact<'_>) -> bool {
        let Some(place) = self.by_run.get(seen.run).copied() else { return false };
        if seen.record.seq == 1 && self.is_settled(place) {
            // The id is being reused by a new run, after the end of the old one.
            self.remove(place);
            return false;
        }
        let settled = self.fold(place, |row, prices| {
            row.catch_up(seen, prices);
            row.pieces = seen.pieces.or(row.pieces);
        });
        if let Some(settled) = settled {
            self.advance(seen.now);
            self.settle(place, &settled);
        }
        true
    }

    /// Adds a run to the board at its first event, and folds the event.
    pub(crate) fn begin(&mut self, row: BoardRow, seen: &ShownFact<'_>) {
        if self.fact(seen) {
            return;
        }
        self.join(row, if seen.past.is_empty() { Change::Begun } else { Change::Joined }, seen.now);
        self.fact(seen);
    }

    /// Adds a run whose earlier events the board did not see.
    pub(crate) fn adopt(&mut self, runtime: &Runtime, row: BoardRow) {
        // Checked under the lock under which runs are removed from the board: a run that is in progress now was not
        // removed.
        let is_there = || runtime.find_in_progress(&row.run).is_some() || runtime.is_parked(&row.run);
        if !self.by_run.contains_key(&row.run) && is_there() {
            self.join(row, Change::Joined, runtime.now());
        }
    }

    fn join(&mut self, mut row: BoardRow, change: Change, now: Stamp) {
        self.advance(now);
        // A run that settled before the board saw it is not shown.
        if row.is_settled() {
            return;
        }
        let (place, version) = (self.next, self.version + 1);
        row.n = self.names.of(place);
        (self.next, self.version) = (place + 1, version);
        self.seconds.count(&row.session, change);
        self.by_run.insert(row.run.clone(), place);
        self.changed.insert(version, place);
        self.rows.insert(place, VersionedRow { row: Arc::new(row), version, settled: None });
    }

    /// Applies an addendum.
    pub(crate) fn addendum(&mut self, learned: &ShownAddendum<'_>) {
        if let Some(place) = self.by_run.get(learned.run) {
            self.fold(*place, |row, prices| row.learn(learned, prices));
        }
    }

    /// The journal does not accept a run's end.
    pub(crate) fn stall(&mut self, run: &RunId, why: &JournalError) {
        if let Some(place) = self.by_run.get(run) {
            self.fold(*place, |row, _| row.stalled = Some(why.to_string().into()));
        }
    }

    /// Removes a run from the board.
    pub(crate) fn leave(&mut self, run: &RunId) {
        if let Some(place) = self.by_run.get(run) {
            self.remove(*place);
        }
    }

    /// Removes all runs of a session from the board.
    pub(crate) fn forget(&mut self, session: &SessionKey) {
        let of_it = |kept: &VersionedRow| kept.row.session == *session;
        let places: Vec<RowPlace> = self.rows.iter().filter(|(_, kept)| of_it(kept)).map(|(place, _)| *place).collect();
        places.into_iter().for_each(|place| self.remove(place));
    }

    /// Changes a row. Returns it if that settled it.
    fn fold(&mut self, place: RowPlace, change: impl FnOnce(&mut BoardRow, Option<&Prices>)) -> Option<Arc<BoardRow>> {
        let kept = self.rows.get_mut(&place)?;
        let was_settled = kept.row.is_settled();
        change(Arc::make_mut(&mut kept.row), self.prices.as_deref());
        if kept.version <= self.read {
            // Invariant 3.
            self.changed.remove(&kept.version);
            self.version += 1;
            kept.version = self.version;
            self.changed.insert(self.version, place);
        }
        (kept.row.is_settled() && !was_settled).then(|| Arc::clone(&kept.row))
    }

    fn settle(&mut self, place: RowPlace, row: &BoardRow) {
        let change = match row.end() {
            Some((outcome, _)) if matches!(**outcome, Ending::Cancelled { .. }) => Change::Cancelled(row.took_us()),
            _ => Change::Settled,
        };
        self.seconds.count(&row.session, change);
        let order = self.settled.last_key_value().map_or(0, |(last, _)| last + 1);
        self.settled.insert(order, (place, self.seconds.now()));
        if let Some(kept) = self.rows.get_mut(&place) {
            kept.settled = Some(order);
        }
        if self.settled.len() > MOST_SETTLED
            && let Some((_, (oldest, _))) = self.settled.first_key_value()
        {
            self.remove(*oldest);
        }
    }

    fn remove(&mut self, place: RowPlace) {
        let Some(kept) = self.rows.remove(&place) else { return };
        self.by_run.remove(&kept.row.run);
        self.changed.remove(&kept.version);
        match kept.settled {
            Some(order) => drop(self.settled.remove(&order)),
            None => self.seconds.count(&kept.row.session, Change::Left),
        }
        self.version += 1;
        let session = kept.row.session.clone();
        self.gone.push_back(Gone { version: self.version, n: kept.row.n, session });
        if self.gone.len() > MOST_GONE {
            self.forgotten = self.gone.pop_front().map_or(self.forgotten, |oldest| oldest.version);
        }
    }

    fn is_settled(&self, place: RowPlace) -> bool {
        self.rows.get(&place).is_some_and(|kept| kept.row.is_settled())
    }

    pub(crate) fn get(&self, run: &RunId) -> Option<&Arc<BoardRow>> {
        self.rows.get(self.by_run.get(run)?).map(|kept| &kept.row)
    }

    /// Sets the number of a run's pieces. Returns its row if the number has changed.
    pub(crate) fn pieces(&mut self, run: &RunId, pieces: u64) -> Option<&BoardRow> {
        let kept = self.rows.get_mut(self.by_run.get(run)?)?;
        if kept.row.pieces == Some(pieces) {
            return None;
        }
        // This does not change the version, because readers get the numbers in the message of the second.
        Arc::make_mut(&mut kept.row).pieces = Some(pieces);
        Some(&kept.row)
    }

    /// The pieces of all live rows.
    pub(crate) fn all_pieces(&self, mine: impl Fn(&SessionKey) -> bool) -> Vec<(u64, u64)> {
        let rows = self.rows.values().map(|kept| &kept.row);
        let live = rows.filter(|row| !row.is_settled() && mine(&row.session));
        live.filter_map(|row| Some((row.n, row.pieces?))).collect()
    }

    /// The live rows before a place, newest first.
    pub(crate) fn live(&self, before: RowPlace, mine: impl Fn(&SessionKey) -> bool) -> Page {
        let looked = self.rows.range(..before).rev().map(|(place, kept)| (*place, kept));
        page(looked, |kept| !kept.row.is_settled() && mine(&kept.row.session))
    }

    /// The rows that settled before a place in the order of settling, newest first.
    pub(crate) fn settled(&self, before: RowPlace, mine: impl Fn(&SessionKey) -> bool) -> Page {
        let looked = self.settled.range(..before).rev();
        let looked = looked.filter_map(|(order, (place, _))| self.rows.get(place).map(|kept| (*order, kept)));
        page(looked, |kept| mine(&kept.row.session))
    }

    /// How many settled rows are kept.
    pub(crate) fn count_settled(&self, mine: impl Fn(&SessionKey) -> bool) -> usize {
        let rows = self.settled.values().filter_map(|(place, _)| self.rows.get(place));
        rows.filter(|kept| mine(&kept.row.session)).count()
    }

    /// A mark for a reader that has seen everything so far.
    pub(crate) fn mark(&mut self) -> Version {
        self.read = self.version;
        self.version
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// What has changed after a mark and up to `until`, or the first part of it.
    pub(crate) fn news(&mut self, mark: Version, until: Version, mine: impl Fn(&SessionKey) -> bool) -> News {
        let mut news = News { rows: Vec::new(), mark: until };
        for (looked, (version, place)) in self.changed.range(mark + 1..=until).enumerate() {
            if looked >= LOOK || news.rows.len() >= AT_ONCE {
                news.mark = version - 1;
                break;
            }
            news.rows.extend(self.rows.get(place).map(|kept| &kept.row).filter(|row| mine(&row.session)).cloned());
        }
        self.read = self.read.max(news.mark);
        news
    }

    /// The rows removed after a mark and up to `until`; `None` if some of them have been forgotten.
    pub(crate) fn gone(&self, mark: Version, until: Version, mine: impl Fn(&SessionKey) -> bool) -> Option<Vec<u64>> {
        if mark < self.forgotten {
            return None;
        }
        let first = self.gone.partition_point(|gone| gone.version <= mark);
        let gone = self.gone.range(first..).take_while(|gone| gone.version <= until);
        Some(gone.filter(|gone| mine(&gone.session)).map(|gone| gone.n).collect())
    }
}

/// The next rows that match, among those that are examined.
fn page<'a>(rows: impl Iterator<Item = (RowPlace, &'a VersionedRow)>, wanted: impl Fn(&VersionedRow) -> bool) -> Page {
    let mut page = Page { rows: Vec::new(), next: None };
    let mut last = None;
    for (looked, (place, kept)) in rows.enumerate() {
        if looked >= LOOK || page.rows.len() >= AT_ONCE {
            page.next = last;
            break;
        }
        last = Some(place);
        if wanted(kept) {
            page.rows.push(Arc::clone(&kept.row));
        }
    }
    page
}
