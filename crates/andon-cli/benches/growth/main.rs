//! What costs more when there is more of it. `cargo xtask bench growth` prints the tables.
//!
//! Each table has the amount of something in its first column, what one more of it costs in the others, and below them the ratio
//! of the last row to the first. The program itself is measured, with its database on disk and a provider in a separate process;
//! for runs that call tools, it is the library on the same kind of database.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

/// The allocator that the program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod answers;
mod calls;
#[path = "../../../andon-server/benches/server/client.rs"]
mod client;
mod live;
#[expect(dead_code, reason = "the server's benchmark has models of its own")]
#[path = "../../../andon-server/benches/server/models.rs"]
mod models;
#[expect(dead_code, reason = "the server's benchmark looks at more of a process")]
#[path = "../../../andon-server/benches/server/process.rs"]
mod process;
mod program;
#[expect(dead_code, reason = "the server's benchmark also has a provider with TLS")]
#[path = "../../../andon-server/benches/server/provider.rs"]
mod provider;
#[path = "../../../andon-server/benches/server/provider_http1.rs"]
mod provider_http1;
#[path = "../../../andon-server/benches/server/provider_http2.rs"]
mod provider_http2;
mod records;
mod table;

use std::path::Path;

use table::Table;

/// Measures one table.
type Measure = fn(Length) -> Table;

/// All tables, by name.
const ALL: [(&str, Measure); 8] = [
    ("turns", answers::turns),
    ("pieces", answers::pieces),
    ("calls", calls::calls),
    ("ids", calls::without_ids),
    ("results", calls::results),
    ("sessions", records::sessions),
    ("runs", records::runs),
    ("live", live::live),
];

/// How far the tables go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Short,
    Long,
}

impl Length {
    /// The steps of a table: the last one only if there is time.
    pub(crate) fn steps(self, all: [usize; 4]) -> Vec<usize> {
        let few = if self == Self::Long { 4 } else { 3 };
        all.into_iter().take(few).collect()
    }
}

fn main() {
    process::raise_open_files();
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let [provider::AS_PROVIDER, folder @ ..] = words.as_slice() {
        return provider::serve(folder.first().map(Path::new));
    }
    let length = if words.contains(&"--long") { Length::Long } else { Length::Short };
    let wanted: Vec<&str> = words.into_iter().filter(|word| !word.starts_with("--")).collect();
    for (name, measure) in ALL {
        if wanted.is_empty() || wanted.contains(&name) {
            measure(length).print();
        }
    }
}
