//! How good the meter is on recorded calls: `eval_usage --data FILE [--predictions FILE]`.
//!
//! Replays the calls in order through the same book that a running program uses, and predicts each before it learns from
//! it. `cargo xtask eval-usage` runs this.

mod eval;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match eval::run(&arguments, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("eval-usage: {error:#}");
            ExitCode::FAILURE
        }
    }
}
