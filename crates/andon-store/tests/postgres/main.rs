//! The journal on a real PostgreSQL server, which `cargo xtask postgres` starts: it keeps every promise of a journal, a lost
//! connection or server costs nothing, and a server that would lose something is refused.
// Each test has a runtime of its own, so a lock that is held while it waits holds up nothing in it.
#![allow(clippy::await_holding_lock)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod away;
mod figures;
mod names;
mod owners;
mod refused;
mod server;
mod traffic;
mod wire;

use std::sync::Arc;

use andon_testkit::conformance::{self, Subject};

use server::{journal, new_schema, shared};

#[test]
fn the_journal_on_postgres_keeps_every_promise_of_a_journal() {
    let _server = shared();
    conformance::run(|| {
        let schema = new_schema();
        Subject::on_disk(move || Arc::new(journal(&schema)))
    });
}
