//! What a cancel did, in a sentence for each run.

use andon_runtime::{Ending, RunState};

use crate::client::forms::Cancelled;
use crate::print::{Style, plain_line};
use crate::show::time;

/// How many runs get a sentence each.
const TOLD: usize = 20;

/// One run.
pub(super) fn one(run: &Cancelled) -> String {
    let (stop, id) = (Style::STOP, &run.run_id);
    if let Some(call) = &run.call {
        return match run.reply.as_str() {
            "accepted" => format!("{stop}■{stop:#} Call {call} of run {id} is stopping; the run goes on."),
            "hardened" => format!("{stop}■{stop:#} Call {call} of run {id} is now being stopped harder."),
            "already_cancelling" => format!("Call {call} of run {id} was already stopping."),
            "too_late" => format!("Too late: run {id} {}.", ended(run.outcome.as_ref())),
            _ => format!("Call {call} of run {id} is not running: nothing was stopped."),
        };
    }
    let is_over = run.state == RunState::Settled;
    match run.reply.as_str() {
        "too_late" => format!("Too late: run {id} {}.", ended(run.outcome.as_ref())),
        "already_cancelling" if !is_over => format!("Run {id} was already stopping."),
        "hardened" if !is_over => format!("{stop}■{stop:#} Run {id} is now being stopped harder."),
        "not_running" => format!("Run {id} is not running: nothing was stopped."),
        _ if is_over => format!("{stop}■{stop:#} Run {id} has stopped."),
        _ => format!("{stop}■{stop:#} Run {id} is stopping."),
    }
}

fn ended(outcome: Option<&Ending>) -> &'static str {
    match outcome {
        Some(Ending::Completed { .. }) => "had already completed",
        Some(Ending::Cancelled { .. }) => "had already been stopped",
        Some(Ending::Failed(_)) => "had already failed",
        Some(Ending::Lost) => "was lost when the program that ran it ended",
        None => "had already ended",
        #[cfg(not(andon_whole))]
        Some(_) => "had already ended",
    }
}

/// Many runs: a sentence for each of the first ones, then a summary. `took` is how long they took to settle, if that was awaited.
pub(super) fn many(runs: &[Cancelled], took: Option<u64>) -> String {
    let mut text: String = runs.iter().take(TOLD).map(|run| format!("{}\n", one(run))).collect();
    if runs.len() > TOLD {
        text.push_str(&format!("  and {} more\n", runs.len() - TOLD));
    }
    if runs.len() > 1 || (took.is_some() && !runs.is_empty()) {
        text.push_str(&format!("{}\n", summary(runs, took)));
    }
    text
}

/// How many were stopped. A run that had already ended, or that nobody drives, is reported but was not stopped.
pub(super) fn stopped(runs: &[Cancelled]) -> usize {
    runs.iter().filter(|run| !matches!(run.reply.as_str(), "too_late" | "not_running")).count()
}

fn summary(runs: &[Cancelled], took: Option<u64>) -> String {
    let stopped = stopped(runs);
    let count = if stopped == 1 { "1 run".to_owned() } else { format!("{stopped} runs") };
    let settled = runs.iter().filter(|run| run.state == RunState::Settled).count();
    let took = took.map_or_else(String::new, |took| format!(" in {}", time(took)));
    if settled < runs.len() {
        return format!("{count} cancelled; {settled} have settled so far.");
    }
    let leaked: Vec<&str> = runs.iter().flat_map(|run| &run.leaked).map(String::as_str).collect();
    let leaked = if leaked.is_empty() { "none".to_owned() } else { plain_line(&leaked.join(", ")) };
    format!("{count} cancelled, all settled{took}, leaked: {leaked}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_runtime::{Reason, RunId};

    fn run(reply: &str, state: RunState, outcome: Option<Ending>) -> Cancelled {
        let run_id = RunId::new("r1").unwrap();
        Cancelled { run_id, reply: reply.into(), state, outcome, call: None, leaked: Vec::new(), receipt: None }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn each_reply_has_its_sentence() {
        let cancelled = Some(Ending::Cancelled { reason: Reason::Requested });
        let told = |reply: &str, state, outcome| plain(&one(&run(reply, state, outcome)));
        assert_eq!(told("accepted", RunState::Cancelling, None), "■ Run r1 is stopping.");
        assert_eq!(told("accepted", RunState::Settled, cancelled.clone()), "■ Run r1 has stopped.");
        assert_eq!(told("already_cancelling", RunState::Cancelling, None), "Run r1 was already stopping.");
        assert_eq!(told("too_late", RunState::Settled, cancelled), "Too late: run r1 had already been stopped.");
        assert_eq!(
            told("too_late", RunState::Settled, Some(Ending::Lost)),
            "Too late: run r1 was lost when the program that ran it ended."
        );
    }

    #[test]
    fn many_are_summed_up_and_what_leaked_is_named() {
        let mut runs = vec![run("accepted", RunState::Settled, None); 25];
        assert!(
            plain(&many(&runs, Some(400_000)))
                .ends_with("  and 5 more\n25 runs cancelled, all settled in 400 ms, leaked: none.\n")
        );
        runs[3].leaked.push("shell (c1)".into());
        runs[4].state = RunState::Cancelling;
        assert!(many(&runs, None).ends_with("25 runs cancelled; 24 have settled so far.\n"));
        runs[4].state = RunState::Settled;
        assert!(many(&runs, None).ends_with("all settled, leaked: shell (c1).\n"));
        runs[5].reply = "too_late".to_owned();
        assert!(many(&runs, None).contains("24 runs cancelled, all settled"), "one ended by itself");
        assert_eq!(many(&[], Some(1)), "");
    }
}
