//! The book: the calibration of all models.

use andon_core::usage::{Figure, Provenance};
use parking_lot::Mutex;

use super::count::{self, tally_all};
use super::digest::digest;
use super::family::family;
use super::input::{self, Step};
use super::learn::Call;
use super::output::Seen;
use super::shelf::Shelf;
use super::standing::Standing;
use super::{Anchor, Asked, Lesson, Page, Reported, Written};

/// The calibration of all models. A model is an exact id with its provider before it, such as
/// `openai/gpt-4o-2024-08-06`.
///
/// ```
/// use andon_models::meter::{Asked, Book, Reported, Written};
///
/// let book = Book::new();
/// let messages = ["What is the capital of France?".into()];
/// let asked = Asked { system: None, messages: &messages, tools: &[], images: 0 };
/// let written = Written { text: "The capital of France is".into(), ..Written::default() };
/// let (output, _) = book.output("openai/gpt-4o-2024-08-06", &written, Some(1000));
/// assert!(output.low <= output.value && output.value <= output.high);
///
/// let reported = Reported { input: Some(14), output: Some(6), reasoning: Some(0) };
/// let lesson = book.learn("openai/gpt-4o-2024-08-06", &asked, &written, None, &reported);
/// assert!(lesson.output.is_some_and(|outcome| outcome.inside()));
/// ```
#[derive(Debug, Default)]
pub struct Book {
    shelf: Mutex<Shelf>,
}

impl Book {
    /// A book in which nothing is written.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads what is needed to count this model's tokens: about a tenth of a second for each vocabulary. Call it when there
    /// is time; without it, the first count takes that long.
    pub fn warm(&self, model: &str) {
        count::load(family(model).vocabulary);
    }

    /// Whether an estimate for a model is quick by now.
    pub fn is_warm(&self, model: &str) -> bool {
        count::is_loaded(family(model).vocabulary)
    }

    /// All tokens that a request cost to read, those from a cache included.
    pub fn input(&self, model: &str, asked: &Asked<'_>, anchor: Option<&Anchor>) -> Figure {
        let family = family(model);
        let step = Step::of(family, asked, anchor);
        self.shelf.lock().input(model, family, &step).figure(Provenance::Estimated, None)
    }

    /// All tokens that an answer cost, and the part of them that was thinking. The answer may have had at most
    /// `max_output`.
    ///
    /// If the model thinks without showing it, there are only bounds.
    pub fn output(&self, model: &str, written: &Written<'_>, max_output: Option<u64>) -> (Figure, Figure) {
        let family = family(model);
        let seen = Seen::of(family, written);
        // Nobody asks for an answer of nothing: 0 is no limit.
        self.shelf.lock().output(model, family, &seen, max_output.filter(|most| *most > 0))
    }

    /// Predicts a completed call, keeps the error, and learns from it.
    pub fn learn(
        &self,
        model: &str,
        asked: &Asked<'_>,
        written: &Written<'_>,
        anchor: Option<&Anchor>,
        reported: &Reported,
    ) -> Lesson {
        let family = family(model);
        let (step, seen) = (Step::of(family, asked, anchor), Seen::of(family, written));
        self.shelf.lock().learn(&Call { model, family, step, seen }, reported)
    }

    /// What the conversation's next call is measured from; `None` if the provider did not report enough. Nothing is
    /// counted for it: a call that does not continue this conversation, or has another setup, has no use for it.
    pub fn anchor(&self, asked: &Asked<'_>, written: &Written<'_>, reported: &Reported) -> Option<Anchor> {
        Some(Anchor {
            input: reported.input?,
            output: reported.output?,
            reasoning: reported.reasoning,
            messages: asked.messages.len(),
            calls: written.calls.len(),
            images: asked.images,
            hidden: written.hidden,
            setup: input::setup(asked),
            history: digest(asked.messages),
            counted_setup: None,
            counted_messages: None,
        })
    }

    /// An anchor that also knows how long its request was, so that another conversation with the same setup, or this one
    /// with another, can be measured from it.
    pub fn counted_anchor(
        &self,
        model: &str,
        asked: &Asked<'_>,
        written: &Written<'_>,
        reported: &Reported,
    ) -> Option<Anchor> {
        let family = family(model);
        let anchor = self.anchor(asked, written, reported)?;
        Some(Anchor {
            counted_setup: Some(input::setup_tally(family, asked).total().round() as u64),
            counted_messages: Some(tally_all(family.vocabulary, asked.messages).total().round() as u64),
            ..anchor
        })
    }

    /// All that was learned about a model.
    pub fn page(&self, model: &str) -> Option<Page> {
        self.shelf.lock().get(model).cloned()
    }

    /// Takes up what was learned about a model before. A page with fewer calls than what is here, and one that is broken
    /// or of another version, changes nothing.
    pub fn restore(&self, model: &str, page: Page) {
        let Some(page) = page.checked() else { return };
        let mut shelf = self.shelf.lock();
        if shelf.get(model).is_none_or(|here| here.calls <= page.calls) {
            shelf.put(model, family(model), page);
        }
    }

    /// How good the estimates have been, model by model.
    pub fn standing(&self) -> Vec<Standing> {
        let shelf = self.shelf.lock();
        shelf.iter().map(|(model, family, page)| Standing::of(model, page, family.hides)).collect()
    }
}
