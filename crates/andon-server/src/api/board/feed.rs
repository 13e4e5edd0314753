//! The messages for one reader of the board.
//!
//! # Invariants
//!
//! 1. A reader first gets what exists, then `ready`, then what has changed since the start, with no gap.
//! 2. Messages are made only when they are read: a slow reader gets fewer messages, not a backlog.
//! 3. Changes are sent every [`RHYTHM`], and each time a row is sent at most once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::form::{BoardMessage, RowForm, SecondAndPieces};
use crate::access::principal::{Principal, Whose};
use crate::api::line;
use crate::board::Board;
use crate::board::row::BoardRow;
use crate::board::rows::{Page, Version};
use crate::board::seconds::second;
use crate::core::Shared;
use crate::time::after;

/// How often changes are sent.
const RHYTHM: Duration = Duration::from_millis(100);

/// What is sent next.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Beginning,
    /// The live rows before this position.
    Live(u64),
    /// The settled rows before this position.
    Settled(u64),
    Ready,
    /// What has changed up to here; `None` until the next round is due.
    Following(Option<Version>),
}

/// One reader of the board: an endless stream of messages.
pub(crate) struct BoardFeed {
    core: Shared,
    board: Arc<Board>,
    principal: Principal,
    whose: Whose,
    stage: Stage,
    /// All changes up to here have been sent.
    mark: Version,
    /// All removals up to here have been sent.
    gone: Version,
    /// The next second to send.
    second: u64,
    /// How often pieces had been counted when they were last sent.
    pieces: u64,
    line: SentLine,
    timer: Pin<Box<Sleep>>,
}

/// The line, as it was last sent.
struct SentLine {
    changes: u64,
    told: String,
}

impl BoardFeed {
    pub(crate) fn new(core: &Shared, board: &Arc<Board>, principal: Principal) -> Self {
        Self {
            core: Shared::clone(core),
            board: Arc::clone(board),
            whose: principal.whose(),
            principal,
            stage: Stage::Beginning,
            mark: 0,
            gone: 0,
            second: 0,
            pieces: 0,
            line: SentLine { changes: 0, told: String::new() },
            timer: Box::pin(sleep_until(after(Instant::now(), RHYTHM))),
        }
    }

    /// The next message, if there is one now.
    pub(super) fn say(&mut self) -> Option<String> {
        loop {
            let said = match self.stage {
                Stage::Beginning => Some(self.begin()),
                Stage::Live(before) => self.live(before),
                Stage::Settled(before) => self.settled(before),
                Stage::Ready => {
                    self.stage = Stage::Following(None);
                    Some(BoardMessage::Ready.to_json())
                }
                Stage::Following(None) => return None,
                Stage::Following(Some(until)) => self.follow(until),
            };
            if said.is_some() {
                return said;
            }
        }
    }

    fn begin(&mut self) -> String {
        self.board.count_pieces(&self.core.runtime);
        let changes = self.core.admission.changes();
        let line = Arc::new(line::view(&self.core, &self.principal));
        self.line = SentLine { changes, told: BoardMessage::Line { line: Arc::clone(&line) }.to_json() };
        self.pieces = self.board.pieces_since(0).1;
        self.stage = Stage::Live(u64::MAX);
        let now = self.core.runtime.now();
        let mut rows = self.board.rows.lock();
        rows.advance(now);
        self.mark = rows.mark();
        (self.gone, self.second) = (self.mark, rows.seconds.now());
        let live = rows.seconds.live(&self.whose);
        let settled = rows.count_settled(|session| self.whose.has(session));
        let past = rows.seconds.since(&self.whose, 0);
        drop(rows);
        BoardMessage::Board { now: now.wall, live, settled, line, past }.to_json()
    }

    fn live(&mut self, before: u64) -> Option<String> {
        let page = self.board.rows.lock().live(before, |session| self.whose.has(session));
        self.stage = page.next.map_or(Stage::Settled(u64::MAX), Stage::Live);
        self.rows(&page)
    }

    fn settled(&mut self, before: u64) -> Option<String> {
        let page = self.board.rows.lock().settled(before, |session| self.whose.has(session));
        self.stage = page.next.map_or(Stage::Ready, Stage::Settled);
        self.rows(&page)
    }

    fn rows(&self, page: &Page) -> Option<String> {
        (!page.rows.is_empty()).then(|| runs(&page.rows, &self.principal))
    }

    /// Starts the next round of changes.
    fn look(&mut self) {
        let now = self.core.runtime.now();
        if second(now.mono_us) > self.second {
            self.board.count_pieces(&self.core.runtime);
        }
        let mut rows = self.board.rows.lock();
        rows.advance(now);
        self.stage = Stage::Following(Some(rows.version()));
    }

    fn follow(&mut self, until: Version) -> Option<String> {
        if self.gone < until {
            return self.leavers(until);
        }
        if self.mark < until {
            return self.changes(until);
        }
        let said = self.new_line().or_else(|| self.next_second());
        if said.is_none() {
            self.stage = Stage::Following(None);
        }
        said
    }

    /// Rows that were removed.
    fn leavers(&mut self, until: Version) -> Option<String> {
        let gone = self.board.rows.lock().gone(self.gone, until, |session| self.whose.has(session));
        let Some(rows) = gone else {
            // Too many rows were removed to know which ones, so the board starts over.
            self.stage = Stage::Beginning;
            return None;
        };
        self.gone = until;
        (!rows.is_empty()).then(|| BoardMessage::Gone { rows }.to_json())
    }

    /// Rows that have changed.
    fn changes(&mut self, until: Version) -> Option<String> {
        let news = self.board.rows.lock().news(self.mark, until, |session| self.whose.has(session));
        self.mark = news.mark;
        (!news.rows.is_empty()).then(|| runs(&news.rows, &self.principal))
    }

    fn new_line(&mut self) -> Option<String> {
        let changes = self.core.admission.changes();
        if changes == self.line.changes {
            return None;
        }
        let line = Arc::new(line::view(&self.core, &self.principal));
        let told = BoardMessage::Line { line }.to_json();
        // A hold that this principal may not see changes nothing for it.
        let is_new = told != self.line.told;
        self.line = SentLine { changes, told };
        is_new.then(|| self.line.told.clone())
    }

    fn next_second(&mut self) -> Option<String> {
        let closed = self.board.rows.lock().seconds.since(&self.whose, self.second);
        let is_last = closed.len() == 1;
        let second = closed.into_iter().next()?;
        self.second = second.index + 1;
        let pieces = if is_last { self.new_pieces() } else { Vec::new() };
        Some(BoardMessage::Second(SecondAndPieces { second, pieces }).to_json())
    }

    fn new_pieces(&mut self) -> Vec<(u64, u64)> {
        let (counts, last) = self.board.pieces_since(self.pieces);
        self.pieces = last;
        let Some(counts) = counts else {
            return self.board.rows.lock().all_pieces(|session| self.whose.has(session));
        };
        let changed = counts.iter().flat_map(|count| &count.changed);
        changed.filter(|(.., session)| self.whose.has(session)).map(|(n, pieces, _)| (*n, *pieces)).collect()
    }
}

impl Stream for BoardFeed {
    type Item = String;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<String>> {
        loop {
            if let Some(said) = self.say() {
                return Poll::Ready(Some(said));
            }
            ready!(self.timer.as_mut().poll(cx));
            let next = after(Instant::now(), RHYTHM);
            self.timer.as_mut().reset(next);
            self.look();
        }
    }
}

fn runs(rows: &[Arc<BoardRow>], principal: &Principal) -> String {
    BoardMessage::Runs { runs: rows.iter().map(|row| RowForm::of(row, principal)).collect() }.to_json()
}
