//! The commands that watch and stop runs, from anywhere that can reach their server.

mod aim;
mod approve;
mod cancel;
mod line;
mod local;
mod replies;
mod waiting;
mod watch;

pub(crate) use approve::approve;
pub(crate) use cancel::cancel;
pub(crate) use line::line;
pub(crate) use watch::watch;

use anyhow::bail;

use crate::args::TargetArgs;
use crate::client::{Client, Target};

/// The server. If there is none, the error says who holds the database, or how to start a server.
async fn server(args: &TargetArgs) -> anyhow::Result<Client> {
    match Target::find(args).await? {
        Target::Server(client) => Ok(client),
        Target::Database(db) => match db.owner() {
            Some(owner) => {
                bail!("{} is in use by {owner}, which is not a server: do it there, or wait for it to end", db.shown())
            }
            None => bail!(db.no_server()),
        },
    }
}
