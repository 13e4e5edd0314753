//! A database on the server, in a schema of its own.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::child::{Ended, Program, Value};
use crate::server::Served;

/// The address of the server's database, for a superuser without a password.
pub(crate) fn url() -> String {
    std::env::var("ANDON_POSTGRES").unwrap_or_else(|_| {
        panic!("ANDON_POSTGRES is not set: `cargo xtask postgres` starts a server and runs these tests")
    })
}

/// The address for another user, and perhaps another database.
pub(crate) fn url_of(user: &str, database: &str) -> String {
    let url = url();
    let (_, place) = url.split_once('@').unwrap();
    let (host, _) = place.rsplit_once('/').unwrap();
    format!("postgres://{user}@{host}/{database}")
}

/// The name of a schema that no other test uses.
pub(crate) fn new_schema() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("cli_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub(crate) struct Shared {
    pub(crate) url: String,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self { url: format!("{}?schema={}", url(), new_schema()) }
    }

    /// Starts the program on it, by a flag.
    pub(crate) fn start(&self, args: &[&str]) -> Program {
        Program::start(&[args, &["--db", self.url.as_str()]].concat())
    }

    /// Starts a server on a free port.
    pub(crate) fn serve(&self, args: &[&str]) -> Served {
        Served::of(self.start(&[&["serve", "--bind", "127.0.0.1:0"], args].concat()))
    }

    /// Runs to the end, which must be a success.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        let ended = self.start(args).end();
        assert_eq!(ended.code, Some(0), "{args:?}: {}{}", ended.stdout, ended.stderr);
        ended
    }

    /// Runs to the end, which must be an error, and returns it.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let ended = self.start(args).end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{args:?}: {}", ended.stderr);
        ended.stderr
    }

    /// The only run of a session, as `andon runs` lists it.
    pub(crate) fn only_run(&self, session: &str) -> Value {
        let mut runs = self.run(&["runs", "--session", session, "--json"]).json();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }

    /// Waits until a run is on record as settled, and returns how it ended.
    pub(crate) fn outcome(&self, session: &str) -> Value {
        (0..1000)
            .map(|_| self.only_run(session))
            .find(|run| run["state"] == "settled")
            .map(|run| run["outcome"].clone())
            .expect("it does not settle")
    }
}
