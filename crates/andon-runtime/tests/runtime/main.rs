//! How the runtime behaves, as whoever uses it sees it. One program, because each program more is linked with everything again.
//! Tests that need a process of their own are beside this folder.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod aimed;
mod appends;
mod approvals;
mod bad_input;
mod blocking;
mod blocking_pool;
mod busy;
mod cancel;
mod cleanup;
mod common;
mod compensation;
mod completed;
mod cut;
mod exact_yes;
mod feed;
mod figures;
mod gate;
mod hook_changes;
mod hooks;
mod injected;
mod journal;
mod learning;
mod lifetime;
mod limits;
mod live_output;
mod memory;
mod observers;
mod on_cancel;
mod one_call;
mod orphan;
mod own_history;
mod own_models;
mod readers;
mod recovery;
mod replies;
mod resume;
mod servers;
mod sessions;
mod settled;
mod strands;
mod timeouts;
mod tool_state;
mod tools;
mod typed;
