//! What durability costs. `cargo xtask bench journal` prints the table.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

/// The allocator that the real program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod lists;
mod scenes;
mod world;

fn main() {
    andon_testkit::bench::table(&scenes::ALL);
}
