//! How many instructions the things take that are done most often. `cargo xtask bench instructions` prints the table.
//!
//! Times on a shared machine wander; counts hardly do. This program starts itself again under callgrind, once with so many
//! rounds and once with twice as many: the difference is what the rounds cost, without the setup. The counts are held against
//! those in `counts.txt`, and one that is off by more than the tolerance is an error. `--save` writes that file.
//!
//! Counts depend on the compiler, the processor's features and the C library. Save them anew when one of those changes, before
//! the change that is to be judged.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

mod counts;
mod scenes;
#[expect(dead_code, reason = "the other benchmark does more with its databases")]
#[path = "../journal/world.rs"]
mod world;

/// The allocator that the program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::process::ExitCode;

/// The word that makes this program do a scene; its name and the number of rounds follow.
const AS_SCENE: &str = "--as-scene";
/// The word that writes the file.
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
