//! `andon serve`: serves agents over HTTP until a signal comes.
//!
//! # Invariants
//!
//! 1. Runs are recovered only after the server can listen, so that none is started and then dropped.
//! 2. The address is beside the database file, if it is one, from the moment requests are answered until no run is in progress.
//! 3. A third signal exits at once, whatever the program waits for.
//! 4. Printing never waits for a reader (see [`voice`]).

mod ending;
mod hints;
mod log;
mod telemetry;
mod voice;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use andon_runtime::Runtime;
use andon_server::dialect::Dialect;
use andon_server::{Board, Secret, Server, raise_file_limit};
use anyhow::{Context, anyhow};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::telemetry::Telemetry;
use self::voice::Voice;
use crate::agents::{AgentFolder, Report, build_agent};
use crate::args::{ServeArgs, refuse};
use crate::client::Target;
use crate::db::{Address, Db};
use crate::exit::Exit;
use crate::show::recovered;
use crate::terminal::interrupt::Interrupts;

/// Serves until a signal comes.
pub(crate) async fn serve(args: &ServeArgs) -> anyhow::Result<Exit> {
    let options = args.server_options().unwrap_or_else(|why| refuse("serve", &why));
    let mut interrupts = Interrupts::listen()?;
    let voice = Voice::new()?;
    let telemetry = Telemetry::begin(&args.telemetry, &voice)?;
    let ready = tokio::select! {
        biased;
        // Nothing has started yet, so nothing has to be shut down.
        _ = interrupts.while_idle() => return Ok(Exit::Completed),
        ready = Ready::get(args, options, &telemetry, &voice) => ready?,
    };
    let Ready { server, listener, address, folder, db } = ready;
    let serving = server.serve(listener)?;
    interrupts.aim_at_server();
    let reached = reached(serving.address());
    address.say(format!("http://{reached}"), server.owner_key().map(Secret::show))?;
    voice.say(hints::greeting(&server, reached, &db));
    tokio::select! {
        biased;
        _ = interrupts.while_idle() => {}
        () = watch(folder, &voice) => {}
    }
    let exit = ending::end(&server, &serving, &mut interrupts, &voice).await;
    telemetry.end().await;
    address.withdraw();
    voice.end();
    if exit != Exit::Completed {
        // Dropping it would close the database, which waits for the disk, and so may the runs that are left.
        std::mem::forget(address);
    }
    Ok(exit)
}

/// The address at which this machine reaches a server that listens on all its addresses.
fn reached(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if !ip.is_unspecified() => address,
        IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
    }
}

/// A server that is ready to start.
struct Ready {
    server: Server,
    listener: TcpListener,
    address: Address,
    folder: Option<AgentFolder>,
    db: Db,
}

impl Ready {
    async fn get(
        args: &ServeArgs,
        options: andon_server::Options,
        telemetry: &Telemetry,
        voice: &Voice,
    ) -> anyhow::Result<Self> {
        // Every connection is an open file. If the limit stays low, the server warns about it.
        let _ = raise_file_limit();
        let db = Db::named(&args.db)?;
        let (runtime, address) =
            db.open_to_serve("andon serve", telemetry.watch(Runtime::builder().observer(Board::new()))).await?;
        let listener = listen(args.bind).await?;
        let dialects: Vec<Arc<dyn Dialect>> = vec![Arc::new(args.adk())];
        let server =
            Server::with_dialects(&runtime, options, dialects).await.context("cannot read the line's holds")?;
        for warning in server.warnings() {
            voice.complain(warning);
        }
        let practice = build_agent(&args.options, &runtime).await?;
        // First, so that an app with the same name in the folder replaces it.
        server.apps().put(practice, Some("The built-in agent.".to_owned()));
        let folder = match &args.agents {
            Some(dir) => {
                let mut folder = AgentFolder::new(dir, &runtime, server.apps().clone())?;
                tell(&folder.load().await, voice);
                Some(folder)
            }
            None => None,
        };
        // After the agents are loaded: a run that waits goes on with its agent, or later when that agent is added.
        let found = runtime.recover().await.context("the runs that an earlier server left open cannot be recovered")?;
        for line in recovered(&found, None, &Target::Database(db.clone())) {
            voice.say(line);
        }
        Ok(Self { server, listener, address, folder, db })
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let next = SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(0));
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => {
            anyhow!("{address} is in use by another program: use --bind {next}, or end that program")
        }
        _ => anyhow!("cannot listen on {address} ({error}): choose another address with --bind"),
    })
}

/// Applies changes in the folder. It never returns.
async fn watch(folder: Option<AgentFolder>, voice: &Voice) {
    if let Some(folder) = folder {
        folder.watch(CancellationToken::new(), |report| tell(report, voice)).await;
    }
    std::future::pending().await
}

fn tell(report: &Report, voice: &Voice) {
    for line in report.lines() {
        voice.say(line);
    }
}
