//! The world that a script plays in: one runtime, one journal, and a director at every seam.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::event::Event;
use andon_runtime::core::id::LOCAL;
use andon_runtime::{
    Agent, AgentBuilder, Fate, FeedItem, JournalError, MemoryJournal, Observer, Probe, Prompt, Record, Run, RunId,
    Runtime, RuntimeBuilder, Session, StartError, TestClock,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Script;
use super::director::Director;
use super::witness::Witness;
use crate::journal::TestJournal;
use crate::model::{Act, ScriptedModel};
use crate::tools::ToolLog;

/// The name of every script's agent.
const AGENT: &str = "script";
/// Whose session every script talks in.
const USER: &str = LOCAL;
/// The session that every script talks in.
const SESSION: &str = "s";

/// The world that a script plays in. Clones are the same world.
#[derive(Clone)]
pub struct World {
    pub(super) director: Arc<Director>,
    pub(super) journal: TestJournal,
    pub(super) runtime: Runtime,
    pub(super) witness: Witness,
    /// What the tools really did.
    pub tools: ToolLog,
    pub(super) seen: Arc<Mutex<Vec<ReaderLog>>>,
}

/// What a reader of one run has seen, and when.
#[derive(Clone)]
pub(super) struct ReaderLog {
    pub(super) run: Arc<str>,
    pub(super) items: Vec<(Instant, FeedItem)>,
}

impl World {
    pub(super) fn new(director: Arc<Director>, script: &Script) -> Self {
        let probe = Arc::clone(&director) as Arc<dyn Probe>;
        let journal = match script.disk {
            None => TestJournal::new(MemoryJournal::new(), Some(Arc::clone(&probe))),
            Some(delay) => TestJournal::slow(Some(Arc::clone(&probe)), delay),
        };
        let witness = Witness::default();
        let runtime = runtime(&journal, Some(Arc::clone(&probe)), script.observers(&witness), 1);
        let tools = ToolLog::watching(journal.clone(), probe);
        director.watch(&journal, &tools);
        Self { director, journal, runtime, witness, tools, seen: Arc::default() }
    }

    /// A model that plays these answers, and whose every poll is a seam.
    pub fn model(&self, answers: impl IntoIterator<Item = Vec<Act>>) -> ScriptedModel {
        let model = ScriptedModel::probed(answers, Arc::clone(&self.director) as Arc<dyn Probe>);
        self.director.add_model(&model);
        model
    }

    /// A builder for an agent in this world.
    pub fn agent(&self, model: &ScriptedModel) -> AgentBuilder {
        Agent::builder().name(AGENT).model(model.clone()).runtime(&self.runtime)
    }

    /// Builds the agent and opens the script's session.
    ///
    /// # Panics
    ///
    /// If the script's agent cannot be built.
    #[expect(clippy::expect_used, reason = "a script that cannot be played is a defect in the script")]
    pub fn open(&self, agent: AgentBuilder) -> Session {
        let agent = agent.build().expect("the script's agent can be built");
        let session = agent.session(USER, SESSION).expect("the session's name is an id");
        self.director.add_session(&session);
        session
    }

    /// The runtime, for what starts runs itself, such as a server.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Starts a prompt that the director may stop.
    pub fn start(&self, prompt: Prompt) -> Result<Arc<Run>, StartError> {
        Ok(self.adopt(prompt.start()?))
    }

    /// A run that was started by something else: the director may stop it from now on.
    pub fn adopt(&self, run: Run) -> Arc<Run> {
        let run = Arc::new(run);
        self.director.add_run(&run);
        run
    }

    /// Lets an earlier process leave something behind: it runs without a witness, on the same journal, and then dies.
    pub async fn earlier<F: Future<Output = ()>>(&self, play: impl FnOnce(Runtime) -> F) {
        self.director.off();
        play(runtime(&self.journal, None, Vec::new(), EARLIER)).await;
        self.director.on();
    }

    /// Recovers what an earlier process left, and returns the runs that live on, which the director may stop.
    pub async fn recover(&self) -> Vec<Arc<Run>> {
        let mut runs = Vec::new();
        let mut recovered = self.runtime.recover().await;
        while matches!(recovered, Err(JournalError::Storage(_))) {
            // What could not be recovered is recovered once there is room.
            tokio::time::sleep(Duration::from_millis(1)).await;
            recovered = self.runtime.recover().await;
        }
        for recovered in recovered.unwrap_or_default() {
            let Fate::LivesOn { .. } = recovered.fate else { continue };
            let Ok(Some(run)) = self.runtime.find(&recovered.run).await else { continue };
            runs.push(self.adopt(run));
        }
        runs
    }

    /// Reports a broken promise that the script saw.
    pub fn broken(&self, text: &str) {
        self.director.broken(text);
    }

    /// Reads a run's feed to its end.
    pub async fn follow(&self, run: &Run) {
        self.follow_until(run, |_| false).await;
    }

    /// Reads a run's feed until an item matches, or to its end. Returns whether one matched.
    pub async fn follow_until(&self, run: &Run, is_it: impl Fn(&FeedItem) -> bool) -> bool {
        let mut feed = run.feed_from(self.place(run));
        while let Some(item) = feed.next().await {
            let found = is_it(&item);
            self.saw(run, item);
            if found {
                return true;
            }
        }
        false
    }

    fn place(&self, run: &Run) -> andon_runtime::Cursor {
        let seen = self.seen.lock();
        let items = seen.iter().find(|seen| &*seen.run == run.id().as_str());
        items.and_then(|seen| seen.items.last()).map(|(_, item)| item.cursor()).unwrap_or_default()
    }

    /// Notes what another reader of the run's feed was shown.
    pub fn saw(&self, run: &Run, item: FeedItem) {
        let is_end = matches!(&item, FeedItem::Fact(record) if matches!(record.event, Event::RunSettled { .. }));
        if is_end && self.tools.processes() > 0 {
            self.broken("P5: a run has settled, and a process that it started is alive");
        }
        let mut seen = self.seen.lock();
        let now = Instant::now();
        match seen.iter_mut().find(|seen| &*seen.run == run.id().as_str()) {
            Some(seen) => seen.items.push((now, item)),
            None => seen.push(ReaderLog { run: run.id().as_str().into(), items: vec![(now, item)] }),
        }
    }
}

/// The seed of a process that was there before the script.
const EARLIER: u64 = 3;

/// Whether this was written by the process that was there before the script.
pub(super) fn is_earlier(run: &RunId, record: &Record) -> bool {
    run.as_str().starts_with(&format!("run-{EARLIER}-")) && record.epoch == 1
}

/// A runtime on one thread, with one clock: the script's process has seed 1, the one after a crash has 2 and comes later.
pub(super) fn runtime(
    journal: &TestJournal,
    probe: Option<Arc<dyn Probe>>,
    observers: Vec<Arc<dyn Observer>>,
    seed: u64,
) -> Runtime {
    let clock = if seed == 2 { TestClock::a_day_later() } else { TestClock::new() };
    let builder = Runtime::builder().journal(Arc::new(journal.clone())).clock(Arc::new(clock));
    // Few places for threads, so that a script can fill them.
    let builder = builder.one_lane().seed(seed).blocking_tools(2, 8);
    let builder = observers.into_iter().fold(builder, RuntimeBuilder::observer);
    match probe {
        Some(probe) => builder.probe(probe).build(),
        None => builder.build(),
    }
}

/// The script's session, with an agent that goes on in it.
#[expect(clippy::expect_used, reason = "a plain agent can be built")]
pub(super) fn next_session(runtime: &Runtime, model: &ScriptedModel) -> Session {
    let agent = Agent::builder().name(AGENT).model(model.clone()).runtime(runtime).build();
    agent.expect("a plain agent can be built").session(USER, SESSION).expect("the session's name is an id")
}
