//! Andon in a program of your own, with its own sign-in: a cookie says who asks, and everybody sees and stops their own runs.
//!
//! `cargo run -p andon-server --example mounted`, then open the address that it prints.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use andon_practice::Practice;
use andon_runtime::{Agent, Runtime};
use andon_server::{Board, MountError, Options, Principal, Server};
use axum::Router;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Redirect};
use axum::routing::{get, post};
use parking_lot::Mutex;
use tokio::net::TcpListener;

/// Who is signed in: the user behind each cookie.
type SignIns = Arc<Mutex<HashMap<String, String>>>;

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get(header::COOKIE)?.to_str().ok()?;
    cookies.split("; ").find_map(|pair| pair.strip_prefix("signed-in="))
}

async fn home(State(sign_ins): State<SignIns>, headers: HeaderMap) -> Html<String> {
    Html(match cookie(&headers).and_then(|cookie| sign_ins.lock().get(cookie).cloned()) {
        Some(user) => format!(
            "<h1>Hello {user}</h1><p><a href=/agents/>Agents</a><form method=post action=/out><button>Sign out</button></form>"
        ),
        None => "<h1>Who are you?</h1><form method=post>\
            <button name=user value=ada>Ada</button> <button name=user value=bob>Bob</button></form>"
            .to_owned(),
    })
}

/// A real one asks for a password.
async fn sign_in(State(sign_ins): State<SignIns>, form: String) -> impl IntoResponse {
    let mut word = [0; 16];
    let user = form.strip_prefix("user=").filter(|user| matches!(*user, "ada" | "bob"));
    let (Some(user), Ok(())) = (user, getrandom::fill(&mut word)) else { return Redirect::to("/").into_response() };
    let word = hex::encode(word);
    let cookie = format!("signed-in={word}; HttpOnly; SameSite=Lax; Path=/");
    sign_ins.lock().insert(word, user.to_owned());
    ([(header::SET_COOKIE, cookie)], Redirect::to("/agents/")).into_response()
}

async fn sign_out(State(sign_ins): State<SignIns>, headers: HeaderMap) -> Redirect {
    cookie(&headers).and_then(|cookie| sign_ins.lock().remove(cookie));
    Redirect::to("/")
}

/// The program: its own pages, and Andon at `/agents`.
pub(crate) fn program(server: &Server) -> Result<Router, MountError> {
    let sign_ins = SignIns::default();
    let asked = sign_ins.clone();
    let who = move |request: &Parts| {
        let (cookie, asked) = (cookie(&request.headers)?.to_owned(), asked.clone());
        let user = asked.lock().get(&cookie)?.clone();
        // Once somebody has signed out, the feeds that they were reading end, too.
        Principal::builder(user).valid_while(move || asked.lock().contains_key(&cookie)).build().ok()
    };
    let own = Router::new().route("/", get(home).post(sign_in)).route("/out", post(sign_out));
    Ok(own.with_state(sign_ins).merge(server.mount("/agents", who).sign_in("/").router()?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().observer(Board::new()).build();
    let server = Server::new(&runtime, Options::default()).await?;
    let agent = Agent::builder().name("practice").model(Practice::new()).runtime(&runtime).build()?;
    server.apps().put(agent, Some("tells stories".to_owned()));
    runtime.recover().await?;
    let program = program(&server)?;
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    let end = async move {
        // Without a signal it serves until it is killed.
        let _ = tokio::signal::ctrl_c().await;
        // Runs may finish for a while and are then stopped; feeds end, so that the program can.
        println!("{:?}", server.shut_down().await);
    };
    Ok(axum::serve(listener, program).with_graceful_shutdown(end).await?)
}
