//! Andon beside ADK's own server, through ADK's own routes. `cargo xtask bench adk` prints the table.
//!
//! Each server is a process of its own: ours is this program, started again, with two threads and its journal on disk; the
//! other is `peer.py`, in the Python that `ANDON_TEST_PYTHON` names. Clients are one thread here. The two servers take turns, and
//! a figure is the median of several rounds, or one of all that was measured in them.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

/// The allocator that the program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod apps;
mod asking;
#[path = "../../../andon-server/benches/server/client.rs"]
mod client;
mod collector;
mod guarded;
mod health;
mod held;
mod house;
mod leaving;
#[expect(dead_code, reason = "the other benchmark's models can do more")]
#[path = "../../../andon-server/benches/server/models.rs"]
mod models;
mod observed;
#[expect(dead_code, reason = "the other benchmark looks at more of a process")]
#[path = "../../../andon-server/benches/server/process.rs"]
mod process;
mod streams;
mod table;
mod upstream;

use house::Ways;
use table::Scene;

/// All that is measured.
const ALL: [Scene; 6] = [
    Scene { name: "events", measure: streams::events },
    Scene { name: "memory", measure: held::memory },
    Scene { name: "disconnect", measure: leaving::disconnect },
    Scene { name: "health", measure: health::health },
    Scene { name: "auth", measure: guarded::auth },
    Scene { name: "telemetry", measure: observed::telemetry },
];

fn main() {
    process::raise_open_files();
    let words: Vec<String> = std::env::args().collect();
    let after = |word: &str| words.iter().position(|own| own == word).and_then(|place| words.get(place + 1));
    let ways = Ways {
        is_guarded: words.iter().any(|word| word == house::GUARDED),
        collector: after(house::OBSERVED).map(String::as_str),
    };
    match after(house::AS_SERVER) {
        Some(folder) => house::serve(std::path::Path::new(folder), ways),
        None => table::print(&ALL),
    }
}
