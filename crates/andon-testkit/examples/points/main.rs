//! Stops every script at every point, in every mode. `cargo xtask points` runs it.
//!
//! Arguments: words that a script's name must contain, to explore fewer. `--first` ends with the first violation, of any
//! script or of the one whose name follows.

mod mcp;

use std::process::ExitCode;

use andon_testkit::scripts;

/// How many violations of a script are shown.
const SHOWN: usize = 8;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (enough, is_wanted): (usize, &dyn Fn(&str) -> bool) = match words.as_slice() {
        [] => (usize::MAX, &|_| true),
        ["--first"] => (1, &|_| true),
        ["--first", script] => (1, &|name| name == *script),
        words => (usize::MAX, &|name| words.iter().any(|word| name.contains(word))),
    };
    let (mut played, mut points, mut violations) = (0, 0, 0);
    for script in scripts::all().into_iter().chain(mcp::all()).filter(|script| is_wanted(script.name())) {
        let script = script.enough(enough);
        let report = script.run();
        played += 1;
        points += report.points;
        violations += report.violations.len();
        println!("{:<40} {:>6} points, {} violations", script.name(), report.points, report.violations.len());
        for violation in report.violations.iter().take(SHOWN) {
            println!("    {violation}");
        }
        if violations >= enough {
            break;
        }
    }
    println!("{played} scripts, {points} points, {violations} violations");
    if played > 0 && violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
