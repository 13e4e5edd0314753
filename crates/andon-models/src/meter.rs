//! The meter: the best figure there is for what a model call used, when the provider did not say.
//!
//! What a call asks and what is visible of its answer are counted with a local tokenizer (`count`). How a model's own figures differ
//! from that is learned from every completed call, for each exact model by itself (`line`), and how far the predictions were off says how
//! wide the bounds of the next one are. No I/O and no clock.
//!
//! # Invariants
//!
//! 1. `low <= value <= high` in every figure, and a figure that is not known has no value: never 0.
//! 2. A prediction depends only on what was asked, what is visible, what was learned before, and whether its vocabulary is loaded.
//! 3. No text and no reported figure makes an operation panic, and none costs more than a bounded amount of CPU.
//! 4. A page holds all that was learned about its model: with the same pages, a book predicts the same.
//! 5. At most 64 models have a page, here and in a store, however many names a provider makes up.

mod answer;
mod count;
mod family;
mod line;
mod page;
mod quality;
mod request;

use std::collections::BTreeMap;

use andon_core::usage::{Figure, Provenance, Usage};
use andon_runtime::{Lesson, MeteredCall};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use answer::Seen;
use family::{Thinking, family};
use page::{Page, VERSION};
use request::{Asked, largest_message};

use crate::names::TooLong;

pub use quality::{Accuracy, Quality};

/// How many models have a page: those with the most calls.
const PAGES: usize = 64;

/// What the provider reported about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reported {
    /// All tokens read, those from a cache included.
    pub(crate) input: Option<u64>,
    /// All tokens written, thinking included.
    pub(crate) output: Option<u64>,
    /// The part of `output` that was thinking; `None` if the provider does not say.
    pub(crate) reasoning: Option<u64>,
}

impl Reported {
    /// What a call's usage says, as far as the provider itself said it.
    pub(crate) fn of(usage: &Usage) -> Self {
        let own = |figure: Figure| figure.value.filter(|_| figure.provenance == Provenance::Reported);
        Self { input: own(usage.read()), output: own(usage.output), reasoning: own(usage.reasoning) }
    }
}

/// The vocabulary that counts a model's tokens, by its tokenizer's name; `None` if it is not published.
pub fn vocabulary(model: &str) -> Option<&'static str> {
    match family(model).vocabulary {
        [own] => Some(own),
        _ => None,
    }
}

/// What was learned about how models count. A model is an exact id with its provider before it, such as
/// `openai/gpt-4o-2024-08-06`.
#[derive(Debug, Default)]
pub struct Book {
    pages: Mutex<BTreeMap<String, Page>>,
}

impl Book {
    /// A book in which nothing is written.
    pub fn new() -> Self {
        Self::default()
    }

    /// How accurate the estimates have been, model by model.
    pub fn accuracy(&self) -> Vec<Accuracy> {
        self.pages.lock().iter().map(|(model, page)| page.accuracy(model, family(model))).collect()
    }

    /// Loads what is needed to count this model's tokens: about a tenth of a second for each vocabulary.
    pub(crate) fn warm(&self, model: &str) {
        count::load(family(model).vocabulary);
    }

    /// How a model thinks, as its name and its reports say.
    fn thinking(&self, model: &str) -> Thinking {
        let family = family(model);
        if self.read(model, |page| page.hides(family)) { Thinking::Hidden } else { family.thinking }
    }

    /// Whether an estimate for a model is quick by now.
    pub(crate) fn is_warm(&self, model: &str) -> bool {
        count::is_loaded(family(model).vocabulary)
    }

    /// All tokens that a request cost to read, those from a cache included. A server may have dropped some of a request that was
    /// too long; how much is not known, so only the lower bound tells.
    pub(crate) fn input(&self, model: &str, call: &MeteredCall<'_>, too_long: TooLong) -> Figure {
        let asked = Asked::of(family(model), call.request, call.model);
        self.read(model, |page| match (page.input(&asked), too_long) {
            (input, TooLong::Refused) => input,
            (input, TooLong::Unknown) => page.perhaps_shortened(input, largest_message(call.request)),
        })
    }

    /// All tokens that an answer cost so far, and the part of them that was thinking. It may have had at most `most`.
    ///
    /// If the model thinks without showing it, there are only bounds. A model of an unknown name does what the one does that was
    /// `asked`, until its own reports say otherwise: it may be that one's deployment.
    pub(crate) fn output(
        &self,
        model: &str,
        asked: &str,
        call: &MeteredCall<'_>,
        most: Option<u64>,
    ) -> (Figure, Figure) {
        let mut family = family(model);
        if family.thinking == Thinking::Shown && model != asked {
            family.thinking = self.thinking(asked);
        }
        let seen = Seen::of(family, call.answer, call.ended);
        self.read(model, |page| page.output(family, &seen, most))
    }

    fn read<T>(&self, model: &str, read: impl FnOnce(&Page) -> T) -> T {
        match self.pages.lock().get(model) {
            Some(page) => read(page),
            None => read(&Page::new(family(model))),
        }
    }

    /// Learns from a completed call. Returns what is to be kept now, and what no longer.
    pub(crate) fn learn(&self, model: &str, call: &MeteredCall<'_>, reported: &Reported) -> Vec<Lesson> {
        let family = family(model);
        let (asked, seen) = (Asked::of(family, call.request, call.model), Seen::of(family, call.answer, true));
        let mut pages = self.pages.lock();
        let has_room = pages.len() < PAGES || pages.contains_key(model);
        let forgotten = if has_room { None } else { forget_one(&mut pages) };
        let page = pages.entry(model.to_owned()).or_insert_with(|| Page::new(family));
        page.learn(family, &asked, &seen, reported);
        let kept = Lesson::new(model.to_owned(), stored(model, page));
        forgotten.into_iter().chain([kept]).collect()
    }

    /// Takes up what was learned about a model before. A page with fewer calls than what is here changes nothing. Returns what is
    /// no longer to be kept: a page of this book that is broken or of an older version, or the one for which there is no room.
    pub(crate) fn restore(&self, lesson: Lesson) -> Option<Lesson> {
        let Lesson { about, page: kept, .. } = lesson;
        let learned = kept.get("learned").unwrap_or(&kept);
        let page = Page::deserialize(learned).ok().filter(|page| page.is_good(family(&about)));
        let Some(page) = page else { return is_outdated(learned).then(|| forgotten(about)) };
        let mut pages = self.pages.lock();
        if pages.get(&about).is_some_and(|here| here.calls > page.calls) {
            return None;
        }
        pages.insert(about, page);
        if pages.len() > PAGES { forget_one(&mut pages) } else { None }
    }
}

/// Whether this was written by a book of this version or an older one. What a newer version or another meter has written is theirs.
fn is_outdated(page: &Value) -> bool {
    let version = page.get("version").and_then(Value::as_u64);
    page.get("told").is_some() && version.is_some_and(|version| version <= u64::from(VERSION))
}

/// Drops the page with the fewest calls.
fn forget_one(pages: &mut BTreeMap<String, Page>) -> Option<Lesson> {
    let (least, _) = pages.iter().min_by_key(|(_, page)| page.calls)?;
    let least = least.clone();
    pages.remove(&least);
    Some(forgotten(least))
}

fn forgotten(about: String) -> Lesson {
    Lesson::new(about, Value::Null)
}

/// A page as it is kept: what people are shown, and what the next process needs.
fn stored(model: &str, page: &Page) -> Value {
    json!({ "standing": page.accuracy(model, family(model)), "learned": page })
}
