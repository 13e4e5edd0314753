//! What a script's author promises: checks beside Andon's own.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use andon_runtime::core::message::ToolResult;
use andon_runtime::{Journal, MemoryJournal, Message, Receipt, SessionKey};
use parking_lot::Mutex;

use super::panics::unplanned_panics;

/// What is left when everything has come to rest: what a [check](super::World::check) may look at, beside what it has captured.
///
/// ```
/// # fn promise(world: &andon_testkit::explore::World) {
/// world.check("nothing is left running", |left| {
///     for receipt in left.receipts() {
///         assert_eq!(receipt.leaked, Vec::<String>::new(), "{}", receipt.run);
///     }
/// });
/// world.check("no result is empty", |left| left.results().all(|result| !result.to_text().is_empty()));
/// # }
/// ```
#[derive(Debug)]
pub struct Aftermath {
    receipts: Vec<Receipt>,
    history: Vec<Arc<Message>>,
    recovered: bool,
}

impl Aftermath {
    pub(super) async fn of(journal: &MemoryJournal, recovered: bool) -> Self {
        let runs = journal.run_ids();
        let receipts: Vec<Receipt> = runs.iter().filter_map(|run| journal.stored(run)?.receipt()).collect();
        let mut sessions: Vec<&SessionKey> = Vec::new();
        for receipt in &receipts {
            if !sessions.contains(&&receipt.session) {
                sessions.push(&receipt.session);
            }
        }
        let mut history = Vec::new();
        for session in sessions {
            history.extend(journal.history(session).await.unwrap_or_default());
        }
        Self { receipts, history, recovered }
    }

    /// The receipt of each run, in the order in which they began: how it ended, and what became of its calls.
    pub fn receipts(&self) -> &[Receipt] {
        &self.receipts
    }

    /// What was said: what the model will be told next time.
    pub fn history(&self) -> &[Arc<Message>] {
        &self.history
    }

    /// The results of tools that the model will be told.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.history.iter().flat_map(|message| message.results())
    }

    /// Whether the process has died, and a new one has recovered what it left.
    pub fn is_recovered(&self) -> bool {
        self.recovered
    }
}

/// What a [check](super::World::check) may return: nothing, if it asserts; whether it holds; or why it does not.
///
/// ```
/// # fn promise(world: &andon_testkit::explore::World) {
/// world.check("asserts", |left| assert!(left.receipts().len() <= 1, "one run at most"));
/// world.check("says whether", |left| left.receipts().len() <= 1);
/// world.check("says why not", |left| match left.receipts().len() {
///     0 | 1 => Ok(()),
///     runs => Err(format!("there are {runs} runs")),
/// });
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "a check returns nothing, a `bool` or a `Result<(), impl Display>`, and not `{Self}`",
    label = "this check"
)]
pub trait Finding {
    /// Why the check does not hold, if it does not.
    fn broken(self) -> Option<String>;
}

impl Finding for () {
    fn broken(self) -> Option<String> {
        None
    }
}

impl Finding for bool {
    fn broken(self) -> Option<String> {
        (!self).then(|| "it does not hold".to_owned())
    }
}

impl<E: Display> Finding for Result<(), E> {
    fn broken(self) -> Option<String> {
        self.err().map(|why| why.to_string())
    }
}

type Find = dyn Fn(&Aftermath) -> Option<String> + Send;

struct Check {
    name: String,
    find: Box<Find>,
}

/// The checks of one world.
#[derive(Clone, Default)]
pub(super) struct Checks(Arc<Mutex<Vec<Check>>>);

impl Checks {
    pub(super) fn add<F: Finding>(&self, name: String, check: impl Fn(&Aftermath) -> F + Send + 'static) {
        self.0.lock().push(Check { name, find: Box::new(move |left| check(left).broken()) });
    }

    /// Each check that does not hold, in words.
    pub(super) async fn run(&self, journal: &MemoryJournal, recovered: bool) -> Vec<String> {
        if self.0.lock().is_empty() {
            return Vec::new();
        }
        let left = Aftermath::of(journal, recovered).await;
        let checks = self.0.lock();
        let broken = checks.iter().filter_map(|check| {
            let found = catch_unwind(AssertUnwindSafe(|| (check.find)(&left)));
            let why = found.unwrap_or_else(|_| Some(unplanned_panics().join("; ")))?;
            Some(format!("check \"{}\": {why}", check.name))
        });
        broken.collect()
    }
}
