//! A server that speaks ADK's dialect at a free port, with an agent that does what it is told, until its standard input ends.
//! ADK's own client and its web page are tested against it.
//!
//! ```console
//! $ cargo run --package andon-adk --example adk_house -- google/adk/cli/browser
//! http://127.0.0.1:39471
//! ```
//!
//! | It is told | It |
//! |---|---|
//! | `stream N MS` | says N words, one each MS milliseconds |
//! | `tool_async S` | calls a tool that sleeps S seconds |
//! | `tool_par S` | calls two tools at once, of which one is done at once |
//! | `fail` | fails |
//! | anything else | says it again |

use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use andon_adk::Adk;
use andon_runtime::core::answer::Piece;
use andon_runtime::core::message::Role;
use andon_runtime::core::outcome::ModelStop;
use andon_runtime::core::usage::Usage;
use andon_runtime::{Agent, Answer, FnTool, Model, ModelError, ModelRequest, Runtime, ToolError};
use andon_server::{Board, Options, Server};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::{Sleep, sleep};

/// A model that does what it is told.
struct Obedient;

type Said = Result<Piece, ModelError>;

impl Model for Obedient {
    fn name(&self) -> &str {
        "obedient"
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        let (pieces, pause) = plan(&request.history);
        Box::new(Obeying { pieces, pause, nap: None })
    }
}

fn plan(history: &andon_runtime::History) -> (VecDeque<Said>, Duration) {
    if let Some(last) = history.last().filter(|last| last.role == Role::Tool) {
        let results: Vec<String> = last.results().map(|result| result.to_text()).collect();
        return (say([format!("tool said: {}", results.join(" and "))]), Duration::ZERO);
    }
    let told = history.iter().rev().find(|message| message.role == Role::User).map(|message| message.text());
    let told = told.unwrap_or_default();
    let words: Vec<&str> = told.split_whitespace().collect();
    match words.as_slice() {
        ["stream", number, pause] => {
            let words = (0..number.parse().unwrap_or(3)).map(|number: u32| format!("word{number} "));
            (say(words), Duration::from_millis(pause.parse().unwrap_or(10)))
        }
        ["tool_async", seconds] => (ask(&[seconds]), Duration::ZERO),
        ["tool_par", seconds] => (ask(&[seconds, "0"]), Duration::ZERO),
        ["fail"] => ([Err(ModelError::fatal("the model was told to fail"))].into(), Duration::ZERO),
        _ => (say([format!("echo: {told}")]), Duration::ZERO),
    }
}

fn say(words: impl IntoIterator<Item = String>) -> VecDeque<Said> {
    let words = words.into_iter().map(|word| Ok(Piece::Text(word)));
    let usage = Ok(Piece::Usage(Box::new(Usage::reported(7, 3))));
    words.chain([usage, Ok(Piece::End(ModelStop::EndTurn))]).collect()
}

fn ask(seconds: &[&str]) -> VecDeque<Said> {
    let calls = seconds.iter().enumerate().flat_map(|(index, seconds)| {
        let json = format!("{{\"seconds\": {seconds}}}");
        let call = Piece::Call { id: String::new(), name: "slow_async".to_owned() };
        [call, Piece::CallInput { index, json }, Piece::CallEnd { index }].map(Ok)
    });
    calls.chain([Ok(Piece::End(ModelStop::ToolUse))]).collect()
}

/// An answer of it: a piece, a pause, a piece.
struct Obeying {
    pieces: VecDeque<Said>,
    pause: Duration,
    nap: Option<Pin<Box<Sleep>>>,
}

impl Answer for Obeying {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Said>> {
        if let Some(nap) = &mut self.nap {
            ready!(nap.as_mut().poll(cx));
        }
        self.nap = (!self.pause.is_zero()).then(|| Box::pin(sleep(self.pause)));
        Poll::Ready(self.pieces.pop_front())
    }
}

fn slow_async() -> FnTool {
    let schema = json!({"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]});
    FnTool::new("slow_async", "Sleeps for some seconds.", schema, |call| async move {
        let seconds = call.input.get("seconds").and_then(serde_json::Value::as_f64).unwrap_or_default();
        let state = call.state.clone();
        state.set("last_tool", "slow_async").await.map_err(|error| ToolError::new(error.to_string()))?;
        sleep(Duration::from_secs_f64(seconds.clamp(0.0, 3600.0))).await;
        Ok(json!({"slept": seconds}).to_string().into())
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().observer(Board::new()).build();
    let adk = Adk { page: std::env::args_os().nth(1).map(Into::into), ..Adk::default() };
    let server = Server::with_dialects(&runtime, Options::default(), vec![Arc::new(adk)]).await?;
    let agent = Agent::builder().name("house").model(Obedient).instructions("Do what you are told.").tool(slow_async());
    server.apps().put(agent.runtime(&runtime).build()?, Some("Does what it is told.".to_owned()));

    let serving = server.serve(TcpListener::bind("127.0.0.1:0").await?)?;
    println!("http://{}", serving.address());

    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await??;
    serving.shut_down().await;
    Ok(())
}
