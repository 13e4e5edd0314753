//! What a journal says about runs without folding them, compared with what folding them says.
//!
//! Random events happen to runs. Their writers say where the runs stand, or do not; runs change hands; their sessions move and
//! are deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use andon_runtime::core::cancel::Reason;
use andon_runtime::core::closing::refuse;
use andon_runtime::core::event::{Approval, Effect, Entry, Event, ModelEnd, Refusal, ToolEnd};
use andon_runtime::core::message::{Cut, Message, Part, ResultStatus, Role, ToolCall, ToolResult};
use andon_runtime::core::outcome::{Ending, Failure, FailureKind};
use andon_runtime::core::progress::RunProgress;
use andon_runtime::core::time::Wall;
use andon_runtime::{Batch, BatchStanding, ModelStop, RunFilter, RunId, RunState, SessionFilter, SessionKey};

use super::hooks;
use super::random::Dice;
use super::story::{Story, call, request, session, stamp};
use super::subject::Subject;

/// The seeds that are tried.
const SEEDS: std::ops::Range<u64> = 1..9;

/// How many events are tried with each.
const STEPS: usize = 600;

/// A run that is being written, and how far it has come.
struct RandomRun {
    story: Story,
    progress: RunProgress,
    /// What is not handed over yet.
    batch: Vec<Entry>,
    seq: u64,
    used_at: Wall,
}

impl RandomRun {
    fn new(number: usize, session: &SessionKey, wall: u64) -> Self {
        let mut story = Story::within(&format!("run {number}"), session).at(wall);
        let first = story.accepted();
        let Some(Event::RunAccepted { accepted }) = first.fact().map(|fact| fact.event.clone()) else {
            unreachable!("a story begins with run_accepted")
        };
        let (seq, used_at) = (story.seq, Wall(story.wall));
        Self { story, progress: RunProgress::new(accepted), batch: vec![first], seq, used_at }
    }

    /// Adds an event, if it can happen here.
    fn add(&mut self, event: Event) -> bool {
        if self.progress.apply(&event).is_err() {
            return false;
        }
        let is_end = matches!(event, Event::RunSettled { .. });
        self.batch.push(self.story.fact(event));
        if is_end {
            self.used_at = Wall(self.story.wall);
        }
        true
    }

    fn is_over(&self) -> bool {
        self.progress.state() == RunState::Settled
    }
}

/// All runs, including those that have settled.
struct RandomRuns {
    dice: Dice,
    runs: Vec<RandomRun>,
    /// The runs that started, in that order.
    started: Vec<RunId>,
    count: usize,
    /// What hooks have done to runs.
    seen: BTreeSet<&'static str>,
}

pub(super) async fn what_is_said_about_runs_is_what_folding_them_says(subject: Subject) {
    let mut subject = subject;
    let mut seen = BTreeSet::new();
    for seed in SEEDS {
        let mut world = RandomRuns { dice: Dice(seed), runs: Vec::new(), started: Vec::new(), count: 0, seen };
        for _ in 0..STEPS {
            world.step(&subject).await;
        }
        world.hand_over_all(&subject).await;
        world.check(&subject, &format!("seed {seed}")).await;
        subject = subject.opened_again();
        world.check(&subject, &format!("seed {seed}, opened again")).await;
        world.move_sessions(&subject).await;
        world.check(&subject, &format!("seed {seed}, moved")).await;
        world.empty(&subject).await;
        seen = world.seen;
    }
    assert_eq!(seen, BTreeSet::from(hooks::KINDS), "everything that hooks do happened to some run");
}

impl RandomRuns {
    async fn step(&mut self, subject: &Subject) {
        let open: Vec<usize> = (0..self.runs.len()).filter(|place| !self.runs[*place].is_over()).collect();
        if open.len() < 4 {
            self.count += 1;
            let place = session(["a", "b", "c"][self.dice.roll(3) as usize]);
            let wall = 1_000 + self.dice.roll(50) * 100;
            self.runs.push(RandomRun::new(self.count, &place, wall));
            return;
        }
        let place = open[self.dice.roll(open.len() as u64) as usize];
        let event = any_event(&mut self.dice, &self.runs[place].progress);
        let kind = hooks::kind(&event);
        if self.runs[place].add(event) {
            self.seen.extend(kind);
        }
        if self.dice.roll(3) == 0 {
            self.hand_over(subject, place).await;
        }
    }

    /// Hands over a run's new entries. Some writers say where the run stands, some do not, and some take it over first.
    async fn hand_over(&mut self, subject: &Subject, place: usize) {
        let told = &mut self.runs[place];
        let entries = std::mem::take(&mut told.batch);
        if entries.is_empty() {
            return;
        }
        if entries.iter().filter_map(Entry::fact).any(|fact| matches!(fact.event, Event::RunStarted)) {
            self.started.push(told.story.run().clone());
        }
        let (run, epoch, begins) = (told.story.run().clone(), told.story.epoch, told.seq == 1);
        told.seq = 0;
        let batch = if !begins && self.dice.roll(6) == 0 {
            told.story.epoch += 1;
            Batch::taking_over(run, epoch, entries)
        } else {
            Batch::new(run, epoch, entries)
        };
        let batch = match self.dice.roll(3) {
            0 => batch,
            _ => batch.standing(BatchStanding::of(&told.progress)),
        };
        subject.journal().append(batch).await.unwrap();
    }

    async fn hand_over_all(&mut self, subject: &Subject) {
        for place in 0..self.runs.len() {
            self.hand_over(subject, place).await;
        }
    }

    /// A run, folded from its stored events.
    async fn folded(&self, subject: &Subject, run: &RunId) -> RunProgress {
        let stored = subject.journal().read(run).await.unwrap().unwrap();
        RunProgress::fold(&stored.entries).unwrap()
    }

    async fn check(&self, subject: &Subject, place: &str) {
        for key in ["a", "b", "c"].map(session) {
            let mut said = Vec::new();
            for run in &self.started {
                let progress = self.folded(subject, run).await;
                if progress.accepted().session == key && progress.ending().is_some() {
                    said.extend(progress.messages().to_vec());
                }
            }
            assert_eq!(subject.journal().history(&key).await.unwrap(), said, "{place}, {key}");
            self.check_use(subject, &key, place).await;
        }
        self.check_states(subject, place).await;
    }

    async fn check_states(&self, subject: &Subject, place: &str) {
        let states = [RunState::Queued, RunState::Running, RunState::Waiting, RunState::Cancelling, RunState::Settled];
        for state in states {
            let mut expected = Vec::new();
            for told in self.runs.iter().rev() {
                let run = told.story.run();
                if self.folded(subject, run).await.state() == state {
                    expected.push(run.clone());
                }
            }
            let which = RunFilter::new().state(state);
            let mut listed = subject.journal().sessions().runs(which).await.unwrap();
            assert!(listed.iter().all(|info| info.state == state), "{place}, {state:?}");
            // Runs that were moved came back session by session.
            listed.sort_by_key(|info| expected.iter().position(|run| *run == info.run));
            let listed: Vec<_> = listed.into_iter().map(|info| info.run).collect();
            assert_eq!(listed, expected, "{place}, {state:?}");
        }
    }

    async fn check_use(&self, subject: &Subject, key: &SessionKey, place: &str) {
        let of_session = self.runs.iter().filter(|told| told.story.key() == key);
        let (count, last) = of_session.fold((0, None), |(count, last), told| (count + 1, last.max(Some(told.used_at))));
        let listed = subject.journal().sessions().list(SessionFilter::default()).await.unwrap();
        let listed = listed.into_iter().find(|info| info.key == *key);
        let (runs, used) = listed.map(|info| (info.runs, info.updated_at)).unzip();
        assert_eq!((runs.unwrap_or_default(), used), (count, last), "{place}, {key}");
    }

    /// Ends all runs, and takes each session out and puts it in again.
    async fn move_sessions(&mut self, subject: &Subject) {
        for place in 0..self.runs.len() {
            while !self.runs[place].is_over() {
                let event = any_event(&mut self.dice, &self.runs[place].progress);
                self.runs[place].add(event);
            }
        }
        self.hand_over_all(subject).await;
        let sessions = subject.journal().sessions();
        for key in ["a", "b", "c"].map(session) {
            let Some(moved) = sessions.copy_whole(&key).await.unwrap() else { continue };
            assert_eq!(sessions.delete(&key).await, Ok(true));
            assert_eq!(subject.journal().history(&key).await, Ok(Vec::new()), "it is gone");
            sessions.put(moved).await.unwrap();
        }
    }

    async fn empty(&self, subject: &Subject) {
        for key in ["a", "b", "c"].map(session) {
            subject.journal().sessions().delete(&key).await.unwrap();
        }
    }
}

/// Anything that can happen to a run, whether it can happen here or not.
fn any_event(dice: &mut Dice, progress: &RunProgress) -> Event {
    let number = progress.model_calls();
    let open = progress.calls();
    let id = match open.len() {
        0 => call("none"),
        count => open[dice.roll(count as u64) as usize].call.id.clone(),
    };
    match dice.roll(25) {
        0 | 1 => Event::RunStarted,
        2 | 3 | 22..=24 => hooks::any_event(dice, progress),
        4 | 5 => Event::model_started(number + 1, "told"),
        6 | 7 => Event::Message { message: Arc::new(any_answer(dice, number)) },
        8..=10 => Event::ModelFinished { call: number, end: any_end(dice), first_piece_us: None },
        11 => Event::BackoffStarted { delay_ms: 5 },
        12 => Event::BackoffFinished,
        13 => Event::ApprovalRequested { call: id, arguments: None },
        14 => Event::ApprovalResolved {
            call: id,
            verdict: Box::new(Approval::Approved { by: None, arguments: None, why: None }),
        },
        15 | 16 => Event::ToolStarted { call: id, effect: Effect::ReadOnly, effect_id: None },
        17 => {
            let result = Arc::new(ToolResult::text(id.clone(), ResultStatus::Ok, "Done."));
            Event::ToolFinished { call: id, end: ToolEnd::Finished, result, remains: None, state: None }
        }
        18 => refuse(id, Refusal::DeniedByPerson),
        19 if dice.roll(4) == 0 => {
            Event::CancelRequested { request: Arc::new(request("stop")), delivered_at: stamp(8) }
        }
        20 => Event::RunQuieted,
        _ => Event::RunSettled { outcome: Arc::new(any_ending(dice)) },
    }
}

fn any_answer(dice: &mut Dice, number: u32) -> Message {
    let mut parts = vec![Part::Text { text: ["", "Yes.", "ä 🙂 \"\n"][dice.roll(3) as usize].to_owned() }];
    if dice.roll(3) == 0 {
        parts.push(Part::Thinking { text: "Hm.".to_owned(), signature: None });
    }
    for place in 0..dice.roll(3) {
        let id = call(&format!("{number}.{place}"));
        parts.push(Part::ToolCall(ToolCall::new(id, "look", "{\"at\": 1.0}")));
    }
    let cuts = [None, Some(Cut::Cancelled(Reason::Requested)), Some(Cut::Broken), Some(Cut::Lost)];
    Message::new(Role::Assistant, parts).cut(cuts[dice.roll(4) as usize])
}

fn any_end(dice: &mut Dice) -> ModelEnd {
    let failure = Failure::new(FailureKind::Internal, "It broke.");
    match dice.roll(6) {
        0 => ModelEnd::Cut,
        1 => ModelEnd::Lost,
        2 => ModelEnd::Failed { failure: Box::new(failure) },
        _ => ModelEnd::Answered { stop: ModelStop::EndTurn },
    }
}

fn any_ending(dice: &mut Dice) -> Ending {
    let failure = Failure::new(FailureKind::Hook, "It may not.");
    match dice.roll(4) {
        0 => Ending::Lost,
        3 => Ending::Failed(failure),
        1 => Ending::Cancelled { reason: Reason::Requested },
        _ => Ending::Completed { stop: ModelStop::EndTurn },
    }
}
