//! An agent on a bad provider.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use andon_models::Builder;
use andon_runtime::{Agent, Cancel, FnTool, MemoryJournal, Outcome, Run, Runtime, Session};
use andon_testkit::provider::{BadProvider, Dialect, Protocol, Reply, Script, Tokens};
use andon_testkit::wire::Provider;
use andon_testkit::{assert_nothing_lost, until_shown};
use serde_json::json;
use tokio::time::timeout;

/// The exact model that every answer names.
pub(crate) const MODEL: &str = "bad-model-1-2026-11-01";

pub(crate) struct World {
    pub(crate) provider: BadProvider,
    pub(crate) runtime: Runtime,
    pub(crate) session: Session,
    pub(crate) dialect: Dialect,
}

impl World {
    pub(crate) async fn new(dialect: Dialect, protocol: Protocol) -> Self {
        Self::with(dialect, protocol, |builder| builder).await
    }

    pub(crate) async fn with(dialect: Dialect, protocol: Protocol, set: impl FnOnce(Builder) -> Builder) -> Self {
        let provider = BadProvider::start(protocol).await;
        let model = set(dialect.adapter("bad-model-1")).base_url(provider.base_url()).key("a-key");
        let model = if protocol == Protocol::Http2 { model.http2_prior_knowledge() } else { model };
        let runtime = Runtime::builder().journal(Arc::new(MemoryJournal::new())).build();
        let agent =
            Agent::builder().model(model.build().unwrap()).runtime(&runtime).instructions("Be brief.").tool(look());
        let session = agent.build().unwrap().session("ada", "s").unwrap();
        Self { provider, runtime, session, dialect }
    }

    /// Plays a script, pulls when it has reached a step, and returns the settled run.
    pub(crate) async fn stop_at(&self, script: Script, step: &str, shown: &str) -> (Run, Arc<Outcome>) {
        let number = self.provider.all_seen().len();
        self.provider.answer(script);
        let run = self.session.start("Tell me a story.").unwrap();
        let seen = self.provider.seen(number).await;
        assert!(soon(seen.reached(step)).await, "{:?}: the script never came to {step}", self.dialect);
        soon(until_shown(&run, shown)).await;
        run.cancel(Cancel::graceful());
        let outcome = soon(run.outcome()).await;
        let closed = soon(seen.closed()).await;
        assert!(closed.by_client(), "{:?} at {step}: {:?}", self.dialect, closed.how);
        (run, outcome)
    }

    /// Nothing was lost, and the provider accepts and answers the next prompt's request.
    pub(crate) async fn goes_on(&self, run: &Run) {
        let history = self.session.history().await.unwrap();
        assert_nothing_lost(run, &history).await;
        let number = self.provider.all_seen().len();
        let reply = Reply::text(["All", " is well."]).usage(Tokens::new(30, 4)).model(MODEL);
        self.provider.answer(Script::reply(self.dialect, &reply));
        let outcome = soon(self.session.run("Go on.")).await.unwrap();
        assert_eq!(outcome.stop_reason(), "end_turn", "{:?}: {:?}", self.dialect, outcome.ending);
        assert_eq!(outcome.message.as_ref().unwrap().text(), "All is well.");
        let asked = self.provider.seen(number).await;
        let provider = match self.dialect {
            Dialect::OpenAiChat => Provider::OpenAiChat,
            Dialect::OpenAiResponses => Provider::OpenAiResponses,
            Dialect::Anthropic => Provider::Anthropic,
            Dialect::Gemini => Provider::Gemini,
            Dialect::Ollama => Provider::Ollama,
        };
        assert_eq!(provider.validate(&asked.json()), Ok(()), "{:?}", self.dialect);
    }
}

fn look() -> FnTool {
    let schema = json!({"type": "object", "properties": {"where": {"type": "string"}}});
    FnTool::new("look", "Looks.", schema, |call| async move { Ok(format!("seen: {}", call.input["where"]).into()) })
}

/// Waits, with a time limit.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(90), what).await.expect("it comes in time")
}

/// A world of every dialect, over both protocols.
pub(crate) async fn everywhere(scene: impl AsyncFn(World, Dialect)) {
    everywhere_with(|builder| builder, scene).await;
}

/// The same, with models that are set up like this.
pub(crate) async fn everywhere_with(set: impl Fn(Builder) -> Builder, scene: impl AsyncFn(World, Dialect)) {
    for dialect in Dialect::ALL {
        for protocol in Protocol::ALL {
            scene(World::with(dialect, protocol, &set).await, dialect).await;
        }
    }
}
