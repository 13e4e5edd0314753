//! Plays a script on a connection of either protocol.
//!
//! # Invariants
//!
//! 1. Every wait ends when the client goes away.
//! 2. What was sent is on record before the next step begins.

use bytes::Bytes;

use super::board::Recorder;
use super::dialect::Frame;
use super::script::{Break, Script, Step};
use super::seen::Hangup;

/// The way to one client, for one answer. Every method ends when the client goes away.
pub(super) trait Wire: Send {
    /// Sends status and headers.
    fn head(&mut self, script: &Script) -> impl Future<Output = Result<(), Hangup>> + Send;

    /// Sends a piece of the body.
    fn body(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), Hangup>> + Send;

    /// Ends the body as a good answer ends.
    fn end(&mut self) -> impl Future<Output = Result<(), Hangup>> + Send;

    /// Waits until the client goes away.
    fn hung_up(&mut self) -> impl Future<Output = Hangup> + Send;
}

/// How a script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Everything was sent.
    Whole,
    /// The script breaks it off, which the caller must do.
    Broken(Break),
    /// The client went away.
    HungUp(Hangup),
}

/// Plays a script.
///
/// # Cancel safety
///
/// Not cancel safe: dropping it leaves an answer half sent.
pub(super) async fn play(script: &Script, wire: &mut impl Wire, record: &Recorder) -> Ending {
    match perform(script, wire, record).await {
        Ok(()) => Ending::Whole,
        Err(ending) => ending,
    }
}

impl From<Hangup> for Ending {
    fn from(hangup: Hangup) -> Self {
        Self::HungUp(hangup)
    }
}

async fn perform(script: &Script, wire: &mut impl Wire, record: &Recorder) -> Result<(), Ending> {
    for step in &script.before {
        take(step, wire, record).await?;
    }
    wire.head(script).await?;
    record.reached("headers");
    for step in &script.steps {
        if matches!(step, Step::End) {
            break;
        }
        take(step, wire, record).await?;
    }
    record.reached("end");
    wire.end().await?;
    Ok(())
}

async fn take(step: &Step, wire: &mut impl Wire, record: &Recorder) -> Result<(), Ending> {
    match step {
        Step::Frame(frame) => send_frame(frame, wire, record).await?,
        Step::Dribble(frame) => dribble(frame, wire, record).await?,
        Step::Bytes(bytes) => {
            wire.body(bytes.clone()).await?;
            record.sent(bytes.len());
        }
        Step::Mark(name) => record.reached(name),
        Step::Stall => {
            record.reached("stall");
            return Err(wire.hung_up().await.into());
        }
        Step::Pause(gate) => {
            record.reached("pause");
            unless_hung_up(wire, gate.opened()).await?;
        }
        Step::Wait(duration) => unless_hung_up(wire, tokio::time::sleep(*duration)).await?,
        Step::Flood(frame) => {
            record.reached("flood");
            // An endless flood would fill the record with what it says.
            let frame = Frame::raw(frame.bytes());
            loop {
                send_frame(&frame, wire, record).await?;
                // A client on this thread must get its turn.
                tokio::task::yield_now().await;
            }
        }
        Step::End => {}
        Step::Break(how) => {
            record.reached(if *how == Break::Cut { "cut" } else { "reset" });
            return Err(Ending::Broken(*how));
        }
    }
    Ok(())
}

async fn send_frame(frame: &Frame, wire: &mut impl Wire, record: &Recorder) -> Result<(), Hangup> {
    wire.body(frame.bytes()).await?;
    record.sent(frame.bytes().len());
    record.sent_frame(frame);
    Ok(())
}

async fn dribble(frame: &Frame, wire: &mut impl Wire, record: &Recorder) -> Result<(), Hangup> {
    let bytes = frame.bytes();
    for place in 0..bytes.len() {
        wire.body(bytes.slice(place..=place)).await?;
        record.sent(1);
        // So that each byte is read alone, if the client is awake.
        tokio::task::yield_now().await;
    }
    record.sent_frame(frame);
    Ok(())
}

async fn unless_hung_up(wire: &mut impl Wire, wait: impl Future<Output = ()>) -> Result<(), Hangup> {
    tokio::select! {
        biased;
        hangup = wire.hung_up() => Err(hangup),
        () = wait => Ok(()),
    }
}
