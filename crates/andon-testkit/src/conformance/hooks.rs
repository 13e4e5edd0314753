//! What hooks do to the random runs.

use std::sync::Arc;

use andon_runtime::core::event::{Event, HookChange, HookEnd, HookPoint};
use andon_runtime::core::message::{Message, Part, ResultStatus, Role, ToolResult};
use andon_runtime::core::outcome::Ending;
use andon_runtime::core::progress::RunProgress;
use andon_runtime::core::request::RequestChange;

use super::random::Dice;

const POINTS: [HookPoint; 6] = [
    HookPoint::BeforeRun,
    HookPoint::AfterRun,
    HookPoint::BeforeModel,
    HookPoint::AfterModel,
    HookPoint::BeforeTool,
    HookPoint::AfterTool,
];

/// Everything that hooks do which changes a run.
pub(super) const KINDS: [&str; 8] =
    ["answer", "call", "failed", "failed run", "input", "request", "result", "withdrawn"];

/// Which of them an event is.
pub(super) fn kind(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::HookFinished { end: HookEnd::Failed, .. } => "failed",
        Event::HookFinished { change: Some(change), .. } => match &**change {
            HookChange::Input { .. } => "input",
            HookChange::Request { .. } => "request",
            HookChange::Answer { is_withdrawn: true, .. } => "withdrawn",
            HookChange::Answer { .. } => "answer",
            HookChange::Call { .. } => "call",
            HookChange::Result { .. } => "result",
            #[cfg(not(andon_whole))]
            _ => return None,
        },
        Event::RunSettled { outcome } if matches!(**outcome, Ending::Failed(_)) => "failed run",
        _ => return None,
    })
}

/// A hook begins or, if one is open, ends.
pub(super) fn any_event(dice: &mut Dice, progress: &RunProgress) -> Event {
    match progress.open_hook() {
        Some(point) => any_end(dice, progress, point),
        None => Event::HookStarted { point: POINTS[dice.roll(POINTS.len() as u64) as usize] },
    }
}

/// The end of a hook, with a change or without.
fn any_end(dice: &mut Dice, progress: &RunProgress, point: HookPoint) -> Event {
    match dice.roll(12) {
        0..=2 => Event::hook_finished(point, HookEnd::Continued),
        3 if dice.roll(4) == 0 => {
            Event::HookFinished { point, end: HookEnd::Failed, change: None, why: Some("It may not.".into()) }
        }
        _ => {
            let change = any_change(dice, progress, point).map(Box::new);
            let end = if change.is_some() { HookEnd::Changed } else { HookEnd::Continued };
            Event::HookFinished { point, end, change, why: None }
        }
    }
}

/// Something that a hook may change at this point.
fn any_change(dice: &mut Dice, progress: &RunProgress, point: HookPoint) -> Option<HookChange> {
    let text = || Part::text("ä 🙂 \"changed\"\n");
    let open = progress.calls();
    let any_call = |dice: &mut Dice| open.get(dice.roll(open.len().max(1) as u64) as usize).map(|it| it.call.clone());
    Some(match point {
        HookPoint::BeforeRun => HookChange::Input { input: Arc::new(Message::new(Role::User, vec![text()])) },
        HookPoint::AfterRun => return None,
        HookPoint::BeforeModel => {
            let request = RequestChange::new().instructions("Be brief.");
            HookChange::Request { request }
        }
        HookPoint::AfterModel => {
            let before = progress.last_answer()?;
            let is_withdrawn = dice.roll(2) == 0;
            let calls = before.calls().cloned().map(Part::ToolCall).filter(|_| !is_withdrawn);
            let parts = if dice.roll(4) == 0 { Vec::new() } else { vec![text()] };
            let parts = parts.into_iter().chain(calls).collect();
            let mut answer = (**before).clone();
            answer.parts = parts;
            HookChange::Answer { answer: Arc::new(answer), is_withdrawn }
        }
        HookPoint::BeforeTool => {
            let names = ["look", "see"];
            let name = names[dice.roll(2) as usize].to_owned();
            HookChange::Call { call: any_call(dice)?.name(name).arguments("{\"at\":2}") }
        }
        HookPoint::AfterTool => {
            // The result may be in the conversation already.
            let last =
                progress.messages().last().and_then(|message| message.results().next().map(|it| it.call.clone()));
            let id = any_call(dice).map(|call| call.id).or(last)?;
            HookChange::Result { result: Arc::new(ToolResult::text(id, ResultStatus::Ok, "Hidden.")) }
        }
        #[cfg(not(andon_whole))]
        _ => return None,
    })
}
