//! `andon serve`: agents behind HTTP, until a signal ends it.
//!
//! # Invariants
//!
//! 1. Nothing is taken up before it is sure that the server can listen: what an earlier one left is not begun and dropped.
//! 2. The address stands beside the database from the moment requests are answered until no run is in progress any more.
//! 3. A third signal leaves at once, whatever the program waits for.

mod ending;
mod hints;

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::Path;

use andon_server::{Server, raise_file_limit};
use anyhow::{Context, anyhow};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::Exit;
use crate::agent::build_agent;
use crate::agents::{AgentFolder, Report};
use crate::args::ServeArgs;
use crate::client::Place;
use crate::db::{Address, Db};
use crate::interrupt::Interrupts;
use crate::show::{Style, recovered};

/// Serves until it is told to end.
pub(crate) async fn serve(args: &ServeArgs) -> anyhow::Result<Exit> {
    let mut interrupts = Interrupts::listen()?;
    let ready = tokio::select! {
        biased;
        // Nothing has begun yet, and nothing has to end.
        _ = interrupts.while_idle() => return Ok(Exit::Completed),
        ready = Ready::get(args) => ready?,
    };
    let Ready { server, listener, address, folder, db } = ready;
    let serving = server.serve(listener)?;
    interrupts.aim_at_server();
    address.say(format!("http://{}", serving.address()))?;
    say(&hints::greeting(&server, serving.address(), &db));
    tokio::select! {
        biased;
        _ = interrupts.while_idle() => {}
        () = watch(folder) => {}
    }
    let exit = ending::end(&server, &serving, &mut interrupts).await;
    address.withdraw();
    if exit != Exit::Completed {
        // Closing the database waits until it is written, and what is left may be waiting for the disk.
        std::mem::forget(address);
    }
    Ok(exit)
}

/// A server that can begin.
struct Ready {
    server: Server,
    listener: TcpListener,
    address: Address,
    folder: Option<AgentFolder>,
    db: Db,
}

impl Ready {
    async fn get(args: &ServeArgs) -> anyhow::Result<Self> {
        // Every connection is an open file. Where there are few the server says what it can do with them.
        let _ = raise_file_limit();
        let db = Db::named(&args.db)?;
        let (runtime, address) = db.open_to_serve("andon serve")?;
        let listener = listen(args.bind).await?;
        let server = Server::new(&runtime, args.server_options()).await.context("the line cannot be read")?;
        for warning in server.warnings() {
            complain(warning);
        }
        let practice = build_agent(&args.options, &runtime).await?;
        let nowhere = practice.session_key().clone();
        // First, so that an app of this name in the folder takes its place.
        server.apps().put(practice, Some("The agent that comes with the program.".to_owned()));
        let folder = match &args.agents {
            Some(dir) => Some(load(dir, &server).await?),
            None => None,
        };
        // When all agents are there: what waited for one of them goes on with it.
        let found = runtime.recover().await.context("what an earlier server left open cannot be taken up")?;
        for line in recovered(&found, &nowhere, &Place::Here(db.clone())) {
            say(&line);
        }
        Ok(Self { server, listener, address, folder, db })
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let next = SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(0));
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => {
            anyhow!("{address} is taken by another program: choose another with --bind {next}, or end that program")
        }
        _ => anyhow!("it cannot listen at {address}, {error}: choose another address with --bind"),
    })
}

/// Loads the agents that are in a folder.
async fn load(dir: &Path, server: &Server) -> anyhow::Result<AgentFolder> {
    let mut folder = AgentFolder::new(dir, server.runtime(), server.apps().clone())?;
    tell(&folder.load().await);
    Ok(folder)
}

/// Takes up what changes in the folder; for ever.
async fn watch(folder: Option<AgentFolder>) {
    if let Some(folder) = folder {
        folder.watch(CancellationToken::new(), tell).await;
    }
    std::future::pending().await
}

fn tell(report: &Report) {
    for line in report.lines() {
        say(&line);
    }
}

/// Says something to whoever looks. A server goes on when nobody does.
fn say(text: &str) {
    let _ = writeln!(anstream::stdout().lock(), "{text}");
}

/// Says what went wrong.
fn complain(text: &str) {
    let bad = Style::BAD;
    let _ = writeln!(anstream::stderr().lock(), "{bad}error:{bad:#} {text}");
}
