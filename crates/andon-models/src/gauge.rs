//! The gauge: what a model call used, from what its stream said, what was shown, and what earlier calls have taught.
//!
//! # Invariants
//!
//! 1. What the provider said is never replaced by an estimate.
//! 2. Unknown is never written as 0: a cut call has a value, bounds, or neither.
//! 3. What was delivered was generated, so it is billed: `billed.low >= delivered.low`.

#[cfg(test)]
mod tests;
mod texts;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use andon_core::usage::{Figure, Provenance, Usage, Used};
use andon_runtime::{Lesson, Meter, Sighting};
use parking_lot::Mutex;

use crate::meter::{Book, Page, Reported};
use crate::names::Closing;

use texts::{Shown, Texts};

/// How long tokens may go on to be generated after a connection was closed: the cut must reach the provider first.
const TAIL: Duration = Duration::from_millis(500);
/// How many tokens a second a model writes, if it has not shown it yet: more than most do.
const USUAL_SPEED: f64 = 150.0;

/// The calibration of all models of this process.
pub fn book() -> &'static Book {
    static BOOK: LazyLock<Book> = LazyLock::new(Book::new);
    &BOOK
}

/// Measures the calls of one model.
#[derive(Debug)]
pub(crate) struct Gauge {
    provider: &'static str,
    /// As it is asked for; the provider may answer with a more exact name.
    model: String,
    closing: Closing,
    max_output: Option<u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The exact name that the provider last answered with.
    exact: Option<String>,
    /// Tokens a second, of the calls that came to their end.
    speed: Option<f64>,
}

impl Gauge {
    pub(crate) fn new(provider: &'static str, model: &str, closing: Closing, max_output: Option<u64>) -> Arc<Self> {
        Arc::new(Self { provider, model: model.to_owned(), closing, max_output, state: Mutex::default() })
    }

    /// The exact model, with its provider before it.
    fn id(&self, named: Option<&str>) -> String {
        let state = self.state.lock();
        let exact = named.or(state.exact.as_deref()).unwrap_or(&self.model);
        format!("{}/{exact}", self.provider)
    }

    /// How many tokens may have been generated after the cut.
    fn tail(&self) -> u64 {
        let speed = self.state.lock().speed.unwrap_or(USUAL_SPEED);
        (speed * TAIL.as_secs_f64()).ceil().max(1.0) as u64
    }

    fn delivered(&self, call: &Sighting<'_>, known: &Usage) -> Usage {
        let id = self.id(call.model);
        if !book().is_warm(&id) {
            return crude(call).refined_by(*known);
        }
        let shown = Shown::of(call.answer);
        let shows_thought = !shown.thinking.is_empty();
        let (output, reasoning) = if shown.is_nothing() {
            (nothing_shown(), Figure::UNKNOWN)
        } else {
            book().output(&id, &shown.written(), self.max_output)
        };
        // Until a model has reported something, nobody knows whether it thinks.
        let reasoning = if shows_thought || book().page(&id).is_some() { reasoning } else { Figure::UNKNOWN };
        let input = || {
            let texts = Texts::of(call.request);
            let anchor = call.request.anchor.and_then(|before| texts.anchor(call.request, &before));
            book().input(&id, &texts.asked(), anchor.as_ref())
        };
        // Only the whole input is estimated, not how much of it came from a cache.
        let known = if known.input == Figure::UNKNOWN { known.reading(input()) } else { *known };
        Usage {
            output: if known.output == Figure::UNKNOWN { output } else { not_stale(known.output, output) },
            reasoning: if known.reasoning == Figure::UNKNOWN { reasoning } else { known.reasoning },
            ..known
        }
    }

    /// What will be charged for output of which this much was delivered.
    fn charged(&self, delivered: Figure) -> Figure {
        let low = delivered.low.or(delivered.value);
        let tail = self.tail();
        match (self.closing, delivered.value) {
            (Closing::StopsTheBill, Some(value)) => {
                let high = delivered.high.map(|high| high.saturating_add(tail));
                let provenance = delivered.provenance.max(Provenance::Estimated);
                Figure { value: Some(value), provenance, low, high }
            }
            (Closing::StopsTheBill, None) => {
                let high = delivered.high.map(|high| high.saturating_add(tail)).or(self.max_output);
                bounded(low, high)
            }
            (Closing::StopsNothing | Closing::Unknown, _) => {
                // An estimated bound is not a limit that the provider enforces.
                let high = self.max_output.map(|most| most.max(low.unwrap_or(0)));
                bounded(low, high)
            }
        }
    }

    fn billed(&self, call: &Sighting<'_>, delivered: Usage) -> Usage {
        let has_begun = call.first_piece.is_some() || delivered.input.provenance <= Provenance::ReportedRunning;
        let input = if has_begun { delivered.input } else { perhaps(delivered.input) };
        Usage {
            input,
            output: self.charged(delivered.output),
            reasoning: match delivered.reasoning {
                Figure::UNKNOWN => Figure::UNKNOWN,
                reasoning => self.charged(reasoning),
            },
            ..delivered
        }
    }
}

impl Meter for Gauge {
    fn cut(&self, call: &Sighting<'_>, known: Usage) -> Used {
        if call.answer.is_empty() && known == Usage::NONE.running() {
            // The provider refused the request, or was never reached.
            return Used { delivered: known, billed: known };
        }
        let delivered = self.delivered(call, &known);
        Used { delivered, billed: self.billed(call, delivered) }
    }

    fn learn(&self, call: &Sighting<'_>, reported: Usage) -> Option<Lesson> {
        let figures = Reported::of(&reported);
        let written = figures.output?;
        if let Some(exact) = call.model {
            self.state.lock().exact = Some(exact.to_owned());
        }
        self.clock(written, call);
        let about = self.id(call.model);
        book().warm(&about);
        let (texts, shown) = (Texts::of(call.request), Shown::of(call.answer));
        let anchor = call.request.anchor.and_then(|before| texts.anchor(call.request, &before));
        book().learn(&about, &texts.asked(), &shown.written(), anchor.as_ref(), &figures);
        let page = serde_json::to_value(book().page(&about)?).ok()?;
        Some(Lesson { about, page })
    }

    fn recall(&self, lessons: Vec<Lesson>) {
        // The vocabularies are loaded on another thread, once in a process: a stop must not wait for it, and no run owns it.
        let id = self.id(None);
        let loading = std::thread::Builder::new().name("andon-vocabulary".to_owned());
        // Without a thread, estimates are crude until the first call has ended.
        let _ = loading.spawn(move || book().warm(&id));
        for Lesson { about, page } in lessons {
            // What cannot be read is learned again.
            if let Ok(page) = serde_json::from_value::<Page>(page) {
                book().restore(&about, page);
            }
        }
    }
}

impl Gauge {
    /// Takes the speed of a call that ended by itself.
    fn clock(&self, written: u64, call: &Sighting<'_>) {
        let writing = call.took.saturating_sub(call.first_piece.unwrap_or_default());
        // A short answer tells nothing about speed.
        if written < 20 || writing < Duration::from_millis(50) {
            return;
        }
        let speed = written as f64 / writing.as_secs_f64();
        let mut state = self.state.lock();
        state.speed = Some(state.speed.map_or(speed, |before| before * 0.8 + speed * 0.2));
    }
}

/// What can be said without counting: four bytes are a token, more or less.
fn crude(call: &Sighting<'_>) -> Usage {
    let figure = |bytes: usize| match bytes as u64 {
        0 => nothing_shown(),
        bytes => Figure {
            value: Some(bytes.div_ceil(4)),
            provenance: Provenance::Estimated,
            low: Some(bytes.div_ceil(16)),
            high: Some(bytes.saturating_add(1000)),
        },
    };
    let shown = Shown::of(call.answer);
    let written = shown.calls.iter().map(|(name, arguments)| name.len() + arguments.len()).sum::<usize>();
    let texts = Texts::of(call.request);
    let asked = texts.messages.iter().chain(&texts.tools).map(|text| text.len()).sum::<usize>();
    let output = match figure(shown.text.len() + shown.thinking.len() + written) {
        figure if shown.hidden => bounded(figure.low, None),
        figure => figure,
    };
    Usage { input: figure(asked + texts.system.map_or(0, str::len)), output, ..Usage::UNKNOWN }
}

/// What was reported on the way, unless so much more was shown since that it is only a lower bound: some servers report
/// at the beginning, before anything was written.
fn not_stale(reported: Figure, estimate: Figure) -> Figure {
    match (reported.value, estimate.value, estimate.low) {
        (Some(reported), Some(value), Some(low)) if reported < low => {
            Figure { low: Some(low.max(reported)), value: Some(value.max(reported)), ..estimate }
        }
        _ => reported,
    }
}

fn bounded(low: Option<u64>, high: Option<u64>) -> Figure {
    match (low, high) {
        (None, None) => Figure::UNKNOWN,
        (low, high) => Figure { value: None, provenance: Provenance::Bounded, low, high },
    }
}

/// Nothing was shown. Whether anything was generated, nobody knows.
fn nothing_shown() -> Figure {
    bounded(Some(0), None)
}

/// A request that the provider may never have processed: it cost nothing, or all that it would have.
fn perhaps(figure: Figure) -> Figure {
    match figure.high.or(figure.value) {
        Some(high) => bounded(Some(0), Some(high)),
        None => Figure::UNKNOWN,
    }
}
