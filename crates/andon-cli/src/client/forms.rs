//! The server's responses, as far as this program reads them.

use andon_runtime::core::id::LOCAL;
use andon_runtime::core::time::Wall;
use andon_runtime::{CallId, Digest, Ending, Provenance, Receipt, RunId, RunInfo, RunState, SessionInfo, SessionKey};
use andon_server::KeyInfo;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::calls::Selector;

/// A problem document: what is wrong with a request, and what to do.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) detail: String,
    pub(crate) remembered_for_ms: Option<u64>,
}

impl Problem {
    /// Whether it has this type, such as `session-busy`.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.strip_prefix("urn:andon:") == Some(kind)
    }
}

/// A new key. It does not implement `Debug`, so it is not shown by accident.
#[derive(Deserialize)]
pub(super) struct MadeKey {
    pub(super) key: String,
    #[serde(flatten)]
    pub(super) info: KeyInfo,
}

/// What a run cost, as far as it is known.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Cost {
    pub(crate) currency: String,
    pub(crate) value: Option<f64>,
    pub(crate) provenance: Provenance,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    /// The models whose calls are not included, because they have no price.
    #[serde(default)]
    pub(crate) unpriced: Vec<String>,
}

/// A receipt as a server sends it, which may also say what the run cost.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct ServerReceipt {
    pub(crate) receipt: Receipt,
    /// What the run cost, if the server knows.
    pub(crate) cost: Option<Cost>,
    /// The whole response, if there is more in it than the receipt.
    told: Option<Value>,
}

impl TryFrom<Value> for ServerReceipt {
    type Error = serde_json::Error;

    fn try_from(told: Value) -> Result<Self, serde_json::Error> {
        let receipt = Receipt::deserialize(&told)?;
        let cost = told.get("cost").and_then(|cost| Cost::deserialize(cost).ok());
        Ok(Self { receipt, told: cost.is_some().then_some(told), cost })
    }
}

impl From<Receipt> for ServerReceipt {
    fn from(receipt: Receipt) -> Self {
        Self { receipt, cost: None, told: None }
    }
}

impl Serialize for ServerReceipt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.told {
            Some(told) => told.serialize(serializer),
            None => self.receipt.serialize(serializer),
        }
    }
}

/// A run.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RunView {
    pub(crate) run_id: RunId,
    #[serde(flatten)]
    pub(crate) key: SessionKey,
    pub(crate) state: RunState,
    outcome: Option<Ending>,
    accepted_at: Wall,
    ended_at: Option<Wall>,
    settled_at: Option<Wall>,
    pub(crate) title: String,
    /// Calls that need approval.
    #[serde(default)]
    pub(crate) approvals: Vec<PendingCall>,
}

impl From<RunView> for RunInfo {
    fn from(view: RunView) -> Self {
        let RunView {
            run_id: run, key: session, state, outcome: ending, accepted_at, ended_at, settled_at, title, ..
        } = view;
        Self::new(run, session, state, accepted_at, title).ended_at(ended_at).settled_at(settled_at).ending(ending)
    }
}

/// A call that needs approval.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PendingCall {
    pub(crate) call: CallId,
    pub(crate) tool: String,
    pub(crate) arguments: String,
    pub(crate) digest: Digest,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunPage {
    pub(super) runs: Vec<RunView>,
    pub(super) next: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SessionView {
    #[serde(flatten)]
    key: SessionKey,
    created_at: Wall,
    updated_at: Wall,
    runs: u64,
    title: Option<String>,
}

impl From<SessionView> for SessionInfo {
    fn from(SessionView { key, created_at, updated_at, runs, title }: SessionView) -> Self {
        Self::new(key, created_at, updated_at).runs(runs).title(title)
    }
}

/// An app of a server.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct AppView {
    pub(crate) app: String,
    pub(crate) model: Option<String>,
}

/// What a cancel did to one run.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub(crate) struct Cancelled {
    pub(crate) run_id: RunId,
    /// `accepted`, `hardened`, `already_cancelling`, `too_late` or `not_running`.
    pub(crate) reply: String,
    pub(crate) state: RunState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Ending>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<CallId>,
    /// What may have outlived the run, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) leaked: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) receipt: Option<Box<ServerReceipt>>,
}

/// What a cancel did to many runs.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub(crate) struct CancelledMany {
    pub(crate) cancelled: usize,
    pub(crate) settled: bool,
    #[serde(flatten)]
    pub(crate) aim: Aim,
    pub(crate) runs: Vec<Cancelled>,
}

impl CancelledMany {
    /// Notes that every run that was reached has settled. If none was reached, waiting has proved nothing.
    pub(crate) fn waited(&mut self) {
        self.settled |= !self.runs.is_empty();
    }
}

/// What a stop or a hold was aimed at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Aim {
    /// In words.
    pub(crate) looked_for: String,
    /// Whether any such run is on record.
    pub(crate) known: bool,
    /// How many other runs are in progress, as far as we may see them.
    pub(crate) others: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) did_you_mean: Option<Selector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asked_by: Option<Asker>,
}

/// Who we are to the server, and what we can reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Asker {
    pub(crate) name: String,
    /// The id of the key that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    pub(crate) reach: String,
}

/// The line.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub(crate) struct LineView {
    /// `open`, or `held` for all.
    pub(crate) state: String,
    pub(crate) holds: Vec<Hold>,
    /// What a hold without a cancel was aimed at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aim: Option<Aim>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stopped: Option<CancelledMany>,
}

/// A hold on the line.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub(crate) struct Hold {
    #[serde(flatten)]
    on: Selector,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) by: String,
    pub(crate) since: Wall,
}

impl Hold {
    /// What is held, in words.
    pub(crate) fn words(&self) -> String {
        let on = match (&self.on.app, &self.on.user) {
            (Some(app), _) => format!("for the app {app}"),
            (None, Some(user)) => format!("for the user {user}"),
            (None, None) => "for all".to_owned(),
        };
        match self.on.tenant.as_deref().filter(|tenant| *tenant != LOCAL) {
            Some(tenant) => format!("{on} of the tenant {tenant}"),
            None => on,
        }
    }
}
