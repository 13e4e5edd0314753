//! What a model call used: the best figures at its end, and what is learned afterwards.
//!
//! # Invariants
//!
//! 1. A run never waits for a figure: whatever takes time comes after the run's end, as an addendum.
//! 2. A call about which something is pending has one last word, after the run's end: better figures, or the same ones.
//! 3. What is pending ends by itself, at its time limit, or when the runtime shuts down: then with what was learned by then,
//!    if the work can say. A process that dies first leaves a receipt that says until when the figures might have improved.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use andon_core::answer::Answerer;
use andon_core::event::AddendumKind;
use andon_core::message::{Message, Part};
use andon_core::time::{Stamp, Wall};
use andon_core::usage::{Awaited, Pending, Usage, Used};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::core::RuntimeCore;
use crate::agent::AgentCore;
use crate::journal::Append;
use crate::journal::shelf::CALIBRATION;
use crate::lanes::BoxFuture;
use crate::live::run::Run;
use crate::live::{Learning, Live, Services};
use crate::model::{
    Anchor, AnchorSetup, Answer, Findings, FollowUp, Lesson, Meter, MeteredCall, Model, ModelRequest, is_reported,
};
use crate::session::SessionCore;

/// How many bytes of what a model wrote after a cut are kept.
const MAX_UNDELIVERED: usize = 1 << 20;

/// How long work that was asked to end at once may go on.
const FINISHING: Duration = Duration::from_millis(100);

/// How long an estimate may take.
pub(crate) const ESTIMATING: Duration = Duration::from_secs(60);

/// A model call with the meter that improves its figures.
#[derive(Clone)]
pub(crate) struct Metered {
    meter: Arc<dyn Meter>,
    request: ModelRequest,
    /// The exact model, once it is known.
    pub(crate) model: Option<String>,
    /// The answer is not as the model wrote it, so no figure of its output can be had from its text.
    answer_changed: bool,
}

/// A model's meter. One that panics counts as absent.
pub(crate) fn meter_of(model: &dyn Model) -> Option<Arc<dyn Meter>> {
    catch_unwind(AssertUnwindSafe(|| model.meter())).ok().flatten()
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// The answer came to its end.
    Whole,
    /// It was cut, and its connection was closed.
    Cut,
    /// Its process died.
    Lost,
}

/// When a call began, when its first piece came, and when it ended.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) started: Stamp,
    pub(crate) first_piece: Option<Stamp>,
    pub(crate) ended: Stamp,
}

impl Metered {
    /// `None` if the model has no meter.
    pub(crate) fn of(model: &dyn Model, request: &ModelRequest) -> Option<Box<Self>> {
        let meter = meter_of(model)?;
        Some(Box::new(Self { meter, request: request.clone(), model: None, answer_changed: false }))
    }

    /// Reads the exact model, and whether a layer changed the answer.
    pub(crate) fn look_at(&mut self, answer: &dyn Answer) {
        self.model = Answerer::new(answer.model(), None).model.as_deref().map(str::to_owned);
        self.answer_changed = answer.is_changed();
    }

    fn sighting<'a>(&'a self, answer: &'a [Part], ended: bool, times: Times) -> MeteredCall<'a> {
        MeteredCall {
            request: &self.request,
            model: self.model.as_deref(),
            answer,
            ended,
            first_piece: times.first_piece.map(|first| first.since(times.started)),
            took: times.ended.since(times.started),
        }
    }

    /// The best figures there are now for a call of whose usage this much was reported.
    pub(crate) fn estimate(&self, answer: &[Part], end: CallEnd, times: Times, known: Usage) -> Used {
        let call = self.sighting(answer, end == CallEnd::Whole, times);
        let estimate = || match end {
            CallEnd::Whole => Used::whole(self.meter.cut(&call, known).delivered.corrected_by(known)),
            CallEnd::Cut => self.meter.cut(&call, known),
            CallEnd::Lost => self.meter.lost(&call, known),
        };
        let without = |known| if end == CallEnd::Whole { Used::whole(known) } else { Used::cut(known) };
        match catch_unwind(AssertUnwindSafe(estimate)) {
            Ok(used) if self.answer_changed => without(used.delivered.output(known.output).reasoning(known.reasoning)),
            Ok(used) => used,
            // A meter that panics has nothing to add.
            Err(_) => without(known),
        }
    }

    /// Learns from a call that completed, when there is time for it. Nothing can be learned from an answer that a layer changed.
    pub(crate) fn learn(
        self: Box<Self>,
        runtime: &Arc<RuntimeCore>,
        live: &Arc<Live>,
        message: &Arc<Message>,
        times: Times,
        reported: Usage,
    ) {
        if self.answer_changed {
            return;
        }
        let (message, learning) = (Arc::clone(message), live.learning());
        runtime.learner.add(runtime, Completed { metered: self, message, times, reported, learning });
    }

    /// Gives the meter the pages that earlier processes have learned, once for each model, in the background.
    pub(crate) fn spawn_restore_pages(&self, runtime: &Arc<RuntimeCore>, model: &Arc<str>) {
        if runtime.restored_models.lock().insert(Arc::clone(model)) {
            runtime.services.door.spawn(self.load_pages(runtime, model));
        }
    }

    /// As [`spawn_restore_pages`](Self::spawn_restore_pages), but waits until the meter has them.
    pub(crate) async fn restore_pages(&self, runtime: &Arc<RuntimeCore>, model: &Arc<str>) {
        if runtime.restored_models.lock().insert(Arc::clone(model)) {
            self.load_pages(runtime, model).await;
        }
    }

    fn load_pages(&self, runtime: &Arc<RuntimeCore>, model: &Arc<str>) -> impl Future<Output = ()> + Send + use<> {
        let (meter, stored) = (Arc::clone(&self.meter), runtime.services.journal.shelf().kept(CALIBRATION));
        let (model, runtime) = (Arc::clone(model), Arc::clone(runtime));
        async move {
            match stored.await {
                Ok(lessons) => {
                    let lessons = lessons.into_iter().map(|(about, page)| Lesson { about, page }).collect();
                    // A meter that panics has learned nothing.
                    let outdated = catch_unwind(AssertUnwindSafe(|| meter.recall(lessons))).unwrap_or_default();
                    for outdated in outdated {
                        // What cannot be discarded now is found again by the next process.
                        let _ = runtime.services.journal.shelf().discard(CALIBRATION, &outdated.about).await;
                    }
                }
                // The next call tries again.
                Err(_) => drop(runtime.restored_models.lock().remove(&model)),
            }
        }
    }

    /// Makes this call the one that later calls of the conversation are measured from, if the provider reported what it
    /// read and wrote, and the conversation has what it wrote.
    pub(crate) fn set_anchor(&self, session: &SessionCore, agent: &AgentCore, usage: Usage) {
        if is_reported(&usage) && !self.answer_changed {
            let (messages, answered_by) = (self.request.history.len(), self.model.as_deref().map(Arc::from));
            session.add_anchor(agent.asked(), Anchor { usage, messages, answered_by, setup: AnchorSetup::Same });
        }
    }
}

/// A call whose usage the provider did not report, or not all of it.
pub(crate) struct Unreported {
    pub(crate) metered: Box<Metered>,
    pub(crate) answer: Vec<Part>,
    pub(crate) end: CallEnd,
    pub(crate) times: Times,
    /// What the provider did report.
    pub(crate) known: Usage,
}

impl Unreported {
    /// The best figures there are now.
    pub(crate) fn estimate(&self) -> Used {
        self.metered.estimate(&self.answer, self.end, self.times, self.known)
    }

    /// Whether there will be better figures when the meter has loaded what it needs.
    pub(crate) fn is_rough(&self) -> bool {
        let prepared = catch_unwind(AssertUnwindSafe(|| self.metered.meter.is_prepared(&self.sighting())));
        !prepared.unwrap_or(true)
    }

    /// Begins to make the best figures there are, on a thread of its own, because it may take a while to load what they need. `None` if
    /// there is no thread for it.
    pub(crate) fn estimate_well(self, services: &Services) -> impl Future<Output = Option<Used>> + Send + use<> {
        let (sender, made) = oneshot::channel();
        services.door.spawn_thread(move || {
            // Without what it could not load, the figures are as rough as before.
            let _ = catch_unwind(AssertUnwindSafe(|| self.metered.meter.prepare(&self.sighting())));
            // Nobody waits any more if it was given up.
            let _ = sender.send(self.estimate());
        });
        async { made.await.ok() }
    }

    fn sighting(&self) -> MeteredCall<'_> {
        self.metered.sighting(&self.answer, self.end == CallEnd::Whole, self.times)
    }
}

/// A call that completed.
pub(crate) struct Completed {
    metered: Box<Metered>,
    message: Arc<Message>,
    times: Times,
    reported: Usage,
    learning: Learning,
}

impl Completed {
    /// What there is to learn from it. Whoever waits for the last word on the run waits until the guard is dropped.
    pub(crate) fn learn(self) -> (Vec<Lesson>, Learning) {
        let Self { metered, message, times, reported, learning } = self;
        (metered.meter.learn(&metered.sighting(&message.parts, true, times), reported), learning)
    }
}

/// Starts to learn what can still be learned about a call: from an estimate that takes longer, and from the provider. Returns what is
/// awaited.
pub(crate) fn follow(
    live: &Arc<Live>,
    call: u32,
    used: Used,
    rough: Option<Unreported>,
    afterwards: Option<FollowUp>,
) -> Option<Awaited> {
    let what = match (&afterwards, &rough) {
        (Some(afterwards), _) => afterwards.what,
        (None, Some(_)) => Pending::Estimating,
        (None, None) => return None,
    };
    let estimating = rough.as_ref().map(|_| ESTIMATING);
    let within = afterwards.iter().map(|afterwards| afterwards.within).chain(estimating).max().unwrap_or_default();
    let services = Arc::clone(&live.services);
    let mut word = LastWord { live: Arc::clone(live), call, used, _learning: live.learning(), is_told: false };
    // It goes on while the provider is asked.
    let estimate = rough.map(|rough| rough.estimate_well(&services));
    live.services.door.spawn(async move {
        let learned = match afterwards {
            Some(afterwards) => finished(&services, afterwards).await,
            None => None,
        };
        if let Some(estimate) = estimate {
            word.used = patiently(&services, ESTIMATING, estimate).await.flatten().unwrap_or(used);
        }
        word.tell(learned.unwrap_or_default()).await;
    });
    Some(awaited(live.now(), what, within))
}

/// What is awaited, and until when.
pub(crate) fn awaited(now: Stamp, what: Pending, within: Duration) -> Awaited {
    let patience = u64::try_from(within.as_micros()).unwrap_or(u64::MAX);
    Awaited::new(what, Wall(now.wall.0.saturating_add(patience)))
}

/// Waits until a time limit, or until what is being learned must be given up.
pub(crate) async fn patiently<T>(services: &Services, within: Duration, work: impl Future<Output = T>) -> Option<T> {
    services.give_up().unless_given(timeout(within, work)).await?.ok()
}

/// What the work has learned at its end, or when it was asked to end because the program is about to exit.
async fn finished(services: &Services, afterwards: FollowUp) -> Option<Findings> {
    let FollowUp { within, work, finish, .. } = afterwards;
    let mut work = std::pin::pin!(or_nothing(work));
    if let Some(in_time) = services.give_up().unless_given(timeout(within, work.as_mut())).await {
        return in_time.ok();
    }
    finish?();
    timeout(FINISHING, work).await.ok()
}

/// The last word on what a call used.
struct LastWord {
    live: Arc<Live>,
    call: u32,
    used: Used,
    _learning: Learning,
    is_told: bool,
}

impl LastWord {
    /// Waits for the run's outcome, then records the last word.
    async fn tell(mut self, learned: Findings) {
        Run::new(Arc::clone(&self.live)).outcome().await;
        self.live.hit("metering: learned");
        // There is nobody to report a journal error to.
        let _ = self.hand_over(learned).await;
    }

    /// Hands the last word to the journal. From then on it counts as told, whether or not anybody waits for the disk.
    fn hand_over(&mut self, learned: Findings) -> Append {
        self.is_told = true;
        let parts = within_bounds(learned.undelivered);
        if !parts.is_empty() {
            // Not awaited: it is written in order, before what follows.
            drop(self.live.learn(AddendumKind::Undelivered { call: self.call, parts }));
        }
        let used = Box::new(self.used.refined_by(learned.used));
        self.live.learn(AddendumKind::UsageCorrected { call: self.call, used })
    }
}

impl Drop for LastWord {
    /// The task was dropped, as happens when the caller's tokio runtime is shut down: nothing was learned, and another
    /// task records that.
    fn drop(&mut self) {
        let door = &self.live.services.door;
        if self.is_told || !door.has_own_threads() {
            return;
        }
        let word = Self {
            live: Arc::clone(&self.live),
            call: self.call,
            used: self.used,
            _learning: self.live.learning(),
            // If this one is dropped, too, there is no third.
            is_told: true,
        };
        door.spawn_keeper(async move { word.tell(Findings::default()).await });
    }
}

/// Work that panics has learned nothing.
async fn or_nothing(mut work: BoxFuture<Findings>) -> Findings {
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        polled.unwrap_or_else(|_| Poll::Ready(Findings::default()))
    })
    .await
}

/// Cuts what was not shown to anybody to its limit.
fn within_bounds(parts: Vec<Part>) -> Vec<Part> {
    let mut room = MAX_UNDELIVERED;
    let mut shorten = |text: &mut String| {
        text.truncate(text.floor_char_boundary(room));
        room = room.saturating_sub(text.len());
        !text.is_empty()
    };
    let mut kept = parts;
    kept.retain_mut(|part| match part {
        Part::Text { text } | Part::Thinking { text, .. } => shorten(text),
        Part::ToolCall(call) => shorten(&mut call.arguments),
        Part::Image(_) | Part::ToolResult(_) => true,
        #[cfg(not(andon_whole))]
        _ => true,
    });
    kept
}

/// How long a shutdown waits for what is still being learned before it gives that up.
pub(crate) fn patience_at_shutdown(within: Duration) -> Duration {
    within.mul_f32(0.9)
}
