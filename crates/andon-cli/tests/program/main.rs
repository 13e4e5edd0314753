//! The real program with real signals. Tests wait for its output, never for a fixed time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod adk;
mod bill;
mod canaries;
mod cancel_cmd;
mod chat;
mod child;
mod client;
mod commands;
mod config;
mod escapes;
mod flood;
mod guide;
mod hostile;
mod in_use;
mod keys;
mod kill;
mod left_alone;
mod line;
mod models;
mod moving;
mod prices;
mod proxy;
mod queued;
mod run;
mod secrets;
mod serve;
mod served;
mod server;
mod sessions;
mod terminal;
mod tools;
mod watch;
