//! What the meter learns from completed calls.

use std::borrow::Cow;

use andon_core::usage::Provenance;
use andon_models::meter::{Asked, Book, Lesson, Reported, Written};

const CLAUDE: &str = "anthropic/claude-sonnet-4-5";
const GPT: &str = "openai/gpt-4o-2024-08-06";

const WORDS: [&str; 12] =
    ["river", "of", "the", "quiet", "machine", "stops", "when", "asked", "and", "nothing", "is", "lost"];

/// A text of this many words that every vocabulary splits in the same way.
fn text(words: usize, seed: usize) -> String {
    WORDS.iter().cycle().step_by(7).skip(seed).take(words).copied().collect::<Vec<_>>().join(" ")
}

fn learn(book: &Book, model: &str, text: &str, output: u64, reasoning: Option<u64>) -> Lesson {
    let messages = [Cow::Borrowed("Tell me something.")];
    let asked = Asked { system: None, messages: &messages, tools: &[], images: 0 };
    let written = Written { text: text.into(), ..Written::default() };
    let reported = Reported { input: Some(12), output: Some(output), reasoning };
    book.learn(model, &asked, &written, None, &reported)
}

fn predict(book: &Book, model: &str, text: &str) -> andon_core::usage::Figure {
    book.output(model, &Written { text: text.into(), ..Written::default() }, None).0
}

#[test]
fn a_model_that_needs_more_tokens_is_learned_in_five_calls() {
    let book = Book::new();
    for seed in 0..5 {
        let words = 40 + 20 * seed;
        learn(&book, CLAUDE, &text(words, seed), (words as f64 * 1.2).round() as u64, Some(0));
    }
    let figure = predict(&book, CLAUDE, &text(100, 3));
    assert!(figure.value.unwrap().abs_diff(120) <= 2, "{figure:?}");
    assert!(figure.low.unwrap() <= 120 && 120 <= figure.high.unwrap());
    assert_eq!(figure.provenance, Provenance::Estimated);
}

#[test]
fn a_new_model_starts_from_what_its_siblings_showed() {
    let book = Book::new();
    for seed in 0..20 {
        learn(&book, CLAUDE, &text(100, seed), 125, Some(0));
    }
    let sibling = predict(&book, "anthropic/claude-opus-4-8", &text(100, 1)).value.unwrap();
    let stranger = predict(&book, "somewhere/else", &text(100, 1)).value.unwrap();
    assert!(sibling > 112 && stranger < 106, "{sibling} and {stranger}");
}

#[test]
fn the_right_vocabulary_counts_once_the_figures_have_said_so() {
    let book = Book::new();
    assert_eq!(predict(&book, GPT, &text(80, 0)).provenance, Provenance::Estimated);
    for seed in 0..5 {
        learn(&book, GPT, &text(60 + seed, seed), 60 + seed as u64, Some(0));
    }
    let figure = predict(&book, GPT, &text(80, 0));
    assert_eq!((figure.value, figure.provenance), (Some(80), Provenance::Counted));
}

#[test]
fn the_bounds_become_narrower_with_good_predictions() {
    let book = Book::new();
    let width = |book: &Book| {
        let figure = predict(book, CLAUDE, &text(200, 0));
        figure.high.unwrap() - figure.low.unwrap()
    };
    let before = width(&book);
    for seed in 0..30 {
        learn(&book, CLAUDE, &text(150 + seed, seed), 150 + seed as u64, Some(0));
    }
    assert!(width(&book) * 4 < before, "{} of {before}", width(&book));
}

#[test]
fn another_tokenizer_is_noticed_and_learned() {
    let book = Book::new();
    for seed in 0..30 {
        assert!(!learn(&book, CLAUDE, &text(100 + seed, seed), 100 + seed as u64, Some(0)).changed);
    }
    assert!(!book.standing()[0].tokenizer_changed);
    let noticed = (0..8).find(|seed| {
        let words = 100 + 3 * *seed;
        learn(&book, CLAUDE, &text(words, *seed), (words as f64 * 1.35).round() as u64, Some(0)).changed
    });
    assert!(noticed.is_some_and(|after| after <= 5), "{noticed:?}");
    assert!(book.standing()[0].tokenizer_changed);
    for seed in 0..5 {
        learn(&book, CLAUDE, &text(100 + seed, seed), ((100 + seed) as f64 * 1.35).round() as u64, Some(0));
    }
    let figure = predict(&book, CLAUDE, &text(100, 0));
    assert!(figure.value.unwrap().abs_diff(135) <= 4, "{figure:?}");
}

#[test]
fn a_model_known_to_hide_its_thinking_has_bounds_and_no_value() {
    let book = Book::new();
    let written = Written { text: text(50, 0).into(), ..Written::default() };
    let (output, reasoning) = book.output("openai/o3-mini-2025-01-31", &written, Some(4096));
    assert_eq!((output.value, output.provenance, output.high), (None, Provenance::Bounded, Some(4096)));
    assert!(output.low.unwrap() >= 40);
    assert_eq!((reasoning.value, reasoning.high), (None, Some(4096)));
}

#[test]
fn a_model_that_is_caught_hiding_its_thinking_has_no_value_from_then_on() {
    let book = Book::new();
    assert!(predict(&book, "somewhere/else", &text(50, 0)).value.is_some());
    for seed in 0..3 {
        learn(&book, "somewhere/else", &text(50, seed), 900, Some(850));
    }
    assert!(predict(&book, "somewhere/else", &text(50, 0)).value.is_none());
    assert!(book.standing()[0].hides_reasoning);
}

#[test]
fn a_named_thinker_that_never_does_it_is_believed_after_a_while() {
    let book = Book::new();
    for seed in 0..12 {
        learn(&book, "openai/gpt-5.4-mini", &text(50, seed), 50, Some(0));
    }
    assert_eq!(predict(&book, "openai/gpt-5.4-mini", &text(50, 0)).value, Some(50));
}

#[test]
fn what_is_hidden_teaches_nothing_about_counting() {
    let (book, other) = (Book::new(), Book::new());
    for seed in 0..6 {
        learn(&book, CLAUDE, &text(80, seed), 88, Some(0));
        learn(&other, CLAUDE, &text(80, seed), 88, Some(0));
    }
    let messages = [Cow::Borrowed("Search for it.")];
    let asked = Asked { system: None, messages: &messages, tools: &[], images: 0 };
    let written = Written { text: text(80, 0).into(), hidden: true, ..Written::default() };
    let reported = Reported { input: Some(20_000), output: Some(700), reasoning: None };
    book.learn(CLAUDE, &asked, &written, None, &reported);
    assert_eq!(predict(&book, CLAUDE, &text(90, 2)), predict(&other, CLAUDE, &text(90, 2)));
}

#[test]
fn a_cut_before_the_first_word_is_unknown_and_not_nothing() {
    let book = Book::new();
    let (output, reasoning) = book.output(GPT, &Written::default(), None);
    assert_eq!((output.value, output.provenance), (None, Provenance::Unknown));
    assert_eq!((reasoning.value, reasoning.provenance), (None, Provenance::Unknown));
    let (output, _) = book.output(GPT, &Written::default(), Some(500));
    assert_eq!((output.value, output.low, output.high), (None, None, Some(500)));
}

#[test]
fn a_page_with_fewer_calls_changes_nothing() {
    let (book, young) = (Book::new(), Book::new());
    learn(&young, CLAUDE, &text(80, 0), 160, Some(0));
    for seed in 0..4 {
        learn(&book, CLAUDE, &text(80, seed), 80, Some(0));
    }
    let before = predict(&book, CLAUDE, &text(80, 0));
    book.restore(CLAUDE, young.page(CLAUDE).unwrap());
    assert_eq!(predict(&book, CLAUDE, &text(80, 0)), before);
    young.restore(CLAUDE, book.page(CLAUDE).unwrap());
    assert_eq!(predict(&young, CLAUDE, &text(80, 0)), before);
}

#[test]
fn a_page_is_a_few_kilobytes_however_many_calls_it_is_based_on() {
    let book = Book::new();
    for seed in 0..300 {
        learn(&book, CLAUDE, &text(50 + seed % 90, seed), 60 + (seed as u64 * 13) % 95, Some(0));
    }
    let stored = serde_json::to_string(&book.page(CLAUDE).unwrap()).unwrap();
    assert!(stored.len() < 10_000, "{}", stored.len());
}

/// A conversation: two requests, the second continuing the first.
mod anchored {
    use super::*;

    fn asked<'a>(messages: &'a [Cow<'a, str>], tools: &'a [Cow<'a, str>]) -> Asked<'a> {
        Asked { system: Some("Be brief."), messages, tools, images: 0 }
    }

    #[test]
    fn a_hidden_tool_prompt_is_in_the_anchor_and_need_not_be_guessed() {
        let book = Book::new();
        let tools = [Cow::Borrowed(r#"{"name":"weather","description":"Tells the weather."}"#)];
        let first = [Cow::Borrowed("What is the weather in Rome?")];
        let written = Written { calls: vec![("weather", r#"{"city":"Rome"}"#)], ..Written::default() };
        let reported = Reported { input: Some(640), output: Some(55), reasoning: Some(0) };
        let anchor = book.anchor(&asked(&first, &tools), &written, &reported).unwrap();
        let second =
            [first[0].clone(), Cow::Borrowed(r#"weather {"city":"Rome"}"#), Cow::Borrowed("Sunny, 25 degrees.")];
        let near = book.input(CLAUDE, &asked(&second, &tools), Some(&anchor));
        assert!(near.value.unwrap().abs_diff(640 + 55 + 6 + 7) <= 5, "{near:?}");
        let cold = book.input(CLAUDE, &asked(&second, &tools), None);
        assert!(cold.value.unwrap() < 300, "{cold:?}");
    }

    #[test]
    fn an_anchor_that_the_history_does_not_continue_is_not_believed() {
        let book = Book::new();
        let first = [Cow::Owned(text(300, 0))];
        let reported = Reported { input: Some(900), output: Some(5_000), reasoning: Some(0) };
        let anchor = book.counted_anchor(GPT, &asked(&first, &[]), &Written::default(), &reported).unwrap();
        // The same system prompt and tools, another conversation: the answer of the first is not in it.
        let other = [Cow::Owned(text(310, 5))];
        let figure = book.input(GPT, &asked(&other, &[]), Some(&anchor));
        assert!(figure.value.unwrap().abs_diff(910) <= 10, "{figure:?}");
        // An anchor that was not counted says nothing about another conversation.
        let anchor = book.anchor(&asked(&first, &[]), &Written::default(), &reported).unwrap();
        let figure = book.input(GPT, &asked(&other, &[]), Some(&anchor));
        assert_eq!(figure, book.input(GPT, &asked(&other, &[]), None));
    }

    #[test]
    fn whether_thinking_is_read_again_is_learned() {
        let book = Book::new();
        let model = "google/gemini-3-flash-preview";
        let mut errors = Vec::new();
        for round in 0..4 {
            let first = [Cow::Owned(text(40, round))];
            let written = Written { calls: vec![("look", "{}")], hidden: false, ..Written::default() };
            let reported = Reported { input: Some(100), output: Some(815), reasoning: Some(800) };
            let anchor = book.anchor(&asked(&first, &[]), &written, &reported).unwrap();
            let second = [first[0].clone(), Cow::Borrowed("look {}"), Cow::Borrowed("There it is.")];
            // The provider reads the thinking again: 100 + 815 + the result.
            let truth = Reported { input: Some(930), output: Some(20), reasoning: Some(0) };
            let answer = Written { text: "Here.".into(), ..Written::default() };
            let lesson = book.learn(model, &asked(&second, &[]), &answer, Some(&anchor), &truth);
            errors.push(lesson.input.unwrap().predicted.value.unwrap().abs_diff(930));
        }
        assert!(errors[0] > 700 && errors[3] < 15, "{errors:?}");
    }
}
