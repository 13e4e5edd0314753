//! A turn of a conversation as the record of a settled run.

use std::sync::Arc;

use andon_runtime::core::cancel::{CancelRequest, Force, Reason};
use andon_runtime::core::event::{Accepted, Effect, Entry, Event, ModelEnd, Record, ToolEnd};
use andon_runtime::core::id::RunId;
use andon_runtime::core::message::{Cut, Message, ResultStatus, Role, ToolResult};
use andon_runtime::core::outcome::{Ending, Failure, FailureKind, ModelStop};
use andon_runtime::core::time::Stamp;
use andon_runtime::{JournaledRun, SessionKey};
use andon_server::dialect::Problem;
use uuid::Uuid;

use super::bad;
use super::read::{Answer, End, ImportedTurn};

/// The model name recorded for imported answers.
const MODEL: &str = "imported";

/// The record of a run with this turn's content.
pub(super) fn run(key: &SessionKey, turn: ImportedTurn, now: Stamp) -> Result<(RunId, JournaledRun), Problem> {
    let run = RunId::new(format!("e-{}", Uuid::now_v7())).map_err(|error| bad(error.to_string()))?;
    let input = Arc::new(Message::new(Role::User, turn.input));
    let accepted = Accepted::new(run.clone(), key.clone(), input);
    let mut story = Story { entries: Vec::new(), at: turn.at };
    story.add(Event::RunAccepted { accepted: Arc::new(accepted) });
    story.add(Event::RunStarted);
    let last = turn.answers.len();
    for (number, answer) in (1..).zip(turn.answers) {
        let is_cut = turn.end == End::Stopped && usize::try_from(number).is_ok_and(|number| number == last);
        story.answer(number, answer, is_cut);
    }
    story.end(turn.end, now);
    Ok((run, JournaledRun::new().epoch(1).entries(story.entries)))
}

struct Story {
    entries: Vec<Entry>,
    at: Stamp,
}

impl Story {
    fn add(&mut self, event: Event) {
        let seq = u64::try_from(self.entries.len()).unwrap_or(u64::MAX).saturating_add(1);
        let record = Record::new(seq, 1, self.at, event);
        self.entries.push(Entry::Fact(Arc::new(record)));
    }

    /// What the model said, and what its calls returned. The result of a call without one is unknown.
    fn answer(&mut self, number: u32, answer: Answer, is_cut: bool) {
        self.at = answer.at;
        let calls: Vec<_> = answer.calls().map(|call| call.id.clone()).collect();
        // An answer with calls was complete: only text can be cut.
        let is_cut = is_cut && calls.is_empty();
        let cut = is_cut.then_some(Cut::Cancelled(Reason::ClientDisconnected));
        let message = Message::new(Role::Assistant, answer.parts).cut(cut);
        let stop = if calls.is_empty() { ModelStop::EndTurn } else { ModelStop::ToolUse };
        let end = if is_cut { ModelEnd::Cut } else { ModelEnd::Answered { stop } };
        self.add(Event::model_started(number, MODEL));
        self.add(Event::Message { message: Arc::new(message) });
        self.add(Event::usage(number, answer.used));
        self.add(Event::ModelFinished { call: number, end, first_piece_us: None });
        for call in &calls {
            self.add(Event::ToolStarted { call: call.clone(), effect: Effect::Effect, effect_id: None });
        }
        for call in calls {
            let known = answer.results.iter().find(|(_, result)| result.call == call);
            let (end, result) = match known {
                Some((at, result)) => {
                    self.at = *at;
                    (ToolEnd::Finished, result.clone())
                }
                None => {
                    (ToolEnd::Unknown, ToolResult::text(call.clone(), ResultStatus::Unknown, "No result is known."))
                }
            };
            self.add(Event::ToolFinished { call, end, result: Arc::new(result), remains: None, state: None });
        }
    }

    fn end(&mut self, end: End, now: Stamp) {
        let outcome = match end {
            End::Stopped => {
                let (reason, force) = (Reason::ClientDisconnected, Force::Graceful);
                let request = CancelRequest::new(reason, force, self.at);
                self.add(Event::CancelRequested { request: Arc::new(request), delivered_at: self.at });
                Ending::Cancelled { reason }
            }
            End::Failed(message) => Ending::Failed(Failure::new(FailureKind::Model, message)),
            // If no answer followed, nobody knows why, and we do not make up a reason: the run ends where the events end.
            End::Whole => Ending::Completed { stop: ModelStop::EndTurn },
        };
        self.at = Stamp { wall: self.at.wall.min(now.wall), ..self.at };
        self.add(Event::RunSettled { outcome: Arc::new(outcome) });
    }
}
