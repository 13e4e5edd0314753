//! Tools with a character, and a log of what they really did.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use andon_runtime::core::event::Event;
use andon_runtime::core::id::CallId;
use andon_runtime::{
    Effect, FnTool, Invocation, Probe, Remains, ToolCall, ToolError, ToolOutput, ToolSpec, Work, tool,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;

use crate::journal::TestJournal;

/// What tools really did, whatever the journal says.
#[derive(Clone, Default)]
pub struct ToolLog {
    state: Arc<Mutex<Vec<Deed>>>,
    journal: Option<TestJournal>,
    probe: Option<Arc<dyn Probe>>,
}

/// One thing that a tool did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Deed {
    /// It started.
    Started {
        /// The call.
        call: CallId,
        /// Whether the call was on record by then, with the arguments that the tool got.
        on_record: bool,
    },
    /// It is about to return this.
    Returned {
        /// The call.
        call: CallId,
        /// What it returns.
        text: String,
    },
    /// It has shown this of its work.
    Shown {
        /// The call.
        call: CallId,
        /// What it has shown.
        text: String,
    },
    /// Its future is gone.
    Gone(CallId),
    /// It has started a process, which no drop ends.
    Spawned(CallId),
    /// That process is dead.
    Died(CallId),
    /// Its work is done somewhere else, where it was told to stop and not seen to end.
    LeftElsewhere(CallId),
}

impl ToolLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// A log that checks, whenever a tool starts, whether the call is on record in this journal, and tells a probe when a tool
    /// has started and when it is about to return.
    pub fn watching(journal: TestJournal, probe: Arc<dyn Probe>) -> Self {
        Self { probe: Some(probe), ..Self::checking(journal) }
    }

    /// A log that checks, whenever a tool starts, whether the call is on record in this journal.
    pub(crate) fn checking(journal: TestJournal) -> Self {
        Self { state: Arc::default(), journal: Some(journal), probe: None }
    }

    fn hit(&self, seam: &'static str) {
        if let Some(probe) = &self.probe {
            probe.hit(seam);
        }
    }

    /// Everything that was done.
    pub fn deeds(&self) -> Vec<Deed> {
        self.state.lock().clone()
    }

    fn count(&self, is_it: fn(&Deed) -> bool) -> usize {
        self.state.lock().iter().filter(|deed| is_it(deed)).count()
    }

    /// How many tools were started.
    pub fn started(&self) -> usize {
        self.count(|deed| matches!(deed, Deed::Started { .. }))
    }

    /// How many tools were started and are not gone.
    pub fn running(&self) -> usize {
        self.started().saturating_sub(self.count(|deed| matches!(deed, Deed::Gone(_))))
    }

    /// How many processes were started and are not dead.
    pub fn processes(&self) -> usize {
        let died = self.count(|deed| matches!(deed, Deed::Died(_)));
        self.count(|deed| matches!(deed, Deed::Spawned(_))).saturating_sub(died)
    }

    fn add(&self, deed: Deed) {
        self.state.lock().push(deed);
    }

    /// Logs that a call has begun. Dropping what it returns logs that it is gone.
    pub(crate) fn begin(&self, call: &Invocation) -> Alive {
        let on_record = self.journal.as_ref().is_none_or(|journal| {
            let is_intent = |event: &Event| matches!(event, Event::ToolStarted { call: id, .. } if *id == call.call);
            let is_as_recorded = |recorded: ToolCall| recorded.input().is_ok_and(|input| input == call.input);
            journal.has(&call.run, is_intent) && journal.call(&call.run, &call.call).is_some_and(is_as_recorded)
        });
        self.add(Deed::Started { call: call.call.clone(), on_record });
        let alive = Alive { log: self.clone(), call: call.call.clone() };
        self.hit("tool: started");
        alive
    }
}

/// Logs when a tool's future is gone.
pub(crate) struct Alive {
    log: ToolLog,
    call: CallId,
}

impl Alive {
    fn returns(&self, text: &str) -> Result<ToolOutput, ToolError> {
        self.log.hit("tool: about to return");
        self.log.add(Deed::Returned { call: self.call.clone(), text: text.to_owned() });
        Ok(text.into())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.log.add(Deed::Gone(self.call.clone()));
    }
}

fn any_object() -> serde_json::Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}})
}

/// A tool that does this work, and logs when it begins and when it is gone.
fn logged<F>(
    name: &str,
    description: &str,
    log: &ToolLog,
    work: impl Fn(Alive, Invocation) -> F + Clone + Send + Sync + 'static,
) -> FnTool
where
    F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    let log = log.clone();
    FnTool::new(name, description, any_object(), move |call| {
        let (log, work) = (log.clone(), work.clone());
        async move { work(log.begin(&call), call).await }
    })
}

/// Returns at once.
pub fn quick(name: &str, log: &ToolLog) -> FnTool {
    logged(name, "Returns at once.", log, |alive, _| async move { alive.returns("quick result") })
        .effect(Effect::ReadOnly)
}

/// Takes a while and does not look at its cord.
pub fn slow(name: &str, takes: Duration, log: &ToolLog) -> FnTool {
    logged(name, "Takes a while.", log, move |alive, _| async move {
        sleep(takes).await;
        alive.returns("slow result")
    })
}

/// Takes a while, watches its cord, and returns what it has when it is told to stop.
pub fn cooperative(name: &str, takes: Duration, log: &ToolLog) -> FnTool {
    logged(name, "Stops when it is told.", log, move |alive, call| async move {
        tokio::select! {
            biased;
            () = call.cord.pulled() => alive.returns("part of the result"),
            () = sleep(takes) => alive.returns("whole result"),
        }
    })
    .effect(Effect::Idempotent)
}

/// What [`typed`] is called with.
#[derive(andon_runtime::serde::Deserialize, andon_runtime::schemars::JsonSchema)]
#[serde(crate = "andon_runtime::serde")]
#[schemars(crate = "andon_runtime::schemars")]
struct Errand {
    n: i64,
}

/// Takes a while with the argument that it was called with, watches its cord, and returns what it has when it is told to stop.
pub fn typed(name: &str, takes: Duration, log: &ToolLog) -> FnTool {
    let log = log.clone();
    tool(name, "Runs an errand.").effect(Effect::Idempotent).run_with(move |Errand { n }, call| {
        let log = log.clone();
        async move {
            let alive = log.begin(&call);
            tokio::select! {
                biased;
                () = call.cord.pulled() => alive.returns(&format!("part of errand {n}")),
                () = sleep(takes) => alive.returns(&format!("errand {n}")),
            }
        }
    })
}

/// Knows that it was told to stop, and goes on all the same.
pub fn stubborn(name: &str, takes: Duration, log: &ToolLog) -> FnTool {
    logged(name, "Does not stop.", log, move |alive, call| async move {
        tokio::join!(call.cord.pulled(), sleep(takes));
        alive.returns("stubborn result")
    })
    .grace(Duration::from_millis(500))
}

/// Shows its work while it goes on.
pub fn talkative(name: &str, lines: u32, log: &ToolLog) -> FnTool {
    logged(name, "Shows its work.", log, move |alive, call| async move {
        for line in 1..=lines {
            let text = format!("line {line} of {}\n", call.call);
            call.progress.show(&text);
            alive.log.add(Deed::Shown { call: call.call.clone(), text });
            sleep(Duration::from_millis(20)).await;
        }
        alive.returns("all shown")
    })
    .effect(Effect::ReadOnly)
}

/// Starts a process that no drop ends and that takes a while to die; its cleanup sees to that.
pub fn with_process(name: &str, takes: Duration, dies_within: Duration, log: &ToolLog) -> FnTool {
    let log = log.clone();
    let mut spec = ToolSpec::new(name, "Starts a process.", any_object());
    spec.cleanup = dies_within * 2;
    FnTool::from_spec(spec, move |call| {
        let (log, cleanup_log, id) = (log.clone(), log.clone(), call.call.clone());
        let work = async move {
            let alive = log.begin(&call);
            log.add(Deed::Spawned(call.call.clone()));
            tokio::select! {
                biased;
                () = call.cord.pulled() => {
                    // It was told and does not care: the cleanup has to end the process.
                    std::future::pending::<()>().await;
                }
                () = sleep(takes) => {}
            }
            alive.returns("the process is done")
        };
        Work::task(work).cleanup(move || async move {
            let spawned = Deed::Spawned(id.clone());
            if cleanup_log.deeds().contains(&spawned) {
                sleep(dies_within).await;
                cleanup_log.add(Deed::Died(id));
            }
            Remains::NONE
        })
    })
}

/// Works somewhere else, such as on a remote server: when told to stop it passes that on, and nobody sees whether the work ended.
pub fn elsewhere(name: &str, takes: Duration, log: &ToolLog) -> FnTool {
    let log = log.clone();
    let tool = FnTool::from_spec(ToolSpec::new(name, "Works elsewhere.", any_object()), move |call| {
        let (log, cleanup_log, id) = (log.clone(), log.clone(), call.call.clone());
        let is_over = Arc::new(AtomicBool::new(false));
        let was_over = Arc::clone(&is_over);
        let work = async move {
            let alive = log.begin(&call);
            tokio::select! {
                biased;
                () = call.cord.pulled() => alive.returns("told"),
                () = sleep(takes) => {
                    is_over.store(true, Ordering::SeqCst);
                    alive.returns("whole result")
                }
            }
        };
        Work::task(work).cleanup(move || async move {
            if was_over.load(Ordering::SeqCst) {
                return Remains::NONE;
            }
            cleanup_log.add(Deed::LeftElsewhere(id));
            Remains::new().unended("told, not seen to end")
        })
    });
    tool.effect(Effect::ReadOnly)
}

/// Runs on a thread of its own, as far as the runtime can tell. It looks at its cord if `looks` is set.
pub fn on_thread(name: &str, takes: Duration, looks: bool, log: &ToolLog) -> FnTool {
    let log = log.clone();
    FnTool::from_spec(ToolSpec::new(name, "Blocks a thread.", any_object()), move |call| {
        let log = log.clone();
        Work::simulated_thread(async move {
            let alive = log.begin(&call);
            tokio::select! {
                biased;
                () = call.cord.pulled(), if looks => alive.returns("part of the thread's result"),
                () = sleep(takes) => alive.returns("the thread's result"),
            }
        })
    })
    .grace(Duration::from_millis(500))
}

/// What a tool that panics on purpose says.
pub const ON_PURPOSE: &str = "this tool panics on purpose";

/// Panics.
pub fn panicking(name: &str, log: &ToolLog) -> FnTool {
    logged(name, "Panics.", log, |alive, _| async move {
        tokio::task::yield_now().await;
        drop(alive);
        #[expect(clippy::panic, reason = "panicking is what this tool is for")]
        {
            panic!("{ON_PURPOSE}")
        }
    })
}
