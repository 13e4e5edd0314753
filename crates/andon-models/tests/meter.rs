//! What the meter promises, asked as the runtime asks it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::Duration;

use andon_core::usage::{Figure, Provenance, Usage};
use andon_models::meter::{Accuracy, Book};
use andon_runtime::{
    Anchor, AnchorSetup, CallId, Lesson, Message, Meter, MeteredCall, ModelRequest, Part, RunId, Signature, ToolCall,
};
use proptest::prelude::*;

const WORDS: [&str; 12] =
    ["river", "answer", "stone", "the", "quickly", "of", "machine", "under", "quiet", "light", "and", "seven"];

fn text(words: usize, seed: usize) -> String {
    let word = |place: usize| WORDS[(place * 7 + seed * 5 + place * place) % WORDS.len()];
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

fn request(messages: Vec<Message>, anchor: Option<Anchor>) -> ModelRequest {
    ModelRequest::new(RunId::new("r").unwrap(), 1, messages.into_iter().map(Arc::new).collect::<Vec<_>>())
        .instructions("Be brief.")
        .anchor(anchor)
}

/// A reported call, of the same agent.
fn anchored(usage: Usage, messages: usize) -> Anchor {
    Anchor::new(usage, messages, None, AnchorSetup::Same)
}

/// A model in a book, and the provider that reports for it.
struct Model {
    book: Arc<Book>,
    meter: Arc<dyn Meter>,
}

impl Model {
    fn named(name: &str) -> Self {
        Self::of(&Arc::default(), name)
    }

    fn of(book: &Arc<Book>, name: &str) -> Self {
        Self { book: Arc::clone(book), meter: book.meter("openai", name) }
    }

    fn cut(&self, request: &ModelRequest, answer: &[Part], ended: bool) -> Usage {
        self.meter.cut(&sighting(request, answer, ended), Usage::UNKNOWN).delivered
    }

    /// What is estimated for this text, when its answer was cut.
    fn output(&self, text: &str) -> Figure {
        self.cut(&request(vec![Message::user("Tell me.")], None), &[Part::text(text)], false).output
    }

    fn learn(&self, answer: &[Part], reported: Usage) -> Vec<Lesson> {
        self.meter.learn(&sighting(&request(vec![Message::user("Tell me.")], None), answer, true), reported)
    }

    /// Texts of several lengths, for which so many tokens a word are reported.
    fn learn_texts(&self, calls: usize, tokens_a_word: f64) {
        for number in 0..calls {
            let words = 20 + 13 * (number % 6);
            let output = (tokens_a_word * words as f64).round() as u64;
            self.learn(&[Part::text(text(words, number))], Usage::reported(14, output).reasoning(Figure::reported(0)));
        }
    }

    fn accuracy(&self) -> Accuracy {
        self.book.accuracy().remove(0)
    }
}

fn sighting<'a>(request: &'a ModelRequest, answer: &'a [Part], ended: bool) -> MeteredCall<'a> {
    let (first_piece, took) = (Some(Duration::from_millis(300)), Duration::from_secs(2));
    MeteredCall::new(request, None, answer, ended, first_piece, took)
}

fn thought(text: &str) -> Part {
    Part::Thinking { text: text.to_owned(), signature: Some(Signature::new("openai", "seal")) }
}

fn off(figure: Figure, truth: f64) -> f64 {
    (figure.value.unwrap() as f64 / truth - 1.0).abs()
}

#[test]
fn a_model_that_needs_more_tokens_is_learned_in_five_calls() {
    let model = Model::named("next");
    let before = model.output(&text(200, 99));
    model.learn_texts(5, 1.6);
    let after = model.output(&text(200, 99));
    assert!(off(after, 320.0) < 0.06 && off(before, 320.0) > 0.15, "{before:?} {after:?}");
    assert!(after.high.unwrap() - after.low.unwrap() < before.high.unwrap() - before.low.unwrap());
}

#[test]
fn the_right_vocabulary_counts_once_the_figures_have_said_so() {
    let model = Model::named("gpt-4o");
    assert_eq!(model.output(&text(60, 1)).provenance, Provenance::Estimated);
    // Each of these words is one token.
    model.learn_texts(6, 1.0);
    let counted = model.output(&text(60, 1));
    assert_eq!((counted.value, counted.provenance), (Some(60), Provenance::Counted));
}

#[test]
fn another_tokenizer_is_learned_and_soon_nothing_false_is_certain() {
    for (rate, truth) in [(1.4, 140), (0.7, 70)] {
        let model = Model::named("gpt-4o");
        model.learn_texts(20, 1.0);
        model.learn_texts(4, rate);
        let soon = model.output(&text(100, 3));
        assert!(soon.at_least() <= truth && truth <= soon.high.unwrap(), "{soon:?}");
        model.learn_texts(60, rate);
        let after = model.output(&text(100, 3));
        assert!(off(after, truth as f64) < 0.05, "{after:?}");
    }
}

#[test]
fn a_model_that_hides_its_thinking_has_bounds_and_no_value() {
    let named = Model::named("o3-mini");
    let output = named.output(&text(50, 1));
    assert_eq!((output.value, output.provenance), (None, Provenance::Bounded));
    assert!(output.low.is_some_and(|low| low > 30) && output.high.is_none(), "{output:?}");

    let caught = Model::named("gpt-4o");
    caught.learn(&[Part::text(text(50, 1))], Usage::reported(14, 900));
    assert_eq!(caught.output(&text(50, 1)).value, None, "it wrote far more than it showed");
    assert!(caught.accuracy().hides_reasoning);

    let believed = Model::named("gpt-5-nano");
    believed.learn_texts(20, 1.0);
    assert_eq!(believed.output(&text(50, 1)).value, Some(50), "it has shown that it does not think");
}

#[test]
fn a_summary_of_what_was_thought_says_only_that_there_was_more() {
    let model = Model::named("claude-sonnet-5");
    let answer = [thought(&text(40, 1)), Part::text(text(50, 2))];
    let request = request(vec![Message::user("Why?")], None);
    let output = model.cut(&request, &answer, false).output;
    assert_eq!((output.value, output.high), (None, None), "{output:?}");
    for _ in 0..6 {
        model.learn(&answer, Usage::reported(14, 160 + 70).reasoning(Figure::reported(160)));
    }
    let output = model.cut(&request, &answer, false).output;
    assert!(output.low.unwrap() < 230 && output.high.unwrap() > 230 && off(output, 230.0) < 0.15, "{output:?}");
}

#[test]
fn what_is_hidden_teaches_nothing_about_counting() {
    let model = Model::named("claude-old");
    model.learn_texts(6, 1.1);
    let before = model.output(&text(100, 1));
    for _ in 0..10 {
        model.learn(&[thought(""), Part::text(text(50, 1))], Usage::reported(14, 700));
    }
    assert!(model.output(&text(100, 1)).value.is_none_or(|value| Some(value) == before.value));
}

#[test]
fn a_cut_before_the_first_word_is_unknown_and_not_nothing() {
    let output = Model::named("gpt-4o").output("");
    assert_eq!(output, Figure::UNKNOWN);
}

#[test]
fn reports_that_cannot_be_true_teach_nothing() {
    let model = Model::named("claude-old");
    model.learn_texts(8, 1.1);
    let request = request(vec![Message::user(text(60, 4))], None);
    let figures = || model.cut(&request, &[Part::text(text(80, 1))], false);
    let before = figures();
    for (input, output) in [(1 << 40, 1 << 40), (0, 0), (0, 1)] {
        model.learn(&[Part::text(text(80, 2))], Usage::reported(input, output));
    }
    let after = figures();
    assert_eq!(after.input, before.input);
    assert!(after.output.value.is_none_or(|value| Some(value) == before.output.value), "{after:?}");
}

#[test]
fn a_made_up_model_leaves_the_bounds_of_the_others_alone() {
    let book = Arc::default();
    let (good, wild) = (Model::of(&book, "claude-old"), Model::of(&book, "claude-wild"));
    good.learn_texts(8, 1.1);
    let before = good.output(&text(80, 1));
    wild.learn_texts(20, 3.9);
    assert_eq!(good.output(&text(80, 1)), before);
}

#[test]
fn the_next_request_is_measured_from_the_last_one_that_was_reported() {
    let model = Model::named("gpt-4o");
    let history = [Message::user("Tell me a story."), Message::assistant(text(25, 1)), Message::user("Go on.")];
    let anchor = |messages| Some(anchored(Usage::reported(5000, 25), messages));
    let input =
        |anchor| model.cut(&request(history.to_vec(), anchor), &[Part::text("Well")], false).input.value.unwrap();
    assert!((5028..5048).contains(&input(anchor(1))), "5000 and 25 and a few more, not {}", input(anchor(1)));
    assert_eq!(input(anchor(3)), 5000, "the same request again");
    assert!(input(anchor(99)) < 100, "that is no part of this conversation");
    let cut = anchored(Usage::reported(5000, 25).running(), 1);
    assert!(input(Some(cut)) < 100, "only a final report is measured from");
}

#[test]
fn thinking_that_nobody_reported_or_showed_is_not_taken_to_be_read_again() {
    for name in ["gpt-5-mini", "o3", "some-thinker"] {
        let model = Model::named(name);
        let input = |said: &str, written| {
            let history = [Message::user("Why?"), Message::assistant(said), Message::user("And then?")];
            let anchor = anchored(Usage::reported(200, written), 1);
            model.cut(&request(history.to_vec(), Some(anchor)), &[Part::text("Well")], false).input
        };
        // A hundred tokens are shown and come back, with the next message; the rest of the 3,000 was thought.
        let (shown, nothing) = (input(&text(95, 1), 3_000), input("", 3_000));
        assert!(shown.low.unwrap() <= 310 && 318 <= shown.high.unwrap(), "{name}: {shown:?}");
        assert!((300..350).contains(&shown.value.unwrap()), "{name}: {shown:?}");
        assert!(nothing.low.unwrap() <= 210 && nothing.value.unwrap() < 240, "{name}: {nothing:?}");
        // An answer that what is shown explains is known to the token.
        let explained = input(&text(95, 1), 101);
        assert!(explained.high.unwrap() - explained.low.unwrap() < shown.high.unwrap() - shown.low.unwrap());
    }
}

/// A conversation of which the first answer was reported, with instructions of some hundred tokens.
fn continued(anchor: Anchor) -> ModelRequest {
    let history = vec![Message::user("Tell me a story."), Message::assistant(text(25, 1)), Message::user("Go on.")];
    (request(history, Some(anchor))).instructions(text(400, 3))
}

#[test]
fn an_agent_that_may_have_been_changed_widens_the_bounds_by_a_share_of_its_setup_and_teaches_nothing() {
    let model = Model::named("gpt-4o");
    let same = continued(anchored(Usage::reported(5000, 25), 1));
    let anchor = same.anchor.clone().unwrap().setup(AnchorSetup::MayDiffer);
    let perhaps = same.clone().anchor(anchor);
    let (known, wider) = (model.cut(&same, &[], false).input, model.cut(&perhaps, &[], false).input);
    assert_eq!(known.value, wider.value);
    let half = |figure: Figure| figure.high.unwrap() - figure.value.unwrap();
    assert!(half(wider) > half(known) + 80, "{known:?} {wider:?}");
    for _ in 0..10 {
        let usage = Usage::reported(0, 2).input(Figure::reported(9_000));
        model.meter.learn(&sighting(&perhaps, &[Part::text("Well.")], true), usage);
    }
    assert_eq!(model.cut(&same, &[], false).input, known);
}

#[test]
fn a_call_that_another_model_answered_is_not_measured_from() {
    let model = Model::named("router");
    let anchor = (anchored(Usage::reported(5000, 25), 1)).answered_by("first-choice");
    let asked = continued(anchor);
    let input = |answers| {
        let call = sighting(&asked, &[], false).model(answers);
        model.meter.cut(&call, Usage::UNKNOWN).delivered.input.value.unwrap()
    };
    assert!(input(Some("first-choice")) > 5000 && input(None) > 5000);
    assert!(input(Some("second-choice")) < 1000, "it is counted anew: {}", input(Some("second-choice")));
}

#[test]
fn what_came_before_a_reported_call_is_not_looked_at() {
    let model = Model::named("claude-old");
    let input = |old: &str| {
        let mut history = vec![Message::user(old); 2001];
        history.extend([Message::assistant("An answer."), Message::user("And now?")]);
        let anchor = anchored(Usage::reported(90_000, 4), 2001);
        model.cut(&request(history, Some(anchor)), &[Part::text("Well")], false).input
    };
    assert_eq!(input("short"), input(&text(5_000, 1)));
}

#[test]
fn names_that_a_provider_makes_up_take_a_bounded_room() {
    let (book, mut kept) = (Arc::default(), std::collections::BTreeSet::new());
    Model::of(&book, "gpt-4o").learn_texts(20, 1.0);
    let provider = book.meter("openai", "asked-for");
    let asked = request(vec![Message::user("Tell me.")], None);
    for number in 0..150 {
        let (name, answer) = (format!("made-up-{number}"), [Part::text(text(30, number))]);
        let call = sighting(&asked, &answer, true).model(Some(&name));
        for Lesson { about, page, .. } in provider.learn(&call, Usage::reported(14, 33)) {
            if page.is_null() {
                kept.remove(&about)
            } else {
                kept.insert(about)
            };
        }
    }
    let models = book.accuracy();
    assert_eq!((models.len(), kept.len()), (64, 63), "and one that was kept before");
    assert!(models.iter().any(|model| model.model == "openai/gpt-4o" && model.calls == 20));
}

#[test]
fn rows_of_an_older_version_and_more_than_there_is_room_for_are_discarded_at_the_start() {
    let kept: Vec<Lesson> = (0..150)
        .map(|number| {
            let model = Model::named(&format!("kept-{number}"));
            model.learn_texts(1 + number / 3, 1.2);
            model.learn(&[Part::text(text(30, number))], Usage::reported(14, 33)).remove(0)
        })
        .collect();
    let with_version = |version: u64| {
        let mut page = kept[149].page.clone();
        page["learned"]["version"] = version.into();
        page
    };
    let odd = [
        ("openai/bare", with_version(1)["learned"].clone()),
        ("openai/old", with_version(1)),
        ("openai/newer", with_version(99)),
        ("openai/foreign", serde_json::json!({"calls": 7})),
    ];
    let odd = odd.map(|(about, page)| Lesson::new(about.to_owned(), page));
    let book = Arc::default();
    let discarded = book_meter(&book).recall([odd.to_vec(), kept.clone()].concat());
    assert!(discarded.iter().all(|lesson| lesson.page.is_null()));
    let mut gone: Vec<&str> = discarded.iter().map(|lesson| lesson.about.as_str()).collect();
    gone.sort_unstable();
    assert_eq!((gone.len(), &gone[..2]), (150 - 64 + 2, ["openai/bare", "openai/kept-0"].as_slice()));
    assert!(gone.contains(&"openai/old") && !gone.contains(&"openai/kept-149"));
    assert_eq!(book.accuracy().len(), 64);
    assert_eq!(book_meter(&book).recall(kept[100..].to_vec()), [], "what is here is to be kept");
}

fn book_meter(book: &Arc<Book>) -> Arc<dyn Meter> {
    book.meter("openai", "asked-for")
}

#[test]
fn a_page_says_how_good_it_is_and_stays_small() {
    let model = Model::named("claude-old");
    model.learn_texts(300, 1.2);
    let Lesson { about, page, .. } = model.learn(&[Part::text(text(50, 1))], Usage::reported(14, 60)).remove(0);
    assert_eq!((about.as_str(), &page["standing"]["calls"]), ("openai/claude-old", &301.into()));
    let accuracy: Accuracy = serde_json::from_value(page["standing"].clone()).unwrap();
    let output = accuracy.output.unwrap();
    assert!(output.median < 0.03 && output.coverage > 0.9, "{output:?}");
    assert!(page.to_string().len() < 6_000, "{}", page.to_string().len());
}

/// One made-up call.
#[derive(Debug, Clone)]
struct Call {
    model: &'static str,
    messages: Vec<String>,
    text: String,
    thinking: String,
    arguments: Vec<String>,
    hidden: bool,
    ended: bool,
    usage: Usage,
}

impl Call {
    fn request(&self, anchor: Option<Usage>) -> ModelRequest {
        let anchor = anchor.map(|usage| anchored(usage, self.messages.len() / 2));
        request(self.messages.iter().map(Message::user).collect(), anchor)
    }

    fn answer(&self) -> Vec<Part> {
        let call = |(number, arguments): (usize, &String)| {
            let id = CallId::new(format!("c{number}")).unwrap();
            Part::ToolCall(ToolCall::new(id, "tool", arguments.clone()))
        };
        let hidden = self.hidden.then(|| thought(""));
        let parts = [Part::Thinking { text: self.thinking.clone(), signature: None }, Part::text(self.text.clone())];
        hidden.into_iter().chain(parts).chain(self.arguments.iter().enumerate().map(call)).collect()
    }

    fn predict(&self, book: &Arc<Book>, anchor: Option<Usage>) -> Usage {
        let (request, answer) = (self.request(anchor), self.answer());
        Model::of(book, self.model).cut(&request, &answer, self.ended)
    }

    fn learn(&self, book: &Arc<Book>, anchor: Option<Usage>) -> Vec<Lesson> {
        let (request, answer) = (self.request(anchor), self.answer());
        book.meter("openai", self.model).learn(&sighting(&request, &answer, true), self.usage)
    }
}

fn figures() -> impl Strategy<Value = Figure> {
    prop_oneof![
        4 => (0..5_000_u64).prop_map(Figure::reported),
        1 => prop_oneof![Just(0), Just(1), Just(u64::MAX)].prop_map(Figure::reported),
        1 => Just(Figure::UNKNOWN),
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
    let model = prop::sample::select(vec!["gpt-4o", "claude-sonnet-4-5", "o3-mini", "llama3-8b", "no-such-model"]);
    let usage = (figures(), figures(), figures());
    let answer = (texts(), texts(), prop::collection::vec(texts(), 0..3), any::<bool>(), any::<bool>());
    (model, prop::collection::vec(texts(), 1..5), answer, usage).prop_map(|(model, messages, answer, usage)| {
        let (text, thinking, arguments, hidden, ended) = answer;
        let usage = Usage::new().input(usage.0).output(usage.1).reasoning(usage.2);
        Call { model, messages, text, thinking, arguments, hidden, ended, usage }
    })
}

fn is_honest(figure: Figure) {
    assert_ne!(figure.value, Some(0));
    match figure.value {
        Some(value) => {
            assert!(matches!(figure.provenance, Provenance::Estimated | Provenance::Counted), "{figure:?}");
            let held = figure.low.is_some_and(|low| low <= value) && figure.high.is_some_and(|high| value <= high);
            assert!(held, "{figure:?}");
        }
        None => assert_eq!(figure, Figure::bounded(figure.low, figure.high)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_figure_is_honest_whatever_was_asked_written_and_reported(calls in prop::collection::vec(calls(), 1..8)) {
        let (book, mut anchor) = (Arc::default(), None);
        for call in &calls {
            let usage = call.predict(&book, anchor);
            [usage.input, usage.output, usage.reasoning].into_iter().for_each(is_honest);
            call.learn(&book, anchor);
            anchor = Some(call.usage);
        }
    }

    #[test]
    fn a_book_with_the_same_pages_predicts_the_same(calls in prop::collection::vec(calls(), 1..8)) {
        let (book, copy): (Arc<Book>, Arc<Book>) = Default::default();
        for call in &calls {
            let lessons = call.learn(&book, None);
            copy.meter("openai", call.model).recall(lessons);
        }
        for call in &calls {
            prop_assert_eq!(call.predict(&book, Some(call.usage)), call.predict(&copy, Some(call.usage)));
        }
    }
}
