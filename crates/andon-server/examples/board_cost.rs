//! What the board costs: trivial runs per second without it, with it, and with a reader, in turns; and how long it takes to send
//! a reader five thousand live runs.
//!
//! ```console
//! $ cargo run --release --package andon-server --example board_cost
//! $ perf stat -e instructions:u target/release/examples/board_cost board    # or nothing, or reader, or snapshot
//! ```

use std::time::Duration;

use andon_practice::Practice;
use andon_runtime::{Agent, Runtime};
use andon_server::{Board, Options, Principal, Server};
use andon_testkit::{Act, ScriptedModel};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use tokio::time::Instant;
use tower::ServiceExt as _;

const ROUNDS: usize = 5;
const CLIENTS: usize = 64;
const RUNS: usize = 60;
const LIVE: usize = 5_000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum With {
    Nothing,
    Board,
    Reader,
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let one = match std::env::args().nth(1).as_deref() {
        Some("snapshot") => return snapshot().await,
        Some("nothing") => Some(With::Nothing),
        Some("board") => Some(With::Board),
        Some("reader") => Some(With::Reader),
        _ => None,
    };
    if let Some(with) = one {
        println!("{with:?}: {:.0} trivial runs a second", rate(with).await?);
        return Ok(());
    }
    let mut rates = [(With::Nothing, Vec::new()), (With::Board, Vec::new()), (With::Reader, Vec::new())];
    for _ in 0..ROUNDS {
        for (with, rates) in &mut rates {
            rates.push(rate(*with).await?);
        }
    }
    for (with, mut rates) in rates {
        rates.sort_by(f64::total_cmp);
        let median = rates.get(ROUNDS / 2).copied().unwrap_or_default();
        println!("{with:?}: {median:.0} trivial runs a second");
    }
    snapshot().await
}

fn runtime(with: With) -> Runtime {
    let builder = Runtime::builder();
    if with == With::Nothing { builder.build() } else { builder.observer(Board::new()).build() }
}

async fn read(router: &Router) -> Result<Body, Failed> {
    let request = Request::get("/v1/board").header("host", "localhost").body(Body::empty())?;
    Ok(router.clone().oneshot(request).await?.into_body())
}

async fn rate(with: With) -> Result<f64, Failed> {
    let runtime = runtime(with);
    let server = Server::new(&runtime, Options::default()).await?;
    let agent = Agent::builder().model(Practice::instant()).runtime(&runtime).build()?;
    let mut all = tokio::task::JoinSet::new();
    let reader = match with {
        With::Reader => Some(read(&server.mount("/", |_| Some(Principal::local())).router()?).await?),
        With::Nothing | With::Board => None,
    };
    let reader = reader.map(|mut body| all.spawn(async move { while body.frame().await.is_some() {} }));
    let began = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let session = agent.session("ada", format!("s{client}"))?;
        clients.spawn(async move {
            for _ in 0..RUNS {
                session.run("Go.").await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    let took = began.elapsed();
    if let Some(reader) = reader {
        reader.abort();
    }
    // There are only thousands of runs.
    #[expect(clippy::cast_precision_loss, reason = "they are few")]
    let runs = (CLIENTS * RUNS) as f64;
    Ok(runs / took.as_secs_f64())
}

async fn snapshot() -> Result<(), Failed> {
    let runtime = runtime(With::Board);
    let server = Server::new(&runtime, Options::default()).await?;
    let silent = ScriptedModel::new((0..LIVE).map(|_| vec![Act::text("Once upon a time"), Act::Silence]));
    let agent = Agent::builder().model(silent).runtime(&runtime).build()?;
    let mut runs = Vec::new();
    for n in 0..LIVE {
        let run = agent.session("ada", format!("s{n}"))?.prompt("Tell me a long story.").start()?;
        run.accepted().await?;
        runs.push(run);
    }
    let router = server.mount("/", |_| Some(Principal::local())).router()?;
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let mut body = read(&router).await?;
        let mut text = Vec::new();
        while !text.ends_with(b"data: {\"type\":\"ready\"}\n\n") {
            let Some(frame) = body.frame().await else { return Err("the board ended".into()) };
            text.extend_from_slice(&frame?.into_data().unwrap_or_default());
        }
        times.push(began.elapsed());
        bytes = text.len();
    }
    times.sort_unstable();
    let median = times.get(ROUNDS / 2).copied().unwrap_or(Duration::ZERO);
    println!("{} live runs are told in {median:?}: {bytes} bytes", runtime.in_progress().len());
    runs.iter().for_each(|run| drop(run.cancel(andon_runtime::Cancel::now())));
    runtime.idle().await;
    Ok(())
}
