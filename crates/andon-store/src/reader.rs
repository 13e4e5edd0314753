//! Threads that read, each with a connection of its own. None holds a transaction longer than one question takes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use andon::{BoxFuture, JournalError};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::line::Line;
use crate::writer::explain;

/// A question to the database.
type Question = Box<dyn FnOnce(&Connection) + Send>;

/// Why a question was not answered.
#[derive(Debug)]
pub(crate) enum Unread {
    Database(rusqlite::Error),
    Journal(JournalError),
}

impl From<rusqlite::Error> for Unread {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<JournalError> for Unread {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

pub(crate) struct Readers {
    line: Arc<Line<Question>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(connections: Vec<Connection>) -> std::io::Result<Self> {
        let line: Arc<Line<Question>> = Arc::new(Line::new());
        let start = |connection: Connection| {
            let line = Arc::clone(&line);
            thread::Builder::new().name("andon-reader".to_owned()).spawn(move || {
                while let Some(question) = line.next() {
                    // Whoever asked a question that panics is told that the journal is closed; the others are answered.
                    let _ = catch_unwind(AssertUnwindSafe(|| question(&connection)));
                }
            })
        };
        let threads = connections.into_iter().map(start).collect::<Result<_, _>>()?;
        Ok(Self { line, threads })
    }

    /// Asks a question. What it sees is one moment of the database, and the answer is computed on a thread of its own.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, Unread> + Send + 'static,
    ) -> BoxFuture<Result<T, JournalError>> {
        let (answer, receiver) = oneshot::channel();
        let asked = self.line.push(Box::new(move |connection: &Connection| {
            // Who asked may be gone.
            let _ = answer.send(at_one_moment(connection, question));
        }));
        Box::pin(async move {
            if asked.is_err() {
                return Err(JournalError::Closed);
            }
            receiver.await.unwrap_or(Err(JournalError::Closed))
        })
    }

    /// Answers what was asked, and lets go of the file.
    pub(crate) fn close(&mut self) {
        self.line.close();
        for thread in self.threads.drain(..) {
            // If it panicked, who asked was told that the journal is closed.
            let _ = thread.join();
        }
    }
}

fn at_one_moment<T>(
    connection: &Connection,
    question: impl FnOnce(&Connection) -> Result<T, Unread>,
) -> Result<T, JournalError> {
    let answer = || {
        let transaction = connection.unchecked_transaction()?;
        let answer = question(&transaction)?;
        transaction.finish()?;
        Ok(answer)
    };
    answer().map_err(|error| match error {
        Unread::Database(error) => explain(&error),
        Unread::Journal(error) => error,
    })
}
