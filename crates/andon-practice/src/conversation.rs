//! What the model reads from the conversation: the last prompt, the results since, and whether the answer before was stopped.

use std::sync::Arc;

use andon_core::cancel::Reason;
use andon_core::history::History;
use andon_core::message::{Cut, Message, ResultStatus, Role, ToolResult};

/// The text of the last prompt.
pub(super) fn last_prompt(history: &History) -> Option<String> {
    history.iter().rev().find(|message| message.role == Role::User).map(|message| message.text())
}

/// The results that have come since the last prompt, each with its tool's name.
pub(super) fn results_since_prompt(history: &History) -> Vec<(String, &ToolResult)> {
    let since: Vec<&Arc<Message>> = since_prompt(history).collect();
    let name_of = |result: &ToolResult| {
        let calls = since.iter().flat_map(|message| message.calls());
        let name = calls.into_iter().find(|call| call.id == result.call).map(|call| call.name.clone());
        name.unwrap_or_else(|| "a tool".to_owned())
    };
    since.iter().flat_map(|message| message.results()).map(|result| (name_of(result), result)).collect()
}

/// What to say about the answer before the last prompt, if it was stopped.
pub(super) fn stopped_before(history: &History) -> Option<String> {
    let mut from_prompt = history.iter().rev().skip_while(|message| message.role != Role::User);
    let last = from_prompt.nth(1)?;
    match last.role {
        Role::Assistant => last.cut.map(|cut| {
            let words = last.text().split_whitespace().count();
            let place = match words {
                0 => "before I had said a word".to_owned(),
                1 => "after one word".to_owned(),
                words => format!("after {words} words"),
            };
            format!("I know that my last answer was stopped {place}, because {}.", why(cut))
        }),
        Role::Tool => {
            let was_stopped = |status| !matches!(status, ResultStatus::Ok | ResultStatus::Error);
            let half_done = last.results().any(|result| was_stopped(result.status));
            let place = if half_done { "before my tools were done" } else { "after my tools had finished" };
            Some(format!("I know that I was stopped last time, {place}."))
        }
        Role::User => Some("I know that I was stopped last time, before I could say anything.".to_owned()),
    }
}

fn since_prompt(history: &History) -> impl Iterator<Item = &Arc<Message>> {
    let since = history.iter().rev().take_while(|message| message.role != Role::User).count();
    let since = if since == history.len() { 0 } else { since };
    history.iter().skip(history.len() - since)
}

fn why(cut: Cut) -> &'static str {
    match cut {
        Cut::Cancelled(Reason::Requested) => "somebody pulled the cord",
        Cut::Cancelled(Reason::ClientDisconnected) => "nobody was reading it any more",
        Cut::Cancelled(Reason::Superseded) => "a newer prompt replaced it",
        Cut::Cancelled(Reason::Parent) => "the run that asked for it was stopped",
        Cut::Cancelled(Reason::Deadline) => "its time was up",
        Cut::Cancelled(Reason::Budget) => "its budget was used up",
        Cut::Cancelled(Reason::Policy) => "a rule did not allow it",
        Cut::Cancelled(Reason::ApprovalDenied) => "somebody did not approve",
        Cut::Cancelled(Reason::Operator) => "an operator stopped it",
        Cut::Cancelled(Reason::Shutdown) => "the program was shutting down",
        Cut::Cancelled(Reason::OwnerLost) => "the process that ran it was gone",
        Cut::Broken => "the connection was lost",
        Cut::Lost => "the program ended",
        #[cfg(not(andon_whole))]
        _ => "of something that I do not know",
    }
}
