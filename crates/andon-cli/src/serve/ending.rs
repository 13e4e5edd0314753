//! The shutdown of a server, signal by signal.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use andon_server::{Server, Serving, ShutDown};

use super::voice::Voice;
use crate::exit::Exit;
use crate::show::session_shown;
use crate::terminal::interrupt::Interrupts;

/// How many unsettled runs to name.
const NAMED: usize = 10;

/// Shuts down after the first signal. A second one stops all runs now.
pub(super) async fn end(server: &Server, serving: &Serving, interrupts: &mut Interrupts, voice: &Voice) -> Exit {
    let words = beginning(server);
    let mut shutting_down = pin!(serving.shut_down());
    // The first poll closes the door; only then is it announced.
    let begun = poll_fn(|context| Poll::Ready(shutting_down.as_mut().poll(context))).await;
    voice.say(words);
    let ended = match begun {
        Poll::Ready(ended) => ended,
        Poll::Pending => loop {
            tokio::select! {
                biased;
                ended = &mut shutting_down => break ended,
                _ = interrupts.while_idle() => {
                    voice.say("Stopping all runs now. A third signal exits at once.");
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
    let again = "Another Ctrl-C or SIGTERM stops them now.";
    match runs {
        0 => "Shutting down: no run is in progress.".to_owned(),
        1 => format!("Shutting down: 1 run is in progress and has {drain} to finish. {again}"),
        runs => format!("Shutting down: {runs} runs are in progress and have {drain} to finish. {again}"),
    }
}

/// Reports how the shutdown ended, and names the runs that did not settle.
fn account(server: &Server, ended: ShutDown, voice: &Voice) -> Exit {
    let stopped = match ended.cancelled {
        0 => String::new(),
        1 => ", and 1 run was stopped".to_owned(),
        runs => format!(", and {runs} runs were stopped"),
    };
    // The last tasks may have ended while connections were closed.
    let tasks = if ended.left == 0 { 0 } else { server.runtime().tasks() };
    if ended.unsettled == 0 && tasks == 0 {
        voice.say(format!("Shut down: all runs have settled{stopped}."));
        return Exit::Completed;
    }
    let runs = server.runtime().in_progress();
    for run in runs.iter().filter(|run| run.try_outcome().is_none()).take(NAMED) {
        let state = run.state().as_str();
        voice.complain(&format!("run {} of session {} is still {state}", run.id(), session_shown(run.session())));
    }
    voice.complain(&match ended.unsettled {
        0 => format!("all runs have settled, but {tasks} of their tasks did not end: receipts name what leaked"),
        1 => "1 run did not settle in time: the next start of the server settles it".to_owned(),
        runs => format!("{runs} runs did not settle in time: the next start of the server settles them"),
    });
    Exit::Failed
}
