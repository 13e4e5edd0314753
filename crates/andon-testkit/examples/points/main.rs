//! Stops every script at every point, in every mode. `cargo xtask points` runs it.
//!
//! Arguments: words that a script's name must contain, to explore fewer.

mod mcp;

use std::process::ExitCode;

use andon_testkit::explore::explore;
use andon_testkit::scripts;

/// How many violations of a script are shown.
const SHOWN: usize = 8;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    let (mut played, mut points, mut violations) = (0, 0, 0);
    for script in scripts::all().iter().chain(&mcp::all()).filter(|script| is_wanted(script.name)) {
        let report = explore(script);
        played += 1;
        points += report.points;
        violations += report.violations.len();
        println!("{:<40} {:>6} points, {} violations", script.name, report.points, report.violations.len());
        for violation in report.violations.iter().take(SHOWN) {
            println!("    {violation}");
        }
    }
    println!("{played} scripts, {points} points, {violations} violations");
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
