//! What a model call used: the best figures at its end, and what is learned afterwards.
//!
//! # Invariants
//!
//! 1. A run never waits for a figure: whatever takes time comes after the run's end, as an addendum.
//! 2. A call about which something is pending has one last word, after the run's end: better figures, or the same ones.
//! 3. What is pending ends by itself, at its time limit, or when the runtime shuts down. A process that dies first
//!    leaves a receipt that says until when the figures might have improved.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use andon_core::event::Learnt;
use andon_core::message::{Message, Part};
use andon_core::time::{Stamp, Wall};
use andon_core::usage::{Awaited, Figure, Provenance, Usage, Used};
use tokio::time::timeout;

use super::core::RuntimeCore;
use crate::journal::Append;
use crate::journal::shelf::CALIBRATION;
use crate::lanes::BoxFuture;
use crate::live::run::Run;
use crate::live::{Learning, Live};
use crate::model::{Afterwards, Anchor, Learned, Lesson, Meter, Model, Request, Sighting};
use crate::session::SessionCore;

/// How many bytes of what a model wrote after a cut are kept.
const MAX_UNDELIVERED: usize = 1 << 20;

/// A model call with the meter that improves its figures.
pub(crate) struct Metered {
    meter: Arc<dyn Meter>,
    request: Request,
    /// The exact model, once it is known.
    pub(crate) model: Option<String>,
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
    pub(crate) fn of(model: &dyn Model, request: &Request) -> Option<Box<Self>> {
        let meter = model.meter()?;
        Some(Box::new(Self { meter, request: request.clone(), model: None }))
    }

    fn sighting<'a>(&'a self, answer: &'a [Part], ended: bool, times: Times) -> Sighting<'a> {
        Sighting {
            request: &self.request,
            model: self.model.as_deref(),
            answer,
            ended,
            first_piece: times.first_piece.map(|first| first.since(times.started)),
            took: times.ended.since(times.started),
        }
    }

    /// The best figures for a call that was cut; those that the provider reported, if the meter panics.
    pub(crate) fn cut(&self, answer: &[Part], times: Times, known: Usage) -> Used {
        self.estimate(&self.sighting(answer, false, times), known)
    }

    fn estimate(&self, call: &Sighting<'_>, known: Usage) -> Used {
        catch_unwind(AssertUnwindSafe(|| self.meter.cut(call, known))).unwrap_or_else(|_| Used::cut(known))
    }

    /// The figures of a call that completed: the provider's, or the meter's where the provider gave none.
    pub(crate) fn whole(&self, answer: &[Part], times: Times, reported: Usage) -> Used {
        if ![reported.input, reported.output].contains(&Figure::UNKNOWN) {
            return Used::whole(reported);
        }
        let estimate = self.estimate(&self.sighting(answer, true, times), reported);
        Used::whole(estimate.delivered.corrected_by(reported))
    }

    /// Learns from a call that completed, when there is time for it.
    pub(crate) fn learn(
        self: Box<Self>,
        runtime: &Arc<RuntimeCore>,
        live: &Arc<Live>,
        message: &Arc<Message>,
        times: Times,
        reported: Usage,
    ) {
        let (message, learning) = (Arc::clone(message), live.learning());
        runtime.learner.add(runtime, Completed { metered: self, message, times, reported, learning });
    }

    /// Gives the meter what earlier processes have learned, once for each model.
    pub(crate) fn recall(&self, runtime: &Arc<RuntimeCore>, model: &Arc<str>) {
        if !runtime.recalled.lock().insert(Arc::clone(model)) {
            return;
        }
        let (meter, stored) = (Arc::clone(&self.meter), runtime.services.journal.shelf().kept(CALIBRATION));
        let (model, back) = (Arc::clone(model), Arc::clone(runtime));
        runtime.services.door.spawn(async move {
            match stored.await {
                Ok(lessons) => {
                    let lessons = lessons.into_iter().map(|(about, page)| Lesson { about, page }).collect();
                    for outdated in meter.recall(lessons) {
                        // What cannot be discarded now is found again by the next process.
                        let _ = back.services.journal.shelf().discard(CALIBRATION, &outdated.about).await;
                    }
                }
                // The next call tries again.
                Err(_) => drop(back.recalled.lock().remove(&model)),
            }
        });
    }

    /// Makes this call the one that later calls of the conversation are measured from, if the provider reported its
    /// input.
    pub(crate) fn anchor(&self, session: &SessionCore, agent: u64, usage: Usage) {
        if usage.input.provenance == Provenance::Reported {
            session.set_anchor(agent, Anchor { usage, messages: self.request.history.len() });
        }
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

/// Starts to learn what can still be learned about a call that was cut. Returns what is awaited.
pub(crate) fn follow(live: &Arc<Live>, call: u32, used: Used, afterwards: Afterwards) -> Awaited {
    let Afterwards { what, within, work } = afterwards;
    let patience = u64::try_from(within.as_micros()).unwrap_or(u64::MAX);
    let until = Wall(live.now().wall.0.saturating_add(patience));
    let give_up = live.services.give_up();
    let word = LastWord { live: Arc::clone(live), call, used, _learning: live.learning(), is_told: false };
    live.services.door.spawn(async move {
        let learned = give_up.run_until_cancelled(timeout(within, or_nothing(work))).await;
        let learned = learned.and_then(Result::ok).unwrap_or_default();
        word.tell(learned).await;
    });
    Awaited { what, until }
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
    async fn tell(mut self, learned: Learned) {
        Run::new(Arc::clone(&self.live)).outcome().await;
        self.live.hit("metering: learned");
        // There is nobody to report a journal error to.
        let _ = self.hand_over(learned).await;
    }

    /// Hands the last word to the journal. From then on it counts as told, whether or not anybody waits for the disk.
    fn hand_over(&mut self, learned: Learned) -> Append {
        self.is_told = true;
        let parts = within_bounds(learned.undelivered);
        if !parts.is_empty() {
            // Not awaited: it is written in order, before what follows.
            drop(self.live.learn(Learnt::Undelivered { call: self.call, parts }));
        }
        let used = Box::new(self.used.refined_by(learned.used));
        self.live.learn(Learnt::UsageCorrected { call: self.call, used })
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
        door.spawn_keeper(async move { word.tell(Learned::default()).await });
    }
}

/// Work that panics has learned nothing.
async fn or_nothing(mut work: BoxFuture<Learned>) -> Learned {
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        polled.unwrap_or_else(|_| Poll::Ready(Learned::default()))
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
    });
    kept
}

/// How long a shutdown waits for what is still being learned before it gives that up.
pub(crate) fn patience_at_shutdown(within: Duration) -> Duration {
    within.mul_f32(0.9)
}
