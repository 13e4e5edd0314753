//! The core's own costs, with a journal in memory and a scripted model. `cargo xtask bench core` prints the table.
//!
//! Machines are shared and noisy: each figure is the median of several rounds, and CPU time is counted where the figure
//! is one of CPU.

#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to measure")]

/// The allocator that the program uses, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod machine;
mod models;
mod scenes;

use std::process::ExitCode;

/// One line of the table.
struct Line {
    what: &'static str,
    reached: f64,
    unit: &'static str,
    goal: Goal,
}

/// What is to be reached.
#[derive(Clone, Copy)]
enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(limit) => format!("at most {limit}"),
            Self::AtLeast(limit) => format!("at least {limit}"),
        }
    }
}

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    println!("{:<62} {:>12} {:<8} {:<18}", "figure", "reached", "unit", "goal");
    let mut missed = 0;
    for scene in scenes::ALL {
        if !wanted.is_empty() && !wanted.iter().any(|word| scene.name.contains(word.as_str())) {
            continue;
        }
        for Line { what, reached, unit, goal } in (scene.measure)() {
            let verdict = if goal.is_reached(reached) { "" } else { "  MISSED" };
            missed += usize::from(!goal.is_reached(reached));
            println!("{what:<62} {reached:>12.3} {unit:<8} {:<18}{verdict}", goal.text());
        }
    }
    println!("{missed} goals missed");
    ExitCode::SUCCESS
}
