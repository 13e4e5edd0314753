//! The end of a server, signal by signal.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use andon_server::{Server, Serving, ShutDown};

use super::voice::Voice;
use crate::Exit;
use crate::interrupt::Interrupts;
use crate::show::session_shown;

/// How many of the runs that are left are named.
const NAMED: usize = 10;

/// Shuts down: the first signal has come. A second one stops what runs now.
pub(super) async fn end(server: &Server, serving: &Serving, interrupts: &mut Interrupts, voice: &Voice) -> Exit {
    let words = beginning(server);
    let mut shutting_down = pin!(serving.shut_down());
    // Said when it is so: from here on nothing is let in.
    let begun = poll_fn(|context| Poll::Ready(shutting_down.as_mut().poll(context))).await;
    voice.say(words);
    let ended = match begun {
        Poll::Ready(ended) => ended,
        Poll::Pending => loop {
            tokio::select! {
                biased;
                ended = &mut shutting_down => break ended,
                _ = interrupts.while_idle() => {
                    voice.say("Stopping all runs now. Once more leaves at once.");
                    serving.harden();
                }
            }
        },
    };
    account(server, ended, voice)
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

/// Tells how it ended, and names what is left.
fn account(server: &Server, ended: ShutDown, voice: &Voice) -> Exit {
    let stopped = match ended.cancelled {
        0 => String::new(),
        1 => ", and 1 run was stopped".to_owned(),
        runs => format!(", and {runs} runs were stopped"),
    };
    // It may have ended while connections were closed.
    let tasks = if ended.left == 0 { 0 } else { server.runtime().tasks() };
    if ended.unsettled == 0 && tasks == 0 {
        voice.say(format!("Ended: all is settled{stopped}."));
        return Exit::Completed;
    }
    let runs = server.runtime().in_progress();
    for run in runs.iter().filter(|run| run.try_outcome().is_none()).take(NAMED) {
        let state = format!("{:?}", run.state()).to_lowercase();
        voice.complain(&format!("run {} of session {} is left {state}", run.id(), session_shown(run.session())));
    }
    voice.complain(&match ended.unsettled {
        0 => format!("all runs have settled, but {tasks} tasks of theirs would not end: receipts name what was leaked"),
        1 => "1 run did not settle in time: the next start of the server settles it".to_owned(),
        runs => format!("{runs} runs did not settle in time: the next start of the server settles them"),
    });
    Exit::Failed
}
