//! How fast it is, to look at: `cargo xtask postgres --ignored figures`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use andon_runtime::core::event::Entry;
use andon_runtime::core::event::{Event, Record};
use andon_runtime::{Batch, Journal, RunId, SessionKey};

use crate::server::{journal, new_schema, shared};
use crate::traffic::{accepted, fact, stamp};

/// Appends facts of 300 bytes in order, each after the one before is durable. Returns how many.
async fn write(journal: Arc<dyn Journal>, name: String, until: SystemTime) -> u64 {
    let (run, session) = (RunId::new(&name).unwrap(), SessionKey::new("shop", "ada", &name).unwrap());
    let begun = vec![accepted(&run, &session, "Go."), fact(2, Event::RunStarted)];
    journal.append(Batch::new(run.clone(), 1, begun)).await.unwrap();
    let message = Arc::new(andon_runtime::Message::assistant("x".repeat(180)));
    let mut seq = 2;
    while SystemTime::now() < until {
        seq += 1;
        let next = Record::new(seq, 1, stamp(seq), Event::Message { message: Arc::clone(&message) });
        journal.append(Batch::new(run.clone(), 1, vec![Entry::Fact(Arc::new(next))])).await.unwrap();
    }
    seq
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it prints figures and checks nothing: `cargo xtask postgres --ignored figures`"]
async fn facts_are_written_by_many_runs_and_by_one() {
    let _server = shared();
    let journal: Arc<dyn Journal> = Arc::new(journal(&new_schema()));
    for runs in [1_u32, 64, 256] {
        let until = SystemTime::now() + Duration::from_secs(2);
        let write = |number: u32| {
            #[expect(clippy::disallowed_methods, reason = "these tasks use a journal without a runtime")]
            tokio::spawn(write(Arc::clone(&journal), format!("{runs} runs, {number}"), until))
        };
        let writers: Vec<_> = (0..runs).map(write).collect();
        let mut facts = 0;
        for writer in writers {
            facts += writer.await.unwrap();
        }
        println!("{runs} runs: {} durable facts a second", facts / 2);
    }
}
