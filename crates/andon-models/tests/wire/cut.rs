//! What follows a cut.

use andon_models::{Builder, CutPolicy, Drain, HttpModel};
use andon_runtime::{Answer, Figure, Findings, Part, Pending, Provenance};
use andon_testkit::provider::{Gate, Generation, Tokens};

use crate::common::*;

/// Reads an answer as far as its first words.
async fn begin(model: &HttpModel) -> Box<dyn Answer> {
    let mut answer = call(model);
    loop {
        let piece = next(&mut answer).await.expect("words come").expect("words come");
        if !text(&[piece]).is_empty() {
            return answer;
        }
    }
}

fn long() -> Reply {
    Reply::text(["One ", "two ", "three"]).usage(Tokens::new(40, 3))
}

/// The first words, and then nothing.
fn stalled(dialect: Dialect) -> Script {
    let frames = dialect.frames(&long());
    let first = frames.iter().position(|frame| !frame.said().is_empty()).unwrap();
    Script::stream(dialect).frames(frames.into_iter().take(first + 1)).stall()
}

#[tokio::test]
async fn what_was_sent_is_counted_where_the_provider_has_not_reported_it() {
    over_both(async |protocol, provider| {
        for dialect in [Dialect::OpenAiChat, Dialect::OpenAiResponses] {
            provider.counts(dialect, 321);
            provider.answer(stalled(dialect));
            let model = model_of(&provider, protocol, builder(dialect).ask_anywhere());
            let answer = begin(&model).await;
            let after = answer.cut().expect("it can be counted");
            assert_eq!(after.what, Pending::Counting);
            provider.all_streams_closed().await;
            let Findings { used, undelivered, .. } = after.work.await;
            let counted = Usage::new().input(Figure::exact(321, Provenance::Counted));
            assert_eq!((used.delivered, used.billed, undelivered), (counted, counted, vec![]));
            let seen = provider.all_seen().pop().unwrap();
            assert!(seen.path.ends_with("/responses/input_tokens"), "{}", seen.path);
            assert!(seen.json()["input"].is_array());
            assert!(seen.json().get("stream").is_none());
        }
    })
    .await;
}

#[tokio::test]
async fn nothing_is_counted_where_the_provider_has_reported_it_or_at_another_address() {
    over_both(async |protocol, provider| {
        provider.always(stalled(Dialect::Anthropic));
        let model = model_of(&provider, protocol, builder(Dialect::Anthropic).ask_anywhere());
        assert!(begin(&model).await.cut().is_none(), "Anthropic says at the start what it read");
        provider.always(stalled(Dialect::OpenAiChat));
        let model = model_of(&provider, protocol, builder(Dialect::OpenAiChat));
        assert!(begin(&model).await.cut().is_none(), "the request is the user's, and this host is not OpenAI's");
        provider.all_streams_closed().await;
    })
    .await;
}

#[tokio::test]
async fn anthropic_and_gemini_count_what_was_cut_before_they_said_a_word() {
    over_both(async |protocol, provider| {
        for dialect in [Dialect::Anthropic, Dialect::Gemini] {
            let number = provider.all_seen().len();
            provider.counts(dialect, 77);
            provider.answer(Script::stream(dialect).stall());
            let model = model_of(&provider, protocol, builder(dialect).ask_anywhere());
            let mut answer = call(&model);
            let polled = async { while next(&mut answer).await.is_some() {} };
            tokio::select! {
                () = polled => panic!("nothing can have come"),
                reached = async { provider.seen(number).await.reached("headers").await } => assert!(reached),
            }
            let after = answer.cut().expect("it can be counted");
            let used = after.work.await.used;
            // The provider may not have started: then it has cost anything up to this, and its count may be off by a little.
            for input in [used.delivered.input, used.billed.input] {
                assert!(matches!(input.low, Some(0 | 68)) && input.high == Some(86), "{dialect:?}: {input:?}");
            }
            let seen = provider.all_seen().pop().unwrap();
            let body = seen.json();
            match dialect {
                Dialect::Anthropic => {
                    assert!(body["messages"].is_array() && body.get("max_tokens").is_none(), "{body}")
                }
                _ => assert_eq!(body["generateContentRequest"]["model"], "models/bad-model-1", "{body}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_count_that_is_refused_leaves_everything_unknown() {
    let provider = BadProvider::start(Protocol::Http1).await;
    provider.refuses_to_count(Dialect::OpenAiChat, Refusal::RateLimited);
    provider.answer(stalled(Dialect::OpenAiChat));
    let model = model_of(&provider, Protocol::Http1, builder(Dialect::OpenAiChat).ask_anywhere());
    let learned = begin(&model).await.cut().expect("it is tried").work.await;
    assert_eq!(learned, Findings::default());
}

fn openrouter() -> Builder {
    andon_models::by_name::builder("openrouter/some/model").unwrap().ask_anywhere()
}

#[tokio::test]
async fn an_answer_is_looked_up_until_the_record_is_there() {
    over_both(async |protocol, provider| {
        let tokens = Tokens { cache_read: 10, reasoning: 4, ..Tokens::new(30, 9) };
        let generation = Generation { id: "gen-7".into(), model: "m".into(), tokens, cost: 0.1, cancelled: true };
        provider.generation(&generation, 1);
        let frames = Dialect::OpenAiChat.frames(&long().id("gen-7"));
        provider.answer(Script::stream(Dialect::OpenAiChat).frames(frames.into_iter().take(3)).stall());
        let model = model_of(&provider, protocol, openrouter());
        let after = begin(&model).await.cut().expect("it can be looked up");
        assert_eq!(after.what, Pending::LookingUp);
        provider.all_streams_closed().await;
        let Findings { used, .. } = after.work.await;
        let looked_up = |value: u64| Figure::exact(value, Provenance::LookedUp);
        assert_eq!(used.billed.output, looked_up(9));
        assert_eq!(used.billed.reasoning, looked_up(4));
        assert_eq!((used.billed.input, used.billed.cache_read), (looked_up(tokens.prompt() - 10), looked_up(10)));
        assert_eq!(used.delivered.output, Figure::UNKNOWN);
        let seen = provider.all_seen().pop().unwrap();
        assert_eq!((seen.method.as_str(), seen.query.as_deref()), ("GET", Some("id=gen-7")));
    })
    .await;
}

fn draining(caps: Drain) -> Builder {
    builder(Dialect::OpenAiChat).cut_policy(CutPolicy::Drain(caps))
}

/// The first words, and the rest when the gate opens.
fn paused(gate: &Gate) -> Script {
    let frames = Dialect::OpenAiChat.frames(&long().call("c1", "look", ["{\"a\":", "1}"]));
    let first = frames.iter().position(|frame| !frame.said().is_empty()).unwrap();
    let (now, later) = frames.split_at(first + 1);
    Script::stream(Dialect::OpenAiChat).frames(now.to_vec()).pause(gate).frames(later.to_vec()).end()
}

#[tokio::test]
async fn a_drained_answer_gives_the_exact_figure_and_what_nobody_was_shown() {
    over_both(async |protocol, provider| {
        let gate = Gate::new();
        provider.answer(paused(&gate));
        let model = model_of(&provider, protocol, draining(Drain::default()));
        let after = begin(&model).await.cut().expect("it is drained");
        assert_eq!(after.what, Pending::Draining);
        assert_eq!(provider.open_streams(), 1, "it is read on");
        gate.open();
        let Findings { used, undelivered, .. } = after.work.await;
        let none = Figure::reported(0);
        assert_eq!(used.billed, Usage::reported(40, 3).cache_read(none).reasoning(none));
        assert_eq!((used.delivered.input, used.delivered.output), (Figure::reported(40), Figure::UNKNOWN));
        assert_eq!(undelivered.len(), 2, "{undelivered:?}");
        assert_eq!(undelivered[0], Part::text("two three"));
        assert!(matches!(&undelivered[1], Part::ToolCall(call) if call.arguments == "{\"a\":1}"));
    })
    .await;
}

#[tokio::test]
async fn draining_ends_at_its_caps_and_when_it_is_dropped() {
    over_both(async |protocol, provider| {
        // Time.
        provider.answer(stalled(Dialect::OpenAiChat));
        let caps = Drain::default().max_time(Duration::from_millis(30));
        let model = model_of(&provider, protocol, draining(caps));
        let learned = begin(&model).await.cut().unwrap().work.await;
        assert_eq!(learned.used.billed.output.value, None);
        provider.all_streams_closed().await;
        // Bytes.
        provider.answer(Script::stream(Dialect::OpenAiChat).flood(Dialect::OpenAiChat.text_frame(1000)));
        let model = model_of(&provider, protocol, draining(Drain::default().max_bytes(100_000)));
        let learned = begin(&model).await.cut().unwrap().work.await;
        assert!(!learned.undelivered.is_empty());
        provider.all_streams_closed().await;
        // Dropped.
        provider.answer(stalled(Dialect::OpenAiChat));
        let model = model_of(&provider, protocol, draining(Drain::default()));
        let after = begin(&model).await.cut().unwrap();
        assert_eq!(provider.open_streams(), 1);
        drop(after);
        provider.all_streams_closed().await;
        // No permit is left.
        provider.answer(stalled(Dialect::OpenAiChat));
        let model = model_of(&provider, protocol, draining(Drain::default().max_at_once(0)));
        assert!(begin(&model).await.cut().is_none());
        provider.all_streams_closed().await;
    })
    .await;
}
