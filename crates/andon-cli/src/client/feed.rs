//! A run's feed from a server. When the connection breaks, it resumes exactly where it was.
//!
//! # Invariants
//!
//! 1. Each item comes once and in order, however often the connection breaks: a new connection resumes after the last one.
//! 2. It ends with the run's end, or with an error that says why nothing more can be read. It does not wait forever.
//! 3. The first byte that arrives, even a heartbeat, ends an outage: the next outage gets the full patience again.

use std::time::Duration;

use andon_models::sse::Sse;
use andon_runtime::{Cursor, Event, FeedItem, RunId};
use reqwest::Response;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep, timeout};

use super::{Client, ClientError};

/// The longest event that is read: one may hold a whole answer and the results of its tools.
const MAX_EVENT: usize = 64 << 20;
/// A connection that is silent for this long is broken: a server sends heartbeats much more often.
const SILENCE: Duration = Duration::from_secs(90);
/// The first and the longest wait before connecting again.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How long to keep trying.
const PATIENCE: Duration = Duration::from_secs(30);
/// A connection that lasted this long ends the outage, even if nothing arrived on it.
const STOOD: Duration = Duration::from_secs(2);

/// What a reader of a feed gets.
#[derive(Debug)]
pub(crate) enum FeedUpdate {
    /// An item.
    Item(Box<FeedItem>),
    /// Something about the connection, for people.
    Note(String),
    /// Nothing more will come.
    End(Result<(), ClientError>),
}

/// A feed that is being read.
pub(crate) struct RemoteFeed(pub(super) Receiver<FeedUpdate>);

impl RemoteFeed {
    /// What comes next.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a step is taken only when it is returned.
    pub(crate) async fn next(&mut self) -> FeedUpdate {
        self.0.recv().await.unwrap_or(FeedUpdate::End(Ok(())))
    }
}

/// Why a connection ended.
enum ConnectionEnd {
    /// The run has settled, and everything was read.
    Settled,
    /// The reader has gone.
    Unread,
    /// The server closed it properly after sending something new: there may be nothing more.
    Ended,
    /// It ended or failed before the run did.
    Early(ClientError),
    /// What arrived makes no sense.
    Strange(ClientError),
}

/// A time in which nothing arrives.
struct Outage {
    since: Instant,
    wait: Duration,
    /// Whether the reader was told that the server answers again.
    is_told: bool,
}

/// Reads a run's feed to its end, or until the reader has gone.
pub(super) async fn read(client: Client, run: RunId, from: Cursor, tell: Sender<FeedUpdate>) {
    let gone = tell.clone();
    let mut reading = FeedReading { client, run, at: from, tell, outage: None };
    let end = tokio::select! {
        biased;
        () = gone.closed() => return,
        end = reading.until_the_end() => end,
    };
    // Fails only if the reader has gone.
    let _ = gone.send(FeedUpdate::End(end)).await;
}

struct FeedReading {
    client: Client,
    run: RunId,
    /// After the last item that was passed on (invariant 1).
    at: Cursor,
    tell: Sender<FeedUpdate>,
    outage: Option<Outage>,
}

impl FeedReading {
    async fn until_the_end(&mut self) -> Result<(), ClientError> {
        loop {
            let broken = match self.client.events(&self.run, &self.at.to_string()).await {
                Ok(None) => return Ok(()),
                Ok(Some(response)) => self.read_one(response).await,
                Err(error) if error.is_passing() => ConnectionEnd::Early(error),
                Err(error) => return Err(error),
            };
            match broken {
                ConnectionEnd::Settled | ConnectionEnd::Unread => return Ok(()),
                ConnectionEnd::Strange(error) => return Err(error),
                ConnectionEnd::Ended => sleep(FIRST_WAIT).await,
                ConnectionEnd::Early(error) => self.wait_after(error).await?,
            }
        }
    }

    /// Waits before the next try; fails if the outage has lasted too long (invariant 2).
    async fn wait_after(&mut self, error: ClientError) -> Result<(), ClientError> {
        if self.outage.is_none() {
            let words = format!("The connection broke ({error}); reconnecting.");
            let _ = self.tell.send(FeedUpdate::Note(words)).await;
        }
        let outage =
            self.outage.get_or_insert_with(|| Outage { since: Instant::now(), wait: FIRST_WAIT, is_told: false });
        if outage.since.elapsed() > PATIENCE {
            return Err(error);
        }
        sleep(outage.wait).await;
        outage.wait = (outage.wait * 2).min(LONGEST_WAIT);
        Ok(())
    }

    /// Reads one connection to its end.
    async fn read_one(&mut self, response: Response) -> ConnectionEnd {
        if let Some(outage) = self.outage.as_mut().filter(|outage| !outage.is_told) {
            outage.is_told = true;
            let _ = self.tell.send(FeedUpdate::Note("Reconnected; nothing was missed.".to_owned())).await;
        }
        let began = Instant::now();
        let broken = self.pass_on(response).await;
        if began.elapsed() >= STOOD {
            self.outage = None;
        }
        broken
    }

    /// Passes on what one connection brings.
    async fn pass_on(&mut self, mut response: Response) -> ConnectionEnd {
        let (mut events, began_at) = (Sse::new(MAX_EVENT), self.at);
        loop {
            match timeout(SILENCE, response.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    // Invariant 3.
                    self.outage = None;
                    events.push(&bytes);
                }
                Ok(Ok(None)) if self.at != began_at => return ConnectionEnd::Ended,
                Ok(Ok(None)) => return self.early("the feed ended before the run did"),
                Ok(Err(error)) => return ConnectionEnd::Early(self.client.broken(&error)),
                Err(_) => return self.early("nothing arrived for too long"),
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
                    Err(why) => return ConnectionEnd::Strange(self.client.strange(why)),
                }
            }
        }
    }

    fn early(&self, why: &str) -> ConnectionEnd {
        ConnectionEnd::Early(self.client.unheard(why))
    }

    /// Passes on one item; returns `Some` if nothing follows it.
    async fn tell(&mut self, item: FeedItem) -> Option<ConnectionEnd> {
        self.at = item.cursor();
        let is_end = matches!(&item, FeedItem::Fact(record) if matches!(record.event, Event::RunSettled { .. }));
        match self.tell.send(FeedUpdate::Item(Box::new(item))).await {
            Err(_) => Some(ConnectionEnd::Unread),
            Ok(()) => is_end.then_some(ConnectionEnd::Settled),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::channel;
    use tokio::time::advance;

    use super::*;

    fn reading() -> (FeedReading, Receiver<FeedUpdate>) {
        let (tell, told) = channel(16);
        let client = Client::at("127.0.0.1:1").unwrap();
        let run = RunId::new("run-1").unwrap();
        (FeedReading { client, run, at: Cursor::default(), tell, outage: None }, told)
    }

    fn answer(body: &'static str) -> Response {
        http::Response::new(body).into()
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_alone_end_an_outage_and_the_next_one_gets_the_full_patience() {
        let (mut reading, mut told) = reading();
        let broken = |reading: &FeedReading| reading.client.unheard("it broke");
        reading.wait_after(broken(&reading)).await.unwrap();
        reading.read_one(answer(":\n\n")).await;
        advance(PATIENCE * 2).await;
        reading.wait_after(broken(&reading)).await.unwrap();
        let mut notes = Vec::new();
        while let Ok(FeedUpdate::Note(words)) = told.try_recv() {
            notes.push(words);
        }
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[0].contains("broke") && notes[1].contains("Reconnected") && notes[2].contains("broke"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_with_empty_feeds_is_not_tried_forever() {
        let (mut reading, mut told) = reading();
        let began = Instant::now();
        let error = loop {
            reading.read_one(answer("")).await;
            let error = reading.client.unheard("it broke");
            if let Err(error) = reading.wait_after(error).await {
                break error;
            }
        };
        assert!(matches!(error, ClientError::Broken { .. }) && began.elapsed() < PATIENCE * 2);
        let notes = std::iter::from_fn(|| told.try_recv().ok()).count();
        assert_eq!(notes, 2, "one note that it broke and one that it answers");
    }
}
