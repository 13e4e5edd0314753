//! The account of a run's end, folded from its events.

mod fold;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cancel::{CancelRequest, Force};
use crate::ending::Ending;
use crate::event::{Addendum, Event, Record, Refusal, ToolEnd};
use crate::id::{CallId, RunId, SessionKey};
use crate::reason::Reason;
use crate::standing::Phase;
use crate::time::{Stamp, Wall};
use crate::usage::{Awaited, Used};

use fold::{Fold, Instant};

/// What became of one tool call.
///
/// ```
/// # use andon_core::id::CallId;
/// # use andon_core::receipt::{CallAccount, Verdict};
/// # let account = |tool: &str, verdict| Ok::<_, andon_core::id::IdError>(CallAccount::new(CallId::new(tool)?, tool, verdict));
/// # let calls = [account("look", Verdict::Finished)?, account("send", Verdict::Unknown)?];
/// // The run was stopped while it sent a parcel; these are its `outcome.receipt.calls`.
/// let unsure: Vec<_> = calls.iter().filter(|call| call.verdict == Verdict::Unknown).map(|call| &*call.tool).collect();
/// assert_eq!(unsure, ["send"], "look whether it was sent before you send it again");
/// # Ok::<(), andon_core::id::IdError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Verdict {
    /// It returned.
    Finished,
    /// It was not run.
    NeverStarted,
    /// It was stopped.
    Cut,
    /// It was stopped and may have had its effect.
    Unknown,
    /// It went on after the run, and then ended; see the addenda.
    Late,
    /// It went on after the run, or was not seen to end; see [`Receipt::leaked`].
    Leaked,
    /// It is declared to outlive the run, and went on.
    Detached,
}

impl From<ToolEnd> for Verdict {
    fn from(end: ToolEnd) -> Self {
        match end {
            ToolEnd::Finished | ToolEnd::Panicked => Self::Finished,
            ToolEnd::Cut => Self::Cut,
            ToolEnd::Unknown => Self::Unknown,
            ToolEnd::NeverStarted => Self::NeverStarted,
            ToolEnd::Leaked => Self::Leaked,
            ToolEnd::Detached => Self::Detached,
        }
    }
}

/// One tool call in a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallAccount {
    /// The call's id.
    pub call: CallId,
    /// The tool's name.
    pub tool: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Why it was not run, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
    /// Whether a hook changed the call or its result: the events say how. The tool's name is that of the call as it was changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed_by_hook: bool,
    /// How long it ran, in microseconds. `None` if it did not run, or if it was closed after its process had died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_us: Option<u64>,
    /// The key under which its effect can be made to happen at most once, if it was started and can have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_id: Option<Arc<str>>,
    /// What else is known about how it was stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What became of the compensation, if somebody asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<Compensation>,
}

impl CallAccount {
    /// The account of a call with nothing else to report.
    pub fn new(call: CallId, tool: impl Into<String>, verdict: Verdict) -> Self {
        Self {
            call,
            tool: tool.into(),
            verdict,
            refused: None,
            changed_by_hook: false,
            took_us: None,
            effect_id: None,
            notes: Vec::new(),
            compensation: None,
        }
    }
}

/// What became of a compensation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Compensation {
    /// It was started, and is not known to have ended.
    Started,
    /// It did what it was asked.
    Done,
    /// It failed, and said why; see the addenda.
    Failed,
    /// It ran out of time: it may or may not have undone the effect.
    Unknown,
}

/// One model call in a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelAccount {
    /// Its number in the run.
    pub call: u32,
    /// The model that was asked for.
    pub model: Arc<str>,
    /// The exact model that answered, if the provider named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Arc<str>>,
    /// The provider's id for the request, if it gave one: what its support asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Arc<str>>,
    /// What it used.
    pub usage: Used,
    /// Microseconds to its first piece, if one came.
    pub first_piece_us: Option<u64>,
    /// How long it took, in microseconds. `None` while it is open, or if it was closed after its process had died.
    pub took_us: Option<u64>,
    /// How a better figure is being looked for, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Awaited>,
}

impl ModelAccount {
    /// The account of a call about which nothing else is known.
    pub fn new(call: u32, model: impl Into<Arc<str>>, usage: Used) -> Self {
        Self {
            call,
            model: model.into(),
            answered_by: None,
            request_id: None,
            usage,
            first_piece_us: None,
            took_us: None,
            pending: None,
        }
    }
}

/// How long a stop took from the request to each instant, in microseconds.
///
/// Unknown if two owners of the run stamped the request and the instant: their clocks cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Took {
    /// Until the driver saw it.
    pub delivered_us: Option<u64>,
    /// Until nothing was accepted or started any more.
    pub quiet_us: Option<u64>,
    /// Until everything was at rest and the outcome on disk. Also unknown if that instant is not on record.
    pub settled_us: Option<u64>,
}

impl Took {
    /// Nothing is known yet.
    pub const fn new() -> Self {
        Self { delivered_us: None, quiet_us: None, settled_us: None }
    }
}

crate::with!(Took: delivered_us: into Option<u64>, quiet_us: into Option<u64>, settled_us: into Option<u64>);

/// The account of a run's end.
///
/// ```
/// # use andon_core::id::{RunId, SessionKey};
/// # use andon_core::receipt::Receipt;
/// # let receipt = Receipt::unknown(&RunId::new("r")?, &SessionKey::new("app", "ada", "monday")?);
/// // Why the run was stopped, who asked, and what outlived it: `outcome.receipt`, of a run that nobody stopped
/// assert_eq!((receipt.reason, receipt.by.as_deref(), receipt.leaked.len()), (None, None, 0));
/// # Ok::<(), andon_core::id::IdError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The version of this form.
    #[serde(deserialize_with = "crate::format_version::known_version")]
    pub v: u16,
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionKey,
    /// How it ended, or `None` while it has not.
    pub outcome: Option<Arc<Ending>>,
    /// When it began.
    pub accepted_at: Wall,
    /// When the stop was asked for.
    pub requested_at: Option<Wall>,
    /// When the driver saw it.
    pub delivered_at: Option<Wall>,
    /// When nothing was accepted or started any more.
    pub quiet_at: Option<Wall>,
    /// When everything was at rest and the outcome on disk. It is measured after the commit and written without a sync of its
    /// own, so a crash just after the end can lose it: then it is `None`, and `on_disk` still says that the run has settled.
    pub settled_at: Option<Wall>,
    /// Whether the outcome is on disk. It is not while the run has none, or if the journal failed.
    #[serde(default)]
    pub on_disk: bool,
    /// How long the stop took.
    pub took: Took,
    /// How long the run took, in microseconds: until it had settled, or until its last event if that instant is not on record.
    /// It is wall time if the run had more than one owner.
    pub run_us: u64,
    /// Why it was stopped.
    pub reason: Option<Reason>,
    /// Who asked.
    pub by: Option<Arc<str>>,
    /// The note of the request.
    pub note: Option<Arc<str>>,
    /// How hard, in the end.
    pub force: Option<Force>,
    /// Every request that changed something, in order.
    pub requests: Vec<Arc<CancelRequest>>,
    /// What the run was doing when the stop reached it.
    pub cut_in: Option<Phase>,
    /// What became of each tool call.
    pub calls: Vec<CallAccount>,
    /// What each model call used.
    pub model_calls: Vec<ModelAccount>,
    /// The tokens of all model calls.
    pub usage: Used,
    /// Microseconds from the call to its first piece, for the first model call that had one.
    pub first_piece_us: Option<u64>,
    /// Tools and hooks that went on after the run, by name and call.
    pub leaked: Vec<String>,
    /// How many addenda are folded in.
    pub revision: u32,
    /// What was learned after the end.
    pub addenda: Vec<Addendum>,
}

crate::with!(Receipt: accepted_at: Wall, outcome: into Option<Arc<Ending>>, settled_at: into Option<Wall>, on_disk: bool, took: Took, run_us: u64, model_calls: Vec<ModelAccount>,
    usage: Used);

impl Receipt {
    /// The receipt of a run of which only the id and the session are known.
    pub fn unknown(run: &RunId, session: &SessionKey) -> Self {
        Self {
            v: crate::format_version::FORMAT_VERSION,
            run: run.clone(),
            session: session.clone(),
            outcome: None,
            accepted_at: Wall::default(),
            requested_at: None,
            delivered_at: None,
            quiet_at: None,
            settled_at: None,
            on_disk: false,
            took: Took::default(),
            run_us: 0,
            reason: None,
            by: None,
            note: None,
            force: None,
            requests: Vec::new(),
            cut_in: None,
            calls: Vec::new(),
            model_calls: Vec::new(),
            usage: Used::NONE,
            first_piece_us: None,
            leaked: Vec::new(),
            revision: 0,
            addenda: Vec::new(),
        }
    }

    /// Folds a run's receipt from its journal. `settled` is when its last event was durable, by the clock of whoever wrote it.
    ///
    /// Returns `None` if the journal does not begin with `run_accepted`.
    pub fn fold<'a>(
        records: impl IntoIterator<Item = &'a Arc<Record>>,
        addenda: impl IntoIterator<Item = Addendum>,
        settled: Option<Stamp>,
    ) -> Option<Self> {
        let mut records = records.into_iter();
        let first = records.next()?;
        let Event::RunAccepted { accepted } = &first.event else { return None };
        let mut fold = Fold::new(accepted, Instant::of(first));
        for record in records {
            fold.add(record);
        }
        for addendum in addenda {
            fold.addendum(addendum);
        }
        Some(fold.finish(settled))
    }
}
