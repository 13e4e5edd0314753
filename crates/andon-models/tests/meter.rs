//! What the meter promises, for any text and any figure.

use std::borrow::Cow;

use andon_core::usage::{Figure, Provenance};
use andon_models::meter::{Anchor, Asked, Book, Page, Reported, Written};
use proptest::prelude::*;

const MODELS: [&str; 5] = [
    "openai/gpt-4o-2024-08-06",
    "anthropic/claude-sonnet-4-5",
    "openai/o3-mini-2025-01-31",
    "groq/llama3-8b-8192",
    "somewhere/no-such-model",
];

/// One made-up call.
#[derive(Debug, Clone)]
struct Call {
    model: &'static str,
    system: Option<String>,
    messages: Vec<Cow<'static, str>>,
    tools: Vec<Cow<'static, str>>,
    images: usize,
    text: String,
    thinking: String,
    calls: Vec<(String, String)>,
    hidden: bool,
    reported: Reported,
    most: Option<u64>,
}

impl Call {
    fn asked(&self) -> Asked<'_> {
        Asked { system: self.system.as_deref(), messages: &self.messages, tools: &self.tools, images: self.images }
    }

    fn written(&self) -> Written<'_> {
        Written {
            text: Cow::Borrowed(&self.text),
            thinking: Cow::Borrowed(&self.thinking),
            calls: self.calls.iter().map(|(name, arguments)| (name.as_str(), arguments.as_str())).collect(),
            hidden: self.hidden,
        }
    }

    fn predict(&self, book: &Book, anchor: Option<&Anchor>) -> [Figure; 3] {
        let (output, reasoning) = book.output(self.model, &self.written(), self.most);
        [book.input(self.model, &self.asked(), anchor), output, reasoning]
    }

    fn learn(&self, book: &Book, anchor: Option<&Anchor>) -> Option<Anchor> {
        book.learn(self.model, &self.asked(), &self.written(), anchor, &self.reported);
        book.counted_anchor(self.model, &self.asked(), &self.written(), &self.reported)
    }
}

fn figures() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        4 => (0..5_000_u64).prop_map(Some),
        1 => prop_oneof![Just(Some(0)), Just(Some(1)), Just(Some(u64::MAX)), Just(None)],
    ]
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "\\PC{0,60}",
        2 => "[a-zA-Z0-9 .,\\n]{0,200}",
        1 => any::<String>(),
        1 => (any::<char>(), 0..20_000_usize).prop_map(|(character, count)| character.to_string().repeat(count)),
    ]
}

fn calls() -> impl Strategy<Value = Call> {
    let request = (
        prop::sample::select(MODELS.to_vec()),
        prop::option::of(texts()),
        prop::collection::vec(texts().prop_map(Cow::Owned), 0..5),
        prop::collection::vec(texts().prop_map(Cow::Owned), 0..3),
        0..3_usize,
    );
    let answer = (texts(), texts(), prop::collection::vec((texts(), texts()), 0..3), any::<bool>());
    let figures = (figures(), figures(), figures(), figures());
    (request, answer, figures).prop_map(|(request, answer, figures)| {
        let (model, system, messages, tools, images) = request;
        let (text, thinking, calls, hidden) = answer;
        let (input, output, reasoning, most) = figures;
        let reported = Reported { input, output, reasoning };
        Call { model, system, messages, tools, images, text, thinking, calls, hidden, reported, most }
    })
}

fn is_honest(figure: &Figure) {
    if let Some(value) = figure.value {
        assert!(matches!(figure.provenance, Provenance::Estimated | Provenance::Counted), "{figure:?}");
        let held = figure.low.is_some_and(|low| low <= value) && figure.high.is_some_and(|high| value <= high);
        assert!(held, "{figure:?}");
    } else {
        assert!(matches!(figure.provenance, Provenance::Bounded | Provenance::Unknown), "{figure:?}");
        assert_eq!(figure.low.is_some() || figure.high.is_some(), figure.provenance == Provenance::Bounded);
    }
    if let (Some(low), Some(high)) = (figure.low, figure.high) {
        assert!(low <= high, "{figure:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_figure_is_honest_whatever_was_asked_written_and_reported(calls in prop::collection::vec(calls(), 1..8)) {
        let book = Book::new();
        let mut anchor = None;
        for call in &calls {
            let [input, output, reasoning] = call.predict(&book, anchor.as_ref());
            [input, output, reasoning].iter().for_each(is_honest);
            prop_assert_ne!(input.value, Some(0));
            prop_assert_ne!(output.value, Some(0));
            if let (Some(most), Some(value)) = (call.most.filter(|most| *most > 0), output.value) {
                prop_assert!(value <= most);
            }
            anchor = call.learn(&book, anchor.as_ref());
        }
        prop_assert!(book.standing().iter().all(|standing| standing.calls > 0));
    }

    #[test]
    fn a_book_with_the_same_pages_predicts_the_same(calls in prop::collection::vec(calls(), 1..8)) {
        let (book, copy) = (Book::new(), Book::new());
        let anchors: Vec<Option<Anchor>> = calls.iter().map(|call| call.learn(&book, None)).collect();
        for model in MODELS {
            if let Some(page) = book.page(model) {
                let stored = serde_json::to_string(&page).unwrap();
                copy.restore(model, serde_json::from_str::<Page>(&stored).unwrap());
            }
        }
        for (call, anchor) in calls.iter().zip(&anchors) {
            prop_assert_eq!(call.predict(&book, anchor.as_ref()), call.predict(&copy, anchor.as_ref()));
        }
    }

    #[test]
    fn a_request_that_was_reported_costs_what_was_reported(call in calls()) {
        let book = Book::new();
        if let Some(anchor) = call.learn(&book, None) {
            let input = book.input(call.model, &call.asked(), Some(&anchor));
            // Beyond 2^53 a float cannot hold the last digits.
            if anchor.input < 1 << 53 {
                prop_assert_eq!(input.value, Some(anchor.input.max(1)));
            }
        }
    }
}
