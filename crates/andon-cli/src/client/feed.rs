//! A run's feed from a server: it goes on exactly where it was when the connection breaks.
//!
//! # Invariants
//!
//! 1. Each item comes once and in order, however often the connection breaks: the place of the last one is what is asked behind.
//! 2. It ends with the run's end, or with why nothing more can be read. It does not wait for a server for ever.

use std::time::Duration;

use andon::{Cursor, Event, FeedItem, RunId};
use andon_models::sse::Sse;
use reqwest::Response;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep, timeout};

use super::{Client, ClientError};

/// The longest event that is taken: one has a whole answer in it, and what its tools said.
const MAX_EVENT: usize = 64 << 20;
/// A connection on which nothing comes for so long is broken: a server gives signs of life much more often.
const SILENCE: Duration = Duration::from_secs(90);
/// The first wait before the connection is tried again, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How long a server is tried.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a reader of a feed is told.
#[derive(Debug)]
pub(crate) enum Step {
    /// An item.
    Item(Box<FeedItem>),
    /// Something about the connection, for people.
    Note(String),
    /// There will be no more.
    End(Result<(), ClientError>),
}

/// A feed that is being read.
pub(crate) struct RemoteFeed(pub(super) Receiver<Step>);

impl RemoteFeed {
    /// What comes next.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a step is taken only when it is returned.
    pub(crate) async fn next(&mut self) -> Step {
        self.0.recv().await.unwrap_or(Step::End(Ok(())))
    }
}

/// Why a connection gives nothing more.
enum Broken {
    /// The run has settled, and all was read.
    Settled,
    /// Nobody reads any more.
    Unread,
    /// It ended, or failed, before the run did.
    Early(ClientError),
    /// What came makes no sense.
    Strange(ClientError),
}

/// Since when nothing has come.
struct Outage {
    since: Instant,
    wait: Duration,
}

/// Reads a run's feed to its end, as long as somebody wants it.
pub(super) async fn read(client: Client, run: RunId, from: Cursor, tell: Sender<Step>) {
    let gone = tell.clone();
    let mut reading = Reading { client, run, at: from, tell, outage: None };
    let end = tokio::select! {
        biased;
        () = gone.closed() => return,
        end = reading.until_the_end() => end,
    };
    // Who has gone does not want to know.
    let _ = gone.send(Step::End(end)).await;
}

struct Reading {
    client: Client,
    run: RunId,
    /// Behind the last item that was told (invariant 1).
    at: Cursor,
    tell: Sender<Step>,
    outage: Option<Outage>,
}

impl Reading {
    async fn until_the_end(&mut self) -> Result<(), ClientError> {
        loop {
            let broken = match self.client.events(&self.run, &self.at.to_string()).await {
                Ok(None) => return Ok(()),
                Ok(Some(response)) => self.pass_on(response).await,
                Err(error) if error.is_passing() => Broken::Early(error),
                Err(error) => return Err(error),
            };
            match broken {
                Broken::Settled | Broken::Unread => return Ok(()),
                Broken::Strange(error) => return Err(error),
                Broken::Early(error) => self.wait_after(error).await?,
            }
        }
    }

    /// Waits before the next try; says no when there was none for too long (invariant 2).
    async fn wait_after(&mut self, error: ClientError) -> Result<(), ClientError> {
        if self.outage.is_none() {
            let words = format!("The connection is broken ({error}); it is tried again.");
            let _ = self.tell.send(Step::Note(words)).await;
        }
        let outage = self.outage.get_or_insert_with(|| Outage { since: Instant::now(), wait: FIRST_WAIT });
        if outage.since.elapsed() > PATIENCE {
            return Err(error);
        }
        sleep(outage.wait).await;
        outage.wait = (outage.wait * 2).min(LONGEST_WAIT);
        Ok(())
    }

    /// Tells what one connection brings.
    async fn pass_on(&mut self, mut response: Response) -> Broken {
        let mut events = Sse::new(MAX_EVENT);
        loop {
            match timeout(SILENCE, response.chunk()).await {
                Ok(Ok(Some(bytes))) => events.push(&bytes),
                Ok(Ok(None)) => return self.early("the feed ended before the run did"),
                Ok(Err(error)) => return Broken::Early(self.client.broken(&error)),
                Err(_) => return self.early("nothing came for too long"),
            }
            loop {
                let item = match events.frame() {
                    Ok(None) => break,
                    Ok(Some(frame)) => serde_json::from_str::<FeedItem>(frame.data).map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                match item {
                    Ok(item) => {
                        if let Some(end) = self.tell(item).await {
                            return end;
                        }
                    }
                    Err(why) => return Broken::Strange(self.client.strange(why)),
                }
            }
        }
    }

    fn early(&self, why: &str) -> Broken {
        Broken::Early(self.client.unheard(why))
    }

    /// Tells one item; something if nothing comes behind it.
    async fn tell(&mut self, item: FeedItem) -> Option<Broken> {
        if self.outage.take().is_some() {
            let _ = self.tell.send(Step::Note("Connected again: it goes on where it was.".to_owned())).await;
        }
        self.at = item.cursor();
        let is_end = matches!(&item, FeedItem::Fact(record) if matches!(record.event, Event::RunSettled { .. }));
        match self.tell.send(Step::Item(Box::new(item))).await {
            Err(_) => Some(Broken::Unread),
            Ok(()) => is_end.then_some(Broken::Settled),
        }
    }
}
