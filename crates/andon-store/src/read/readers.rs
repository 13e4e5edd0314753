//! Threads that read, each with its own connection. A transaction lasts no longer than one question.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use andon_runtime::{BoxFuture, JournalError};
use parking_lot::RwLock;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::file::{Connections, explain};
use crate::queue::Queue;
use crate::rows::ReadError;

/// A question to the database.
type Question = Box<dyn FnOnce(&Connection) + Send>;

/// Every read holds it shared. The sweeper takes it exclusively when the write-ahead log must start over, which SQLite does only
/// while nobody reads.
pub(crate) type Gate = Arc<RwLock<()>>;

pub(crate) struct Readers {
    /// Questions that a run may be waiting for. Lists and searches have their own queue, so that a run never waits behind one.
    pub(crate) quick: Arc<Queue<Question>>,
    /// Questions that may take a while.
    pub(crate) slow: Arc<Queue<Question>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(connections: Connections, gate: &Gate) -> std::io::Result<Self> {
        let Connections { quick: for_quick, slow: for_slow } = connections;
        let quick: Arc<Queue<Question>> = Arc::new(Queue::new());
        let slow = if for_slow.is_empty() { Arc::clone(&quick) } else { Arc::new(Queue::new()) };
        let all = for_quick.into_iter().map(|own| (own, &quick)).chain(for_slow.into_iter().map(|own| (own, &slow)));
        let start = |(connection, queue): (Connection, &Arc<Queue<Question>>)| {
            let (queue, gate) = (Arc::clone(queue), Arc::clone(gate));
            thread::Builder::new().name("andon-reader".to_owned()).spawn(move || {
                while let Some(question) = queue.next() {
                    let _reading = gate.read();
                    // If a question panics, its caller is told that the journal is closed; other questions are still answered.
                    let _ = catch_unwind(AssertUnwindSafe(|| question(&connection)));
                }
            })
        };
        let threads = all.map(start).collect::<Result<_, _>>()?;
        Ok(Self { quick, slow, threads })
    }

    /// Answers the questions in the queues, and closes the file.
    pub(crate) fn close(&mut self) {
        self.quick.close();
        self.slow.close();
        for thread in self.threads.drain(..) {
            // If it panicked, its caller was told that the journal is closed.
            let _ = thread.join();
        }
    }
}

impl Queue<Question> {
    /// Asks a question. It sees one snapshot of the database, and is answered on a reader's thread.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> BoxFuture<Result<T, JournalError>> {
        let (answer, receiver) = oneshot::channel();
        // If the queue is closed, the question is dropped, and its answer with it.
        let _ = self.push(Box::new(move |connection: &Connection| {
            // Skip a search whose caller is gone.
            if !answer.is_closed() {
                let _ = answer.send(in_one_snapshot(connection, question));
            }
        }));
        Box::pin(async move { receiver.await.unwrap_or(Err(JournalError::Closed)) })
    }
}

fn in_one_snapshot<T>(
    connection: &Connection,
    question: impl FnOnce(&Connection) -> Result<T, ReadError>,
) -> Result<T, JournalError> {
    let answer = || {
        let transaction = connection.unchecked_transaction()?;
        let answer = question(&transaction)?;
        transaction.finish()?;
        Ok(answer)
    };
    answer().map_err(|error| match error {
        ReadError::Database(error) => explain(&error),
        ReadError::Journal(error) => error,
    })
}
