//! What nearly every test uses.

pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

pub(crate) use andon_runtime::{Agent, AgentBuilder, Journal, JournalError, MemoryJournal, Run, RunId, Runtime};
pub(crate) use andon_server::{NewKey, Options, Server};
pub(crate) use andon_testkit::tools::{ToolLog, quick, slow};
pub(crate) use andon_testkit::{Act, ScriptedModel, TestJournal};
pub(crate) use reqwest::{Method, StatusCode};
pub(crate) use serde_json::{Value, json};
pub(crate) use tokio::net::TcpListener;
pub(crate) use tokio::time::{Instant, timeout};

pub(crate) use crate::house::{House, agent, endless, until_running};
pub(crate) use crate::inside::{Inside, order, reason};
pub(crate) use crate::ws::Socket;
