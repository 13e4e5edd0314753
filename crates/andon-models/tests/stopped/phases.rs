//! Every phase of a model call.

use andon_runtime::core::progress::Phase;
use andon_runtime::{Cancel, Event};
use andon_testkit::provider::{Dialect, Refusal, Reply, Script};
use andon_testkit::until;

use crate::world::{MODEL, World, everywhere, soon};

/// The frames of an answer up to and including the one that says `word`.
fn until_word(dialect: Dialect, reply: &Reply, word: &str) -> Vec<andon_testkit::provider::Frame> {
    let frames = dialect.frames(reply);
    let last = frames.iter().position(|frame| frame.said().contains(word)).expect("some frame says it");
    frames.into_iter().take(last + 1).collect()
}

fn story() -> Reply {
    Reply::text(["One ", "two ", "three ", "four"]).model(MODEL)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_has_not_answered_is_closed() {
    everywhere(async |world, dialect| {
        let stalls = || Script::stream(dialect).stall_before_headers();
        let (run, outcome) = world.stop_at(stalls(), "stall", "").await;
        assert!(outcome.is_cancelled() && outcome.message.is_none(), "{outcome:?}");
        assert_eq!(outcome.receipt.cut_in, Some(Phase::Model));
        world.goes_on(&run).await;
        let (run, _) = world.stop_at(Script::stream(dialect).stall(), "stall", "").await;
        world.goes_on(&run).await;
        soon(world.provider.all_streams_closed()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_cut_in_its_text_and_in_the_middle_of_a_frame() {
    everywhere(async |world, dialect| {
        let said = until_word(dialect, &story(), "two ");
        let next = dialect.frames(&story())[said.len()].clone();
        for script in [
            Script::stream(dialect).frames(said.clone()).stall(),
            Script::stream(dialect).dribble(said.clone()).half(&next).stall(),
        ] {
            let (run, outcome) = world.stop_at(script, "stall", "One two ").await;
            assert_eq!(outcome.message.as_ref().unwrap().text(), "One two ");
            assert!(outcome.message.as_ref().unwrap().cut.is_some());
            world.goes_on(&run).await;
        }
        soon(world.provider.all_streams_closed()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_cut() {
    everywhere(async |world, dialect| {
        let begun = dialect.frames(&story())[..2].to_vec();
        let script = Script::stream(dialect).frames(begun).flood(dialect.text_frame(64));
        let (run, _) = world.stop_at(script, "flood", "").await;
        world.goes_on(&run).await;
        soon(world.provider.all_streams_closed()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thought_is_whole_or_absent_in_the_next_request() {
    everywhere(async |world, dialect| {
        let thinks = story().thinking(["Let me ", "see."], Some("c2VhbA=="));
        let frames = dialect.frames(&thinks);
        for length in 1..frames.len() - 1 {
            let script = Script::stream(dialect).frames(frames[..length].to_vec()).stall();
            let (run, _) = world.stop_at(script, "stall", "").await;
            world.goes_on(&run).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_tool_call_is_dropped_and_the_session_goes_on() {
    for dialect in [Dialect::Anthropic, Dialect::OpenAiChat, Dialect::OpenAiResponses] {
        let world = World::new(dialect, andon_testkit::provider::Protocol::Http1).await;
        let asks = story().call("call_1", "look", ["{\"where\":", " \"here\"}"]);
        let frames = until_word(dialect, &asks, "where");
        let script = Script::stream(dialect).frames(frames).stall();
        let (run, outcome) = world.stop_at(script, "stall", "where").await;
        let message = outcome.message.as_ref().unwrap();
        assert_eq!((message.text().as_str(), message.calls().count()), ("One two three four", 0));
        assert!(outcome.usage.delivered.output.value.is_some_and(|value| value > 5), "{:?}", outcome.usage);
        world.goes_on(&run).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_called_over_the_wire_and_their_results_sent_back() {
    everywhere(async |world, dialect| {
        let asks = Reply::text(["Looking."])
            .call("call_1", "look", ["{\"where\":\"here\"}"])
            .call("call_2", "look", ["{\"where\":", "\"there\"}"])
            .stop(andon_runtime::ModelStop::ToolUse)
            .model(MODEL);
        world.provider.answer(Script::reply(dialect, &asks));
        world.provider.answer(Script::reply(dialect, &story()));
        let outcome = soon(world.session.run("Look.")).await.unwrap();
        assert_eq!(outcome.message.as_ref().unwrap().text(), "One two three four", "{dialect:?}");
        let second = world.provider.seen(1).await.json().to_string();
        assert!(second.contains("seen:") && second.contains("there"), "{dialect:?}: {second}");
        assert_eq!(outcome.receipt.calls.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_back_off_ends_at_the_pull_and_nothing_more_is_asked() {
    everywhere(async |world, dialect| {
        world.provider.always(Script::refuse(dialect, Refusal::RateLimited).header("retry-after", "300"));
        let run = world.session.start("Tell me a story.").unwrap();
        soon(until(&run, |event| matches!(event, Event::BackoffStarted { .. }))).await;
        run.cancel(Cancel::graceful());
        // Much sooner than the requested wait.
        let outcome = soon(run.outcome()).await;
        assert!(outcome.is_cancelled());
        assert_eq!(outcome.receipt.cut_in, Some(Phase::Backoff));
        assert_eq!(world.provider.all_seen().len(), 1, "{dialect:?}");
        assert_eq!(outcome.usage.billed, andon_runtime::Usage::NONE, "a request that was refused costs nothing");
    })
    .await;
}
