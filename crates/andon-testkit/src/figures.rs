//! A scripted model's usage, besides its pieces: a meter, and what can be learned after a cut.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use andon_runtime::core::usage::{Figure, Provenance};
use andon_runtime::{Findings, Lesson, Meter, MeteredCall, Part, Pending, Usage, Used};
use parking_lot::Mutex;

/// What can be learned about each call of a scripted model after it was cut.
#[derive(Debug, Clone)]
pub struct After {
    /// How it is learned.
    pub what: Pending,
    /// How long it takes; `None` if it never ends by itself.
    pub takes: Option<Duration>,
    /// How long it may take.
    pub within: Duration,
    /// What is learned.
    pub learned: Findings,
}

impl After {
    /// The provider is asked, and answers after a while what it charges.
    pub fn looked_up(takes: Duration, output: u64) -> Self {
        let billed = Usage::new().output(Figure::exact(output, Provenance::LookedUp));
        let learned = Findings::new(Used::UNKNOWN.billed(billed));
        Self { what: Pending::LookingUp, takes: Some(takes), within: Duration::from_secs(20), learned }
    }

    /// The model goes on writing for a while, and then reports.
    pub fn drained(takes: Duration, output: u64, undelivered: &str) -> Self {
        let used = Used::UNKNOWN.billed(Usage::reported(1, output));
        let learned = Findings::new(used).undelivered(vec![Part::text(undelivered)]);
        Self { what: Pending::Draining, takes: Some(takes), within: Duration::from_secs(60), learned }
    }

    /// Nothing ever comes, and it is given up.
    pub fn hangs(within: Duration) -> Self {
        Self { what: Pending::Counting, takes: None, within, learned: Findings::default() }
    }
}

/// A meter that counts every four bytes as a token, and remembers how many calls it has learned from. A lesson with a field
/// `outdated` is no longer to be kept.
#[derive(Debug, Default)]
pub struct ScriptedMeter {
    learned: AtomicUsize,
    recalled: Mutex<Vec<Lesson>>,
    /// Until it is prepared, it knows only what the provider has said.
    unprepared: AtomicBool,
}

impl ScriptedMeter {
    /// A meter that has to load something before it can count.
    pub fn unprepared() -> Self {
        Self { unprepared: AtomicBool::new(true), ..Self::default() }
    }

    /// How many calls it has learned from.
    pub fn learned(&self) -> usize {
        self.learned.load(Ordering::SeqCst)
    }

    /// The lessons that it was given back.
    pub fn recalled(&self) -> Vec<Lesson> {
        self.recalled.lock().clone()
    }
}

/// Every four bytes are a token, give or take half of them.
fn guess(bytes: usize) -> Figure {
    let tokens = bytes as u64 / 4 + 1;
    Figure::new().value(tokens).provenance(Provenance::Estimated).low(tokens / 2).high(tokens.saturating_mul(2))
}

impl Meter for ScriptedMeter {
    fn cut(&self, call: &MeteredCall<'_>, known: Usage) -> Used {
        if !self.is_prepared(call) {
            return Used::cut(known);
        }
        let written: usize = call
            .answer
            .iter()
            .map(|part| match part {
                Part::Text { text } | Part::Thinking { text, .. } => text.len(),
                Part::ToolCall(call) => call.name.len() + call.arguments.len(),
                Part::Image(_) | Part::ToolResult(_) => 0,
                #[cfg(not(andon_whole))]
                _ => 0,
            })
            .sum();
        let asked = call.request.history.iter().map(|message| message.text().len()).sum();
        let anchored = call.request.anchor.as_ref().map(|anchor| anchor.usage.input);
        let input = match anchored.unwrap_or_else(|| guess(asked)) {
            // The provider may never have read the request.
            input if call.first_piece.is_none() && !call.ended => Figure::bounded(Some(0), input.high),
            input => input,
        };
        let guessed = Usage::new().input(input).output(guess(written));
        Used::cut(guessed.refined_by(known))
    }

    fn is_prepared(&self, _: &MeteredCall<'_>) -> bool {
        !self.unprepared.load(Ordering::SeqCst)
    }

    fn prepare(&self, _: &MeteredCall<'_>) {
        self.unprepared.store(false, Ordering::SeqCst);
    }

    fn learn(&self, call: &MeteredCall<'_>, reported: Usage) -> Vec<Lesson> {
        let number = self.learned.fetch_add(1, Ordering::SeqCst) + 1;
        let page = serde_json::json!({"calls": number, "output": reported.output.value});
        vec![Lesson::new(call.model.unwrap_or("scripted").to_owned(), page)]
    }

    fn recall(&self, lessons: Vec<Lesson>) -> Vec<Lesson> {
        let (current, outdated) = lessons.into_iter().partition(|lesson| lesson.page.get("outdated").is_none());
        self.recalled.lock().extend::<Vec<Lesson>>(current);
        let forget = |lesson: Lesson| Lesson::new(lesson.about, serde_json::Value::Null);
        Vec::into_iter(outdated).map(forget).collect()
    }
}
