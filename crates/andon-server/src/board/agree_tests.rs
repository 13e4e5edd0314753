//! Compares a row with the run's own account after every event of every explorer script, cancelled and killed at each
//! point.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use andon_runtime::core::event::{Addendum, AddendumKind, Entry as Stored};
use andon_runtime::core::progress::RunProgress;
use andon_runtime::core::time::Stamp;
use andon_runtime::{
    Event, JournalError, Observer, Receipt, Record, RunId, RunState, SessionKey, ShownAddendum, ShownFact,
};
use andon_testkit::explore::Mode;
use andon_testkit::scripts;
use parking_lot::Mutex;

use super::Board;
use super::row::{BoardRow, RowCall};
use crate::options::prices::{ModelPrice, Price, Prices};

/// Keeps rows, and compares each with the run's events. It panics if they differ, which the explorer reports.
struct Agrees {
    board: Arc<Board>,
    progress: Mutex<HashMap<RunId, RunProgress>>,
    learned: Mutex<HashMap<RunId, Vec<Addendum>>>,
}

/// The prices of the scripts' models: the one that is asked for is cheaper than the one that answers.
fn prices() -> Prices {
    let price = |text: &str| text.parse::<Price>().unwrap();
    let (input, output) = (price("3"), price("15.5"));
    let scripted = ModelPrice { input, cache_read: price("0.3"), cache_write: price("3.75"), output };
    let answering = ModelPrice { input: price("4"), ..scripted };
    let asked = Prices::new("USD").unwrap().with("scripted", scripted).unwrap();
    asked.with("scripted-1", answering).unwrap()
}

impl Agrees {
    fn boxed() -> Arc<dyn Observer> {
        let board = Board::new();
        board.price(&prices());
        Arc::new(Self { board, progress: Mutex::default(), learned: Mutex::default() })
    }

    fn row(&self, run: &RunId) -> Option<Arc<BoardRow>> {
        self.board.rows.lock().get(run).cloned()
    }
}

impl Observer for Agrees {
    fn fact(&self, seen: &ShownFact<'_>) {
        self.board.fact(seen);
        let row = self.row(seen.run).expect("every reported run has a row");
        let row = &*row;
        let mut progress = self.progress.lock();
        let progress = match progress.entry(seen.run.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(folded(seen.past, seen.record)),
        };
        if progress.seq() < seen.record.seq {
            progress.apply_record(seen.record).unwrap();
        }
        check_progress(row, progress, seen.record.event.kind());
        assert_eq!(row.pieces, seen.pieces, "the pieces after {}", seen.record.event.kind());
        if is_looked_at(&seen.record.event) {
            let facts: Vec<Arc<Record>> = seen.past.iter().chain([seen.record]).cloned().collect();
            let learned = self.learned.lock().get(seen.run).cloned().unwrap_or_default();
            check_receipt(row, &facts, learned, Some(seen.now));
            let anew = BoardRow::new(&facts, Some(&prices())).unwrap();
            check_progress(&anew, progress, "all of it");
        }
    }

    fn addendum(&self, learned: &ShownAddendum<'_>) {
        self.learned.lock().entry(learned.run.clone()).or_default().push(learned.addendum.clone());
        self.board.addendum(learned);
        if let Some(row) = self.row(learned.run).filter(|row| row.seq == learned.facts.len() as u64) {
            let addenda = learned.earlier.iter().chain([learned.addendum]).cloned().collect();
            check_receipt(&row, learned.facts, addenda, None);
        }
    }

    fn broken_off(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        self.board.broken_off(run, session, why);
        assert!(self.row(run).is_none());
    }
}

/// The events after which the whole receipt is compared. Not after all of them, because folding it is slow.
fn is_looked_at(event: &Event) -> bool {
    matches!(
        event,
        Event::ModelStarted { .. } | Event::Usage { .. } | Event::CancelRequested { .. } | Event::RunSettled { .. }
    )
}

/// The progress of a run after these events.
fn folded(past: &[Arc<Record>], record: &Arc<Record>) -> RunProgress {
    let facts: Vec<_> = past.iter().chain([record]).map(|fact| Stored::Fact(Arc::clone(fact))).collect();
    RunProgress::fold(&facts).unwrap()
}

fn check_progress(row: &BoardRow, progress: &RunProgress, event: &str) {
    assert_eq!(row.standing(), progress.standing(), "where it stands after {event}");
    assert_eq!(row.end().map(|(outcome, _)| outcome), progress.ending());
    let has_name = |shown: &RowCall| {
        let mut calls = progress.calls().iter();
        calls.any(|open| open.call.id == shown.id && *open.call.name == *shown.tool)
    };
    // The model writes calls before they are the turn's.
    assert!(progress.calls().is_empty() || row.calls().iter().all(has_name), "a call's name after {event}: {row:?}");
}

fn check_receipt(row: &BoardRow, facts: &[Arc<Record>], learned: Vec<Addendum>, durable: Option<Stamp>) {
    let known_late = learned.iter().any(|addendum| {
        let is_late = matches!(&addendum.what, AddendumKind::LateResult { .. });
        is_late && row.standing().state != RunState::Settled
    });
    let receipt = Receipt::fold(facts, learned, durable).unwrap();
    let billed = receipt.usage.billed;
    let tokens = row.tokens();
    assert_eq!((tokens.input, tokens.output), (billed.read(), billed.output), "while a call is open too");
    assert_eq!(row.cost(), Some(prices().of_run(&receipt)));
    if durable.is_some() {
        assert_eq!(row.took_us(), receipt.took.settled_us);
        assert_eq!(row.end().and_then(|(_, at)| at), receipt.settled_at);
    }
    let cancel = row.cancel.as_ref();
    assert_eq!(cancel.map(|cancel| cancel.requested_at), receipt.requested_at);
    assert_eq!(cancel.and_then(|cancel| cancel.by.clone()), receipt.by);
    assert_eq!((cancel.map(|cancel| cancel.reason), row.standing().force), (receipt.reason, receipt.force));
    // If a call ended late before the event that it was given up, the count is right only after that event.
    if !known_late {
        assert_eq!(row.leaked(), receipt.leaked.len() as u64);
    }
}

fn explored(modes: &[Mode]) {
    let mut points = 0;
    for script in scripts::all() {
        let report = script.observer(Agrees::boxed).modes(modes.iter().copied()).enough(3).run();
        assert!(report.violations.is_empty(), "{report}");
        points += report.points;
    }
    assert!(points > 1_000, "{points} points");
}

#[test]
fn a_row_agrees_with_its_run_after_every_fact_wherever_it_is_stopped() {
    explored(&[Mode::Harden, Mode::PanicTool, Mode::PanicHook]);
}

#[test]
fn a_row_agrees_with_its_run_after_every_fact_wherever_its_process_dies() {
    explored(&[Mode::PullThenCrash]);
}
