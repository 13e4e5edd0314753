//! The end of a server, signal by signal.

use andon::{Cancel, Reason};
use andon_server::{Server, Serving, ShutDown};

use super::{complain, say};
use crate::Exit;
use crate::interrupt::Interrupts;
use crate::show::session_shown;

/// How many of the runs that are left are named.
const NAMED: usize = 10;

/// Shuts down: the first signal has come. A second one stops what runs now.
pub(super) async fn end(server: &Server, serving: Serving, interrupts: &mut Interrupts) -> Exit {
    say(&beginning(server));
    let mut shutting_down = std::pin::pin!(serving.shut_down());
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut shutting_down => break ended,
            _ = interrupts.while_idle() => harden(server),
        }
    };
    account(server, ended)
}

fn beginning(server: &Server) -> String {
    let runs = server.runtime().in_progress().len();
    let drain = humantime::format_duration(server.options().drain);
    let again = "Ctrl-C or SIGTERM again stops now.";
    match runs {
        0 => "Shutting down: no run is in progress.".to_owned(),
        1 => format!("Shutting down: 1 run is in progress, and has {drain} to finish. {again}"),
        runs => format!("Shutting down: {runs} runs are in progress, and have {drain} to finish. {again}"),
    }
}

/// Stops all runs without any grace.
fn harden(server: &Server) {
    say("Stopping all runs now. Once more leaves at once.");
    for run in server.runtime().in_progress() {
        run.cancel(Cancel::now().reason(Reason::Shutdown).by("server").note("told again to shut down"));
    }
}

/// Tells how it ended, and names what is left.
fn account(server: &Server, ended: ShutDown) -> Exit {
    let stopped = match ended.cancelled {
        0 => String::new(),
        1 => ", and 1 run was stopped".to_owned(),
        runs => format!(", and {runs} runs were stopped"),
    };
    if ended.left == 0 {
        say(&format!("Ended: all is settled{stopped}."));
        return Exit::Completed;
    }
    let runs = server.runtime().in_progress();
    for run in runs.iter().take(NAMED) {
        let state = format!("{:?}", run.state()).to_lowercase();
        complain(&format!("run {} of session {} is left {state}", run.id(), session_shown(run.session())));
    }
    complain(&match runs.len() {
        0 => format!("{} tasks of settled runs would not end: their receipts name what was leaked", ended.left),
        1 => "1 run did not settle in time: the next start of the server settles it".to_owned(),
        runs => format!("{runs} runs did not settle in time: the next start of the server settles them"),
    });
    Exit::Failed
}
