//! Runs the tests of this program one after the other, and understands `cargo test`'s arguments.

use std::panic::catch_unwind;
use std::process::exit;

/// A test and its name, which is the promise that it checks.
pub(crate) type Test = (&'static str, fn());

/// Names functions after themselves.
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        /// All tests of this file.
        pub(crate) const ALL: &[crate::runner::Test] = &[$((concat!(module_path!(), "::", stringify!($test)), $test)),*];
    };
}
pub(crate) use tests;

pub(crate) fn run(tests: &[Test]) {
    let mut wanted = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => return tests.iter().for_each(|(name, _)| println!("{name}: test")),
            "--test-threads" | "--skip" => drop(words.next()),
            _ if word.starts_with('-') => {}
            _ => wanted.push(word),
        }
    }
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, test) in tests.iter().filter(|(name, _)| chosen(name)) {
        let begun = crate::world::now();
        if catch_unwind(test).is_ok() {
            println!("test {name} ... ok ({} ms)", begun.elapsed().as_millis());
            passed += 1;
        } else {
            println!("test {name} ... FAILED");
            failed.push(name);
        }
    }
    println!("\n{passed} passed, {} failed {failed:?}", failed.len());
    exit(i32::from(!failed.is_empty()));
}
