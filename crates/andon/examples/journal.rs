//! A journal of your own, around another one: a `JournalLayer` changes what it names and forwards the rest. This one writes an audit line
//! for every event, and the test kit checks that it still keeps every promise of a journal.

use std::sync::{Arc, Mutex, PoisonError};

use andon::core::event::Entry;
use andon::journal::{Append, Batch, Journal, JournalLayer, MemoryJournal};
use andon::{Agent, Practice, Runtime};
use andon_testkit::conformance::{self, Subject};

/// Writes an audit line for every event before it is recorded.
#[derive(Default)]
struct Audited<J> {
    inner: J,
    lines: Mutex<Vec<String>>,
}

impl<J: Journal> JournalLayer for Audited<J> {
    fn inner(&self) -> &dyn Journal {
        &self.inner
    }

    fn append(&self, batch: Batch) -> Append {
        let facts = batch.entries.iter().filter_map(Entry::fact);
        let lines = facts.map(|record| format!("{} {} {}", batch.run, record.seq, record.event.kind()));
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
        self.inner.append(batch)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let journal = Arc::new(Audited::<MemoryJournal>::default());
    let runtime = Runtime::builder().journal(Arc::clone(&journal)).build();
    let agent = Agent::builder().model(Practice::instant()).runtime(&runtime).build()?;
    let run = agent.start("Hello")?;
    run.wait()?;
    let lines = journal.lines.lock().map_err(|_| "an audit that panicked")?;
    println!("{}", lines.join("\n"));
    assert!(lines.last().is_some_and(|line| line.starts_with(run.id().as_str()) && line.ends_with("run_settled")));

    // In your project this is a test. It panics with a sentence where a promise is broken.
    conformance::run(|| Subject::in_memory(Audited::<MemoryJournal>::default()));
    Ok(())
}
