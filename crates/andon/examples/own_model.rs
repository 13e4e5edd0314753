//! A model of your own: two small traits. Dropping the answer is how it is told to stop.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use andon::{Agent, Answer, Cancel, FeedItem, Model, ModelError, ModelStop, Piece, Provenance, Request, Usage};
use tokio::time::{Sleep, sleep};

/// Repeats the prompt, a word at a time.
struct Echo {
    open: Arc<AtomicUsize>,
}

impl Model for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn call(&self, request: Request) -> Box<dyn Answer> {
        // `prompt()` is the history in the form that is sent to a model: valid, with a note where an answer was
        // stopped.
        let prompt = request.prompt();
        let said = prompt.last().map(|message| message.text()).unwrap_or_default();
        self.open.fetch_add(1, Ordering::SeqCst);
        Box::new(EchoAnswer {
            words: said.split_inclusive(' ').map(str::to_owned).collect(),
            pause: Box::pin(sleep(Duration::ZERO)),
            usage: Usage::reported(said.split_whitespace().count() as u64, 0),
            is_over: false,
            open: Arc::clone(&self.open),
        })
    }
}

struct EchoAnswer {
    words: VecDeque<String>,
    pause: Pin<Box<Sleep>>,
    usage: Usage,
    is_over: bool,
    open: Arc<AtomicUsize>,
}

impl Answer for EchoAnswer {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        ready!(self.pause.as_mut().poll(cx));
        let piece = match self.words.pop_front() {
            Some(word) => {
                self.pause = Box::pin(sleep(Duration::from_millis(20)));
                let output = self.usage.output.at_least() + 1;
                self.usage = Usage::reported(self.usage.input.at_least(), output);
                Piece::Text(word)
            }
            None if !self.is_over => {
                self.is_over = true;
                Piece::Usage(Box::new(self.usage))
            }
            None => Piece::End(ModelStop::EndTurn),
        };
        Poll::Ready(Some(Ok(piece)))
    }

    /// Called before a cut answer is dropped.
    fn usage_so_far(&self) -> Usage {
        self.usage
    }
}

impl Drop for EchoAnswer {
    /// A real adapter closes its connection here.
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let open = Arc::new(AtomicUsize::new(0));
    let agent = Agent::builder().model(Echo { open: Arc::clone(&open) }).build()?;

    let answer = agent.run("one two three").await?.completed()?;
    println!("whole: {:?}, output {:?}", answer.text(), answer.usage.delivered.output);
    assert_eq!(answer.text(), "one two three");
    assert_eq!(answer.usage.billed.output.value, Some(3));

    let run = agent.start("word ".repeat(500))?;
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if matches!(item, FeedItem::Delta(_)) {
            break;
        }
    }
    run.cancel(Cancel::graceful());
    let outcome = run.outcome().await;
    let (delivered, billed) = (outcome.usage.delivered.output, outcome.usage.billed.output);
    println!("cut: delivered {delivered:?}");
    println!("cut: billed {billed:?}");
    println!("open answers: {}", open.load(Ordering::SeqCst));
    assert_eq!(delivered.provenance, Provenance::ReportedRunning);
    // What the provider will charge past the cut is unknown, and is not reported as 0.
    assert_eq!((billed.value, billed.low), (None, delivered.value));
    assert_eq!(open.load(Ordering::SeqCst), 0);
    Ok(())
}
