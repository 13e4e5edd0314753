//! Reports that cannot be true, or are far from all others: what they may do to the figures of later calls.

use andon_core::usage::Figure;
use andon_models::meter::{Asked, Book, Page, Reported, Written};

const TEXT: &str = "The quick brown fox jumps over the lazy dog, and the dog does not mind it at all today.";
const GPT: &str = "openai/gpt-4o";
const OTHER: &str = "elsewhere/claude-9";

/// A call with this report.
fn learn(book: &Book, model: &str, input: u64, output: u64) {
    let messages = [TEXT.into()];
    let asked = Asked { system: None, messages: &messages, tools: &[], images: 0 };
    let written = Written { text: TEXT.into(), ..Written::default() };
    let reported = Reported { input: Some(input), output: Some(output), reasoning: Some(0) };
    book.learn(model, &asked, &written, None, &reported);
}

/// The prediction for the same call, input and output.
fn figures(book: &Book, model: &str) -> [Figure; 2] {
    let messages = [TEXT.into()];
    let asked = Asked { system: None, messages: &messages, tools: &[], images: 0 };
    let written = Written { text: TEXT.into(), ..Written::default() };
    [book.input(model, &asked, None), book.output(model, &written, None).0]
}

fn taught() -> Book {
    let book = Book::new();
    (0..8).for_each(|_| learn(&book, GPT, 25, 20));
    book
}

#[test]
fn one_absurd_input_changes_no_models_bounds() {
    let (book, untouched) = (taught(), taught());
    learn(&book, GPT, 1_000_000_000_000, 20);
    learn(&untouched, GPT, 25, 20);
    for model in [GPT, OTHER] {
        let ([input, _], [usual, _]) = (figures(&book, model), figures(&untouched, model));
        assert!(input.high.unwrap() < usual.high.unwrap() + 10, "{model}: {input:?}, usually {usual:?}");
    }
}

#[test]
fn an_absurd_output_changes_nobody_elses_bounds() {
    let (book, untouched) = (taught(), taught());
    learn(&book, GPT, 25, 1_000_000_000_000);
    assert_eq!(figures(&book, OTHER)[1], figures(&untouched, OTHER)[1]);
}

#[test]
fn a_report_of_nothing_for_what_is_visible_teaches_nothing() {
    let (book, untouched) = (taught(), taught());
    (0..6).for_each(|_| learn(&book, GPT, 0, 0));
    assert_eq!(figures(&book, GPT), figures(&untouched, GPT));
    assert_eq!(figures(&book, OTHER), figures(&untouched, OTHER));
}

#[test]
fn a_model_that_is_always_far_off_does_not_set_the_bounds_of_the_others() {
    let book = taught();
    let usual = figures(&book, OTHER);
    // None is absurd by itself: a hidden prompt may be this long.
    for call in 0..60 {
        learn(&book, "odd/proxy", [300, 9_000, 40, 15_000][call % 4], 20);
    }
    let [input, _] = figures(&book, OTHER);
    assert!(input.high.unwrap() <= 3 * usual[0].high.unwrap(), "{input:?}, before {:?}", usual[0]);
}

#[test]
fn an_absurd_score_that_was_stored_is_ignored() {
    let book = taught();
    let mut page = serde_json::to_value(book.page(GPT).unwrap()).unwrap();
    for past in page["past"]["cold"].as_array_mut().unwrap() {
        past[2] = serde_json::json!(1e12);
    }
    let copy = Book::new();
    copy.restore(GPT, serde_json::from_value::<Page>(page).unwrap());
    for model in [GPT, OTHER] {
        let [input, _] = figures(&copy, model);
        assert!(input.high.unwrap() < 500, "{model}: {input:?}");
    }
}
