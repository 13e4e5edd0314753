//! Threads that read, each with its own connection. A transaction lasts no longer than one question.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

use crate::postgres::server::{Cause, Fault, Link, PostgresAddress, cause, explain};
use crate::postgres::sql::Transaction;
use crate::postgres::write::{Work, WriteError};
use crate::queue::Queue;

/// A question to the database.
pub(in crate::postgres) type Question = dyn Work;

/// How many reads of each kind run at the same time.
const READERS: usize = 3;

/// How long a question waits for a server that is away.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long one question may take.
const LONGEST: Duration = Duration::from_secs(60);

/// How long to wait before connecting again.
const BACK_OFF: Duration = Duration::from_millis(100);

pub(in crate::postgres) struct Readers {
    /// Questions that a run may be waiting for. Lists and searches have their own queue, so that a run never waits behind one.
    pub(in crate::postgres) quick: Arc<Queue<Box<Question>>>,
    /// Questions that may take a while.
    pub(in crate::postgres) slow: Arc<Queue<Box<Question>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts the threads. Each connects when it is first asked something.
    pub(in crate::postgres) fn start(address: &Arc<PostgresAddress>, schema: &str) -> std::io::Result<Self> {
        let (quick, slow) = (Arc::new(Queue::new()), Arc::new(Queue::new()));
        let mut threads = Vec::new();
        for queue in [&quick, &slow] {
            for _ in 0..READERS {
                let reader = Reader { address: Arc::clone(address), begin: begin(schema), link: None };
                let runtime = Builder::new_current_thread().enable_all().build()?;
                let queue = Arc::clone(queue);
                let thread = thread::Builder::new().name("andon-reader".to_owned());
                threads.push(thread.spawn(move || reader.run(&runtime, &queue))?);
            }
        }
        Ok(Self { quick, slow, threads })
    }

    /// Answers the questions in the queues, and closes the connections.
    pub(in crate::postgres) fn close(&mut self) {
        self.quick.close();
        self.slow.close();
        for thread in self.threads.drain(..) {
            // If it panicked, its caller was told that the journal is closed.
            let _ = thread.join();
        }
    }
}

/// How a transaction begins that sees one snapshot and changes nothing.
fn begin(schema: &str) -> String {
    format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path TO {schema}; \
         SET LOCAL statement_timeout = '{}s'; SET LOCAL idle_in_transaction_session_timeout = '10s'",
        LONGEST.as_secs() - 5
    )
}

struct Reader {
    address: Arc<PostgresAddress>,
    begin: String,
    link: Option<Link>,
}

impl Reader {
    fn run(mut self, runtime: &Runtime, queue: &Queue<Box<Question>>) {
        while let Some(question) = queue.next() {
            // Skip a search whose caller is gone.
            if !question.is_given_up() {
                runtime.block_on(self.answer(question, queue));
            }
        }
    }

    /// Answers a question, as soon as the server is there. Reading again is harmless.
    async fn answer(&mut self, mut question: Box<Question>, queue: &Queue<Box<Question>>) {
        let asked = Instant::now();
        let result = loop {
            match self.ask(&mut *question).await {
                Ok(()) => break Ok(()),
                Err(WriteError::Refused(error)) => break Err(error),
                Err(WriteError::Server(fault)) => {
                    self.link = None;
                    let is_over = asked.elapsed() >= PATIENCE || queue.is_closed() || question.is_given_up();
                    if cause(&fault) == Cause::Statement || is_over {
                        break Err(explain(&fault));
                    }
                }
            }
            sleep(BACK_OFF).await;
        };
        question.done(result);
    }

    async fn ask(&mut self, question: &mut Question) -> Result<(), WriteError> {
        let link = match &mut self.link {
            Some(link) => link,
            none => none.insert(Link::open(&self.address, "andon reader").await?),
        };
        let begin = self.begin.as_str();
        link.ask(LONGEST, async |client| {
            let asked = question.work(Transaction::on(client, ""));
            // Both are sent before an answer is awaited.
            let (begun, answered) = futures_util::future::join(client.batch_execute(begin), asked).await;
            begun?;
            let ended = client.batch_execute(if answered.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
            answered?;
            Ok(ended.map_err(Fault::from)?)
        })
        .await
    }
}
