//! A client of the runtime that writes down everything it sees, at the moment it sees it.

use std::sync::Arc;

use andon_runtime::core::id::LOCAL;
use andon_runtime::{Agent, Cancel, Cursor, Feed, FeedItem, Record, ReplyKind, Run, RunId, Runtime, WhenBusy};
use anyhow::Result;

use crate::log::{What, Witness};
use crate::provider::Scene;

/// A client of the runtime.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) runtime: Runtime,
    pub(crate) agent: Agent,
    pub(crate) witness: Arc<Witness>,
    pub(crate) life: u32,
}

impl Client {
    /// Gives a scene's session a prompt, which is queued if the session is busy. `None` if it is refused, which must not
    /// happen.
    pub(crate) fn ask(&self, session: Scene, prompt: Scene, number: u32, must_complete: bool) -> Option<Watching> {
        match self.try_ask(session, prompt, number, must_complete) {
            Ok(run) => Some(self.watch(run, Cursor::default())),
            Err(error) => {
                self.witness.trouble(format!("I11: session {} does not take a prompt: {error:#}", session.name()));
                None
            }
        }
    }

    fn try_ask(&self, session: Scene, prompt: Scene, number: u32, must_complete: bool) -> Result<Run> {
        let run = format!("{}-{}-{number}", session.name(), self.life);
        let prompt = self.agent.session(LOCAL, session.name())?.prompt(prompt.name());
        let started = prompt.run_id(RunId::new(&run)?).when_busy(WhenBusy::Queue).start()?;
        self.witness.tell(What::Asked { run, session: session.name().to_owned(), must_complete });
        Ok(started)
    }

    /// Reads a run's feed from a cursor on.
    pub(crate) fn watch(&self, run: Run, from: Cursor) -> Watching {
        Watching { feed: run.feed_from(from), run: Arc::new(run), witness: Arc::clone(&self.witness) }
    }

    /// Deletes a scene's session.
    pub(crate) async fn delete(&self, session: Scene) {
        let name = session.name().to_owned();
        let Ok(session) = self.agent.session(LOCAL, &name) else { return };
        self.witness.tell(What::Deleting { session: name.clone() });
        match self.runtime.delete_session(session.key(), Cancel::now()).await {
            Ok(true) => self.witness.tell(What::Deleted { session: name }),
            other => self.witness.tell(What::NotDeleted { session: name, why: format!("{other:?}") }),
        }
    }

    /// Cancels a run by its id, whoever drives it. The reply says what is durable once it is recorded.
    pub(crate) async fn cancel_by_id(&self, run: &RunId) {
        match self.runtime.cancel(run, Cancel::graceful().note("by id")).await {
            Ok(reply) => acknowledge(&self.witness, &reply).await,
            Err(error) => self.witness.tell(What::NotRecorded { run: run.to_string(), why: error.to_string() }),
        }
    }
}

/// Waits until a reply is durable.
pub(crate) async fn acknowledge(witness: &Witness, reply: &andon_runtime::Reply) {
    let (run, kind) = (reply.run_id().to_string(), reply.kind().clone());
    witness.tell(What::Replied { run: run.clone(), reply: kind.clone() });
    match reply.recorded().await {
        Ok(()) => witness.tell(What::Acknowledged { run, reply: kind }),
        Err(error) => witness.tell(What::NotRecorded { run, why: error.to_string() }),
    }
}

/// A run that a client watches.
pub(crate) struct Watching {
    pub(crate) run: Arc<Run>,
    feed: Feed,
    witness: Arc<Witness>,
}

impl Watching {
    /// The next shown item; `None` at the feed's end.
    async fn see(&mut self) -> Option<FeedItem> {
        let item = self.feed.next().await;
        let run = self.run.id().to_string();
        self.witness.tell(match &item {
            Some(FeedItem::Fact(record)) => match serde_json::to_string(&**record) {
                Ok(body) => What::Fact { run, seq: record.seq, body },
                Err(error) => What::Trouble { text: format!("I6: {run} shows something that is not JSON: {error}") },
            },
            Some(FeedItem::Delta(delta)) => {
                What::Delta { run, seq: delta.at.seq, end: delta.at.byte, text: delta.text.clone() }
            }
            Some(FeedItem::TextLost { at }) => What::TextLost { run, seq: at.seq, byte: at.byte },
            None => match self.run.settled().await {
                Ok(_) => What::FeedEnded { run },
                Err(error) => What::NotSettled { run, why: error.to_string() },
            },
            #[cfg(not(andon_whole))]
            Some(_) => return item,
        });
        item
    }

    /// Reads until a fact matches; false if the feed ends first.
    pub(crate) async fn until(&mut self, is_it: impl Fn(&Record) -> bool) -> bool {
        while let Some(item) = self.see().await {
            if matches!(&item, FeedItem::Fact(record) if is_it(record)) {
                return true;
            }
        }
        false
    }

    /// Reads until this much text was shown; false if the feed ends first.
    pub(crate) async fn until_deltas(&mut self, mut deltas: usize) -> bool {
        while deltas > 0 {
            match self.see().await {
                Some(FeedItem::Delta(_)) => deltas -= 1,
                Some(FeedItem::Fact(_) | FeedItem::TextLost { .. }) => {}
                None => return false,
                #[cfg(not(andon_whole))]
                Some(_) => {}
            }
        }
        true
    }

    /// Reads to the end, and then reads the outcome if it is recorded.
    pub(crate) async fn until_end(&mut self) {
        while self.see().await.is_some() {}
        if let Ok(outcome) = self.run.settled().await {
            self.witness.tell(What::Outcome { run: self.run.id().to_string(), ending: (*outcome.ending).clone() });
        }
    }

    /// Cancels the run twice, and reads to the end meanwhile.
    pub(crate) async fn cancel(&mut self, cancel: Cancel) {
        let (run, witness) = (Arc::clone(&self.run), Arc::clone(&self.witness));
        let cancelling = async {
            let first = run.cancel(cancel.clone());
            let second = run.cancel(cancel);
            if first.is_stopping() && !matches!(second.kind(), ReplyKind::AlreadyCancelling) {
                witness.trouble(format!("I12: the second cancel of {} was answered {:?}", run.id(), second.kind()));
            }
            acknowledge(&witness, &first).await;
            acknowledge(&witness, &second).await;
        };
        tokio::join!(cancelling, self.until_end());
    }
}
