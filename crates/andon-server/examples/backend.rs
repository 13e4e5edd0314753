//! A chat backend on axum and SQLite, with a sign-in of its own: ask, stop, read, list. It uses the library alone; `andon-server` has all this
//! ready, and a page.
//!
//! `cargo run -p andon-server --example backend 127.0.0.1:8000`, then
//! `curl -N -H 'authorization: Bearer token-of-ada' -d 'tell me a long story' localhost:8000/chats/monday`.
//! Without an address it is its own client, and ends.

use std::convert::Infallible;
use std::error::Error;

use andon_practice::Practice;
use andon_runtime::{Agent, Cancel, Runtime, Session, SessionFilter, WhenBusy};
use andon_store::SqliteJournal;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::{StatusCode, request::Parts};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{Stream, StreamExt};
use serde_json::{Value, json};

type Refused = (StatusCode, String);

/// Says an error with this status.
fn as_status<E: Error>(status: StatusCode) -> impl Fn(E) -> Refused {
    move |error| (status, error.to_string())
}

const OUTAGE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

/// The user who sent the request. A real sign-in would look up the token.
struct User(String);

impl<S: Send + Sync> FromRequestParts<S> for User {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let token = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
        let user = token.and_then(|token| token.strip_prefix("Bearer token-of-"));
        user.map(|user| Self(user.to_owned())).ok_or((StatusCode::UNAUTHORIZED, "Who are you?".to_owned()))
    }
}

/// A user's chat. Its key has the user in it, so nobody reaches anybody else's.
fn chat(agent: &Agent, User(user): &User, chat: &str) -> Result<Session, Refused> {
    agent.session(user, chat).map_err(as_status(StatusCode::BAD_REQUEST))
}

/// Asks, and streams the answer. A new question takes the place of one that is being answered; a client that goes away stops nothing.
async fn ask(
    State(agent): State<Agent>,
    user: User,
    Path(name): Path<String>,
    question: String,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refused> {
    let prompt = chat(&agent, &user, &name)?.prompt(question).when_busy(WhenBusy::Supersede);
    let run = prompt.start().map_err(as_status(StatusCode::CONFLICT))?;
    let events = run.feed().map(|item| {
        let event = Event::default().id(item.cursor().to_string()).json_data(&item);
        Ok(event.unwrap_or_else(|error| Event::default().comment(error.to_string())))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// The stop button: it reaches what runs in this chat, and nothing else.
async fn stop(State(agent): State<Agent>, user: User, Path(name): Path<String>) -> Result<Json<Value>, Refused> {
    let reply = chat(&agent, &user, &name)?.cancel_with(Cancel::graceful().by(user.0).note("stop button"));
    reply.recorded().await.map_err(as_status(OUTAGE))?;
    Ok(Json(json!({"reply": reply.kind().as_str()})))
}

async fn history(State(agent): State<Agent>, user: User, Path(name): Path<String>) -> Result<Json<Value>, Refused> {
    let said = chat(&agent, &user, &name)?.history().await.map_err(as_status(OUTAGE))?;
    let said = said.iter().map(|message| json!({"role": message.role, "text": message.text(), "cut": message.cut}));
    Ok(Json(said.collect()))
}

async fn list(State(agent): State<Agent>, User(user): User) -> Result<Json<Value>, Refused> {
    let hers = SessionFilter::new().app(agent.name()).user(user);
    let chats = agent.runtime().list_sessions(hers).await.map_err(as_status(OUTAGE))?;
    Ok(Json(chats.iter().map(|chat| json!({"chat": chat.key.session, "title": chat.title})).collect()))
}

fn backend(agent: Agent) -> Router {
    let chats = Router::new().route("/chats", get(list)).route("/chats/{chat}", get(history).post(ask));
    chats.route("/chats/{chat}/stop", post(stop)).with_state(agent)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?; // A real one keeps its file.
    let runtime = Runtime::builder().journal(SqliteJournal::open(folder.path().join("chats.db"))?).build();
    let agent = Agent::builder().name("chat").model(Practice::new()).runtime(&runtime).build()?;
    runtime.recover().await?;
    let Some(address) = std::env::args().nth(1) else { return play(backend(agent)).await };
    let listener = tokio::net::TcpListener::bind(address).await?;
    Ok(axum::serve(listener, backend(agent)).await?)
}

/// Ada asks, Bob cannot stop it, she can; what she saw is kept.
async fn play(backend: Router) -> Result<(), Box<dyn Error>> {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tower::ServiceExt as _;

    let call = async |user: &str, method: &str, path: &str, body: &'static str| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("authorization", format!("Bearer token-of-{user}")).body(Body::from(body));
        let answer = backend.clone().oneshot(request?).await?;
        Ok::<_, Box<dyn Error>>(answer.into_body())
    };
    let read = async |body: Body| Ok::<Value, Box<dyn Error>>(serde_json::from_slice(&to_bytes(body, 1 << 20).await?)?);

    let mut answer = call("ada", "POST", "/chats/monday", "tell me a long story").await?.into_data_stream();
    let mut shown = String::new();
    while !shown.contains("delta") {
        shown.push_str(std::str::from_utf8(&answer.next().await.ok_or("the answer ended")??)?);
    }
    assert_eq!(read(call("bob", "POST", "/chats/monday/stop", "").await?).await?, json!({"reply": "not_running"}));
    assert_eq!(read(call("ada", "POST", "/chats/monday/stop", "").await?).await?, json!({"reply": "accepted"}));
    while answer.next().await.is_some() {}
    let history = read(call("ada", "GET", "/chats/monday", "").await?).await?;
    println!("{history:#}");
    assert_eq!(history.pointer("/1/cut/by"), Some(&json!("cancelled")), "what was shown is kept, marked as cut");
    assert_eq!(read(call("bob", "GET", "/chats", "").await?).await?, json!([]));
    println!("{}", read(call("ada", "GET", "/chats", "").await?).await?);
    Ok(())
}
