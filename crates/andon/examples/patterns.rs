//! Patterns, each in one function: typed output, a sub-agent, parallel agents, a model to fall back on, and a long conversation made short.

use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, ready};

use andon::feed::FeedItem;
use andon::hook::RequestDecision;
use andon::model::{Answer, FollowUp, Model, ModelError, ModelLayer, ModelRequest, Piece, Role, StreamModel};
use andon::tool::{Effect, FnTool};
use andon::{Agent, Cancel, Event, Outcome, Practice, Reason, Usage, tool};
use futures_util::future::{join_all, select_all};
use futures_util::stream;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Typed output: the model hands its answer to a tool whose arguments are the type. What does not fit goes back to the model, which is told
/// why.
async fn answer_as<T: DeserializeOwned + JsonSchema + Send + 'static>(model: impl Model, prompt: &str) -> Result<T> {
    let (answers, given) = mpsc::channel();
    let answer = tool("answer", "Takes your answer. Call it once, when you know.").run(move |answer: T| {
        let taken = answers.send(answer);
        async { Ok(taken.map(|()| "Thank you.").map_err(|_| "Nobody waits for it.")?) }
    });
    let agent = Agent::builder().model(model).instructions("Give your answer with `answer`.").tool(answer).build()?;
    let _ = agent.run(prompt).await?.completed()?;
    given.try_recv().map_err(|_| "the model gave no answer".into())
}

#[derive(Deserialize, JsonSchema)]
struct Question {
    question: String,
}

/// A sub-agent as a tool: a run of its own, which is stopped with the call that waits for it.
fn sub_agent(name: &str, description: &str, agent: Agent) -> FnTool {
    tool(name, description).effect(Effect::ReadOnly).run_with(move |Question { question }, call| {
        let stopped = async move {
            call.cord.pulled().await;
            Cancel::graceful().reason(Reason::Parent)
        };
        let answer = agent.prompt(question).cancel_with(stopped).run();
        async { Ok(answer.await?.completed()?.text()) }
    })
}

/// Parallel agents: the first that is done wins, and the others are stopped.
async fn first_of(agents: &[Agent], prompt: &str) -> Result<(Arc<Outcome>, Vec<Arc<Outcome>>)> {
    let runs = agents.iter().map(|agent| agent.start(prompt)).collect::<std::result::Result<Vec<_>, _>>()?;
    let (winner, ..) = select_all(runs.iter().map(|run| Box::pin(run.outcome()))).await;
    for run in &runs {
        run.cancel(Cancel::now().note("another was faster"));
    }
    Ok((winner, join_all(runs.iter().map(|run| run.outcome())).await))
}

/// A fallback: a layer that asks another model if the first one fails before it has said anything.
struct Fallback<M> {
    inner: M,
    other: Arc<dyn Model>,
}

impl<M: Model> ModelLayer for Fallback<M> {
    fn inner(&self) -> &dyn Model {
        &self.inner
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        let other = Some((Arc::clone(&self.other), request.clone()));
        Box::new(FallbackAnswer { answer: self.inner.call(request), other })
    }
}

struct FallbackAnswer {
    answer: Box<dyn Answer>,
    /// The model to ask if this answer fails before its first piece.
    other: Option<(Arc<dyn Model>, ModelRequest)>,
}

impl Answer for FallbackAnswer {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<std::result::Result<Piece, ModelError>>> {
        match (ready!(self.answer.poll_piece(cx)), self.other.take()) {
            (Some(Err(_)), Some((other, request))) => {
                self.answer = other.call(request);
                self.answer.poll_piece(cx)
            }
            (piece, _) => Poll::Ready(piece),
        }
    }

    fn usage_so_far(&self) -> Usage {
        self.answer.usage_so_far()
    }

    fn model(&self) -> Option<&str> {
        self.answer.model()
    }

    fn request_id(&self) -> Option<&str> {
        self.answer.request_id()
    }

    fn cut(self: Box<Self>) -> Option<FollowUp> {
        self.answer.cut()
    }
}

/// Compaction: the model is sent the last messages and a summary of those before. The conversation on record stays whole.
async fn compacted(mut request: ModelRequest, summarizer: Agent) -> RequestDecision {
    let said = request.history.to_vec();
    // What is kept begins with a prompt, so that no call is parted from its result.
    let kept =
        said.iter().enumerate().skip(said.len().saturating_sub(3)).find(|(_, message)| message.role == Role::User);
    let (old, kept) = said.split_at(kept.map_or(0, |(index, _)| index));
    if old.is_empty() {
        return RequestDecision::GoOn;
    }
    let old: String = old.iter().map(|message| format!("{:?}: {}\n", message.role, message.text())).collect();
    let Ok(summary) = summarizer.run(old).await else { return RequestDecision::GoOn };
    let instructions = request.instructions.as_deref().unwrap_or_default();
    request.instructions = Some(format!("{instructions}\nSaid before: {}", summary.text_so_far()).into());
    request.history = kept.to_vec().into();
    RequestDecision::Change(request)
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Weather {
    city: String,
    celsius: f64,
}

#[tokio::main]
async fn main() -> Result {
    let weather: Weather = answer_as(Practice::instant(), r#"answer {"city": "Rome", "celsius": 21.5}"#).await?;
    println!("typed output: {weather:?}");
    assert_eq!(weather, Weather { city: "Rome".into(), celsius: 21.5 });

    // The child would be silent for half a minute. It ends with the run that waits for it.
    let child = Agent::builder().name("child").model(Practice::new()).build()?;
    let research = sub_agent("research", "Looks something up.", child.clone());
    let parent = Agent::builder().name("parent").model(Practice::instant()).tool(research).build()?;
    let run = parent.start("research: be silent, then answer")?;
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if matches!(item, FeedItem::Fact(fact) if matches!(fact.event, Event::ToolStarted { .. })) {
            break;
        }
    }
    run.cancel(Cancel::graceful());
    println!("a sub-agent: the parent ended {}", run.outcome().await.stop_reason());
    assert!(parent.runtime().in_progress().is_empty(), "the child has ended, too");

    let paced = |name, pace| {
        Agent::builder().name(name).model(Practice::new().pace(std::time::Duration::from_millis(pace))).build()
    };
    let (winner, all) = first_of(&[paced("slow", 500)?, paced("quick", 1)?], "Hello").await?;
    println!("parallel: {:?}", all.iter().map(|outcome| outcome.stop_reason()).collect::<Vec<_>>());
    assert_eq!(all.iter().filter(|outcome| outcome.is_cancelled()).count(), 1);
    assert!(!winner.completed()?.text().is_empty());

    let down = StreamModel::new("down", |_| async { Err::<stream::Empty<_>, _>(ModelError::fatal("nobody is there")) });
    let agent = Agent::builder().model(Fallback { inner: down, other: Arc::new(Practice::instant()) }).build()?;
    println!("a fallback: {} bytes of an answer", agent.run("Hello").await?.completed()?.text().len());

    let (sizes, sent) = mpsc::channel();
    let summarizer = Agent::builder().name("summarizer").model(Practice::instant()).build()?;
    let agent = Agent::builder()
        .name("talker")
        .model(Practice::instant())
        .before_model(move |moment| compacted(moment.request, summarizer.clone()))
        .before_model(move |moment| {
            let _ = sizes.send(moment.request.history.len());
        })
        .build()?;
    let session = agent.session("ada", "monday")?;
    for prompt in ["One", "Two", "Three"] {
        session.run(prompt).await?;
    }
    let sent: Vec<_> = sent.try_iter().collect();
    println!("compaction: sent {sent:?} messages, on record are {}", session.history().await?.len());
    assert_eq!((sent, session.history().await?.len()), (vec![1, 3, 3], 6));
    Ok(())
}
