//! What the database of a format holds: sessions of two users, with runs that ended in every way and runs that were open when
//! the process was killed.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::event::{AddendumKind, Entry};
use andon_runtime::core::time::{Stamp, Wall};
use andon_runtime::{
    Agent, Attachment, Cancel, Digest, Event, FnTool, Force, Invocation, Journal, JournaledRun, Reason, Run, RunId,
    Runtime, StateChange, StateMap, ToolError, ToolOutput, Usage, Used, WhenBusy,
};
use andon_store::SqliteJournal;
use serde_json::{Value, json};

use crate::hooks;
use crate::model::{Script, call, unfinished, whole};

/// Fills a database, and kills its own process.
pub(crate) fn live(database: &Path) -> anyhow::Result<()> {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    executor.block_on(async {
        let life = Life::begin(database)?;
        life.keep().await?;
        life.settle_some().await?;
        hooks::live(life.agent.runtime()).await?;
        life.leave_some_open().await?;
        Command::new("kill").args(["-9", &std::process::id().to_string()]).status()?;
        std::future::pending().await
    })
}

struct Life {
    journal: Arc<dyn Journal>,
    agent: Agent,
}

impl Life {
    fn begin(database: &Path) -> anyhow::Result<Self> {
        let journal: Arc<dyn Journal> = Arc::new(SqliteJournal::open(database)?);
        let runtime = Runtime::builder().journal(Arc::clone(&journal)).build();
        let model = Script::new([
            call("Let me look.", "look-1", "look"),
            whole("It is blue."),
            whole("You are welcome."),
            unfinished(["Once upon a time", " there was"]),
            call("I will try.", "break-1", "break"),
            whole("It did not work."),
            call("I have to ask.", "danger-1", "danger"),
            unfinished(["One, ", "two, "]),
            call("Working on it.", "forever-1", "forever"),
            unfinished(["Stop me ", "if you can."]),
        ]);
        let schema = || json!({"type": "object", "properties": {}});
        let agent = Agent::builder()
            .name("shop")
            .model(model)
            .tool(FnTool::new("look", "Looks.", schema(), look))
            .tool(FnTool::new("break", "Fails.", schema(), |_| async { Err(ToolError::new("it is broken")) }))
            .tool(FnTool::new("danger", "Needs approval.", schema(), |_| async { Ok("done".into()) }).needs_approval())
            .tool(FnTool::new("forever", "Never ends.", schema(), |_| std::future::pending()))
            .runtime(&runtime)
            .build()?;
        Ok(Self { journal, agent })
    }

    /// State of every scope, and what is kept with a session and with none.
    async fn keep(&self) -> anyhow::Result<()> {
        let monday = self.agent.session("ada", "monday")?;
        let state = [("colour", json!("blue")), ("user:name", json!("Ada")), ("app:motd", json!({"text": "Hello"}))];
        let state = state.map(|(key, value)| (key.to_owned(), Some(value)));
        monday.change_state(StateChange::from(state)).await?;
        let note = Attachment::new("note", "first", Wall(1), json!({"line": 1}));
        self.agent.runtime().keep(monday.key(), vec![note], StateChange::new()).await?;
        self.journal.shelf().keep("calibration", "script", json!({"factor": 2})).await?;
        Ok(())
    }

    /// Runs that finish, all in one session.
    async fn settle_some(&self) -> anyhow::Result<()> {
        let monday = self.agent.session("ada", "monday")?;
        let state: StateMap = [("asked".to_owned(), Value::from(1))].into_iter().collect();
        monday.prompt("What colour is it?").run_id(RunId::new("called")?).state(state).run().await?;
        monday.prompt("Thanks.").run_id(RunId::new("answered")?).request(Digest::of(b"thanks")).run().await?;
        let run = monday.prompt("Tell me a story.").run_id(RunId::new("stopped")?).start()?;
        self.until(&run, |stored| text(stored).ends_with("there was")).await?;
        run.cancel(Cancel::graceful().by("ada").note("stop button"));
        run.outcome().await;
        let used = Used::cut(Usage::reported(8, 6));
        self.journal
            .append_addendum(run.id(), AT, AddendumKind::UsageCorrected { call: 1, used: Box::new(used) })
            .await?;
        monday.prompt("Break it.").run_id(RunId::new("failed-tool")?).run().await?;
        self.agent.runtime().idle().await;
        Ok(())
    }

    /// Runs that are open when the process dies.
    async fn leave_some_open(&self) -> anyhow::Result<()> {
        let tuesday = self.agent.session("ada", "tuesday")?;
        let run = tuesday.prompt("Delete it.").run_id(RunId::new("waiting")?).start()?;
        self.until(&run, |stored| happened(stored, |event| matches!(event, Event::ApprovalRequested { .. }))).await?;
        let queued = tuesday.prompt("And then?").run_id(RunId::new("queued")?).when_busy(WhenBusy::Queue).start()?;
        self.until(&queued, |_| true).await?;
        let run = self.agent.session("bob", "monday")?.prompt("Count.").run_id(RunId::new("answering")?).start()?;
        self.until(&run, |stored| text(stored).ends_with("two, ")).await?;
        let run = self.agent.session("bob", "tuesday")?.prompt("Work.").run_id(RunId::new("calling")?).start()?;
        self.until(&run, |stored| happened(stored, |event| matches!(event, Event::ToolStarted { .. }))).await?;
        let friday = self.agent.session("bob", "friday")?;
        let run = friday.prompt("Go on.").run_id(RunId::new("asked-to-stop")?).start()?;
        self.until(&run, |stored| text(stored).ends_with("can.")).await?;
        let request = CancelRequest::new(Reason::Requested, Force::Graceful, AT).by("bob").note("from elsewhere");
        self.journal.request_cancel(run.id(), request).await?;
        Ok(())
    }

    /// Waits until what is on record of a run is as it should be.
    async fn until(&self, run: &Run, is_there: impl Fn(&JournaledRun) -> bool) -> anyhow::Result<()> {
        while !self.journal.read(run.id()).await?.is_some_and(|stored| is_there(&stored)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

const AT: Stamp = Stamp { wall: Wall(1_763_000_000_000_000), mono_us: 1 };

async fn look(call: Invocation) -> Result<ToolOutput, ToolError> {
    call.state.set("looked", true).await.map_err(|error| ToolError::new(error.to_string()))?;
    Ok("blue".into())
}

fn happened(stored: &JournaledRun, is_it: impl Fn(&Event) -> bool) -> bool {
    stored.facts().any(|record| is_it(&record.event))
}

/// The text that is on record of an answer that streams.
fn text(stored: &JournaledRun) -> String {
    let lumps = stored.entries.iter().filter_map(|entry| match entry {
        Entry::Lump(lump) => Some(lump.span.text.as_str()),
        Entry::Fact(_) => None,
    });
    lumps.collect()
}
