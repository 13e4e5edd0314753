//! What a stopped call used.

use andon_models::{Builder, CutPolicy, Drain};
use andon_runtime::core::usage::{Figure, Pending, Provenance};
use andon_runtime::{Limits, Reason};
use andon_testkit::provider::{Dialect, Gate, Generation, Protocol, Reply, Script, Tokens, UsageWhen};

use crate::world::{MODEL, World, everywhere, everywhere_with, soon};

const WORDS: [&str; 4] =
    ["The keeper counted ", "the ships that came home ", "in the evening ", "and wrote them down."];

fn story() -> Reply {
    Reply::text(WORDS).model(MODEL).usage(Tokens::new(40, 21))
}

fn draining(model: Builder) -> Builder {
    model.cut_policy(CutPolicy::Drain(Drain::default()))
}

/// A script that stalls after the second piece of text.
fn stalls(dialect: Dialect, reply: &Reply) -> Script {
    let frames = dialect.frames(reply);
    let last = frames.iter().position(|frame| frame.said().contains("home")).unwrap();
    Script::stream(dialect).frames(frames.into_iter().take(last + 1)).stall()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_cut_call_has_figures_with_their_provenance_and_never_none() {
    everywhere(async |world, dialect| {
        let (_, outcome) = world.stop_at(stalls(dialect, &story()), "stall", "home ").await;
        let (delivered, billed) = (outcome.usage.delivered, outcome.usage.billed);
        for figure in [delivered.input, delivered.output] {
            assert!(figure.value.is_some_and(|value| value > 0), "{dialect:?}: {figure:?}");
            assert!(figure.low <= figure.value && figure.value <= figure.high, "{dialect:?}: {figure:?}");
        }
        assert!(billed.output.low >= delivered.output.low.map(|_| 1), "{dialect:?}: {billed:?}");
        let (input, output) = match dialect {
            Dialect::Anthropic => (Provenance::ReportedRunning, Provenance::Estimated),
            Dialect::Gemini => (Provenance::ReportedRunning, Provenance::ReportedRunning),
            Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::Ollama => {
                (Provenance::Estimated, Provenance::Estimated)
            }
        };
        let known = |figure: andon_runtime::Figure, than: Provenance| figure.provenance <= than;
        assert!(known(delivered.input, input) && known(delivered.output, output), "{dialect:?}: {delivered:?}");
        if input == Provenance::ReportedRunning {
            assert_eq!(delivered.input.value, Some(40), "{dialect:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_its_provider_reports_at_its_end_is_stopped_soon_after_the_limit() {
    // Until the vocabularies are loaded, next to nothing is certain.
    drop(andon_models::book().meter("maker", "any"));
    everywhere(async |world, dialect| {
        let reply = Reply::text(["another "; 600]).model(MODEL).usage(Tokens::new(10, 600));
        world.provider.answer(Script::reply(dialect, &reply));
        let prompt = world.session.prompt("Go.").limits(Limits::new().tokens(60));
        let outcome = soon(prompt.start().unwrap().outcome()).await;
        assert_eq!(outcome.receipt.reason, Some(Reason::Budget), "{dialect:?}: {:?}", outcome.ending);
        let words = outcome.message.as_ref().unwrap().text().len() / 8;
        assert!((50..400).contains(&words), "{dialect:?}: {words}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_usage_is_believed_to_the_last_byte() {
    everywhere(async |world, dialect| {
        let reply = story().usage_when(UsageWhen::Running);
        let (_, outcome) = world.stop_at(stalls(dialect, &reply), "stall", "home ").await;
        let usage = outcome.usage.delivered;
        assert_eq!(usage.input.provenance, Provenance::ReportedRunning, "{dialect:?}: {usage:?}");
        // Responses and Ollama have only a place for it that no real server uses.
        if !matches!(dialect, Dialect::Ollama) {
            assert_eq!(usage.input.value, Some(40), "{dialect:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_that_was_not_reported_is_counted_by_the_provider_afterwards() {
    for dialect in [Dialect::OpenAiChat, Dialect::OpenAiResponses] {
        let world = World::with(dialect, Protocol::Http1, |model| model.ask_anywhere()).await;
        world.provider.counts(dialect, 77);
        let (run, outcome) = world.stop_at(stalls(dialect, &story()), "stall", "home ").await;
        assert_eq!(outcome.receipt.model_calls[0].pending.unwrap().what, Pending::Counting);
        let receipt = soon(run.last_word()).await.unwrap();
        for usage in [receipt.usage.delivered, receipt.usage.billed] {
            assert_eq!((usage.input.value, usage.input.provenance), (Some(77), Provenance::Counted), "{dialect:?}");
        }
        assert_eq!(receipt.model_calls[0].pending, None);
        world.goes_on(&run).await;
    }
}

/// Anthropic says that its count may be off by a little, and Google does not say that it is what is charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_that_the_provider_calls_an_estimate_has_bounds() {
    for dialect in [Dialect::Anthropic, Dialect::Gemini] {
        let world = World::with(dialect, Protocol::Http1, |model| model.ask_anywhere()).await;
        world.provider.counts(dialect, 1000);
        let (run, _) = world.stop_at(Script::stream(dialect).stall(), "stall", "").await;
        let receipt = soon(run.last_word()).await.unwrap();
        let input = receipt.usage.billed.input;
        // If the stop came before the headers, the provider may not have begun.
        assert!(matches!(input.low, Some(0 | 951..1000)), "{dialect:?}: {input:?}");
        assert!(matches!(input.high, Some(1001..1050)), "{dialect:?}: {input:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_that_shrinks_below_its_cache_is_believed_without_it() {
    let dialect = Dialect::OpenAiChat;
    let world = World::new(dialect, Protocol::Http1).await;
    let chunk = |text: &str, usage: &str| {
        format!(r#"data: {{"model":"{MODEL}","choices":[{{"delta":{{"content":"{text}"}}}}],"usage":{usage}}}"#)
            + "\n\n"
    };
    let cached = r#"{"prompt_tokens":1000,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":900}}"#;
    let frames = [chunk("One ", cached), chunk("two ", r#"{"prompt_tokens":500,"completion_tokens":2}"#)];
    let script = Script::stream(dialect).bytes(frames.concat()).stall();
    let (_, outcome) = world.stop_at(script, "stall", "two ").await;
    let usage = outcome.usage.billed;
    assert_eq!((usage.read().value, usage.input.value, usage.cache_read), (Some(500), Some(500), Figure::UNKNOWN));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_counted_at_an_address_that_is_not_the_providers_own() {
    let world = World::new(Dialect::OpenAiChat, Protocol::Http1).await;
    let (_, outcome) = world.stop_at(stalls(Dialect::OpenAiChat, &story()), "stall", "home ").await;
    assert_eq!(outcome.receipt.model_calls[0].pending, None);
    world.runtime.idle().await;
    assert_eq!(world.provider.all_seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_is_asked_what_it_charges() {
    let dialect = Dialect::OpenAiChat;
    let world = World::with(dialect, Protocol::Http1, |_| {
        andon_models::by_name::builder("openrouter/maker/model").unwrap().ask_anywhere()
    })
    .await;
    let tokens = Tokens::new(44, 19);
    let generation = Generation { id: "gen-1".into(), model: MODEL.into(), tokens, cost: 0.01, cancelled: true };
    world.provider.generation(&generation, 2);
    let (run, outcome) = world.stop_at(stalls(dialect, &story().id("gen-1")), "stall", "home ").await;
    assert_eq!(outcome.receipt.model_calls[0].pending.unwrap().what, Pending::LookingUp);
    let receipt = soon(run.last_word()).await.unwrap();
    let billed = receipt.usage.billed;
    assert_eq!((billed.input.value, billed.output.value), (Some(44), Some(19)));
    assert_eq!(billed.output.provenance, Provenance::LookedUp);
    assert!(receipt.usage.delivered.output.value.is_some_and(|value| value < 30), "{:?}", receipt.usage.delivered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_closing_does_not_stop_the_bill_the_rest_is_read_and_shown_to_nobody() {
    everywhere_with(draining, async |world, dialect| {
        let gate = Gate::new();
        let frames = dialect.frames(&story());
        let (first, rest) = frames.split_at(frames.iter().position(|frame| frame.said().contains("home")).unwrap() + 1);
        let script = Script::stream(dialect).frames(first.to_vec()).pause(&gate).frames(rest.to_vec()).end();
        world.provider.answer(script);
        let run = world.session.start("Tell me a story.").unwrap();
        let seen = world.provider.seen(0).await;
        assert!(soon(seen.reached("pause")).await);
        soon(andon_testkit::until_shown(&run, "home ")).await;
        run.cancel(andon_runtime::Cancel::graceful());
        let outcome = soon(run.outcome()).await;
        assert_eq!(outcome.receipt.model_calls[0].pending.unwrap().what, Pending::Draining, "{dialect:?}");
        assert_eq!(world.provider.open_streams(), 1, "{dialect:?}: it is kept open");

        gate.open();
        let receipt = soon(run.last_word()).await.unwrap();
        let billed = receipt.usage.billed;
        assert_eq!((billed.output.value, billed.output.provenance), (Some(21), Provenance::Reported), "{dialect:?}");
        let undelivered = receipt.addenda.iter().find_map(|addendum| match &addendum.what {
            andon_runtime::core::event::AddendumKind::Undelivered { parts, .. } => Some(parts.clone()),
            _ => None,
        });
        let text = undelivered.into_iter().flatten().map(|part| format!("{part:?}")).collect::<String>();
        assert!(
            text.contains("in the evening and wrote them down.") && !text.contains("keeper"),
            "{dialect:?}: {text}"
        );
        assert_eq!(outcome.message.as_ref().unwrap().text(), "The keeper counted the ships that came home ");
        // The server notes the end of an answer a moment after it has sent it.
        soon(world.provider.all_streams_closed()).await;
        world.goes_on(&run).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_in_the_background_is_told_to_stop_because_closing_stops_nothing() {
    let dialect = Dialect::OpenAiResponses;
    let world = World::with(dialect, Protocol::Http1, |model| model.background()).await;
    let stopped = serde_json::json!({"id": "resp_9", "status": "cancelled", "usage": null});
    world.provider.always_at("*/cancel", Script::json(200, &stopped));
    let usage = serde_json::json!({"input_tokens": 40, "output_tokens": 13, "total_tokens": 53});
    let settled = serde_json::json!({"id": "resp_9", "status": "cancelled", "usage": usage});
    world.provider.always_at("*/responses/resp_9", Script::json(200, &settled));
    let (run, outcome) = world.stop_at(stalls(dialect, &story().id("resp_9")), "stall", "home ").await;
    assert_eq!(outcome.receipt.model_calls[0].pending.unwrap().what, Pending::LookingUp);
    let receipt = soon(run.last_word()).await.unwrap();
    let output = receipt.usage.billed.output;
    assert_eq!((output.value, output.provenance), (Some(13), Provenance::LookedUp));
    let asked: Vec<String> =
        world.provider.all_seen().iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect();
    assert_eq!(asked, ["POST /responses", "POST /responses/resp_9/cancel", "GET /responses/resp_9"]);
    let sent = world.provider.seen(0).await.json();
    assert_eq!((&sent["background"], &sent["store"]), (&serde_json::json!(true), &serde_json::json!(true)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_may_not_have_left_is_closed_and_never_drained() {
    everywhere_with(draining, async |world, dialect| {
        let script = Script::stream(dialect).stall_before_headers();
        let (_, outcome) = world.stop_at(script, "stall", "").await;
        let pending = outcome.receipt.model_calls[0].pending.map(|pending| pending.what);
        // While the vocabulary is being loaded, a better estimate follows.
        assert!(matches!(pending, None | Some(Pending::Estimating)), "{dialect:?}: {pending:?}");
        soon(world.provider.all_streams_closed()).await;
    })
    .await;
}
