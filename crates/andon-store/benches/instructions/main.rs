//! How many instructions the most frequent operations take. `cargo xtask bench instructions` prints the table.
//!
//! Times on a shared machine vary; counts hardly do. This program starts itself again under callgrind, once with some number of
//! rounds and once with twice as many: the difference is what the rounds cost, without the setup. The counts are compared with
//! those in `counts.txt`, and a count that is off by more than the tolerance is an error. `--save` writes that file.
//!
//! Counts depend on the compiler, the processor's features and the C library. When one of those changes, save them again before
//! the change that you want to judge.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

mod counts;
mod scenes;
#[expect(dead_code, reason = "the other benchmark does more with its databases")]
#[path = "../journal/world.rs"]
mod world;

/// The allocator that the real program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::process::ExitCode;

/// The argument that makes this program play a scene; its name and the number of rounds follow.
const AS_SCENE: &str = "--as-scene";
/// The argument that writes the file.
const SAVE: &str = "--save";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [AS_SCENE, name, rounds] => {
            scenes::play(name, rounds.parse().expect("a number"));
            ExitCode::SUCCESS
        }
        words => counts::compare(words.contains(&SAVE)),
    }
}
