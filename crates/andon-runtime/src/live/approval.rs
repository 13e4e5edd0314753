//! What a person needs in order to decide a call, and the decision.

use std::fmt;
use std::sync::Arc;

use andon_core::digest::Digest;
use andon_core::event::{Event, Record};
use andon_core::id::CallId;
use andon_core::message::ToolCall;
use andon_core::progress::{CallState, RunProgress};
use andon_core::time::Stamp;
use serde_json::Value;

use super::{DecideError, Decided, Live, PersonsAnswer};

/// A call that waits for a person, with everything that the person must see.
///
/// A decision is about exactly this call: an approval is bound to these arguments, and refused if the call has others.
///
/// ```
/// use andon::{Agent, Event, FeedItem, Practice, tool};
///
/// /// Launches it.
/// #[tool(needs_approval)]
/// async fn launch() -> &'static str {
///     "launched"
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::builder().model(Practice::instant()).tool(launch).build()?;
/// let run = agent.start("Launch")?;
/// let mut feed = run.feed();
/// while let Some(item) = feed.next().await {
///     if matches!(item, FeedItem::Fact(fact) if matches!(fact.event, Event::ApprovalRequested { .. })) {
///         for call in run.approvals() {
///             println!("{} wants {}", call.tool(), call.arguments());
///             call.approve().by("ada").send()?;
///         }
///     }
/// }
/// assert!(run.outcome().await.completed()?.text().contains("launched"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PendingApproval {
    live: Arc<Live>,
    call: ToolCall,
    digest: Digest,
    since: Stamp,
}

impl PendingApproval {
    /// The call's id.
    pub fn call(&self) -> &CallId {
        &self.call.id
    }

    /// The tool's name.
    pub fn tool(&self) -> &str {
        &self.call.name
    }

    /// The arguments as the tool would get them: as the model wrote them, or as a hook has changed them.
    pub fn arguments(&self) -> &str {
        &self.call.arguments
    }

    /// The arguments as JSON.
    pub fn input(&self) -> Result<Value, serde_json::Error> {
        self.call.input()
    }

    /// The digest of the arguments and, if a hook has given the call another name, of that name too: for a decision that travels, and
    /// comes back to [`approve_exactly`](Undecided::approve_exactly).
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Since when it waits.
    pub fn since(&self) -> Stamp {
        self.since
    }

    /// The person approves this call with these arguments.
    pub fn approve(&self) -> ApprovalDecision {
        self.undecided().approve_exactly(self.digest())
    }

    /// The person denies this call.
    pub fn deny(&self) -> ApprovalDecision {
        self.undecided().deny()
    }

    fn undecided(&self) -> Undecided {
        Undecided::new(Arc::clone(&self.live), self.call.id.clone())
    }
}

impl fmt::Debug for PendingApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingApproval")
            .field("run", &self.live.id)
            .field("call", &self.call)
            .field("since", &self.since)
            .finish_non_exhaustive()
    }
}

/// A call that a person is about to decide, known by its id.
#[must_use = "a call stays undecided until a decision is sent"]
pub struct Undecided {
    live: Arc<Live>,
    call: CallId,
}

impl Undecided {
    pub(crate) fn new(live: Arc<Live>, call: CallId) -> Self {
        Self { live, call }
    }

    /// The person approves the call with the arguments that it has.
    pub fn approve(self) -> ApprovalDecision {
        self.answer(PersonsAnswer::Yes { to: None })
    }

    /// The person approves exactly the call that has this digest: the one that they have seen. Use it where an approval comes
    /// from afar, such as over a network.
    pub fn approve_exactly(self, arguments: Digest) -> ApprovalDecision {
        self.answer(PersonsAnswer::Yes { to: Some(arguments) })
    }

    /// The person denies the call.
    pub fn deny(self) -> ApprovalDecision {
        self.answer(PersonsAnswer::No)
    }

    fn answer(self, answer: PersonsAnswer) -> ApprovalDecision {
        ApprovalDecision { live: self.live, decided: Decided { call: self.call, answer, by: None, note: None } }
    }
}

impl fmt::Debug for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undecided").field("run", &self.live.id).field("call", &self.call).finish_non_exhaustive()
    }
}

/// A person's decision about a call.
#[must_use = "a decision does nothing until it is sent"]
pub struct ApprovalDecision {
    live: Arc<Live>,
    decided: Decided,
}

impl ApprovalDecision {
    /// Who decides.
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.decided.by = Some(who.into());
        self
    }

    /// Why. It is on record; a model whose call is denied is told.
    pub fn note(mut self, why: impl Into<String>) -> Self {
        self.decided.note = Some(why.into());
        self
    }

    /// Gives the decision to the run. Synchronous, from any thread. Refused once the run was told to stop, or if the
    /// call is not waiting.
    ///
    /// It is accepted in memory, and not yet durable: it is on record when the feed shows `approval_resolved`. If the
    /// process dies before that, or the tokio runtime in which the run was started is shut down, the run still waits
    /// after its recovery, and the person is asked again.
    pub fn send(self) -> Result<(), DecideError> {
        self.live.decide(&[self.decided])
    }
}

impl fmt::Debug for ApprovalDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalDecision").field("run", &self.live.id).field("decided", &self.decided).finish()
    }
}

/// The calls of a run with these events that wait for a person.
pub(super) fn pending(live: &Arc<Live>, records: &[Arc<Record>]) -> Vec<PendingApproval> {
    let Some(progress) = RunProgress::of_records(records) else { return Vec::new() };
    let waiting = progress.calls().iter().filter(|open| open.state == CallState::AwaitingApproval);
    // A run that this process does not drive can be looked at; a decision about it is refused.
    let is_open = |call: &CallId| !live.is_driven_here() || live.is_undecided(call);
    let open = waiting.filter(|open| is_open(&open.call.id));
    open.filter_map(|open| {
        let since = asked_at(records, &open.call.id)?;
        Some(PendingApproval { live: Arc::clone(live), call: open.call.clone(), digest: open.digest(), since })
    })
    .collect()
}

fn asked_at(records: &[Arc<Record>], asked: &CallId) -> Option<Stamp> {
    let asks = |record: &&Arc<Record>| matches!(&record.event, Event::ApprovalRequested { call, .. } if call == asked);
    records.iter().rev().find(asks).map(|record| record.at)
}

/// Gives a run several decisions, all of them or none.
pub(super) fn decide_all(
    live: &Arc<Live>,
    decisions: impl IntoIterator<Item = ApprovalDecision>,
) -> Result<(), DecideError> {
    let decisions: Vec<ApprovalDecision> = decisions.into_iter().collect();
    // Another run may have a call with the same id.
    if decisions.iter().any(|decision| !Arc::ptr_eq(&decision.live, live)) {
        return Err(DecideError::NotWaiting);
    }
    let decided: Vec<Decided> = decisions.into_iter().map(|decision| decision.decided).collect();
    live.decide(&decided)
}
