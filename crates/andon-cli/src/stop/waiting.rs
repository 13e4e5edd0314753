//! Waiting for runs to settle, with progress in the terminal.

use std::pin::pin;
use std::time::Duration;

use andon_runtime::RunState;
use tokio::time::{Instant, interval};

use crate::client::forms::Cancelled;
use crate::client::{Client, RemoteRun};
use crate::print::Style;
use crate::print::out::{is_terminal_beside, write_over};
use crate::show::time;

/// How often the progress line is updated.
const TICK: Duration = Duration::from_millis(100);

/// Waits, and shows progress if standard error is a terminal.
pub(super) async fn while_waiting<T>(what: &str, work: impl Future<Output = T>) -> T {
    if !is_terminal_beside() {
        return work.await;
    }
    let (began, mut ticks, mut work) = (Instant::now(), interval(TICK), pin!(work));
    loop {
        tokio::select! {
            biased;
            done = work.as_mut() => {
                write_over("");
                return done;
            }
            _ = ticks.tick() => {
                let (dim, so_far) = (Style::DIM, micros(began.elapsed()));
                write_over(&format!("{dim}{what} … {}{dim:#}", time(so_far)));
            }
        }
    }
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Waits for the runs that had not settled when the server answered.
pub(super) async fn until_settled(client: &Client, runs: &mut [Cancelled]) -> anyhow::Result<()> {
    for run in runs.iter_mut().filter(|run| run.state != RunState::Settled) {
        let outcome = RemoteRun::new(client, run.run_id.clone()).whole_outcome().await?;
        run.state = RunState::Settled;
        run.outcome = Some((*outcome.ending).clone());
        run.leaked = outcome.receipt.leaked.clone();
        // It has settled, even if asking for its cost fails.
        let told = client.receipt(&run.run_id).await;
        run.receipt = Some(Box::new(told.unwrap_or_else(|_| outcome.receipt.clone().into())));
    }
    Ok(())
}
