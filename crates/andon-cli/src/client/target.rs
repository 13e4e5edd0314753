//! Where a command works: on a named server, on the server that holds the database, or locally.

use anyhow::bail;

use super::Client;
use crate::args::TargetArgs;
use crate::db::Db;

/// Where a command works.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// A server.
    Server(Client),
    /// A database, in this process.
    Database(Db),
}

impl Target {
    /// The named server, or else the database, even if a server holds it. For commands that only read: they can open the file
    /// while another process holds it.
    pub(crate) fn named(args: &TargetArgs) -> anyhow::Result<Self> {
        match args.server() {
            Some((address, flag)) => {
                let client = Client { flag, ..Client::at(address)? };
                Ok(Self::Server(match args.key()? {
                    Some(given) => client.with_given_key(&given, false)?,
                    None => client,
                }))
            }
            None => Ok(Self::Database(Db::named(&args.db)?)),
        }
    }

    /// The named server, else the one that holds the database, else the database.
    pub(crate) async fn find(args: &TargetArgs) -> anyhow::Result<Self> {
        let db = match Self::named(args)? {
            Self::Database(db) => db,
            there => return Ok(there),
        };
        let Some(owner) = db.owner() else { return Ok(Self::Database(db)) };
        let Some(address) = &owner.address else { return Ok(Self::Database(db)) };
        let client = Client { flag: db.flag().to_owned(), ..Client::at(address)? };
        // Anyone who can read the database has full access; an explicit key wins, and the answer names it.
        let client = match (args.key()?, &owner.key) {
            (Some(given), owner) => client.with_given_key(&given, owner.is_some())?,
            (None, Some(key)) => client.with_key(key.show())?,
            (None, None) => client,
        };
        match client.is_there().await {
            Ok(()) => Ok(Self::Server(client)),
            // It has ended in the meantime.
            Err(_) if db.owner().is_none_or(|now| now.pid != owner.pid) => Ok(Self::Database(db)),
            Err(error) => bail!(
                "{} is in use by {owner}, which does not answer ({error}): wait for it, end it, or name another file with --db",
                db.shown()
            ),
        }
    }

    /// A description for people.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Server(client) => format!("the server at {}", client.shown()),
            Self::Database(db) => db.shown(),
        }
    }

    /// A command for people to type that works on the same server or database.
    pub(crate) fn command(&self, words: &str) -> String {
        match self {
            Self::Server(client) => client.command(words),
            Self::Database(db) => db.command(words),
        }
    }

    /// Whether conversations outlive the program.
    pub(crate) fn is_kept(&self) -> bool {
        match self {
            Self::Server(_) => true,
            Self::Database(db) => db.is_kept(),
        }
    }

    /// Whether a process holds it and drives its open runs.
    pub(crate) fn is_held(&self) -> bool {
        match self {
            Self::Server(_) => true,
            Self::Database(db) => db.is_held(),
        }
    }
}
