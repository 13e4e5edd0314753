//! A run's receipt for people.

use andon_runtime::core::event::Refusal;
use andon_runtime::core::progress::Phase;
use andon_runtime::core::receipt::{CallAccount, ModelAccount};
use andon_runtime::core::time::Wall;
use andon_runtime::core::usage::{Awaited, Pending};
use andon_runtime::{Ending, Message, Outcome, Receipt, Verdict};

use super::{figures, recovered::session_shown};
use crate::client::forms::Cost;
use crate::print::{Style, plain, plain_line, when};

/// One line: how it ended, how long it took, what it used.
pub(crate) fn short(outcome: &Outcome) -> String {
    let receipt = &outcome.receipt;
    let delivered = &outcome.usage.delivered;
    let mut line = format!(
        "{} · {} · tokens: {} in, {} out",
        heading(&outcome.ending, receipt),
        figures::time(receipt.run_us),
        figures::short(&delivered.input),
        figures::short(&delivered.output),
    );
    match receipt.calls.len() {
        0 => {}
        1 => line.push_str(" · 1 tool call"),
        calls => line.push_str(&format!(" · {calls} tool calls")),
    }
    line.push('\n');
    line
}

/// The whole receipt of a run that has just settled.
pub(crate) fn full(outcome: &Outcome, cost: Option<&Cost>) -> String {
    let mut rows = Rows(format!("{}\n", heading(&outcome.ending, &outcome.receipt)));
    rows.account(&outcome.receipt, outcome.message.as_deref(), cost);
    rows.0
}

/// Like [`full`], for a run that somebody asks about later: also which run it was, and when.
pub(crate) fn later(receipt: &Receipt, cost: Option<&Cost>, answer: Option<&Message>, heading_if_open: &str) -> String {
    let ended = receipt.outcome.as_ref().map(|ending| heading(ending, receipt));
    let heading = ended.unwrap_or_else(|| heading_if_open.to_owned());
    let mut rows = Rows(format!("{heading}\n"));
    rows.add("run", &plain(receipt.run.as_str()));
    rows.add("session", &plain(&session_shown(&receipt.session)));
    rows.add("started", &format!("{} UTC", when::utc(receipt.accepted_at)));
    rows.account(receipt, answer, cost);
    rows.0
}

struct Rows(String);

impl Rows {
    fn add(&mut self, label: &str, text: &str) {
        // A line end in the text must not start a row.
        let text = text.replace('\n', " ");
        let dim = Style::DIM;
        self.0.push_str(&format!("  {dim}{label:<7}{dim:#} {text}\n"));
    }

    fn account(&mut self, receipt: &Receipt, answer: Option<&Message>, cost: Option<&Cost>) {
        if receipt.requested_at.is_some() {
            self.add("stop", &stop_times(receipt));
        }
        match (receipt.cut_in.map(phase_words), kept(answer)) {
            (None, None) => {}
            (Some(phase), None) => self.add("cut", phase),
            (None, Some(kept)) => self.add("cut", &kept),
            (Some(phase), Some(kept)) => self.add("cut", &format!("{phase}; {kept}")),
        }
        // How long it takes is known once it has settled.
        if receipt.outcome.is_some() {
            let first = receipt.first_piece_us.map(|us| format!(", first word after {}", figures::time(us)));
            self.add("ran", &format!("{}{}", figures::time(receipt.run_us), first.unwrap_or_default()));
        }
        for (place, call) in receipt.calls.iter().enumerate() {
            self.add(if place == 0 { "calls" } else { "" }, &call_words(call));
        }
        let used = &receipt.usage;
        self.add("tokens", &format!("delivered: {}", figures::usage(&used.delivered, &used.delivered)));
        self.add("", &format!("billed:    {}", figures::usage(&used.billed, &used.delivered)));
        for (place, words) in receipt.model_calls.iter().filter_map(model_words).enumerate() {
            self.add(if place == 0 { "models" } else { "" }, &words);
        }
        for call in &receipt.model_calls {
            if let Some(awaited) = call.pending {
                self.add("pending", &pending_words(awaited));
            }
        }
        let leaked = if receipt.leaked.is_empty() { "nothing".to_owned() } else { plain(&receipt.leaked.join(", ")) };
        self.add("leaked", &leaked);
        match receipt.revision {
            0 => {}
            1 => self.add("revised", "once after the end"),
            times => self.add("revised", &format!("{times} times after the end")),
        }
        if let Some(cost) = cost {
            self.add("cost", &figures::cost(cost));
        }
    }
}

/// Which model answered a call, and the provider's id for it; `None` if the provider said neither.
fn model_words(call: &ModelAccount) -> Option<String> {
    let by = call.answered_by.as_deref().map(|name| format!(", answered by {}", plain_line(name)));
    let id = call.request_id.as_deref().map(|id| format!(", request {}", plain_line(id)));
    (by.is_some() || id.is_some()).then(|| {
        format!("{}: {}{}{}", call.call, plain_line(&call.model), by.unwrap_or_default(), id.unwrap_or_default())
    })
}

/// What is still awaited about a model call.
pub(crate) fn pending_words(awaited: Awaited) -> String {
    let what = match awaited.what {
        Pending::Draining => {
            "draining: closing the connection would not stop the bill, so the rest is read but not shown"
        }
        Pending::LookingUp => "asking the provider what it will charge",
        Pending::Counting => "asking the provider to count what it was sent",
        Pending::Estimating => "counting what was sent and shown",
        #[cfg(not(andon_whole))]
        _ => "more is being learned",
    };
    if awaited.until < when::now() {
        // The process that waited for it is gone. A later one may still come to it.
        return format!("no better figure had arrived by {} UTC", when::utc(awaited.until));
    }
    format!("{what} (until {} UTC at the latest)", when::utc(awaited.until))
}

fn heading(ending: &Ending, receipt: &Receipt) -> String {
    let (good, stop, bad) = (Style::GOOD, Style::STOP, Style::BAD);
    match ending {
        Ending::Completed { stop } => format!("{good}✓ Completed{good:#} ({})", plain_line(stop.as_str())),
        Ending::Cancelled { .. } => format!("{stop}■ Stopped{stop:#} {}", who_and_why(receipt)),
        Ending::Failed(failure) => format!("{bad}✗ Failed:{bad:#} {}", plain_line(&failure.to_string())),
        Ending::Lost => format!("{bad}✗ Lost:{bad:#} the program that ran it ended"),
        #[cfg(not(andon_whole))]
        other => format!("{bad}✗ Ended:{bad:#} {}", plain_line(other.as_str())),
    }
}

fn who_and_why(receipt: &Receipt) -> String {
    let by = receipt.by.as_deref().map_or_else(String::new, |by| format!("by {}, ", plain_line(by)));
    let reason = receipt.reason.map_or("unknown", |reason| reason.as_str());
    let forces: Vec<&str> = receipt.requests.iter().map(|request| request.force.as_str()).collect();
    let note = receipt.note.as_deref().map_or_else(String::new, |note| format!(" ({})", plain_line(note)));
    format!("{by}reason: {reason}{note}, force: {}", forces.join(", then "))
}

/// When the stop was requested, when the run was quiet, and when it was settled on disk.
fn stop_times(receipt: &Receipt) -> String {
    let took = receipt.took;
    let quiet = took.quiet_us.map_or_else(|| at(receipt.quiet_at), |us| format!("{} later", figures::time(us)));
    format!("requested {}, quiet {quiet}, {}", at(receipt.requested_at), settled_words(receipt))
}

/// When the outcome was on disk. A time that nobody measured is not made up.
fn settled_words(receipt: &Receipt) -> String {
    match (receipt.took.settled_us, receipt.settled_at) {
        (Some(us), _) => format!("settled on disk {} later", figures::time(us)),
        (None, Some(_)) => format!("settled on disk {}", at(receipt.settled_at)),
        (None, None) if receipt.on_disk => "settled on disk, but the time is not on record".to_owned(),
        (None, None) if receipt.outcome.is_some() => "not on disk".to_owned(),
        (None, None) => "not settled yet".to_owned(),
    }
}

/// The time of day: whoever has just stopped a run knows the date.
fn at(wall: Option<Wall>) -> String {
    let text = wall.map(|wall| wall.to_string());
    let clock = text.as_deref().and_then(|text| text.get(11..19));
    clock.map_or_else(|| "at an unknown time".to_owned(), |clock| format!("at {clock} UTC"))
}

fn phase_words(phase: Phase) -> &'static str {
    match phase {
        Phase::Queued => "while it was queued",
        Phase::Hook => "in a hook",
        Phase::Model => "in the model's answer",
        Phase::Backoff => "while it waited to try the model again",
        Phase::Tools => "while tools ran",
        Phase::Waiting => "while it waited for approval",
        Phase::Between => "between two steps",
        #[cfg(not(andon_whole))]
        other => other.as_str(),
    }
}

fn kept(answer: Option<&Message>) -> Option<String> {
    let message = answer.filter(|message| message.cut.is_some())?;
    match message.text().split_whitespace().count() {
        0 => None,
        1 => Some("1 word is kept".to_owned()),
        words => Some(format!("{words} words are kept")),
    }
}

fn call_words(call: &CallAccount) -> String {
    let tool = Style::TOOL;
    let verdict = match call.verdict {
        Verdict::Finished => "finished",
        Verdict::NeverStarted => "never started",
        Verdict::Cut => "cut",
        Verdict::Unknown => "cut, its effect is unknown",
        Verdict::Late => "ended after the run",
        Verdict::Leaked => "leaked: it may still be running",
        Verdict::Detached => "detached: still running, as declared",
        #[cfg(not(andon_whole))]
        other => other.as_str(),
    };
    let why = call.refused.map_or_else(String::new, |why| format!(" ({})", refusal_words(why)));
    let took = call.took_us.map_or_else(String::new, |us| format!(" after {}", figures::time(us)));
    let notes: String = call.notes.iter().map(|note| format!("; {}", plain(note))).collect();
    format!("{tool}{}{tool:#} {verdict}{took}{why}{notes}", plain(&call.tool))
}

fn refusal_words(why: Refusal) -> &'static str {
    match why {
        Refusal::UnknownTool => "no such tool",
        Refusal::BadArguments => "wrong arguments",
        Refusal::DuplicateId => "its id was used twice",
        Refusal::DeniedByHook => "denied by a hook",
        Refusal::AnsweredByHook => "answered by a hook",
        Refusal::DeniedByPerson => "denied by a person",
        Refusal::CallCancelled => "only this call was cancelled",
        Refusal::RunCancelled => "the run was stopped first",
        Refusal::Lost => "the program ended first",
        #[cfg(not(andon_whole))]
        other => other.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_runtime::core::receipt::Took;
    use andon_runtime::{Reason, RunId, SessionKey};
    use std::sync::Arc;

    fn stopped(settled_us: Option<u64>, settled_at: Option<u64>) -> Receipt {
        let (run, session) = (RunId::new("r1").unwrap(), SessionKey::new("a", "u", "s").unwrap());
        let mut receipt = Receipt::unknown(&run, &session);
        receipt.outcome = Some(Arc::new(Ending::Cancelled { reason: Reason::Requested }));
        receipt.requested_at = Some(Wall(1_763_204_400_000_000));
        receipt.quiet_at = Some(Wall(1_763_204_400_000_177));
        receipt.settled_at = settled_at.map(Wall);
        receipt.on_disk = true;
        receipt.took = Took::new().delivered_us(80).quiet_us(177).settled_us(settled_us);
        receipt
    }

    #[test]
    fn a_model_call_shows_who_answered_it_and_no_tricks_of_who_did() {
        let told = |by: Option<&str>, id: Option<&str>| {
            let mut account = ModelAccount::new(2, "openai/gpt-5-mini", andon_runtime::Used::UNKNOWN);
            (account.answered_by, account.request_id) = (by.map(Arc::from), id.map(Arc::from));
            model_words(&account)
        };
        assert_eq!(told(None, None), None);
        let whole = told(Some("gpt-5-mini-2025-08-07"), Some("req_1")).unwrap();
        assert_eq!(whole, "2: openai/gpt-5-mini, answered by gpt-5-mini-2025-08-07, request req_1");
        let reversed = told(Some("small\u{202e}egral"), None).unwrap();
        assert_eq!(reversed, "2: openai/gpt-5-mini, answered by small\u{fffd}egral");
    }

    #[test]
    fn a_figure_that_is_late_may_still_come() {
        let late = pending_words(Awaited::new(Pending::Estimating, Wall(1_763_204_400_000_000)));
        assert_eq!(late, "no better figure had arrived by 2025-11-15 11:00:00 UTC");
    }

    #[test]
    fn a_stop_shows_when_it_was_quiet_and_settled_on_disk() {
        let shown = stop_times(&stopped(Some(6_200), Some(1_763_204_400_006_200)));
        assert_eq!(shown, "requested at 11:00:00 UTC, quiet 177 µs later, settled on disk 6.2 ms later");
    }

    #[test]
    fn a_time_that_is_not_on_record_is_not_made_up() {
        let told = |receipt: &Receipt| stop_times(receipt).split_once("later, ").unwrap().1.to_owned();
        assert_eq!(told(&stopped(None, None)), "settled on disk, but the time is not on record");
        let by_another = stopped(None, Some(1_763_204_465_000_000));
        assert_eq!(told(&by_another), "settled on disk at 11:01:05 UTC", "two processes have two clocks");
        assert_eq!(told(&stopped(None, None).on_disk(false)), "not on disk");
        let open = stopped(None, None).on_disk(false).outcome(None);
        assert_eq!(told(&open), "not settled yet");
    }
}
