//! The real providers. They are called only on request, with `cargo test -p andon-models --test live -- --ignored`, and each only
//! if its key is in the environment: it costs a few tokens. `ANDON_LIVE_ANTHROPIC=claude-…` and the like choose another model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::time::Duration;

use andon_runtime::{Agent, Cancel, FeedItem, Provenance};
use andon_testkit::assert_nothing_lost;
use tokio::time::timeout;

/// A whole answer, a cut one, and a whole one again, in one session.
async fn talk(provider: &str, key: &str, usual: &str) {
    if std::env::var(key).is_err() {
        println!("{provider}: skipped, because {key} is not set");
        return;
    }
    let chosen = std::env::var(format!("ANDON_LIVE_{}", provider.to_uppercase().replace('-', "_")));
    let name = format!("{provider}/{}", chosen.as_deref().unwrap_or(usual));
    let model = andon_models::by_name(&name).unwrap();
    let session =
        Agent::builder().model(model).instructions("Be brief.").build().unwrap().session("ada", provider).unwrap();
    let soon = |what| timeout(Duration::from_secs(120), what);

    let whole = soon(session.run("Say the word `hello` and nothing else.")).await.expect("in time").unwrap();
    assert_eq!(whole.stop_reason(), "end_turn", "{name}: {:?}", whole.ending);
    assert_eq!(whole.usage.billed.output.provenance, Provenance::Reported, "{name}");

    let run = session.start("Count from 1 to 500, one number a line.").unwrap();
    let mut feed = run.feed();
    let mut shown = String::new();
    while shown.len() < 20 {
        match timeout(Duration::from_secs(120), feed.next()).await.expect("in time") {
            Some(FeedItem::Delta(delta)) => shown.push_str(&delta.text),
            Some(_) => {}
            None => panic!("{name}: it ended first: {:?}", run.outcome().await.ending),
        }
    }
    run.cancel(Cancel::graceful());
    let cut = timeout(Duration::from_secs(5), run.outcome()).await.expect("a stop is prompt");
    assert!(cut.is_cancelled(), "{name}: {:?}", cut.ending);
    assert!(cut.usage.delivered.output.low.is_some(), "{name}: {:?}", cut.usage);
    assert_nothing_lost(&run, &session.history().await.unwrap()).await;
    println!("{name}: cut: {:?}", timeout(Duration::from_secs(90), run.last_word()).await.unwrap().unwrap().usage);

    let again = timeout(Duration::from_secs(120), session.run("Say the word `goodbye` and nothing else.")).await;
    let again = again.expect("in time").unwrap();
    assert_eq!(again.stop_reason(), "end_turn", "{name}: the session does not go on: {:?}", again.ending);
}

macro_rules! live {
    ($($test:ident: $provider:literal, $key:literal, $model:literal;)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "asks a real provider, and costs a few tokens"]
        async fn $test() {
            talk($provider, $key, $model).await;
        })*
    };
}

live! {
    anthropic_is_stopped_and_goes_on: "anthropic", "ANTHROPIC_API_KEY", "claude-haiku-4-5";
    openai_chat_is_stopped_and_goes_on: "openai", "OPENAI_API_KEY", "gpt-4.1-mini";
    openai_responses_is_stopped_and_goes_on: "openai-responses", "OPENAI_API_KEY", "gpt-4.1-mini";
    gemini_is_stopped_and_goes_on: "gemini", "GEMINI_API_KEY", "gemini-2.5-flash-lite";
    openrouter_is_stopped_and_goes_on: "openrouter", "OPENROUTER_API_KEY", "openai/gpt-4.1-mini";
    groq_is_stopped_and_goes_on: "groq", "GROQ_API_KEY", "llama-3.3-70b-versatile";
    mistral_is_stopped_and_goes_on: "mistral", "MISTRAL_API_KEY", "mistral-small-latest";
    deepseek_is_stopped_and_goes_on: "deepseek", "DEEPSEEK_API_KEY", "deepseek-chat";
    xai_is_stopped_and_goes_on: "xai", "XAI_API_KEY", "grok-3-mini";
    ollama_is_stopped_and_goes_on: "ollama", "OLLAMA_HOST", "llama3.2";
}
