//! The core's own costs, with a journal in memory and a scripted model. `cargo xtask bench core` prints the table.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

/// The allocator that the program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod models;
mod scenes;

fn main() {
    andon_testkit::bench::table(&scenes::ALL);
}
