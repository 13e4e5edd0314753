//! The gauge: what a model call used, from what its stream said, what was shown, and what earlier calls have taught.
//!
//! # Invariants
//!
//! 1. What the provider said is replaced by an estimate only where it is certainly out of date: an output of less than was
//!    certainly shown.
//! 2. Unknown is never written as 0: a cut call has a value, bounds, or neither.
//! 3. What was delivered was generated, so it is billed: `billed.at_least() == delivered.at_least()` for each figure. That is not so
//!    of `low`, which is `at_least()` where the bill has no value, and closer to the value beside one.

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use andon_core::usage::{Figure, Provenance, Usage, Used};
use andon_runtime::{Lesson, Meter, MeteredCall};
use parking_lot::Mutex;

use crate::meter::{Book, Reported};
use crate::names::{self, Closing, TooLong};

/// How long tokens may go on to be generated after a connection was closed: the cut must reach the provider first.
const TAIL: Duration = Duration::from_millis(500);
/// How many tokens a second a model writes: more than most do.
const USUAL_SPEED: f64 = 150.0;

/// The field of a kept page that says which model was asked for when this one answered.
const ASKED: &str = "asked";

/// What this process has learned about how models count.
pub fn book() -> &'static Arc<Book> {
    static BOOK: LazyLock<Arc<Book>> = LazyLock::new(Arc::default);
    &BOOK
}

impl Book {
    /// The meter of a provider's model that writes into this book. The models of this crate have one that writes into the
    /// [book of the process](crate::book). This loads what is needed to count the model's tokens, which takes some tenths of a second.
    pub fn meter(self: &Arc<Self>, provider: &str, model: &str) -> Arc<dyn Meter> {
        self.warm(&format!("{provider}/{model}"));
        let too_long = match names::find(provider) {
            Some(facts) => facts.too_long,
            None if provider == "bedrock" => TooLong::Refused,
            None => TooLong::Unknown,
        };
        Gauge::new(Arc::clone(self), provider, model, Closing::Unknown, too_long, None)
    }
}

/// Measures the calls of one model.
#[derive(Debug)]
pub(crate) struct Gauge {
    book: Arc<Book>,
    provider: String,
    /// As it is asked for; the provider may answer with a more exact name.
    model: String,
    closing: Closing,
    too_long: TooLong,
    /// How many tokens an answer may have, if there is a limit: never 0.
    max_output: Option<u64>,
    /// The exact name that the provider last answered with.
    exact: Mutex<Option<String>>,
}

impl Gauge {
    pub(crate) fn new(
        book: Arc<Book>,
        provider: &str,
        model: &str,
        closing: Closing,
        too_long: TooLong,
        max_output: Option<u64>,
    ) -> Arc<Self> {
        let (provider, model) = (provider.to_owned(), model.to_owned());
        // Nobody asks for an answer of nothing: 0 is no limit.
        let max_output = max_output.filter(|most| *most > 0);
        Arc::new(Self { book, provider, model, closing, too_long, max_output, exact: Mutex::default() })
    }

    /// The model that is asked, with its provider before it.
    fn asked(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }

    /// The exact model, with its provider before it.
    fn id(&self, named: Option<&str>) -> String {
        let exact = self.exact.lock();
        let exact = named.or(exact.as_deref()).unwrap_or(&self.model);
        format!("{}/{exact}", self.provider)
    }

    /// How many tokens the answer of a call may have.
    fn most(&self, call: &MeteredCall<'_>) -> Option<u64> {
        call.request.settings.max_output.map(u64::from).or(self.max_output)
    }

    fn delivered(&self, call: &MeteredCall<'_>, known: &Usage) -> Usage {
        let id = self.id(call.model);
        let (output, reasoning) = self.book.output(&id, &self.asked(), call, self.most(call));
        let input = || self.book.input(&id, call, self.too_long);
        let has_begun = call.ended || call.first_piece.is_some() || known.output != Figure::UNKNOWN;
        let known = match known.input {
            // Only the whole input is estimated, not how much of it came from a cache.
            Figure::UNKNOWN => known.reading(if has_begun { input() } else { perhaps(input()) }),
            _ => *known,
        };
        known
            .output(if known.output == Figure::UNKNOWN { output } else { not_stale(known.output, output) })
            .reasoning(if known.reasoning == Figure::UNKNOWN { reasoning } else { known.reasoning })
    }

    /// What will be charged for output of which this much was delivered. Without a value, it is at least what is certain.
    fn charged(&self, delivered: Figure, call: &MeteredCall<'_>) -> Figure {
        let certain = delivered.low.or(delivered.value).map(|_| delivered.at_least());
        let limit = self.most(call).map(|most| most.max(certain.unwrap_or(0)));
        match (self.closing, delivered.value) {
            (Closing::StopsTheBill, value) => {
                let high = delivered.high.map(|high| high.saturating_add(tail(call, high)));
                let high = high.into_iter().chain(limit).min();
                match value {
                    None => Figure::bounded(certain, high),
                    Some(_) => {
                        let provenance = delivered.provenance.max(Provenance::Estimated);
                        Figure::new().value(value).provenance(provenance).low(delivered.low).high(high.max(value))
                    }
                }
            }
            // An estimated bound is not a limit that the provider enforces.
            (Closing::StopsNothing | Closing::Unknown, _) => Figure::bounded(certain, limit),
        }
    }

    fn billed(&self, delivered: Usage, call: &MeteredCall<'_>) -> Usage {
        delivered.output(self.charged(delivered.output, call)).reasoning(match delivered.reasoning {
            Figure::UNKNOWN => Figure::UNKNOWN,
            reasoning => self.charged(reasoning, call),
        })
    }

    /// The exact name that was last answered with when this model was asked for; the latest of several, because names end with
    /// dates.
    fn answered_last(&self, lessons: &[Lesson]) -> Option<String> {
        let is_ours = |lesson: &&Lesson| lesson.page.get(ASKED).is_some_and(|asked| *asked == *self.model);
        let names = lessons.iter().filter(is_ours).filter_map(|lesson| lesson.about.split_once('/'));
        names.filter(|(provider, _)| *provider == self.provider).map(|(_, exact)| exact.to_owned()).max()
    }
}

impl Meter for Gauge {
    fn cut(&self, call: &MeteredCall<'_>, known: Usage) -> Used {
        if call.answer.is_empty() && known == Usage::NONE.running() {
            // The provider refused the request, or was never reached.
            return Used::new(known, known);
        }
        let delivered = self.delivered(call, &known);
        Used::new(delivered, self.billed(delivered, call))
    }

    fn lost(&self, call: &MeteredCall<'_>, known: Usage) -> Used {
        self.cut(call, known).open_ended(self.most(call))
    }

    fn is_prepared(&self, call: &MeteredCall<'_>) -> bool {
        self.book.is_warm(&self.id(call.model))
    }

    fn prepare(&self, call: &MeteredCall<'_>) {
        self.book.warm(&self.id(call.model));
    }

    fn learn(&self, call: &MeteredCall<'_>, reported: Usage) -> Vec<Lesson> {
        let figures = Reported::of(&reported);
        if figures.output.is_none() {
            return Vec::new();
        }
        if let Some(exact) = call.model {
            *self.exact.lock() = Some(exact.to_owned());
        }
        let about = self.id(call.model);
        self.book.warm(&about);
        let mut lessons = self.book.learn(&about, call, &figures);
        let own = lessons.iter_mut().find(|lesson| lesson.about == about);
        if let Some(page) = own.and_then(|lesson| lesson.page.as_object_mut()) {
            page.insert(ASKED.to_owned(), self.model.as_str().into());
        }
        lessons
    }

    fn recall(&self, lessons: Vec<Lesson>) -> Vec<Lesson> {
        if let Some(exact) = self.answered_last(&lessons) {
            self.exact.lock().get_or_insert(exact);
        }
        // The vocabularies are loaded on another thread, once in a process: a stop must not wait for it, and no run owns it.
        let (book, id) = (Arc::clone(&self.book), self.id(None));
        let loading = std::thread::Builder::new().name("andon-vocabulary".to_owned());
        // Without a thread, estimates are crude until the first call has ended.
        let _ = loading.spawn(move || book.warm(&id));
        lessons.into_iter().filter_map(|lesson| self.book.restore(lesson)).collect()
    }
}

/// How many tokens may have been generated after the cut of an answer of which at most so many were delivered: as fast as it came,
/// or at the usual speed if that is faster.
fn tail(call: &MeteredCall<'_>, delivered: u64) -> u64 {
    let writing = call.took.saturating_sub(call.first_piece.unwrap_or_default()).max(TAIL);
    let speed = (delivered as f64 / writing.as_secs_f64()).max(USUAL_SPEED);
    (speed * TAIL.as_secs_f64()).ceil() as u64
}

/// What was reported on the way, unless more seems to have been shown since: some servers report at the beginning, before anything
/// was written. It is a lower bound then: a report that comes with each piece is right, and the estimate may be wrong.
fn not_stale(reported: Figure, estimate: Figure) -> Figure {
    match reported.value {
        Some(value) if estimate.low.is_some_and(|low| value < low) => estimate.low(value.max(estimate.at_least())),
        _ => reported,
    }
}

/// A request that the provider may never have processed: it cost nothing, or all that it would have.
fn perhaps(figure: Figure) -> Figure {
    figure.high.or(figure.value).map_or(Figure::UNKNOWN, |high| Figure::bounded(Some(0), Some(high)))
}
