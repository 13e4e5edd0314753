//! A conversation: one run at a time, and the history that its runs leave.
//!
//! # Invariants
//!
//! 1. At most one run is seated; only a seated run starts, and only its messages join the history.
//! 2. A run leaves before its end is shown: whoever has seen the end finds the seat free.
//! 3. A prompt that comes while the seated run is ending waits for it, whatever the policy.
//! 4. Of runs that are cancelled together, those that wait are pulled before the one that they wait for: so none of them
//!    begins because that one has ended. See [`pull_together`].

pub(crate) mod anchors;
pub(crate) mod known;
pub(crate) mod registry;
pub(crate) mod unnamed;
pub(crate) mod warm;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use andon_core::cancel::Reason;
use andon_core::history::History;
use andon_core::id::{RunId, SessionKey};
use andon_core::message::{Message, Role};
use serde::{Deserialize, Serialize};

use crate::journal::reported::LastReported;
use crate::lanes::sync::Mutex;
use crate::live::cord::{Cancel, Cord, Reply};
use crate::live::{Live, News};
use crate::model::{Anchor, AnchorSetup};
use crate::session::anchors::{Anchors, Asked};

/// How many runs may wait for one session.
pub(crate) const MAX_QUEUED: usize = 64;

/// About how many bytes a session takes without its messages, including its entries in tables. Measured: 1,170 with two
/// messages of a few words.
const OVERHEAD: usize = 960;

/// What a prompt does when a run is in progress in its session.
///
/// ```
/// # use andon_practice::Practice;
/// # use andon_runtime::Agent;
/// use andon_runtime::WhenBusy;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let agent = Agent::builder().model(Practice::new()).build()?;
/// let ada = agent.session("ada", "monday")?;
/// let story = ada.start("Tell me a long story")?;
/// let instead = ada.prompt("Hello").when_busy(WhenBusy::Supersede).run().await?;
/// assert_eq!((story.outcome().await.stop_reason(), instead.stop_reason()), ("cancelled", "end_turn"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum WhenBusy {
    /// It is refused.
    #[default]
    Reject,
    /// It waits until the run is over.
    Queue,
    /// The run in progress, and those that wait, are cancelled with reason `superseded`; then it starts.
    Supersede,
}

pub(crate) struct SessionCore {
    /// Shared with its runs and with every table that it is in.
    pub(crate) key: Arc<SessionKey>,
    state: Mutex<SessionInner>,
}

#[derive(Default)]
struct SessionInner {
    /// What was said; `None` until it has been read from the journal.
    history: Option<History>,
    /// About how many bytes the history takes.
    bytes: usize,
    /// How often the history was discarded because the journal had changed.
    forgotten: u64,
    /// Boxed, because only models with a meter have any.
    anchors: Option<Box<Anchors>>,
    seated: Option<Arc<Live>>,
    queue: VecDeque<Arc<Live>>,
    /// It is being deleted, and accepts no runs.
    closing: bool,
}

impl SessionInner {
    fn inside(&self) -> Vec<Arc<Live>> {
        self.seated.iter().chain(&self.queue).cloned().collect()
    }
}

/// Why a run cannot enter a session.
#[derive(Debug)]
pub(crate) enum TurnedAway {
    Busy(RunId),
    QueueFull,
    Closing,
}

/// Whether a run has its session's seat or waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seat {
    Taken,
    Queued,
}

impl SessionCore {
    pub(crate) fn new(key: Arc<SessionKey>) -> Self {
        Self { key, state: Mutex::new(SessionInner::default()) }
    }

    /// A run enters: it is seated, queued, or turned away.
    pub(crate) fn enter(&self, live: &Arc<Live>, when_busy: WhenBusy) -> Result<Seat, TurnedAway> {
        let mut state = self.state.lock();
        if state.closing {
            return Err(TurnedAway::Closing);
        }
        let Some(seated) = state.seated.clone() else {
            state.seated = Some(Arc::clone(live));
            return Ok(Seat::Taken);
        };
        if when_busy == WhenBusy::Reject && !seated.is_ending() {
            return Err(TurnedAway::Busy(seated.id.clone()));
        }
        // A superseding run cancels those that wait, and they leave the queue.
        if state.queue.len() >= MAX_QUEUED && when_busy != WhenBusy::Supersede {
            return Err(TurnedAway::QueueFull);
        }
        let superseded: Vec<Arc<Live>> = match when_busy {
            WhenBusy::Supersede => std::iter::once(seated).chain(state.queue.iter().cloned()).collect(),
            WhenBusy::Reject | WhenBusy::Queue => Vec::new(),
        };
        state.queue.push_back(Arc::clone(live));
        drop(state);
        if !superseded.is_empty() {
            let note = format!("superseded by run {}", live.id);
            pull_inside(&superseded, &Cancel::graceful().reason(Reason::Superseded).by("session").note(note));
        }
        Ok(Seat::Queued)
    }

    /// A run leaves, with the messages that it adds to the history; the next one is seated.
    pub(crate) fn leave(&self, live: &Arc<Live>, messages: &[Arc<Message>]) {
        let mut state = self.state.lock();
        if !state.seated.as_ref().is_some_and(|seated| Arc::ptr_eq(seated, live)) {
            state.queue.retain(|queued| !Arc::ptr_eq(queued, live));
            return;
        }
        if let Some(history) = &mut state.history {
            history.extend(messages.iter().cloned());
            state.bytes += weight(messages);
        }
        state.seated = state.queue.pop_front();
        let next = state.seated.clone();
        drop(state);
        if let Some(next) = next {
            next.post(News::Seated);
        }
    }

    /// How many runs end before this one begins, if all do; zero for the run in progress.
    pub(crate) fn place(&self, live: &Arc<Live>) -> usize {
        let state = self.state.lock();
        state.seated.iter().chain(&state.queue).position(|inside| Arc::ptr_eq(inside, live)).unwrap_or_default()
    }

    /// The run in progress, then those that wait for it.
    pub(crate) fn inside(&self) -> Vec<Arc<Live>> {
        self.state.lock().inside()
    }

    /// Accepts no more runs, and returns those inside. `None` if it is closed already.
    pub(crate) fn close(self: &Arc<Self>) -> Option<(ClosedSession, Vec<Arc<Live>>)> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.closing, true) {
            return None;
        }
        Some((ClosedSession(Arc::clone(self)), state.inside()))
    }

    /// What was said before, if it has been read.
    pub(crate) fn history(&self) -> Option<History> {
        self.state.lock().history.clone()
    }

    /// The history must be read again, because the journal has changed.
    pub(crate) fn forget_history(&self) {
        let mut state = self.state.lock();
        state.history = None;
        state.bytes = 0;
        state.anchors = None;
        state.forgotten += 1;
    }

    /// How often the history was discarded: to be passed to [`set_history`](Self::set_history) with what is read now.
    pub(crate) fn forgotten(&self) -> u64 {
        self.state.lock().forgotten
    }

    /// Sets what was said before, as read from the journal, with the last call that was reported; `None` if the journal has
    /// changed since `forgotten` was read.
    pub(crate) fn set_history(
        &self,
        history: Vec<Arc<Message>>,
        last: Option<LastReported>,
        forgotten: u64,
    ) -> Option<History> {
        let mut state = self.state.lock();
        if state.forgotten != forgotten {
            return None;
        }
        if state.history.is_none() {
            if let Some((asked, anchor)) = last.and_then(|last| recorded(&history, last)) {
                state.anchors.get_or_insert_default().add(asked, anchor);
            }
            state.bytes = weight(&history);
            state.history = Some(history.into());
        }
        state.history.clone()
    }

    /// What a call is measured from.
    pub(crate) fn anchor(&self, asked: &Asked) -> Option<Anchor> {
        self.state.lock().anchors.as_ref()?.find(asked)
    }

    pub(crate) fn add_anchor(&self, asked: Asked, anchor: Anchor) {
        self.state.lock().anchors.get_or_insert_default().add(asked, anchor);
    }

    /// The call that was measured last says nothing about the next one.
    pub(crate) fn forget_anchor(&self, asked: &Asked) {
        if let Some(anchors) = &mut self.state.lock().anchors {
            anchors.forget(asked);
        }
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        OVERHEAD + self.state.lock().bytes
    }

    /// The run in progress, if there is one.
    pub(crate) fn seated(&self) -> Option<Arc<Live>> {
        self.state.lock().seated.clone()
    }
}

/// Cancels the runs inside a session, given in its order: the run in progress, then those that wait for it.
pub(crate) fn pull_inside(inside: &[Arc<Live>], cancel: &Cancel) -> Vec<Reply> {
    pull_together(inside, |number, _| number, cancel)
}

/// Cancels runs together, and returns the replies in the order of the runs. Those that have the last place in their session
/// are pulled first (invariant 4).
pub(crate) fn pull_together(
    runs: &[Arc<Live>],
    place: impl Fn(usize, &Arc<Live>) -> usize,
    cancel: &Cancel,
) -> Vec<Reply> {
    let mut order: Vec<(usize, &Arc<Live>)> = runs.iter().enumerate().collect();
    order.sort_by_cached_key(|(number, live)| Reverse(place(*number, live)));
    let pull = |(number, live)| (number, Cord::new(Arc::clone(live), None).pull(cancel.clone()));
    let mut replies: Vec<(usize, Reply)> = order.into_iter().map(pull).collect();
    replies.sort_unstable_by_key(|(number, _)| *number);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

/// A call that is known from the record. Its answer has its place among the answers in the history.
pub(crate) fn recorded(history: &[Arc<Message>], last: LastReported) -> Option<(Asked, Anchor)> {
    let LastReported { usage, model, answered_by, answers_since } = last;
    let mut answers = history.iter().enumerate().rev().filter(|(_, message)| message.role == Role::Assistant);
    let (messages, _) = answers.nth(answers_since)?;
    let anchor = Anchor { usage, messages, answered_by, setup: AnchorSetup::MayDiffer };
    Some((Asked { model, setup: None }, anchor))
}

fn weight(messages: &[Arc<Message>]) -> usize {
    messages.iter().map(|message| message.weight()).sum()
}

/// A session that accepts no runs. Dropping this opens it again, and its history is read from the journal again.
pub(crate) struct ClosedSession(Arc<SessionCore>);

impl Drop for ClosedSession {
    fn drop(&mut self) {
        self.0.state.lock().closing = false;
        self.0.forget_history();
    }
}
