use std::sync::Arc;
use std::time::Duration;

use andon_core::usage::{Figure, Provenance, Usage, Used};
use andon_runtime::{Anchor, AnchorSetup, Message, Meter, MeteredCall, ModelRequest, Part, RunId, Signature, ToolCall};

use super::{Closing, Gauge, TooLong};

const TEXT: &str =
    "The lighthouse keeper counted the ships that came home in the evening, and wrote each of them down.";

fn request(history: &[Message]) -> ModelRequest {
    let history: Vec<_> = history.iter().cloned().map(Arc::new).collect();
    ModelRequest::new(RunId::new("r").unwrap(), 1, history).instructions("Be brief.")
}

fn seen<'a>(request: &'a ModelRequest, answer: &'a [Part]) -> MeteredCall<'a> {
    let first_piece = (!answer.is_empty()).then_some(Duration::from_millis(300));
    MeteredCall::new(request, None, answer, false, first_piece, Duration::from_secs(2))
}

/// Each test has a model of its own: the book is the whole process's.
fn gauge(model: &str, after: Closing) -> Arc<Gauge> {
    super::book().warm("maker/any");
    Gauge::new(Arc::clone(super::book()), "maker", model, after, TooLong::Refused, Some(4096))
}

#[test]
fn a_stop_does_not_wait_for_a_vocabulary_to_be_loaded() {
    // No other test names a model of this family.
    let early = Gauge::new(
        Arc::clone(super::book()),
        "maker",
        "llama-3.3-70b",
        Closing::StopsTheBill,
        TooLong::Refused,
        Some(4096),
    );
    assert!(!super::book().is_warm("maker/llama-3.3-70b"));
    let crude = cut(&early, &[Part::text(TEXT)], Usage::UNKNOWN);
    assert!(!super::book().is_warm("maker/llama-3.3-70b"), "the cut has loaded it");
    let output = crude.delivered.output;
    assert_eq!((output.value, output.provenance), (Some(TEXT.len().div_ceil(4) as u64), Provenance::Estimated));
    super::book().warm("maker/llama-3.3-70b");
    let counted = cut(&early, &[Part::text(TEXT)], Usage::UNKNOWN).delivered.output;
    assert!(counted.high < output.high && output.low <= counted.value && counted.value <= output.high);
}

fn cut(gauge: &Gauge, answer: &[Part], known: Usage) -> Used {
    gauge.cut(&seen(&request(&[Message::user("Tell me a story.")]), answer), known)
}

#[test]
fn a_cut_answer_is_estimated_within_bounds_and_never_nothing() {
    let used = cut(&gauge("a", Closing::StopsTheBill), &[Part::text(TEXT)], Usage::UNKNOWN);
    for figure in [used.delivered.input, used.delivered.output, used.billed.output] {
        let (value, low, high) = (figure.value.unwrap(), figure.low.unwrap(), figure.high.unwrap());
        assert!(0 < value && low <= value && value <= high, "{figure:?}");
        assert_eq!(figure.provenance, Provenance::Estimated);
    }
    assert!(used.billed.output.high > used.delivered.output.high, "the cut takes a moment to arrive");
    assert_eq!(used.delivered.cache_read, Figure::UNKNOWN, "how much came from a cache is not guessed");
}

#[test]
fn what_the_provider_said_is_kept() {
    let known = Usage::new().input(Figure::reported(777)).output(Figure::reported(18)).running();
    let used = cut(&gauge("b", Closing::StopsTheBill), &[Part::text(TEXT)], known);
    assert_eq!((used.delivered.input, used.delivered.output), (known.input, known.output));
    assert_eq!(used.billed.input, known.input);
    assert_eq!((used.billed.output.value, used.billed.output.low), (Some(18), Some(18)));
}

#[test]
fn a_limit_of_0_is_none() {
    let without_limit =
        |closing| Gauge::new(Arc::clone(super::book()), "maker", "r", closing, TooLong::Refused, Some(0));
    super::book().warm("maker/any");
    for closing in [Closing::StopsNothing, Closing::Unknown] {
        let used = cut(&without_limit(closing), &[Part::text(TEXT)], Usage::UNKNOWN);
        assert_eq!((used.billed.output.value, used.billed.output.high), (None, None));
    }
    let used = cut(&without_limit(Closing::StopsTheBill), &[Part::text(TEXT)], Usage::UNKNOWN);
    assert!(used.billed.output.high > used.delivered.output.high, "{used:?}");
}

#[test]
fn whatever_was_certainly_delivered_is_billed_wherever_the_connection_was_closed() {
    let estimate = Figure::new().value(50).provenance(Provenance::Estimated).low(43).high(60);
    let bounds = Figure::bounded(Some(40), None);
    let reported = Figure::exact(40, Provenance::ReportedRunning);
    let asked = request(&[]);
    let call = seen(&asked, &[]);
    for closing in [Closing::StopsTheBill, Closing::StopsNothing, Closing::Unknown] {
        for delivered in [estimate, estimate.low(None), bounds, reported, Figure::UNKNOWN] {
            for limit in [None, Some(10), Some(4096)] {
                let gauge = Gauge::new(Arc::clone(super::book()), "maker", "s", closing, TooLong::Refused, limit);
                let billed = gauge.charged(delivered, &call);
                assert_eq!(billed.at_least(), delivered.at_least(), "{closing:?} {limit:?} {delivered:?} {billed:?}");
                assert!(billed.high.is_none_or(|high| high >= delivered.at_least()), "{billed:?}");
            }
        }
    }
}

#[test]
fn where_closing_does_not_stop_the_bill_only_the_limit_bounds_it() {
    for after in [Closing::StopsNothing, Closing::Unknown] {
        let billed = cut(&gauge("c", after), &[Part::text(TEXT)], Usage::UNKNOWN).billed.output;
        assert_eq!((billed.value, billed.provenance, billed.high), (None, Provenance::Bounded, Some(4096)));
        assert!(billed.low.unwrap() > 0, "what was delivered is billed");
    }
}

#[test]
fn a_call_that_was_cut_before_its_first_word_has_bounds_and_no_value() {
    let used = cut(&gauge("d", Closing::StopsTheBill), &[], Usage::UNKNOWN);
    assert_eq!((used.delivered.output.value, used.delivered.output.low), (None, None));
    assert_eq!((used.billed.input.value, used.billed.input.low), (None, Some(0)), "it may never have been taken up");
    assert!(used.billed.input.high.unwrap() > 0);
    assert_eq!(used.billed.output.high, Some(4096));
}

#[test]
fn an_attempt_of_which_no_answer_began_has_certainly_used_nothing() {
    let long = request(&[Message::user(TEXT.repeat(200))]);
    let used = gauge("d2", Closing::StopsTheBill).cut(&seen(&long, &[]), Usage::UNKNOWN);
    for input in [used.delivered.input, used.billed.input] {
        assert_eq!((input.value, input.low, input.at_least()), (None, Some(0), 0));
        assert!(input.high.unwrap() > 2_000, "it may have been read all the same: {input:?}");
    }
    let whole = seen(&long, &[]).ended(true);
    let used = gauge("d2", Closing::StopsTheBill).cut(&whole, Usage::UNKNOWN);
    assert!(used.delivered.input.value.is_some(), "an answer of nothing is an answer: {used:?}");
}

#[test]
fn an_early_report_of_a_model_that_hides_its_thinking_gives_way_to_what_was_shown() {
    let book = Arc::clone(super::book());
    book.warm("maker/gpt-5");
    let gauge = Gauge::new(book, "maker", "gpt-5-x", Closing::StopsTheBill, TooLong::Refused, Some(4096));
    let known = Usage::reported(12, 1).running();
    let output = cut(&gauge, &[Part::text(TEXT.repeat(20))], known).delivered.output;
    assert_eq!((output.value, output.provenance, output.high), (None, Provenance::Bounded, Some(4096)));
    assert!(output.low.unwrap() > 200, "{output:?}");
}

#[test]
fn a_deployment_of_a_model_that_hides_its_thinking_may_hide_it_too_whatever_its_name() {
    let gauge = gauge("gpt-5", Closing::StopsTheBill);
    let (asked, answer) = (request(&[Message::user("Think.")]), [Part::text(TEXT)]);
    let call = seen(&asked, &answer).model(Some("prod-reasoner"));
    let Used { delivered, billed, .. } = gauge.cut(&call, Usage::UNKNOWN);
    for output in [delivered.output, billed.output] {
        assert_eq!(
            (output.value, output.provenance, output.high),
            (None, Provenance::Bounded, Some(4096)),
            "{output:?}"
        );
    }
    // Its own reports say that it does not.
    for _ in 0..40 {
        let all = Usage::reported(12, 40).reasoning(Figure::reported(0));
        gauge.learn(&call.ended(true), all);
    }
    assert!(gauge.cut(&call, Usage::UNKNOWN).delivered.output.value.is_some());
}

#[test]
fn a_report_that_is_below_an_estimate_stays_within_its_bounds() {
    let answer = [Part::text(TEXT.repeat(3))];
    let estimate = cut(&gauge("s", Closing::StopsTheBill), &answer, Usage::UNKNOWN).delivered.output;
    let reported = estimate.low.unwrap() - 1;
    let output = cut(&gauge("s", Closing::StopsTheBill), &answer, Usage::reported(12, reported).running());
    let output = output.delivered.output;
    assert_eq!((output.low, output.value, output.high), (Some(reported), estimate.value, estimate.high));
}

#[test]
fn at_least_is_further_away_than_the_bounds_of_a_value() {
    let answer = [Part::text(TEXT.repeat(20))];
    let shown = cut(&gauge("n", Closing::StopsTheBill), &answer, Usage::UNKNOWN).delivered.output;
    let billed = cut(&gauge("n", Closing::StopsNothing), &answer, Usage::UNKNOWN).billed.output;
    assert_eq!(billed.low, Some(shown.at_least()));
    assert!(billed.low < shown.low && billed.low > Some(50), "{shown:?} {billed:?}");
    let summary = thought("Hm.");
    let claude = gauge("claude-n", Closing::StopsTheBill);
    let only_text = cut(&gauge("claude-n", Closing::StopsTheBill), &answer, Usage::UNKNOWN).delivered.output;
    let output = cut(&claude, &[summary, answer[0].clone()], Usage::UNKNOWN).delivered.output;
    assert_eq!(output, Figure::bounded(Some(only_text.at_least()), Some(4096)));
}

#[test]
fn a_text_that_vocabularies_disagree_about_claims_little() {
    // Mistral's vocabulary takes sixteen times as many tokens for it as others do.
    for odd in [" ".repeat(8_000), "=".repeat(8_000), "-".repeat(8_000)] {
        let output = cut(&gauge("o", Closing::StopsNothing), &[Part::text(odd)], Usage::UNKNOWN).billed.output;
        assert!(output.low.unwrap() <= 8_000 / 128, "{output:?}");
    }
}

#[test]
fn a_request_that_was_refused_has_cost_nothing() {
    assert_eq!(cut(&gauge("e", Closing::StopsTheBill), &[], Usage::NONE).delivered, Usage::NONE);
}

#[test]
fn a_thought_that_was_not_shown_leaves_only_bounds() {
    let output =
        cut(&gauge("f", Closing::StopsTheBill), &[thought(""), Part::text(TEXT)], Usage::UNKNOWN).delivered.output;
    assert_eq!((output.value, output.provenance), (None, Provenance::Bounded));
    assert!(output.low.unwrap() > 0);
}

#[test]
fn half_a_call_is_counted() {
    let arguments = "{\"path\": \"/a/long/path/to/a/file.txt\", \"content\": \"something that was being wri".to_owned();
    let id = andon_runtime::CallId::new("a").unwrap();
    let half = Part::ToolCall(ToolCall::new(id, "write_file", arguments));
    let used = cut(&gauge("g", Closing::StopsTheBill), &[half], Usage::UNKNOWN);
    assert!(used.delivered.output.value.unwrap() > 10, "{used:?}");
}

#[test]
fn what_was_learned_is_kept_by_the_name_that_the_provider_answered_with_and_estimates_the_same_elsewhere() {
    let (gauge, answer) = (gauge("h", Closing::StopsTheBill), [Part::text(TEXT.repeat(3))]);
    let before = cut(&gauge, &answer, Usage::UNKNOWN).delivered.output;
    let asked = request(&[Message::user("Tell me a story.")]);
    let call = seen(&asked, &answer).model(Some("h-2026-11-01")).ended(true);
    let lessons = (0..5).fold(Vec::new(), |_, _| gauge.learn(&call, Usage::reported(40, 90)));
    assert_eq!(lessons.len(), 1);
    assert_eq!(lessons[0].about, "maker/h-2026-11-01");
    let after = cut(&gauge, &answer, Usage::UNKNOWN).delivered.output;
    assert!(after.value > before.value, "{before:?} {after:?}");

    let book = Arc::new(crate::meter::Book::new());
    let elsewhere =
        Gauge::new(Arc::clone(&book), "maker", "h-2026-11-01", Closing::StopsTheBill, TooLong::Refused, Some(4096));
    assert!(lessons.into_iter().all(|lesson| book.restore(lesson).is_none()));
    assert_eq!(cut(&elsewhere, &answer, Usage::UNKNOWN).delivered.output, after);
}

#[test]
fn after_a_restart_a_call_that_was_cut_before_its_first_word_is_measured_by_the_model_that_answered_last() {
    let (first, answer) = (gauge("p", Closing::StopsTheBill), [Part::text(TEXT.repeat(3))]);
    let asked = request(&[Message::user("Tell me a story.")]);
    let learn = |exact: &str, output| {
        let call = seen(&asked, &answer).model(Some(exact)).ended(true);
        (0..5).fold(Vec::new(), |_, _| first.learn(&call, Usage::reported(40, output)))
    };
    let lessons = [learn("p-2025-01-01", 70), learn("p-2026-01-01", 200)].concat();
    let book = Arc::new(crate::meter::Book::new());
    let next = |model: &str| {
        Gauge::new(Arc::clone(&book), "maker", model, Closing::StopsTheBill, TooLong::Refused, Some(4096))
    };
    let (alias, other) = (next("p"), next("q"));
    for gauge in [&alias, &other] {
        assert_eq!(gauge.recall(lessons.clone()), []);
    }
    let output = |gauge: &Gauge| cut(gauge, &answer, Usage::UNKNOWN).delivered.output.value.unwrap();
    assert_eq!(output(&alias), output(&next("p-2026-01-01")));
    assert_ne!(output(&other), output(&alias), "nobody asked for it by that name");
}

#[test]
fn what_can_be_said_without_counting_claims_nothing_that_may_be_false() {
    // No other test names a model of this family.
    let gauge = gauge("minimax-m2", Closing::StopsTheBill);
    let output = |answer: &[Part]| cut(&gauge, answer, Usage::UNKNOWN).delivered.output;
    let odd = [Part::text(" ".repeat(12_800))];
    let shown = output(&odd);
    assert!(shown.value == Some(3_200) && shown.at_least() <= 25 && shown.low <= Some(25), "{shown:?}");
    let hidden = [thought("")];
    let hiding = output(&[&odd[..], &hidden].concat());
    assert_eq!((hiding.value, hiding.high), (None, Some(4096)));
    assert!(hiding.low.is_some_and(|low| low <= 25), "{hiding:?}");
    assert_eq!(output(&hidden), Figure::bounded(None, Some(4096)));
    assert_eq!(output(&[]), Figure::bounded(None, Some(4096)));
    let input = |parts: &[Part]| {
        let asked = request(&[Message::user("").parts(parts.to_vec())]);
        gauge.cut(&seen(&asked, &odd), Usage::UNKNOWN).delivered.input
    };
    let with_thinking = [&odd[..], &[thought(&"I look.".repeat(500))]].concat();
    assert_eq!(input(&with_thinking), input(&odd), "thinking of the history is seldom sent");
    assert_eq!(input(&odd).low, Some(1));
    assert!(!super::book().is_warm("maker/minimax-m2"));
}

fn thought(text: &str) -> Part {
    Part::Thinking { text: text.to_owned(), signature: Some(Signature::new("maker", "seal")) }
}

#[test]
fn a_lesson_that_cannot_be_read_is_left_out() {
    let gauge = gauge("i", Closing::StopsTheBill);
    let foreign = andon_runtime::Lesson::new("maker/i", serde_json::json!({"what": "is this"}));
    assert_eq!(gauge.recall(vec![foreign]), [], "what another meter has kept is not ours to discard");
    assert!(cut(&gauge, &[Part::text(TEXT)], Usage::UNKNOWN).delivered.output.value.unwrap() > 0);
}

#[test]
fn a_running_zero_after_much_text_is_not_delivered_zero() {
    // A server that sends its usage with the first chunk and the last.
    let known = Usage::reported(12, 0).running();
    let used = cut(&gauge("k", Closing::StopsTheBill), &[Part::text(TEXT.repeat(20))], known);
    let output = used.delivered.output;
    assert!(output.value.unwrap() > 200 && output.provenance == Provenance::Estimated, "{used:?}");
    assert!(used.billed.output.low >= output.low, "{used:?}");
}

#[test]
fn a_provider_that_reports_all_the_way_gets_as_good_a_bill_as_any() {
    let known = Usage::reported(12, 40).running();
    let billed = cut(&gauge("l", Closing::StopsTheBill), &[Part::text(TEXT)], known).billed.output;
    assert_eq!((billed.value, billed.low), (Some(40), Some(40)));
    assert!(billed.high.is_some_and(|high| high > 40 && high < 4096), "{billed:?}");
    let billed = cut(&gauge("l", Closing::StopsNothing), &[Part::text(TEXT)], known).billed.output;
    assert_eq!((billed.value, billed.low, billed.high), (None, Some(40), Some(4096)));
}

/// A conversation of so many messages, each of about 46 tokens.
fn talk(messages: usize) -> ModelRequest {
    let said = (0..messages).map(|number| Message::user(format!("{number}: {TEXT} {TEXT}")));
    request(&said.collect::<Vec<_>>())
}

/// What is certainly read of a request that is cut.
fn certain(gauge: &Gauge, request: &ModelRequest) -> u64 {
    gauge.cut(&seen(request, &[Part::text("Yes.")]), Usage::UNKNOWN).delivered.input.at_least()
}

#[test]
fn of_a_request_that_a_server_may_shorten_no_more_is_certain_than_it_has_been_seen_to_read() {
    let shortens = Gauge::new(Arc::default(), "maker", "t", Closing::StopsTheBill, TooLong::Unknown, None);
    let refuses = Gauge::new(Arc::default(), "maker", "t", Closing::StopsTheBill, TooLong::Refused, None);
    shortens.book.warm("maker/t");
    assert!((1..=256).contains(&certain(&shortens, &talk(400))), "before any report");
    for gauge in [&shortens, &refuses] {
        for messages in (10..60).step_by(5) {
            let call = talk(messages);
            gauge.learn(&seen(&call, &[Part::text("Yes.")]).ended(true), Usage::reported(46 * messages as u64, 2));
        }
    }
    // It reads 4,096 tokens at most: whatever comes on top of that pushes the oldest messages out.
    let window = 4_096 - 46;
    for messages in [60, 90, 100, 400] {
        let (honest, bold) = (certain(&shortens, &talk(messages)), certain(&refuses, &talk(messages)));
        assert!(honest <= window.min(46 * messages as u64), "{honest} of {messages} messages");
        assert!(honest > 46 * 55 / 5, "{honest}: a part of what was read before still fits");
        assert!(bold > 30 * messages as u64, "{bold}: a server that refuses what is too long has read it all");
    }
    assert_eq!(certain(&shortens, &talk(50)), certain(&refuses, &talk(50)), "as much was read before");
}

#[test]
fn a_window_that_begins_to_slide_between_two_calls_makes_no_lower_bound_false() {
    let gauge = Gauge::new(Arc::default(), "maker", "u", Closing::StopsTheBill, TooLong::Unknown, None);
    gauge.book.warm("maker/u");
    let answer = [Part::text("Yes.")];
    // The first message is by far the longest.
    let first = Message::user(format!("{} {TEXT}", TEXT.repeat(170)));
    let follow = |more: &[Message]| request(&[std::slice::from_ref(&first), more].concat());
    let short = follow(&[]);
    for _ in 0..6 {
        gauge.learn(&seen(&short, &answer).ended(true), Usage::reported(3_950, 2));
    }
    let anchor = Anchor::new(Usage::reported(3_950, 2), 1, None, AnchorSetup::Same);
    let next = follow(&[Message::assistant("Yes."), Message::user(TEXT.repeat(20))]).anchor(Some(anchor));
    let value = gauge.cut(&seen(&next, &answer), Usage::UNKNOWN).delivered.input.value;
    assert!(value.is_some_and(|value| value > 4_200), "{value:?}");
    // The first message no longer fits: only the last two are read.
    assert!(certain(&gauge, &next) <= 470, "{}", certain(&gauge, &next));
}

#[test]
fn after_a_window_has_shrunk_less_is_certain() {
    let gauge = Gauge::new(Arc::default(), "maker", "v", Closing::StopsTheBill, TooLong::Unknown, None);
    gauge.book.warm("maker/v");
    let learn = |messages: usize, read: u64| {
        gauge.learn(&seen(&talk(messages), &[Part::text("Yes.")]).ended(true), Usage::reported(read, 2));
    };
    (0..8).for_each(|_| learn(170, 46 * 170));
    assert!(certain(&gauge, &talk(200)) > 1_900);
    learn(170, 2_048);
    assert!(certain(&gauge, &talk(200)) <= 1_024);
}
