//! Meters learn from calls that completed: beside the runs, from one call at a time, and never much.
//!
//! # Invariants
//!
//! 1. No run and no stop waits for a lesson.
//! 2. However many calls end, at most [`MOST`] wait to be learned from, and one thread learns. A call that finds no
//!    room is skipped: the others are as good a sample.
//! 3. Learning takes a tenth of a core at most: after each lesson the learner rests nine times as long as the lesson
//!    took.
//! 4. What was learned is kept at most once a second for each model, and at the end. When the program is about to exit,
//!    the learner learns from [a few](LAST) more calls, without a rest, so that a program that makes few calls learns
//!    from them, too. What is lost is learned again.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use super::core::RuntimeCore;
use super::metering::Completed;
use crate::journal::shelf::CALIBRATION;
use crate::lanes::sync::Mutex;
use crate::live::Learning;
use crate::model::Lesson;

/// How many calls may wait to be learned from.
const MOST: usize = 16;
/// How many of those are learned from when the program is about to exit.
const LAST: usize = 4;
/// How many times as long as a lesson the rest after it is.
const REST: u32 = 9;
/// How often what was learned is kept.
const KEEP_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Learner {
    state: Mutex<LearnerState>,
    /// Notified when the program is about to exit, to end the rests.
    hurried: Notify,
}

#[derive(Default)]
struct LearnerState {
    waiting: VecDeque<Completed>,
    running: bool,
    /// When the next lesson may begin, and when what was learned may be kept again.
    rests_until: Option<Instant>,
    keep_at: Option<Instant>,
    in_a_hurry: bool,
}

impl Learner {
    /// Learns from a call that completed, unless enough others are waiting.
    pub(crate) fn add(&self, runtime: &Arc<RuntimeCore>, call: Completed) {
        let mut state = self.state.lock();
        if state.waiting.len() >= MOST {
            return;
        }
        state.waiting.push_back(call);
        if mem::replace(&mut state.running, true) {
            return;
        }
        drop(state);
        runtime.services.door.spawn_keeper(learn_all(LearnerTask { runtime: Arc::clone(runtime), is_over: false }));
    }

    /// The program is about to exit.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        state.waiting.truncate(LAST);
        state.in_a_hurry = true;
        drop(state);
        self.hurried.notify_waiters();
    }

    /// Waits until this instant, if there is one and the program is not about to exit.
    async fn wait(&self, until: impl Fn(&LearnerState) -> Option<Instant>) {
        let hurried = self.hurried.notified();
        let until = {
            let state = self.state.lock();
            until(&state).filter(|_| !state.in_a_hurry)
        };
        if let Some(until) = until {
            // It does not matter which of the two comes first.
            let _ = timeout_at(until, hurried).await;
        }
    }

    /// The call to learn from next, after the rest from the one before; `None` when no call waits.
    async fn next(&self) -> Option<Completed> {
        self.wait(|state| state.rests_until.filter(|_| !state.waiting.is_empty())).await;
        self.state.lock().waiting.pop_front()
    }

    /// A lesson took this long. Returns whether to keep now what was learned.
    fn rest_from(&self, lesson: Duration) -> bool {
        let (now, mut state) = (Instant::now(), self.state.lock());
        state.rests_until = Some(now + lesson * REST);
        state.keep_at.is_none_or(|keep_at| keep_at <= now)
    }

    /// Whether no call waits, so that the task may end. If so, it counts as ended.
    fn may_end(&self) -> bool {
        let mut state = self.state.lock();
        state.running = !state.waiting.is_empty();
        state.in_a_hurry &= state.running;
        !state.running
    }
}

/// Lets the next call start another task if this one is dropped, as happens when a tokio runtime is shut down.
struct LearnerTask {
    runtime: Arc<RuntimeCore>,
    is_over: bool,
}

impl Drop for LearnerTask {
    fn drop(&mut self) {
        if !self.is_over {
            self.runtime.learner.state.lock().running = false;
        }
    }
}

async fn learn_all(mut running: LearnerTask) {
    let runtime = Arc::clone(&running.runtime);
    let learner = &runtime.learner;
    let mut unkept = HashMap::new();
    loop {
        while let Some(call) = learner.next().await {
            let begun = Instant::now();
            let learned = learn(&runtime, call).await;
            let (lessons, _learning) = learned.unzip();
            unkept.extend(lessons.into_iter().flatten().map(|Lesson { about, page }| (about, page)));
            if learner.rest_from(begun.elapsed()) {
                keep(&runtime, &mut unkept).await;
            }
        }
        if !unkept.is_empty() {
            learner.wait(|state| state.keep_at).await;
            keep(&runtime, &mut unkept).await;
        }
        if learner.may_end() {
            // The next task may have started already.
            running.is_over = true;
            return;
        }
    }
}

/// Learns from one call, on a thread, because it may take a while. A meter that panics has learned nothing.
async fn learn(runtime: &RuntimeCore, call: Completed) -> Option<(Vec<Lesson>, Learning)> {
    let (sender, learned) = oneshot::channel();
    runtime.services.door.spawn_thread(move || drop(sender.send(call.learn())));
    learned.await.ok()
}

/// Keeps what was learned. What cannot be kept is learned again.
async fn keep(runtime: &RuntimeCore, unkept: &mut HashMap<String, Value>) {
    let shelf = runtime.services.journal.shelf();
    let keeping = unkept.drain().map(|(about, page)| match page {
        Value::Null => shelf.discard(CALIBRATION, &about),
        page => shelf.keep(CALIBRATION, &about, page),
    });
    for kept in keeping.collect::<Vec<_>>() {
        let _ = kept.await;
    }
    runtime.learner.state.lock().keep_at = Some(Instant::now() + KEEP_EVERY);
}
