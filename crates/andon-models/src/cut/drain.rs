//! Draining: the rest of an answer is read, and shown to nobody.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use andon_core::answer::{AnswerEnd, CallHead, MarkKind, Span, assemble};
use andon_runtime::{Answer, CallId, Figure, Findings, FollowUp, Kind, ModelStop, Pending, Piece, Usage, Used};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::Drain;

/// How much longer the work may take than the stream, so that it can report what it has.
const SLACK: Duration = Duration::from_secs(1);

/// How many answers are being drained in this process.
static DRAINED: AtomicUsize = AtomicUsize::new(0);

/// A permit to drain one answer.
struct DrainPermit;

impl DrainPermit {
    fn take(max_at_once: usize) -> Option<Self> {
        let more = |now: usize| (now < max_at_once).then_some(now + 1);
        DRAINED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok().map(|_| Self)
    }
}

impl Drop for DrainPermit {
    fn drop(&mut self) {
        DRAINED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An answer that can be drained.
pub(crate) trait Drained: Answer {
    /// What the provider has reported.
    fn reported(&self) -> Usage;

    /// How many calls were handed out.
    fn calls(&self) -> usize;

    /// How many bytes of the answer have arrived.
    fn received(&self) -> usize;
}

/// Begins to drain, if one more answer may be drained.
pub(crate) fn begin<A: Drained>(answer: Box<A>, caps: Drain) -> Result<FollowUp, Box<A>> {
    let Some(permit) = DrainPermit::take(caps.max_at_once) else { return Err(answer) };
    let finish = Arc::new(Notify::new());
    let asked = Arc::clone(&finish);
    let work = async move {
        let learned = drain(answer, caps, &asked).await;
        drop(permit);
        learned
    };
    let follow_up = FollowUp::new(Pending::Draining, caps.max_time.saturating_add(SLACK), Box::pin(work));
    Ok(follow_up.finish(move || finish.notify_one()))
}

async fn drain<A: Drained>(mut answer: Box<A>, caps: Drain, finish: &Notify) -> Findings {
    let until = Instant::now() + caps.max_time;
    let mut finishing = pin!(finish.notified());
    let received = answer.received();
    let mut rest = Rest { span: Span::new(0), before: answer.calls(), heads: Vec::new(), stop: None };
    // Whatever ends it (an error, the clock, a cap or a request to finish), what is known by then is what is learned.
    let mut next = |answer: &mut A, cx: &mut Context<'_>| match finishing.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => answer.poll_piece(cx),
    };
    while let Ok(Some(Ok(piece))) = timeout_at(until, poll_fn(|cx| next(&mut answer, cx))).await {
        rest.add(piece);
        let written = answer.reported().output.at_least();
        let is_over = caps.max_tokens.is_some_and(|max| written > max) || answer.received() - received > caps.max_bytes;
        if is_over || rest.stop.is_some() {
            break;
        }
    }
    let usage = answer.reported();
    drop(answer);
    rest.learned(usage)
}

/// What came after the cut.
struct Rest {
    span: Span,
    /// How many calls had begun before the cut: the rest of one of those is not a call.
    before: usize,
    heads: Vec<Arc<CallHead>>,
    stop: Option<ModelStop>,
}

impl Rest {
    fn add(&mut self, piece: Piece) {
        match piece {
            Piece::Text(text) => self.span.push(&Kind::Text, &text),
            Piece::Thinking(text) => self.span.push(&Kind::Thinking, &text),
            Piece::ThinkingEnd { signature } => self.span.mark(MarkKind::ThinkingEnded { signature }),
            Piece::Call { id, name } => {
                let index = self.heads.len();
                let made_up = || CallId::new(format!("undelivered-{index}"));
                let Ok(id) = CallId::new(id).or_else(|_| made_up()) else { return };
                let head = Arc::new(CallHead { index, id, name });
                self.span.mark(MarkKind::Begins(Kind::ToolInput(Arc::clone(&head))));
                self.heads.push(head);
            }
            Piece::CallInput { index, json } => {
                if let Some(head) = index.checked_sub(self.before).and_then(|index| self.heads.get(index)) {
                    self.span.push(&Kind::ToolInput(Arc::clone(head)), &json);
                }
            }
            Piece::CallEnd { index } => {
                if let Some(index) = index.checked_sub(self.before) {
                    self.span.mark(MarkKind::CallEnded { index });
                }
            }
            Piece::Usage(_) => {}
            Piece::End(stop) => self.stop = Some(stop),
            #[cfg(not(andon_whole))]
            _ => {}
        }
    }

    fn learned(self, usage: Usage) -> Findings {
        let read = usage.output(Figure::UNKNOWN).reasoning(Figure::UNKNOWN);
        let (billed, end) = match self.stop {
            Some(stop) => (usage, AnswerEnd::Whole(stop)),
            // It did not finish: at least this much was written.
            None => (Used::cut(usage).billed, AnswerEnd::Cut),
        };
        let used = Used::new(read, billed);
        Findings::new(used).undelivered(assemble([&self.span], end))
    }
}

#[cfg(test)]
mod tests {
    use andon_runtime::{ModelError, Part};

    use super::*;

    /// An answer of a few words, after which nothing comes.
    struct Stalled(Vec<&'static str>);

    impl Answer for Stalled {
        fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
            self.0.pop().map_or(Poll::Pending, |word| Poll::Ready(Some(Ok(Piece::Text(word.into())))))
        }
    }

    impl Drained for Stalled {
        fn reported(&self) -> Usage {
            Usage::reported(40, 3).running()
        }

        fn calls(&self) -> usize {
            0
        }

        fn received(&self) -> usize {
            0
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_that_is_asked_to_finish_says_what_it_has_read() {
        let begun = Instant::now();
        let FollowUp { mut work, finish, .. } =
            begin(Box::new(Stalled(vec!["three", "two "])), Drain::default()).ok().unwrap();
        let is_over = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_ready())).await;
        assert!(!is_over, "it waits for more");
        finish.unwrap()();
        let learned = work.await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(learned.undelivered, [Part::text("two three")]);
        assert_eq!((learned.used.billed.output.value, learned.used.billed.output.low), (None, Some(3)));
    }
}
