//! The step `Settle`: bring the run to rest for good, outcome on disk.

use std::sync::Arc;

use andon_core::cancel::Force;
use andon_core::closing::{Why, close_unstarted};
use andon_core::event::{Event, HookPoint};
use andon_core::outcome::Ending;

use super::Driver;
use super::stored::outcome_of;
use crate::journal::JournalError;
use crate::live::Fresh;

impl Driver {
    /// Settles the run as its events say, unless something else comes first: then the loop asks for the next step
    /// again.
    pub(super) async fn settle(&mut self, ending: Arc<Ending>) -> Result<(), JournalError> {
        if ending.is_cancelled() {
            return self.settle_cancelled(ending).await;
        }
        if !std::mem::replace(&mut self.ran_after_run, true) && self.has_hooks(HookPoint::AfterRun) {
            return Box::pin(self.after_run(&ending)).await;
        }
        self.live.hit("driver: before seal");
        // Finish against pull: if a pull came first, it has won, and the loop hears it.
        let Ok(news) = self.live.seal(&ending) else { return Ok(()) };
        for news in news {
            self.take_in(news);
        }
        self.stage_all(close_unstarted(self.progress().calls(), &why_failed(&ending)));
        self.close(ending).await
    }

    async fn settle_cancelled(&mut self, ending: Arc<Ending>) -> Result<(), JournalError> {
        let why = Why::Cancelled(self.reason());
        self.stage_all(close_unstarted(self.progress().calls(), &why));
        self.stage(Event::RunQuieted);
        while !self.running.is_empty() {
            self.commit().await?;
            self.live.hit("driver: before grace");
            self.wait_for_tools().await?;
            // After a pull, only the last hook is called.
            self.finished.clear();
        }
        self.run_last_hook(&ending).await?;
        self.live.hit("driver: before seal");
        // A cancelled run can always be sealed as cancelled.
        for news in self.live.seal(&ending).unwrap_or_default() {
            self.take_in(news);
        }
        self.close(ending).await
    }

    async fn run_last_hook(&mut self, ending: &Arc<Ending>) -> Result<(), JournalError> {
        let is_due = self.ran_before_run && !std::mem::replace(&mut self.ran_after_run, true);
        let has_grace = self.live.force() != Some(Force::Now);
        if is_due && has_grace && self.has_hooks(HookPoint::AfterRun) {
            Box::pin(self.after_run(ending)).await?;
        }
        Ok(())
    }

    /// Settles a run that was stopped before it had its session.
    pub(super) async fn settle_unstarted(&mut self) -> Result<(), JournalError> {
        let ending = Arc::new(Ending::Cancelled { reason: self.reason() });
        self.stage(Event::RunQuieted);
        for news in self.live.seal(&ending).unwrap_or_default() {
            self.take_in(news);
        }
        self.close(ending).await
    }

    /// The last commit. The session and the registry are free when the end is shown, so that whoever has seen the end can
    /// go on at once.
    async fn close(&mut self, ending: Arc<Ending>) -> Result<(), JournalError> {
        self.stage(Event::RunSettled { outcome: ending });
        let Some(appended) = self.begin_commit() else { return Ok(()) };
        let (Fresh { records, .. }, result) = self.until_durable(appended).await;
        self.check_written(&records, result)?;
        let settled = self.live.now();
        self.live.hit("driver: settled on disk");
        self.live.services.journal.keep_settled(&self.live.id, settled);
        // What has been learned by now about calls that were given up is part of the outcome.
        let addenda = self.live.addenda();
        let outcome = self.live.with_log(|log| {
            Arc::new(outcome_of(self.progress(), log.facts().iter().chain(&records), addenda, Some(settled)))
        });
        self.live.tell_last(&records, settled);
        let messages = self.progress().messages();
        self.runtime.conclude(&self.live, &self.session, messages, || self.live.close(records, outcome));
        self.live.hit("driver: settled");
        Ok(())
    }
}

fn why_failed(ending: &Ending) -> Why {
    match ending {
        Ending::Failed(failure) => Why::Broken(Box::new(failure.clone())),
        Ending::Completed { .. } | Ending::Cancelled { .. } | Ending::Lost => Why::Lost,
        #[cfg(not(andon_whole))]
        _ => Why::Lost,
    }
}
