//! What a run is, as its first event says.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Changes;
use crate::digest::Digest;
use crate::disconnect::OnDisconnect;
use crate::id::{RunId, SessionKey};
use crate::limits::Limits;
use crate::message::Message;

/// What a run is: who, where, and what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Accepted {
    /// The run's id.
    pub run: RunId,
    /// The session that it belongs to.
    pub session: SessionKey,
    /// What was said before, if the prompt brought it along. It begins the session's history, with the input after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Arc<Message>>,
    /// What was asked.
    pub input: Arc<Message>,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// The digest of the request that started it, if its sender may repeat it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Digest>,
    /// Changes of the session's state that came with the request. They are made in the same step that records the run's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Box<Changes>>,
    /// What happens to it when the last reader of its feed is lost.
    #[serde(default, skip_serializing_if = "OnDisconnect::is_continue")]
    pub on_disconnect: OnDisconnect,
    /// Whether a reader of its feed came with the request. Only set if losing that reader would cancel the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_reader: bool,
}

crate::with!(Accepted: history: Vec<Arc<Message>>, limits: Limits, request: Option<Digest>, state: Option<Box<Changes>>, on_disconnect: OnDisconnect, has_reader: bool);

impl Accepted {
    /// A run with the defaults for everything else.
    pub fn new(run: RunId, session: SessionKey, input: Arc<Message>) -> Self {
        Self {
            run,
            session,
            history: Vec::new(),
            input,
            limits: Limits::NONE,
            request: None,
            state: None,
            on_disconnect: OnDisconnect::Continue,
            has_reader: false,
        }
    }
}
