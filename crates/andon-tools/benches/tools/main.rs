//! What a tool call costs, and how soon tools are told to stop. `cargo xtask bench tools` prints the table.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

/// The allocator that the program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod caller;
mod scenes;

fn main() {
    andon_testkit::bench::table(&scenes::ALL);
}
