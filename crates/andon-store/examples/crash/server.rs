//! A round on a PostgreSQL server: its rows, and what happens to the server meanwhile.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use andon_runtime::Journal;
use andon_store::{PostgresJournal, PostgresOptions};
use anyhow::{Context, Result, bail};
use parking_lot::RwLock;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, SimpleQueryRow};

use crate::book::{Book, Pages, Row};
use crate::points::hold;
use crate::store::SERVER;

/// How long a query may be tried again while the server is on its way back.
const PATIENCE: u32 = 2_000;

/// Taken while rows are read, and by whoever stops the server.
static SERVER_IS_UP: RwLock<()> = RwLock::new(());

fn address() -> Result<String> {
    std::env::var(SERVER[0]).with_context(|| format!("{} is not set", SERVER[0]))
}

/// The schema of a round.
fn schema(folder: &Path) -> String {
    let parts: Vec<String> = folder.iter().rev().take(3).map(|part| part.to_string_lossy().into_owned()).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("_")
}

fn options(folder: &Path) -> PostgresOptions {
    PostgresOptions::new().schema(schema(folder)).program("andon crash")
}

/// Opens the round's journal. A server that is on its way back is waited for.
pub(crate) fn open(folder: &Path) -> Result<Arc<dyn Journal>> {
    for _ in 0..PATIENCE {
        match PostgresJournal::open_with(&address()?, &options(folder)) {
            Err(andon_store::PostgresError::Unreachable { .. }) => hold(Duration::from_millis(10)),
            opened => return Ok(Arc::new(opened?)),
        }
    }
    bail!("the server does not come back")
}

/// Removes a round's schema.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    query(&[format!("SET client_min_messages = error; DROP SCHEMA IF EXISTS \"{}\" CASCADE", schema(folder))]).map(drop)
}

/// The rows of a round, all as of one moment.
pub(crate) fn read(folder: &Path) -> Result<Book> {
    let schema = schema(folder);
    let exists = format!("SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'");
    if query(&[exists])?.iter().all(Vec::is_empty) {
        return Ok(Book::default());
    }
    let statements = [
        format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path TO \"{schema}\""),
        "SELECT r.id, r.run, s.session, r.epoch, r.next_seq, r.settled, r.ending,
            (SELECT count(*) FROM requests q WHERE q.run = r.id) FROM runs r JOIN sessions s ON s.id = r.session"
            .to_owned(),
        "SELECT run, seq, epoch, kind, body FROM events ORDER BY run, seq".to_owned(),
        "SELECT run, body FROM lumps ORDER BY run, n".to_owned(),
        "SELECT (SELECT count(*) FROM events WHERE run NOT IN (SELECT id FROM runs))
            + (SELECT count(*) FROM lumps WHERE run NOT IN (SELECT id FROM runs))
            + (SELECT count(*) FROM requests WHERE run NOT IN (SELECT id FROM runs))"
            .to_owned(),
        "COMMIT".to_owned(),
    ];
    let answers = query(&statements)?;
    let [_, runs, events, lumps, orphans, _] = answers.as_slice() else { bail!("an answer is missing") };
    let mut book = Book::default();
    for row in runs {
        let id = column(row, 0)?;
        let of_run = |rows: &'_ &SimpleQueryRow| rows.get(0) == Some(id);
        let pages = Pages {
            session: column(row, 2)?.to_owned(),
            epoch: column(row, 3)?.parse()?,
            next_seq: column(row, 4)?.parse()?,
            is_settled: column(row, 5)? == "t",
            ending: row.get(6).map(serde_json::from_str).transpose()?,
            events: events.iter().filter(of_run).map(event).collect::<Result<_>>()?,
            lumps: lumps
                .iter()
                .filter(of_run)
                .map(|row| Ok(serde_json::from_str(column(row, 1)?)?))
                .collect::<Result<_>>()?,
            requests: column(row, 7)?.parse()?,
        };
        book.runs.insert(column(row, 1)?.to_owned(), pages);
    }
    book.orphans = orphans.first().map_or(Ok("0"), |row| column(row, 0))?.parse()?;
    Ok(book)
}

fn event(row: &SimpleQueryRow) -> Result<Row> {
    let body = column(row, 4)?.to_owned();
    let record = serde_json::from_str(&body)?;
    Ok(Row {
        seq: column(row, 1)?.parse()?,
        epoch: column(row, 2)?.parse()?,
        kind: column(row, 3)?.to_owned(),
        body,
        record,
    })
}

fn column(row: &SimpleQueryRow, number: usize) -> Result<&str> {
    row.get(number).context("a column is empty")
}

/// Runs statements on a connection of their own; returns the rows of each.
fn query(statements: &[String]) -> Result<Vec<Vec<SimpleQueryRow>>> {
    let _up = SERVER_IS_UP.read();
    let address = address()?;
    let asked = || {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
            let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
            tokio::select! {
                answers = ask(&client, statements) => answers,
                ended = connection => bail!("the connection has ended: {ended:?}"),
            }
        })
    };
    // On a thread of its own, because the judge's belongs to a runtime.
    std::thread::scope(|scope| scope.spawn(asked).join()).unwrap_or_else(|_| bail!("a query has panicked"))
}

async fn ask(client: &Client, statements: &[String]) -> Result<Vec<Vec<SimpleQueryRow>>> {
    let mut answers = Vec::new();
    for statement in statements {
        let rows = client.simple_query(statement).await?.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        answers.push(rows.collect());
    }
    Ok(answers)
}

/// What happens to the server while a life goes on.
pub(crate) struct Trouble {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Trouble {
    /// In every third life connections are cut; in every twelfth the server is killed, and started again.
    pub(crate) fn begin(folder: &Path, dice: u64) -> Option<Self> {
        let mut dice = fastrand::Rng::with_seed(dice);
        let kind = dice.u8(0..12);
        if kind >= 5 {
            return None;
        }
        let (is_over, schema) = (Arc::new(AtomicBool::new(false)), schema(folder));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut times = 0;
            while !over.load(Ordering::SeqCst) && times < 8 {
                hold(Duration::from_micros(dice.u64(2_000..60_000)));
                times += 1;
                if kind == 0 {
                    kill_server()?;
                    break;
                }
                let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE";
                query(&[format!("{cut} 'andon%{schema}%'")])?;
            }
            Ok(times)
        });
        Some(Self { is_over, thread })
    }

    /// Waits until it is over. Returns how often it came.
    pub(crate) fn end(self) -> Result<u64> {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().unwrap_or_else(|_| bail!("what troubles the server has panicked"))
    }
}

/// Kills the server as a crash does, and starts it again.
fn kill_server() -> Result<()> {
    let _down = SERVER_IS_UP.write();
    let control = std::env::var(SERVER[1])?;
    for word in ["--mode immediate stop", "start"] {
        let command = format!("{control} {word} >/dev/null 2>&1");
        if !Command::new("sh").args(["-c", &command]).status()?.success() {
            bail!("the server could not be told to {word}");
        }
    }
    Ok(())
}
