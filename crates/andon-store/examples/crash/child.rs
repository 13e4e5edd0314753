//! One life: a process that opens the database, recovers it, continues every session, and may be killed at any moment.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::time::Stamp;
use andon_runtime::{
    Agent, Cancel, Cursor, Fate, Force, Journal, Probe, Reason, Recovered, ReplyKind, RequestFate, RunId, Runtime,
    SessionKey,
};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::client::{Client, Watching, acknowledge};
use crate::ghost::Ghost;
use crate::log::{Line, SEEN, What, Witness, read_from};
use crate::outage::{Breaker, Outage};
use crate::points::{Trigger, hold};
use crate::provider::{Provider, Scene};
use crate::scenes::{self, Person};
use crate::store;
use crate::tools::Tools;

/// Longer than any life, however busy the machine is.
const LONG: Duration = Duration::from_secs(20);

/// Ends a life that hangs, because its parent waits for its end.
fn end_if_stuck() {
    std::thread::spawn(|| {
        hold(2 * LONG);
        eprintln!("a life stands still");
        std::process::exit(4);
    });
}

/// The arguments of a life.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) folder: PathBuf,
    /// Its number in its round, from 1.
    pub(crate) life: u32,
    /// The seed of its random choices.
    pub(crate) dice: u64,
    /// Tools run with the drivers, on one thread.
    pub(crate) one_lane: bool,
    /// The last life of a round is not killed: it finishes everything.
    pub(crate) is_last: bool,
    pub(crate) kill: Option<String>,
    pub(crate) outage: Option<Outage>,
}

/// Runs a life.
pub(crate) fn live(orders: &Orders) -> Result<()> {
    let kill = orders.kill.as_deref().map(str::parse).transpose()?;
    end_if_stuck();
    let past = Past::read(orders)?;
    let witness = Arc::new(Witness::open(&orders.folder, orders.life)?);
    witness.begin_to_beat();
    let trigger = Arc::new(Trigger::new(kill, Arc::clone(&witness)));
    witness.tell(What::Ready);
    println!("ready");
    std::io::stdout().flush()?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    tokio.block_on(async {
        let life = Life::begin(orders, &witness, &trigger)?;
        let mut dice = fastrand::Rng::with_seed(orders.dice);
        if orders.is_last {
            timeout(LONG, life.bring_to_the_end(&past, &mut dice)).await.context("the last life never ends")??;
            drop(life);
            witness.tell(What::Ended { seams: trigger.seams() });
            return Ok(());
        }
        timeout(LONG, life.play(&past, &mut dice)).await.context("a life never ends")??;
        witness.tell(What::Ended { seams: trigger.seams() });
        // A run that waits for a person is left as it is: no destructor may settle it.
        std::process::exit(0)
    })
}

/// What clients remember of earlier lives.
#[derive(Default)]
struct Past {
    runs: BTreeMap<String, Remembered>,
}

#[derive(Default)]
struct Remembered {
    cursor: Cursor,
    /// Its feed was read to the end.
    is_over: bool,
}

impl Past {
    fn read(orders: &Orders) -> Result<Self> {
        let (lines, _) = read_from::<Line>(&orders.folder.join(SEEN), 0)?;
        let mut past = Self::default();
        for line in lines {
            match line.what {
                What::Fact { run, seq, .. } => past.run(run).cursor = Cursor { seq, byte: 0 },
                What::Delta { run, seq, end, .. } => past.run(run).cursor = Cursor { seq, byte: end },
                What::TextLost { run, seq, byte } => past.run(run).cursor = Cursor { seq, byte },
                What::FeedEnded { run } => past.run(run).is_over = true,
                // There is nothing to return to.
                What::NotSettled { run, .. } => drop(past.runs.remove(&run)),
                // Clients forget what was deleted.
                What::Deleting { session } => past.runs.retain(|run, _| !run.starts_with(&session)),
                _ => {}
            }
        }
        Ok(past)
    }

    fn run(&mut self, run: String) -> &mut Remembered {
        self.runs.entry(run).or_default()
    }

    fn cursor(&self, run: &RunId) -> Cursor {
        self.runs.get(run.as_str()).map(|remembered| remembered.cursor).unwrap_or_default()
    }
}

struct Life {
    journal: Arc<dyn Journal>,
    runtime: Runtime,
    witness: Arc<Witness>,
    trigger: Arc<Trigger>,
    breaker: Option<Arc<Breaker>>,
    number: u32,
}

impl Life {
    fn begin(orders: &Orders, witness: &Arc<Witness>, trigger: &Arc<Trigger>) -> Result<Self> {
        let breaker = orders.outage.map(|outage| Arc::new(Breaker::new(outage, &orders.folder, trigger, witness)));
        let probe: Arc<dyn Probe> = match &breaker {
            Some(breaker) => Arc::clone(breaker) as _,
            None => Arc::clone(trigger) as _,
        };
        let journal = store::open(&orders.folder, probe)?;
        if let Some(breaker) = &breaker {
            breaker.opened();
        }
        let builder = Runtime::builder().journal(Arc::clone(&journal)).probe(Arc::clone(trigger) as _);
        let runtime = if orders.one_lane { builder.one_lane().build() } else { builder.build() };
        let (witness, trigger) = (Arc::clone(witness), Arc::clone(trigger));
        Ok(Self { journal, runtime, witness, trigger, breaker, number: orders.life })
    }

    /// A client of the agent that all runs need in order to go on.
    fn client(&self) -> Result<Client> {
        let (witness, runtime) = (Arc::clone(&self.witness), self.runtime.clone());
        let tools = Tools { witness: Arc::clone(&witness), trigger: Arc::clone(&self.trigger) };
        let model = Provider { witness: Arc::clone(&witness) };
        let agent = Agent::builder().name("crash").model(model).runtime(&runtime);
        let agent = agent.tool(tools.note()).tool(tools.slow()).tool(tools.danger()).build()?;
        Ok(Client { runtime, agent, witness, life: self.number })
    }

    /// Recovers, returns to every run, and plays every scene.
    async fn play(&self, past: &Past, dice: &mut fastrand::Rng) -> Result<()> {
        let (client, recovered) = self.recover(dice).await?;
        let mut scenes = JoinSet::new();
        let living = return_to(&client, past, &recovered, &mut scenes).await?;
        let busy = living.iter().any(Returned::may_wait_for_a_person);
        let person = Person::any(dice);
        for run in living {
            scenes.spawn(run.go_on(person));
        }
        scenes::begin(&client, dice, busy, &mut scenes);
        cancel_what_is_over(&client, past, dice).await?;
        while let Some(scene) = scenes.join_next().await {
            scene?;
        }
        if let Some(breaker) = &self.breaker
            && breaker.is_over().await
        {
            continue_after_outage(&client).await;
        }
        Ok(())
    }

    /// Recovers, decides about every run that waits, and gives every session its next prompt.
    async fn bring_to_the_end(&self, past: &Past, dice: &mut fastrand::Rng) -> Result<()> {
        let (client, recovered) = self.recover(dice).await?;
        let mut scenes = JoinSet::new();
        for run in return_to(&client, past, &recovered, &mut scenes).await? {
            scenes.spawn(run.go_on(Person::who_is_there(dice)));
        }
        for session in Scene::SESSIONS {
            let Some(mut run) = client.ask(session, Scene::Plain, 9, true) else { continue };
            scenes.spawn(async move { run.until_end().await });
        }
        while let Some(scene) = scenes.join_next().await {
            scene?;
        }
        cancel_what_is_over(&client, past, dice).await?;
        self.runtime.idle().await;
        Ok(())
    }

    /// Recovery, with ghosts before and after it, and with clients that do not wait for it.
    async fn recover(&self, dice: &mut fastrand::Rng) -> Result<(Client, Vec<Recovered>)> {
        let ghost = Ghost::of_the_dead(&self.journal, &self.witness).await?;
        // Separately: a writer that failed is refused whatever its epoch, but here the epoch alone must be enough.
        let (haunts_before, haunts_after) = (dice.u8(0..3) == 0, dice.bool());
        if haunts_before {
            ghost.haunt_before().await?;
        }
        let left = self.journal.unsettled().await?;
        if let Some(run) = dice.choice(&left)
            && dice.u8(0..4) == 0
        {
            self.leave_request(run).await?;
        }
        if dice.u8(0..4) == 0 {
            self.recover_without_agent(dice).await?;
        }
        let client = self.client()?;
        let recovered = self.recover_all().await?;
        for Recovered { run, fate, .. } in &recovered {
            if matches!(fate, Fate::Parked { .. } | Fate::Unreadable { .. }) {
                bail!("{run} was recovered as {fate:?}");
            }
            self.witness.tell(What::Recovered { run: run.to_string(), fate: format!("{fate:?}") });
        }
        if haunts_after {
            ghost.haunt_after().await?;
        }
        Ok((client, recovered))
    }

    /// Recovers everything. What cannot be written during an outage is tried again.
    async fn recover_all(&self) -> Result<Vec<Recovered>> {
        loop {
            match self.runtime.recover().await {
                Err(error) if error.may_pass() && self.breaker.is_some() => sleep(Duration::from_millis(5)).await,
                recovered => return Ok(recovered?),
            }
        }
    }

    /// A process that drives nothing leaves a cancel request for a run that nobody drives.
    async fn leave_request(&self, run: &RunId) -> Result<()> {
        let (reason, force, requested_at) = (Reason::Requested, Force::Graceful, Stamp::default());
        let request = CancelRequest::new(reason, force, requested_at);
        match self.journal.request_cancel(run, request).await {
            Ok(RequestFate::Recorded) => {
                self.witness.tell(What::Acknowledged { run: run.to_string(), reply: ReplyKind::Accepted });
            }
            Err(error) => self.witness.tell(What::NotRecorded { run: run.to_string(), why: error.to_string() }),
            other => self.witness.trouble(format!("I12: a request that was left for {run} was answered {other:?}")),
        }
        Ok(())
    }

    /// Without their agent, waiting runs are parked, and can be cancelled.
    async fn recover_without_agent(&self, dice: &mut fastrand::Rng) -> Result<()> {
        let recovered = self.recover_all().await?;
        let parked: Vec<_> = recovered.iter().filter(|left| matches!(left.fate, Fate::Parked { .. })).collect();
        if let Some(left) = dice.choice(parked)
            && dice.bool()
        {
            match self.runtime.cancel(&left.run, Cancel::graceful().note("parked")).await {
                Ok(reply) => acknowledge(&self.witness, &reply).await,
                Err(error) => {
                    self.witness.tell(What::NotRecorded { run: left.run.to_string(), why: error.to_string() });
                }
            }
        }
        Ok(())
    }
}

/// Readers return to where they were in every run whose end they have not seen. Returns the runs that live on.
async fn return_to(
    client: &Client,
    past: &Past,
    recovered: &[Recovered],
    scenes: &mut JoinSet<()>,
) -> Result<Vec<Returned>> {
    let mut living = Vec::new();
    for Recovered { run, fate, .. } in recovered {
        let Fate::LivesOn { session, .. } = fate else { continue };
        let found = client.runtime.find(run).await?.with_context(|| format!("{run} lives on and is gone"))?;
        let watching = client.watch(found, past.cursor(run));
        living.push(Returned { session: session.clone(), watching });
    }
    for (run, remembered) in &past.runs {
        let run = RunId::new(run)?;
        if remembered.is_over || living.iter().any(|returned| *returned.watching.run.id() == run) {
            continue;
        }
        match client.runtime.find(&run).await? {
            // A recovery that failed halfway does not report the runs that already live on.
            Some(found)
                if found.session().session.as_str() == Scene::Approve.name() && found.try_outcome().is_none() =>
            {
                let session = found.session().clone();
                living.push(Returned { session, watching: client.watch(found, remembered.cursor) });
            }
            Some(found) => {
                let mut watching = client.watch(found, remembered.cursor);
                scenes.spawn(async move { watching.until_end().await });
            }
            None => client.witness.trouble(format!("I6: {run} was shown and is gone")),
        }
    }
    Ok(living)
}

/// After an outage every session accepts a prompt again, except one that may be waiting for a person.
async fn continue_after_outage(client: &Client) {
    let mut runs = JoinSet::new();
    for session in Scene::SESSIONS.into_iter().filter(|session| *session != Scene::Approve) {
        let Some(mut run) = client.ask(session, Scene::Plain, 5, true) else { continue };
        runs.spawn(async move { run.until_end().await });
    }
    runs.join_all().await;
}

/// Clients try to stop runs that are over.
async fn cancel_what_is_over(client: &Client, past: &Past, dice: &mut fastrand::Rng) -> Result<()> {
    let mut over: Vec<_> = past.runs.iter().filter(|(_, run)| run.is_over).map(|(id, _)| id).collect();
    dice.shuffle(&mut over);
    for run in over.into_iter().take(3) {
        client.cancel_by_id(&RunId::new(run)?).await;
    }
    Ok(())
}

/// A run that lives on, and its returned reader.
struct Returned {
    session: SessionKey,
    watching: Watching,
}

impl Returned {
    fn may_wait_for_a_person(&self) -> bool {
        self.session.session.as_str() == Scene::Approve.name()
    }

    async fn go_on(mut self, person: Person) {
        match (self.may_wait_for_a_person(), person) {
            (false, _) => self.watching.until_end().await,
            (true, Person::IsAway) => {}
            (true, person) => scenes::decide(self.watching, person).await,
        }
    }
}
