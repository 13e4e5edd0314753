//! What was said in a session before a run, if it is not in memory.

use std::sync::Arc;

use andon_core::history::History;
use andon_core::message::Message;

use super::Driver;
use super::watch::Woke;
use crate::journal::JournalError;
use crate::journal::reported::LastReported;
use crate::lanes::BoxFuture;

/// The messages, and the last call among them that was reported.
type SaidBefore = (Result<Vec<Arc<Message>>, JournalError>, Option<LastReported>);

impl Driver {
    /// Reads the history from the journal. A pull does not wait for it.
    pub(super) async fn read_history(&mut self) -> Result<History, JournalError> {
        let (mut forgotten, mut reading) = self.begin_history();
        loop {
            match self.watch.race(|cx| reading.as_mut().poll(cx)).await {
                Woke::Work((history, last)) => match self.session.set_history(history?, last, forgotten) {
                    Some(history) => return Ok(history),
                    None => (forgotten, reading) = self.begin_history(),
                },
                Woke::News => self.hear(),
            }
            self.commit().await?;
            if self.is_stopping() {
                return Ok(History::new());
            }
        }
    }

    /// Asks the journal for the history and, if a meter could measure from it, for the last call that was reported.
    fn begin_history(&self) -> (u64, BoxFuture<SaidBefore>) {
        let (journal, session) = (&self.live.services.journal, &self.session);
        let forgotten = session.forgotten();
        let last = self.agent.model.meter().map(|_| journal.last_reported(&session.key));
        let history = journal.history(&session.key);
        let both = async move {
            let history = history.await;
            // Without it, or if it cannot be read, the next call is measured from nothing.
            let last = match last {
                Some(last) => last.await.ok().flatten(),
                None => None,
            };
            (history, last)
        };
        (forgotten, Box::pin(both))
    }
}
