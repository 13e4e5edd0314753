//! All rows, and in which order they have changed.
//!
//! # Invariants
//!
//! 1. What a reader has to be told is what has a version behind its mark. Nothing is kept for it.
//! 2. All that is kept is bounded: live rows by the runs in progress, settled ones and those that are gone by constants.
//! 3. A row that nobody can have seen since it changed last keeps its place: so a fact costs the same however many rows
//!    there are, and a reader that is slow comes to every row.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use andon_runtime::core::time::Stamp;
use andon_runtime::{Ending, JournalError, RunId, Runtime, Seen, SeenLater, SessionKey};

use super::names::Names;
use super::row::Row;
use super::seconds::{Change, HISTORY, Seconds};
use crate::options::prices::Prices;

/// How many settled rows are kept.
pub(crate) const MOST_SETTLED: usize = 1_000;

/// For how many seconds a settled row is kept.
pub(crate) const KEPT: u64 = 2 * HISTORY;

/// How many rows that are gone are remembered, for those who have been shown them.
const MOST_GONE: usize = 10_000;

/// How many rows are looked at in one go.
const LOOK: usize = 1_000;

/// How many rows are handed out in one go: few, because what is handed out does not change any more, and a slow link takes
/// seconds for it.
pub(crate) const AT_ONCE: usize = 25;

/// A row's place in the order in which they came.
type Place = u64;

/// Counts changes.
pub(crate) type Version = u64;

#[derive(Debug)]
struct Kept {
    row: Arc<Row>,
    version: Version,
    /// The key in `settled`, once it has settled.
    settled: Option<Place>,
}

/// A row that is gone.
#[derive(Debug)]
struct Gone {
    version: Version,
    n: u64,
    session: SessionKey,
}

/// All rows.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: BTreeMap<Place, Kept>,
    by_run: HashMap<RunId, Place>,
    changed: BTreeMap<Version, Place>,
    /// Those that have settled, by the order in which they did, and in which second.
    settled: BTreeMap<Place, (Place, u64)>,
    gone: VecDeque<Gone>,
    /// What was gone up to here is forgotten.
    forgotten: Version,
    version: Version,
    /// No reader has been told of more.
    read: Version,
    next: Place,
    names: Names,
    prices: Option<Arc<Prices>>,
    pub(crate) seconds: Seconds,
}

/// What has changed behind a mark.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) rows: Vec<Arc<Row>>,
    /// Up to here everything is in it.
    pub(crate) mark: Version,
}

/// A page of what there is at the beginning.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Arc<Row>>,
    /// The row after which the next page begins; `None` if this was the last.
    pub(crate) next: Option<Place>,
}

impl Rows {
    /// What tokens cost from now on: a row that is there already has none.
    pub(crate) fn price(&mut self, prices: &Prices) {
        self.prices.get_or_insert_with(|| Arc::new(prices.clone()));
    }

    pub(crate) fn prices(&self) -> Option<Arc<Prices>> {
        self.prices.clone()
    }

    /// It is now. What has settled long ago goes.
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

    /// Takes in a fact of a run that is on the board; says whether it is.
    pub(crate) fn fact(&mut self, seen: &Seen<'_>) -> bool {
        let Some(place) = self.by_run.get(seen.run).copied() else { return false };
        if seen.record.seq == 1 && self.is_settled(place) {
            // Its id is used again, behind the end of the one that had it.
            self.remove(place);
            return false;
        }
        self.change(place, seen.now, |row, prices| {
            row.catch_up(seen, prices);
            row.pieces = seen.pieces.or(row.pieces);
        });
        true
    }

    /// Puts a run on the board that is told of for the first time, and takes in the fact.
    pub(crate) fn begin(&mut self, row: Row, seen: &Seen<'_>) {
        if self.fact(seen) {
            return;
        }
        self.join(row, if seen.past.is_empty() { Change::Begun } else { Change::Joined }, seen.now);
        self.fact(seen);
    }

    /// Puts a run on the board that it was not told of.
    pub(crate) fn adopt(&mut self, runtime: &Runtime, row: Row) {
        // Asked under the lock under which a run leaves the board: one that is in progress now has not left.
        let is_there = || runtime.find_in_progress(&row.run).is_some() || runtime.is_parked(&row.run);
        if !self.by_run.contains_key(&row.run) && is_there() {
            self.join(row, Change::Joined, runtime.now());
        }
    }

    fn join(&mut self, mut row: Row, change: Change, now: Stamp) {
        self.advance(now);
        // What settled before anybody was told of it is in the past.
        if row.is_settled() {
            return;
        }
        let (place, version) = (self.next, self.version + 1);
        row.n = self.names.of(place);
        (self.next, self.version) = (place + 1, version);
        self.seconds.count(&row.session, change);
        self.by_run.insert(row.run.clone(), place);
        self.changed.insert(version, place);
        self.rows.insert(place, Kept { row: Arc::new(row), version, settled: None });
    }

    /// Takes in what was learnt about a run behind its facts.
    pub(crate) fn addendum(&mut self, learnt: &SeenLater<'_>) {
        if let Some(place) = self.by_run.get(learnt.run) {
            self.fold(*place, |row, prices| row.learn(learnt, prices));
        }
    }

    /// The journal does not take a run's end.
    pub(crate) fn stall(&mut self, run: &RunId, why: &JournalError) {
        if let Some(place) = self.by_run.get(run) {
            self.fold(*place, |row, _| row.stalled = Some(why.to_string().into()));
        }
    }

    /// A run leaves the board.
    pub(crate) fn leave(&mut self, run: &RunId) {
        if let Some(place) = self.by_run.get(run) {
            self.remove(*place);
        }
    }

    /// All runs of a session leave the board.
    pub(crate) fn forget(&mut self, session: &SessionKey) {
        let of_it = |kept: &Kept| kept.row.session == *session;
        let places: Vec<Place> = self.rows.iter().filter(|(_, kept)| of_it(kept)).map(|(place, _)| *place).collect();
        places.into_iter().for_each(|place| self.remove(place));
    }

    fn change(&mut self, place: Place, now: Stamp, change: impl FnOnce(&mut Row, Option<&Prices>)) {
        if let Some(settled) = self.fold(place, change) {
            self.advance(now);
            self.settle(place, &settled);
        }
    }

    /// Changes a row; gives it if it has settled by that.
    fn fold(&mut self, place: Place, change: impl FnOnce(&mut Row, Option<&Prices>)) -> Option<Arc<Row>> {
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

    fn settle(&mut self, place: Place, row: &Row) {
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

    fn remove(&mut self, place: Place) {
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

    fn is_settled(&self, place: Place) -> bool {
        self.rows.get(&place).is_some_and(|kept| kept.row.is_settled())
    }

    pub(crate) fn get(&self, run: &RunId) -> Option<&Arc<Row>> {
        self.rows.get(self.by_run.get(run)?).map(|kept| &kept.row)
    }

    /// How many pieces a run has accepted; says its name on the board if that is another number than before.
    pub(crate) fn pieces(&mut self, run: &RunId, pieces: u64) -> Option<&Row> {
        let kept = self.rows.get_mut(self.by_run.get(run)?)?;
        if kept.row.pieces == Some(pieces) {
            return None;
        }
        // No new version: whoever follows is told of it in the second's own message.
        Arc::make_mut(&mut kept.row).pieces = Some(pieces);
        Some(&kept.row)
    }

    /// The pieces of all live rows.
    pub(crate) fn all_pieces(&self, mine: impl Fn(&SessionKey) -> bool) -> Vec<(u64, u64)> {
        let rows = self.rows.values().map(|kept| &kept.row);
        let live = rows.filter(|row| !row.is_settled() && mine(&row.session));
        live.filter_map(|row| Some((row.n, row.pieces?))).collect()
    }

    /// The live rows that came before a place, the newest first.
    pub(crate) fn live(&self, before: Place, mine: impl Fn(&SessionKey) -> bool) -> Page {
        let looked = self.rows.range(..before).rev().map(|(place, kept)| (*place, kept));
        page(looked, |kept| !kept.row.is_settled() && mine(&kept.row.session))
    }

    /// The rows that settled before a place among them, the newest first.
    pub(crate) fn settled(&self, before: Place, mine: impl Fn(&SessionKey) -> bool) -> Page {
        let looked = self.settled.range(..before).rev();
        let looked = looked.filter_map(|(order, (place, _))| self.rows.get(place).map(|kept| (*order, kept)));
        page(looked, |kept| mine(&kept.row.session))
    }

    /// How many have settled and are kept.
    pub(crate) fn count_settled(&self, mine: impl Fn(&SessionKey) -> bool) -> usize {
        let rows = self.settled.values().filter_map(|(place, _)| self.rows.get(place));
        rows.filter(|kept| mine(&kept.row.session)).count()
    }

    /// A mark behind which everything changes from now on.
    pub(crate) fn mark(&mut self) -> Version {
        self.read = self.version;
        self.version
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// What has changed behind a mark, as far as `until`, or a part of it.
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

    /// The rows that have gone behind a mark, as far as `until`; `None` if it is so long ago that nobody knows.
    pub(crate) fn gone(&self, mark: Version, until: Version, mine: impl Fn(&SessionKey) -> bool) -> Option<Vec<u64>> {
        if mark < self.forgotten {
            return None;
        }
        let first = self.gone.partition_point(|gone| gone.version <= mark);
        let gone = self.gone.range(first..).take_while(|gone| gone.version <= until);
        Some(gone.filter(|gone| mine(&gone.session)).map(|gone| gone.n).collect())
    }
}

/// The next rows that are wanted, of those that are looked at.
fn page<'a>(rows: impl Iterator<Item = (Place, &'a Kept)>, wanted: impl Fn(&Kept) -> bool) -> Page {
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
