//! Andon's API in your own router: starts a run over HTTP, stops it, and prints the responses.
//!
//! `cargo run -p andon-server --example own_router`

use std::error::Error;

use andon_practice::Practice;
use andon_runtime::{Agent, Runtime};
use andon_server::{Board, Options, Server};
use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().observer(Board::new()).build();
    let server = Server::new(&runtime, Options::default()).await?;
    let agent = Agent::builder().name("practice").model(Practice::new()).runtime(&runtime).build()?;
    server.apps().put(agent, Some("tells stories".to_owned()));
    runtime.recover().await?;

    let home = get(|| async { "my own page" });
    let app = Router::new().route("/", home).nest("/agents", server.router());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let end = async move {
        if let Err(error) = talk(&address).await {
            println!("{error}");
        }
        // Runs may finish for a while and are then stopped; feeds end, so that the router can shut down.
        println!("{:?}", server.shut_down().await);
    };
    Ok(axum::serve(listener, app).with_graceful_shutdown(end).await?)
}

async fn talk(address: &str) -> Result<(), Box<dyn Error>> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    println!("{}", client.get(address).send().await?.text().await?);
    let order = json!({"app": "practice", "run_id": "r1", "input": "tell me a long story"});
    client.post(format!("{address}/agents/v1/runs")).json(&order).send().await?.error_for_status()?;
    let stop = json!({"note": "stop button", "wait": true});
    let told = client.post(format!("{address}/agents/v1/runs/r1/cancel")).json(&stop).send().await?;
    let told: Value = told.json().await?;
    println!("{:?}: {:?}", told.get("reply"), told.get("outcome"));
    Ok(())
}
