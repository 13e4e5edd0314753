//! What watches runs and stops them, from anywhere that reaches their server.

mod aim;
mod approve;
mod cancel;
mod here;
mod line;
mod told;
mod waiting;
mod watch;

pub(crate) use approve::approve;
pub(crate) use cancel::cancel;
pub(crate) use line::line;
pub(crate) use watch::watch;

use anyhow::anyhow;

use crate::args::PlaceArgs;
use crate::client::{Client, Place};
use crate::db::Db;

/// The server that is meant; without one, says who holds the database, or how to start one.
async fn server(args: &PlaceArgs) -> anyhow::Result<Client> {
    match Place::find(args).await? {
        Place::There(client) => Ok(client),
        Place::Here(db) => Err(no_server(&db)),
    }
}

/// What is said where a server is needed and none is.
fn no_server(db: &Db) -> anyhow::Error {
    match db.owner() {
        Some(owner) => {
            anyhow!("{} is held by {owner}, which is no server: do it there, or wait for its end", db.shown())
        }
        None => anyhow!(db.no_server()),
    }
}
