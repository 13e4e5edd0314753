//! The world that a script plays in: one runtime, one journal, and a director at every seam.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
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
use super::checks::{Aftermath, Checks, Finding};
use super::director::Director;
use super::watched::{WatchedModel, WatchedTool};
use super::witness::Witness;
use crate::journal::TestJournal;
use crate::model::{Act, ScriptedModel};
use crate::tools::ToolLog;

/// The name of the agents that [`World::agent`] makes.
const AGENT: &str = "script";
/// Whose session every script talks in.
const USER: &str = LOCAL;
/// The session that every script talks in.
const SESSION: &str = "s";

/// The world that a script plays in. Clones are the same world.
///
/// ```
/// use andon_runtime::Agent;
/// use andon_testkit::explore::World;
/// use andon_testkit::Act;
///
/// async fn play(world: World) {
///     world.check("every run has an end", |left| left.receipts().iter().all(|receipt| receipt.outcome.is_some()));
///     let model = world.model([vec![Act::text("It is "), Act::text("noon."), Act::end()]]);
///     let session = world.open(Agent::builder().model(model));
///     world.play(session.prompt("What time is it?")).await;
/// }
/// ```
#[derive(Clone)]
pub struct World {
    pub(super) director: Arc<Director>,
    pub(super) journal: TestJournal,
    pub(super) runtime: Runtime,
    pub(super) witness: Witness,
    pub(super) checks: Checks,
    /// What the tools of [`tools`](crate::tools) really did.
    pub tools: ToolLog,
    /// What all tools of the world's agents really did.
    pub(super) watched: ToolLog,
    pub(super) seen: Arc<Mutex<Vec<ReaderLog>>>,
    /// The names of its agents, each with that of its model.
    agents: Arc<Mutex<BTreeMap<String, String>>>,
    seed: u64,
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
        let shares = director.plan().stop.is_some_and(|(_, mode)| mode.shares_the_journal());
        let journal = match script.disk {
            None => TestJournal::new(MemoryJournal::new(), Some(Arc::clone(&probe))),
            Some(delay) => TestJournal::slow(Some(Arc::clone(&probe)), delay),
        };
        let journal = if shares { journal.shared() } else { journal };
        let witness = Witness::default();
        let mut observers = script.observers(&witness);
        observers.push(Arc::clone(&director) as Arc<dyn Observer>);
        let runtime = runtime(&journal, Some(Arc::clone(&probe)), observers, script.seed, Process::First);
        let (tools, watched) = (ToolLog::watching(journal.clone(), probe), ToolLog::checking(journal.clone()));
        director.watch(&journal, &tools);
        director.strays.except(&runtime, &journal);
        let (checks, seen, agents) = (Checks::default(), Arc::default(), Arc::default());
        Self { director, journal, runtime, witness, checks, tools, watched, seen, agents, seed: script.seed }
    }

    /// Promises something of your own. It is checked after every stop, when everything has come to rest, and after every crash, when a
    /// new process has recovered what the dead one left. So make the promise before anything happens that may break it.
    ///
    /// A check returns nothing and asserts, or returns a `bool`, or a `Result` that says what is wrong. It may look at what it has
    /// captured, and at what the [runs left](Aftermath).
    ///
    /// ```
    /// # use std::sync::{Arc, Mutex};
    /// # fn promise(world: &andon_testkit::explore::World, sent: Arc<Mutex<Vec<String>>>) {
    /// let outbox = Arc::clone(&sent);
    /// world.check("no letter is sent twice", move |_| {
    ///     let mut letters = outbox.lock().unwrap().clone();
    ///     letters.sort();
    ///     letters.windows(2).all(|two| two[0] != two[1])
    /// });
    /// world.check("the model is told of every letter", move |left| {
    ///     let told = left.results().filter(|result| result.to_text().contains("sent")).count();
    ///     assert!(told <= sent.lock().unwrap().len(), "{told} results say that a letter was sent");
    /// });
    /// # }
    /// ```
    pub fn check<F: Finding>(&self, name: impl Into<String>, check: impl Fn(&Aftermath) -> F + Send + 'static) {
        self.checks.add(name.into(), check);
    }

    /// A model that plays these answers. A model of your own needs nothing: give it to your agent.
    pub fn model(&self, answers: impl IntoIterator<Item = Vec<Act>>) -> ScriptedModel {
        ScriptedModel::new(answers)
    }

    /// A builder for an agent in this world.
    #[doc(hidden)]
    pub fn agent(&self, model: &ScriptedModel) -> AgentBuilder {
        Agent::builder().name(AGENT).model(model.clone()).runtime(&self.runtime)
    }

    /// Builds your agent as it is, [watched](World::watch), and opens the script's session.
    ///
    /// # Panics
    ///
    /// If the script's agent cannot be built.
    #[expect(clippy::expect_used, reason = "a script that cannot be played is a defect in the script")]
    pub fn open(&self, agent: AgentBuilder) -> Session {
        let agent = self.watch(agent).build().expect("the script's agent can be built");
        let session = agent.session(USER, SESSION).expect("the session's name is an id");
        self.agents.lock().insert(agent.name().to_owned(), agent.model_name().to_owned());
        self.director.add_session(&session);
        session
    }

    /// Puts an agent into this world: its runs are the world's, each poll of its model and of its tools is a point, and what they leave
    /// behind is found. [`open`](World::open) does this. Call it yourself for an agent that you build yourself, such as a sub-agent,
    /// when it has its model and all its tools.
    ///
    /// ```
    /// # use andon_runtime::{Agent, AgentBuilder, Cancel, FnTool, Reason};
    /// # use andon_testkit::{Act, explore::World};
    /// fn asks_an_expert(world: &World) -> FnTool {
    ///     let model = world.model([vec![Act::text("It depends."), Act::end()]]);
    ///     let expert = world.watch(Agent::builder().name("expert").model(model)).build().unwrap();
    ///     FnTool::new("ask", "Asks an expert.", serde_json::json!({"type": "object"}), move |call| {
    ///         let expert = expert.clone();
    ///         async move {
    ///             // The expert stops with the run that asks it, and its receipt says why.
    ///             let cord = call.cord;
    ///             let stopped = async move {
    ///                 cord.pulled().await;
    ///                 Cancel::graceful().reason(Reason::Parent)
    ///             };
    ///             let outcome = expert.prompt("Well?").cancel_with(stopped).run().await?;
    ///             Ok(outcome.completed()?.text().into())
    ///         }
    ///     })
    /// }
    /// # let _ = asks_an_expert;
    /// ```
    #[must_use]
    pub fn watch(&self, agent: AgentBuilder) -> AgentBuilder {
        let (director, log) = (&self.director, &self.watched);
        let strays = &director.strays;
        agent.runtime(&self.runtime).inside(
            |model| Arc::new(WatchedModel { model, director: Arc::clone(director) }),
            |tool| Arc::new(WatchedTool { tool, log: log.clone(), strays: Arc::clone(strays) }),
        )
    }

    /// Starts a prompt and reads its feed to the end. `None` if it cannot start: the session is busy, or the process has died.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the run goes on.
    pub async fn play(&self, prompt: Prompt) -> Option<Arc<Run>> {
        let run = self.start(prompt).ok()?;
        self.follow(&run).await;
        Some(run)
    }

    /// The runtime, for what starts runs itself, such as a server.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Starts a prompt that the explorer may stop.
    pub fn start(&self, prompt: Prompt) -> Result<Arc<Run>, StartError> {
        Ok(self.adopt(prompt.start()?))
    }

    /// A run that was started by something else, such as a server: the explorer may stop it from now on.
    pub fn adopt(&self, run: Run) -> Arc<Run> {
        let run = Arc::new(run);
        self.director.add_run(&run);
        run
    }

    /// Reads a run's feed to its end.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the run goes on.
    pub async fn follow(&self, run: &Run) {
        self.follow_until(run, |_| false).await;
    }

    /// Reads a run's feed until an item matches, or to its end. Returns whether one matched.
    ///
    /// ```
    /// # use andon_runtime::{Cancel, FeedItem, Session};
    /// # use andon_testkit::explore::World;
    /// # async fn play(world: World, session: Session) {
    /// // A user who stops the answer at its first word: the explorer stops it in other ways, before and after that.
    /// let Ok(run) = world.start(session.prompt("Tell me a story.")) else { return };
    /// if world.follow_until(&run, |item| matches!(item, FeedItem::Delta(_))).await {
    ///     run.cancel(Cancel::graceful());
    /// }
    /// world.follow(&run).await;
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the run goes on.
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
}

/// For Andon's own scripts.
#[doc(hidden)]
impl World {
    /// Lets an earlier process leave something behind: it runs without a witness, on the same journal, and then dies.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: what the earlier process did by then is on record.
    pub async fn earlier<F: Future<Output = ()>>(&self, play: impl FnOnce(Runtime) -> F) {
        self.director.off();
        play(runtime(&self.journal, None, Vec::new(), self.seed, Process::Earlier)).await;
        self.director.on();
    }

    /// Recovers what an earlier process left, and returns the runs that live on, which the director may stop.
    ///
    /// # Cancel safety
    ///
    /// As for [`Runtime::recover`].
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

impl World {
    /// Whether this was written by the process that was there before the script.
    pub(super) fn is_earlier(&self, run: &RunId, record: &Record) -> bool {
        let seed = Process::Earlier.seed(self.seed);
        run.as_str().starts_with(&format!("run-{seed}-")) && record.epoch == 1
    }

    /// Lets another process take over every run at work. Nothing that it does takes time.
    pub(super) fn take_over(journal: &TestJournal) -> Vec<RunId> {
        let other = runtime(&journal.of_another_process(), None, Vec::new(), 0, Process::Next);
        let recovered = pin!(async move { other.recover().await }).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(recovered)) = recovered else { return Vec::new() };
        let settled = recovered.into_iter().filter(|recovered| recovered.fate.ending().is_some());
        settled.map(|recovered| recovered.run).collect()
    }

    /// The runtime of the process after a crash.
    pub(super) fn next_runtime(&self, journal: &TestJournal, script: &Script) -> Runtime {
        runtime(journal, None, script.observers(&self.witness), script.seed, Process::Next)
    }

    /// How many names of agents there are.
    pub(super) fn agents(&self) -> usize {
        self.names().len()
    }

    /// Whether the agent of this run is one that goes on after a crash.
    pub(super) fn has_agent_of(&self, journal: &MemoryJournal, run: &RunId) -> bool {
        let receipt = journal.stored(run).and_then(|stored| stored.receipt());
        receipt.is_some_and(|receipt| self.names().contains_key(&*receipt.session.app))
    }

    fn names(&self) -> BTreeMap<String, String> {
        let mut names = self.agents.lock().clone();
        if names.is_empty() {
            names.insert(AGENT.to_owned(), "scripted".to_owned());
        }
        names
    }

    /// For each name of an agent in this world the script's session, with an agent that goes on in it.
    pub(super) fn next_sessions(&self, runtime: &Runtime, model: &ScriptedModel) -> Vec<Session> {
        let names = self.names();
        // What a model learned about its calls is its own, by its name.
        names.iter().map(|(name, of)| next_session(runtime, name, &model.clone().named(of.as_str()))).collect()
    }
}

/// The processes of a world, one after the other.
#[derive(Clone, Copy)]
enum Process {
    /// The script's.
    First,
    /// The one after a crash.
    Next,
    /// One that was there before the script.
    Earlier,
}

impl Process {
    /// The seed of this process: each has its own, so that their runs have different ids.
    fn seed(self, seed: u64) -> u64 {
        let number = match self {
            Self::First => 1,
            Self::Next => 2,
            Self::Earlier => 3,
        };
        seed.wrapping_mul(3).wrapping_add(number)
    }
}

/// A runtime on one thread, with one clock. The process after a crash comes later.
fn runtime(
    journal: &TestJournal,
    probe: Option<Arc<dyn Probe>>,
    observers: Vec<Arc<dyn Observer>>,
    seed: u64,
    process: Process,
) -> Runtime {
    let clock = match process {
        Process::Next => TestClock::a_day_later(),
        Process::First | Process::Earlier => TestClock::new(),
    };
    let builder = Runtime::builder().journal(Arc::new(journal.clone())).clock(Arc::new(clock));
    // Few places for threads, so that a script can fill them.
    let builder = builder.one_lane().seed(process.seed(seed)).blocking_tools(2, 8);
    let builder = observers.into_iter().fold(builder, RuntimeBuilder::observer);
    match probe {
        Some(probe) => builder.probe(probe).build(),
        None => builder.build(),
    }
}

/// The script's session, with an agent of this name that goes on in it.
#[expect(clippy::expect_used, reason = "a plain agent can be built")]
fn next_session(runtime: &Runtime, name: &str, model: &ScriptedModel) -> Session {
    let agent = Agent::builder().name(name).model(model.clone()).runtime(runtime).build();
    agent.expect("a plain agent can be built").session(USER, SESSION).expect("the session's name is an id")
}
