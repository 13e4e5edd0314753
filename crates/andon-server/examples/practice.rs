//! A server with a practice agent on a free port, all in memory, until its standard input ends.
//!
//! ```console
//! $ cargo run --package andon-server --example practice
//! http://127.0.0.1:39471
//! ```

use std::io;

use andon_practice::Practice;
use andon_runtime::{Agent, Runtime};
use andon_server::{Board, Options, Server};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().observer(Board::new()).build();
    let server = Server::new(&runtime, Options::default()).await?;
    let agent = Agent::builder().name("practice").model(Practice::instant()).runtime(&runtime).build()?;
    server.apps().put(agent, Some("Makes something up, and costs nothing.".to_owned()));

    let serving = server.serve(TcpListener::bind("127.0.0.1:0").await?)?;
    println!("http://{}", serving.address());

    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await??;
    serving.shut_down().await;
    Ok(())
}
