//! What a run costs over HTTP. `cargo xtask bench server` prints the table.
//!
//! The server is a process of its own, with two threads and a journal on disk: this program, started again. So its memory
//! can be read, and its clients, which are all in one thread here, are no part of it.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

/// The allocator that the program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod apps;
mod client;
mod house;
mod models;
mod process;
mod reading;
mod scenes;
mod stops;
mod streams;

fn main() {
    process::raise_open_files();
    let words: Vec<String> = std::env::args().collect();
    match words.iter().position(|word| word == house::AS_SERVER).and_then(|place| words.get(place + 1)) {
        Some(folder) => house::serve(std::path::Path::new(folder)),
        None => andon_testkit::bench::table(&scenes::ALL),
    }
}
