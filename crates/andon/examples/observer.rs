//! An observer of your own is told everything that happens in a runtime, once and in order. This one counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use andon::observe::{Observer, ShownFact};
use andon::{Agent, Practice, Runtime};

#[derive(Default)]
struct Counter(Mutex<BTreeMap<&'static str, u64>>);

impl Observer for Counter {
    fn fact(&self, seen: &ShownFact<'_>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(seen.record.event.kind()).or_default() += 1;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let counter = Arc::new(Counter::default());
    let runtime = Runtime::builder().observer(Arc::clone(&counter)).build();
    let agent = Agent::builder().model(Practice::instant()).runtime(&runtime).build()?;
    agent.run("Hello").await?;
    agent.run("Hello again").await?;
    let counted = counter.0.lock().map_err(|_| "a counter that panicked")?;
    println!("{counted:?}");
    assert_eq!((counted.get("run_accepted"), counted.get("run_settled")), (Some(&2), Some(&2)));
    Ok(())
}
