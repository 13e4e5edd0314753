//! P7: everybody is told the same about where a run stands. After each event, the small fold says what looking at everything that is open says.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use andon_core::standing::{RunStanding, StandingFold};
use common::*;

const FORCES: [Force; 3] = [Force::AfterTurn, Force::Graceful, Force::Now];
const CALLS: [&str; 3] = ["a", "b", "c"];

/// Something that may happen to a run, in its place or not.
fn anything(random: &mut fastrand::Rng, number: u32) -> Event {
    let call = CALLS[random.usize(..CALLS.len())];
    match random.u8(..30) {
        0 => hook_started(HookPoint::BeforeTool),
        1..3 => hook_finished(HookPoint::BeforeTool),
        3..6 => model_started(number + 1),
        6..8 => message(asking(&CALLS[..random.usize(1..=CALLS.len())])),
        8 => message(Message::assistant("So.")),
        9 => usage(number),
        10..12 => answered(number, ModelStop::ToolUse),
        12 => failed(number),
        13 => backoff_started(),
        14 => Event::BackoffFinished,
        15..18 => approval_requested(call),
        18 => approved(call),
        19 => denied(call),
        20 => approval_resolved(call, Approval::Closed),
        21..24 => tool_started(call),
        24..26 => tool_finished(call),
        26 => refused(call),
        27 => Event::RunQuieted,
        28 if random.u8(..8) == 0 => cancel_requested(FORCES[random.usize(..FORCES.len())]),
        29 if random.u8(..8) == 0 => settled(cancelled()),
        _ => Event::RunStarted,
    }
}

/// How many calls of the turn are in such a state, found by looking at each.
fn count(progress: &RunProgress, is: fn(&CallState) -> bool) -> usize {
    progress.calls().iter().filter(|call| is(&call.state)).count()
}

/// What the test itself keeps, because `RunProgress` asks the fold about it.
#[derive(Default)]
struct Kept {
    has_started: bool,
    force: Option<Force>,
    hook: Option<HookPoint>,
    in_backoff: bool,
}

impl Kept {
    fn take(&mut self, event: &Event) {
        match event {
            Event::RunStarted => self.has_started = true,
            Event::CancelRequested { request, .. } => self.force = self.force.max(Some(request.force)),
            Event::HookStarted { point } => self.hook = Some(*point),
            Event::HookFinished { .. } => self.hook = None,
            Event::BackoffStarted { .. } => self.in_backoff = true,
            Event::BackoffFinished => self.in_backoff = false,
            _ => {}
        }
    }
}

/// Where the run stands, found by looking at everything that is open.
fn looked_at(progress: &RunProgress, kept: &Kept) -> RunStanding {
    let force = kept.force;
    if progress.ending().is_some() {
        return RunStanding::new(RunState::Settled, None, force);
    }
    let phase = if !kept.has_started {
        Phase::Queued
    } else if kept.hook.is_some() {
        Phase::Hook
    } else if kept.in_backoff {
        Phase::Backoff
    } else if progress.open_model().is_some() {
        Phase::Model
    } else if count(progress, |state| matches!(state, CallState::Ready | CallState::Running(_))) > 0 {
        Phase::Tools
    } else if count(progress, |state| *state == CallState::AwaitingApproval) > 0 {
        Phase::Waiting
    } else {
        Phase::Between
    };
    let state = match (force, phase) {
        (Some(_), _) => RunState::Cancelling,
        (None, Phase::Queued) => RunState::Queued,
        (None, Phase::Waiting) => RunState::Waiting,
        (None, _) => RunState::Running,
    };
    RunStanding::new(state, Some(phase), force)
}

#[test]
fn where_a_run_stands_is_what_looking_at_everything_open_says_whatever_happens_to_it() {
    let mut met = Vec::new();
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut progress, mut fold) = (RunProgress::new(accepted()), StandingFold::default());
        let mut kept = Kept::default();
        for _ in 0..400 {
            let event = anything(&mut random, progress.model_calls());
            if progress.apply(&event).is_err() {
                continue; // It was refused, so it did not happen.
            }
            fold.take(&event);
            kept.take(&event);
            let expected = looked_at(&progress, &kept);
            assert_eq!((fold.told(), progress.standing()), (expected, expected), "seed {seed}, after {}", event.kind());
            assert_eq!((fold.state(), fold.phase()), (progress.state(), progress.phase()), "seed {seed}");
            assert_eq!((progress.open_hook(), progress.in_backoff()), (kept.hook, kept.in_backoff), "seed {seed}");
            assert_eq!(progress.cancel().map(|(_, force)| force), kept.force, "seed {seed}");
            let open = count(&progress, |state| *state == CallState::AwaitingApproval);
            assert_eq!(fold.open_approvals() as usize, open, "seed {seed}, after {}", event.kind());
            if !met.contains(&expected) {
                met.push(expected);
            }
        }
    }
    // Each phase of a run that goes on and of one that stops with each force, and each way to be settled.
    assert_eq!(met.len(), 7 * 4 + 4, "{met:?}");
}

#[test]
fn events_that_make_no_sense_are_applied_as_far_as_possible() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut fold = StandingFold::default();
    for _ in 0..20_000 {
        fold.take(&anything(&mut random, 1));
        assert!(fold.open_approvals() as usize <= CALLS.len(), "{fold:?}");
    }
    fold.take(&settled(completed()));
    assert_eq!((fold.state(), fold.open_approvals()), (RunState::Settled, 0));
}

#[test]
fn with_two_approvals_open_and_one_denied_the_run_still_waits() {
    let progress = asked(&["a", "b"], [approval_requested("a"), approval_requested("b"), denied("a")]);
    assert_eq!((progress.state(), progress.phase()), (RunState::Waiting, Phase::Waiting));
}

#[test]
fn a_run_that_will_stop_after_its_turn_is_cancelling_already() {
    let progress = run([model_started(1), cancel_requested(Force::AfterTurn)]);
    let expected = RunStanding::new(RunState::Cancelling, Some(Phase::Model), Some(Force::AfterTurn));
    assert_eq!(progress.standing(), expected);
}
