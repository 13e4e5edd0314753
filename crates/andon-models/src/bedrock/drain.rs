//! The rest of a cut answer, read in the background: it is charged anyway, and it ends with the exact figures.
//!
//! # Invariants
//!
//! 1. At most [`AT_ONCE`] answers are drained in a process, each for at most [`LONGEST`] and [`MOST_TEXT`] of words. What
//!    is over a cap is closed, and its bill stays unknown.
//! 2. What is read here was delivered to nobody, and is only told as that.

use std::time::Duration;

use andon::{BoxFuture, Learned, Part, Piece};
use andon_core::id::CallId;
use andon_core::message::ToolCall;
use andon_core::usage::{Figure, Usage, Used};
use tokio::sync::Semaphore;

use super::answer::Open;

/// How many answers are drained at once.
const AT_ONCE: usize = 8;
/// How long one is drained.
const LONGEST: Duration = Duration::from_secs(60);
/// How many bytes of words are read.
const MOST_TEXT: usize = 1 << 20;
/// A little more than the longest, so that what was read by then is told.
pub(super) const GIVEN_UP: Duration = Duration::from_secs(61);

static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);

/// Reads the rest, if there is a place for it. Otherwise the connection is closed.
pub(super) fn drain(mut open: Open) -> Option<BoxFuture<Learned>> {
    let place = PLACES.try_acquire().ok()?;
    Some(Box::pin(async move {
        let mut rest = Rest::new(open.calls());
        // A broken stream, a cap and the end all leave what is known by then.
        let _ = tokio::time::timeout(LONGEST, read(&mut open, &mut rest)).await;
        drop(place);
        rest.learned(open.decoder.is_over().then(|| open.decoder.usage()))
    }))
}

async fn read(open: &mut Open, rest: &mut Rest) {
    loop {
        for piece in open.pieces.drain(..) {
            rest.add(piece);
        }
        if rest.bytes > MOST_TEXT {
            return;
        }
        let Some(next) = open.next() else { return };
        let Ok(received) = next.await else { return };
        if open.take(received).is_err() {
            return;
        }
    }
}

/// What came behind the cut.
struct Rest {
    /// How many calls had begun before the cut: the end of one of those is half a call.
    before: usize,
    parts: Vec<Part>,
    /// The calls that began behind the cut: their places in `parts`.
    calls: Vec<usize>,
    bytes: usize,
}

impl Rest {
    fn new(before: usize) -> Self {
        Self { before, parts: Vec::new(), calls: Vec::new(), bytes: 0 }
    }

    fn add(&mut self, piece: Piece) {
        match piece {
            Piece::Text(more) => {
                self.bytes += more.len();
                match self.parts.last_mut() {
                    Some(Part::Text { text }) => text.push_str(&more),
                    _ => self.parts.push(Part::text(more)),
                }
            }
            Piece::Thinking(more) => {
                self.bytes += more.len();
                match self.parts.last_mut() {
                    // A seal belongs to the whole thought, of which a part was delivered: none is kept here.
                    Some(Part::Thinking { text, .. }) => text.push_str(&more),
                    _ => self.parts.push(Part::Thinking { text: more, signature: None }),
                }
            }
            Piece::Call { id, name } => {
                self.calls.push(self.parts.len());
                let id = CallId::new(id).or_else(|_| CallId::new(format!("undelivered-{}", self.calls.len())));
                let call = id.map(|id| Part::ToolCall(ToolCall { id, name, arguments: String::new() }));
                self.parts.extend(call);
            }
            Piece::CallInput { index, json } => {
                self.bytes += json.len();
                let place = index.checked_sub(self.before).and_then(|index| self.calls.get(index));
                if let Some(Part::ToolCall(call)) = place.and_then(|place| self.parts.get_mut(*place)) {
                    call.arguments.push_str(&json);
                }
            }
            Piece::ThinkingEnd { .. } | Piece::CallEnd { .. } | Piece::Usage(_) | Piece::End(_) => {}
        }
    }

    fn learned(self, reported: Option<Usage>) -> Learned {
        let used = reported.map_or(Used::UNKNOWN, |billed| {
            // All of the input was read; how much of the output was delivered, this does not say.
            let delivered = Usage { output: Figure::UNKNOWN, reasoning: Figure::UNKNOWN, ..billed };
            Used { delivered, billed }
        });
        Learned { used, undelivered: self.parts }
    }
}
