//! What happened in each of the last seconds: to all runs, to those of each tenant, and to those of each user.
//!
//! # Invariants
//!
//! 1. Readers learn nothing about runs they cannot reach: every figure is counted separately for each [`Whose`].
//! 2. However many users there are, at most [`MOST`] tallies are kept. If that is not enough, the history of tenants
//!    and users is shortened, but not the history of everything.
//! 3. Seconds in which nothing happened take no space.

use std::collections::{HashMap, VecDeque};

use andon_runtime::SessionKey;
use andon_runtime::core::time::{Stamp, Wall};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::principal::Whose;

/// How many seconds are kept.
pub(crate) const HISTORY: u64 = 300;

/// How many tallies are kept, in all seconds together.
const MOST: usize = 50_000;

/// How many cancels of one second are considered for the median.
const SAMPLES: usize = 10_000;

/// What happened to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was accepted.
    Begun,
    /// It was accepted earlier, and has just been added to the board.
    Joined,
    /// It has settled.
    Settled,
    /// It was cancelled and has settled, this many microseconds after the request if that is known.
    Cancelled(Option<u64>),
    /// It was removed from the board before it settled.
    Left,
}

/// What happened in one second to some of the runs.
#[derive(Debug, Clone, Default)]
struct Tally {
    begun: u64,
    settled: u64,
    cancelled: u64,
    /// The change in the number of live runs.
    growth: i64,
    slowest: Option<u64>,
    /// The durations of the cancels, while the second is open.
    took: Vec<u64>,
    /// The median of these, once the second is closed.
    median: Option<u64>,
}

impl Tally {
    fn count(&mut self, change: Change) {
        match change {
            Change::Begun => (self.begun, self.growth) = (self.begun + 1, self.growth + 1),
            Change::Joined => self.growth += 1,
            Change::Settled => (self.settled, self.growth) = (self.settled + 1, self.growth - 1),
            Change::Cancelled(took) => {
                self.count(Change::Settled);
                self.cancelled += 1;
                if let Some(took) = took {
                    self.sample(took);
                }
            }
            Change::Left => self.growth -= 1,
        }
    }

    fn sample(&mut self, took: u64) {
        self.slowest = self.slowest.max(Some(took));
        let place = usize::try_from(self.cancelled).unwrap_or_default() % SAMPLES;
        match self.took.get_mut(place).filter(|_| self.cancelled > SAMPLES as u64) {
            Some(old) => *old = took,
            None => self.took.push(took),
        }
    }

    fn close(&mut self) {
        let mut took = std::mem::take(&mut self.took);
        took.sort_unstable();
        self.median = took.get(took.len().saturating_sub(1) / 2).copied();
    }
}

/// What happened in one second to the runs that you may see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = BoardSecond)]
pub(crate) struct Told {
    // The index of the second since the clock's zero.
    #[serde(skip)]
    pub(crate) index: u64,
    /// When the second began. This is the same for every reader and identifies the second.
    #[schema(value_type = String, format = DateTime)]
    at: Wall,
    /// How many runs had not settled at its end.
    live: u64,
    /// How many runs were accepted.
    begun: u64,
    /// How many runs settled.
    settled: u64,
    /// How many of the settled runs were cancelled.
    cancelled: u64,
    /// The median time from the cancel request until the run had settled, in microseconds; `null` if no run was
    /// cancelled.
    #[schema(required)]
    median_us: Option<u64>,
    /// The longest of these times, in microseconds; `null` if no run was cancelled.
    #[schema(required)]
    slowest_us: Option<u64>,
}

#[derive(Debug, Default)]
struct Second {
    index: u64,
    tallies: HashMap<Whose, Tally>,
}

/// The last seconds.
#[derive(Debug, Default)]
pub(crate) struct Seconds {
    /// The index of the first second; `None` until there is one.
    began: Option<u64>,
    /// The current second.
    open: Second,
    /// When the current second and the kept ones before it began, oldest first.
    began_at: VecDeque<Wall>,
    /// Earlier seconds in which something happened, oldest first.
    past: VecDeque<Second>,
    /// The number of tallies in `past`.
    kept: usize,
    /// The first second from which on the tallies of tenants and users are complete.
    whole_since: u64,
    /// How many runs are live.
    live: HashMap<Whose, u64>,
}

impl Seconds {
    /// Moves to the current second. Returns whether that is a new one.
    pub(crate) fn advance(&mut self, now: Stamp) -> bool {
        let index = second(now.mono_us);
        let is_first = self.began.is_none();
        self.began.get_or_insert(index);
        if is_first {
            self.open.index = index;
            self.began_at.push_back(began(now));
        }
        if index <= self.open.index {
            return is_first;
        }
        self.open_at(now);
        let mut closed = std::mem::replace(&mut self.open, Second { index, tallies: HashMap::new() });
        if !closed.tallies.is_empty() {
            closed.tallies.values_mut().for_each(Tally::close);
            self.kept += closed.tallies.len();
            self.past.push_back(closed);
        }
        while self.past.front().is_some_and(|oldest| oldest.index + HISTORY < index) {
            self.kept -= self.past.pop_front().map_or(0, |oldest| oldest.tallies.len());
        }
        self.shed();
        true
    }

    /// Records when this second began, and also the skipped ones before it.
    fn open_at(&mut self, now: Stamp) {
        let passed = second(now.mono_us) - self.open.index;
        let began = began(now);
        for ago in (0..passed.min(HISTORY + 1)).rev() {
            self.began_at.push_back(Wall(began.0.saturating_sub(ago * 1_000_000)));
        }
        let most = usize::try_from(HISTORY + 1).unwrap_or(usize::MAX);
        self.began_at.drain(..self.began_at.len().saturating_sub(most));
    }

    /// When a kept second began.
    fn began_at(&self, index: u64) -> Wall {
        let ago = usize::try_from(self.open.index - index).unwrap_or(usize::MAX);
        let place = self.began_at.len().checked_sub(ago + 1);
        place.and_then(|place| self.began_at.get(place)).copied().unwrap_or(Wall(0))
    }

    /// Drops tallies until there are no more than allowed (invariant 2).
    fn shed(&mut self) {
        for second in &mut self.past {
            if self.kept <= MOST {
                return;
            }
            let before = second.tallies.len();
            second.tallies.retain(|whose, _| *whose == Whose::All);
            second.tallies.shrink_to_fit();
            self.kept -= before - second.tallies.len();
            self.whole_since = second.index + 1;
        }
    }

    /// Counts a change to a run in the current second.
    pub(crate) fn count(&mut self, session: &SessionKey, change: Change) {
        for whose in Whose::all_of(session) {
            self.count_live(&whose, change);
            let tallies = &mut self.open.tallies;
            if tallies.len() >= MOST && !tallies.contains_key(&whose) {
                self.whole_since = self.open.index + 1;
                continue;
            }
            tallies.entry(whose).or_default().count(change);
        }
    }

    fn count_live(&mut self, whose: &Whose, change: Change) {
        match (change, self.live.get_mut(whose)) {
            (Change::Begun | Change::Joined, Some(live)) => *live += 1,
            (Change::Begun | Change::Joined, None) => drop(self.live.insert(whose.clone(), 1)),
            (_, Some(live)) if *live > 1 => *live -= 1,
            (_, _) => drop(self.live.remove(whose)),
        }
    }

    /// How many runs are live now.
    pub(crate) fn live(&self, whose: &Whose) -> u64 {
        self.live.get(whose).copied().unwrap_or(0)
    }

    /// The current second.
    pub(crate) fn now(&self) -> u64 {
        self.open.index
    }

    /// The closed seconds from this one on, oldest first.
    pub(crate) fn since(&self, whose: &Whose, from: u64) -> Vec<Told> {
        let now = self.open.index;
        let whole = if *whose == Whose::All { 0 } else { self.whole_since };
        let first = from.max(now.saturating_sub(HISTORY)).max(whole).max(self.began.unwrap_or(now));
        let growth = |second: &Second| second.tallies.get(whose).map_or(0, |tally| tally.growth);
        // The number of live runs at the end of a second is the current number minus all later changes.
        let mut live = i64::try_from(self.live(whose)).unwrap_or(i64::MAX) - growth(&self.open);
        let mut busy = self.past.iter().rev().peekable();
        let mut told = Vec::new();
        for index in (first..now).rev() {
            let second = busy.next_if(|second| second.index == index);
            let tally = second.and_then(|second| second.tallies.get(whose));
            told.push(tell(index, self.began_at(index), live, tally));
            live -= second.map_or(0, growth);
        }
        told.reverse();
        told
    }
}

/// The index of the second that contains a time.
pub(crate) fn second(mono_us: u64) -> u64 {
    mono_us / 1_000_000
}

/// When the current second began.
fn began(now: Stamp) -> Wall {
    Wall(now.wall.0.saturating_sub(now.mono_us % 1_000_000))
}

fn tell(index: u64, at: Wall, live: i64, tally: Option<&Tally>) -> Told {
    let quiet = Tally::default();
    let tally = tally.unwrap_or(&quiet);
    Told {
        index,
        at,
        live: u64::try_from(live).unwrap_or(0),
        begun: tally.begun,
        settled: tally.settled,
        cancelled: tally.cancelled,
        median_us: tally.median,
        slowest_us: tally.slowest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time on two clocks that run at different speeds.
    fn at(second: u64, micros: u64, drift: u64) -> Stamp {
        Stamp {
            mono_us: second * 1_000_000 + micros,
            wall: Wall(1_700_000_000_000_000 + second * 1_000_000 + micros + drift),
        }
    }

    #[test]
    fn every_reader_sees_the_same_start_of_a_second() {
        let mut seconds = Seconds::default();
        seconds.advance(at(10, 400_000, 0));
        seconds.advance(at(11, 100, 7));
        seconds.advance(at(15, 900_000, 30));
        let first = seconds.since(&Whose::All, 0);
        let began: Vec<u64> = first.iter().map(|told| told.at.0 - 1_700_000_000_000_000).collect();
        assert_eq!(began, [10_000_000, 11_000_007, 12_000_030, 13_000_030, 14_000_030]);
        seconds.advance(at(15, 950_000, 41));
        seconds.advance(at(16, 1, 55));
        assert_eq!(seconds.since(&Whose::All, 0).split_last().map(|(_, before)| before.to_vec()), Some(first));
        seconds.advance(at(2_000, 0, 99));
        let told = seconds.since(&Whose::All, 0);
        assert_eq!((told.len(), told.last().map(|told| told.at)), (300, Some(at(1_999, 0, 99).wall)));
        assert!(
            told.is_sorted_by_key(|told| told.at) && told.first().is_some_and(|told| told.at == at(1_700, 0, 99).wall)
        );
    }
}
