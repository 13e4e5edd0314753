//! `andon chat` and `andon run`: a conversation in this process or on a server.

mod chat;
mod conversation;
mod run_once;
mod start;

pub(crate) use chat::chat;
pub(crate) use run_once::{Output, exit, run_once};
