//! The server, and what a test does to it.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use andon_store::{PostgresJournal, PostgresOptions};
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// A test that stops the server, or changes its settings, has it alone.
static SERVER: RwLock<()> = RwLock::new(());

pub(crate) fn shared() -> RwLockReadGuard<'static, ()> {
    SERVER.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    SERVER.write().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: `cargo xtask postgres` starts a server and runs these tests"))
}

/// The address of its database, for a superuser without a password.
pub(crate) fn url() -> String {
    variable("ANDON_POSTGRES")
}

/// The address for another user, and perhaps another database.
pub(crate) fn url_of(user: &str, database: &str) -> String {
    let url = url();
    let (_, place) = url.split_once('@').unwrap();
    let (host, _) = place.rsplit_once('/').unwrap();
    format!("postgres://{user}@{host}/{database}")
}

/// A schema that no other test uses.
pub(crate) fn new_schema() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("test_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn journal(schema: &str) -> PostgresJournal {
    PostgresJournal::open_with(&url(), &PostgresOptions::new().schema(schema)).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs statements as a superuser, and returns the first column of their rows.
pub(crate) fn sql(statements: &str) -> Vec<String> {
    let (url, statements) = (url(), statements.to_owned());
    // On a thread of its own, because the caller may be in a runtime.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            let done = tokio::select! {
                done = client.simple_query(&statements) => done.unwrap(),
                ended = connection => panic!("the connection ended: {ended:?}"),
            };
            let first = |message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            };
            done.into_iter().filter_map(first).collect()
        })
    });
    thread.join().unwrap()
}

/// Starts or stops the server.
pub(crate) fn control(word: &str) {
    let command = format!("{} {word} >/dev/null", variable("ANDON_POSTGRES_CONTROL"));
    assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success(), "{command}");
}
