//! What a run costs over HTTP. `cargo xtask bench server` prints the table.
//!
//! The server is a separate process, with two threads and a journal on disk: this program, started again. So its memory can be
//! read, and does not include its clients, which are all on one thread here. If models call a provider, that is one more such
//! process.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

/// The allocator that the real program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod apps;
mod client;
mod house;
mod models;
mod process;
mod provided;
mod provider;
mod provider_http1;
mod provider_http2;
mod reading;
mod scenes;
mod stops;
mod streams;

use std::path::Path;

fn main() {
    process::raise_open_files();
    let words: Vec<String> = std::env::args().collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, house::AS_SERVER, folder] => house::serve(Path::new(folder)),
        [_, provider::AS_PROVIDER, folder @ ..] => provider::serve(folder.first().map(Path::new)),
        _ => andon_testkit::bench::table(&scenes::ALL),
    }
}
