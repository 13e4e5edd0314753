//! Benchmarks as a table: what was reached, next to the goal.
//!
//! Machines are shared and noisy: a figure is the median of several rounds, and figures about CPU use count CPU time.

use std::time::{Duration, Instant};

/// Real time.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// CPU time of all threads so far.
pub fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may contain anything: the 12th and 13th fields are user and system time in ticks of 10 ms.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

/// Resident memory, in bytes.
pub fn memory() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    pages * 4096
}

/// The median of several rounds.
pub fn median(rounds: usize, mut measure: impl FnMut() -> f64) -> f64 {
    let mut figures: Vec<f64> = (0..rounds).map(|_| measure()).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(rounds / 2).copied().unwrap_or(f64::NAN)
}

/// The value below which this share of the values lies.
pub fn quantile(values: &mut [Duration], share: f64) -> Duration {
    values.sort();
    let place = ((values.len() as f64 - 1.0) * share).round() as usize;
    values.get(place).copied().unwrap_or_default()
}

/// One thing that is measured.
#[derive(Debug)]
pub struct Scene {
    /// Its name, to measure it alone.
    pub name: &'static str,
    /// Measures it.
    pub measure: fn() -> Vec<Line>,
}

/// One line of the table.
#[derive(Debug)]
pub struct Line {
    /// What was measured.
    pub what: &'static str,
    /// What was reached.
    pub reached: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Its goal.
    pub goal: Goal,
}

/// The goal for a figure.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// None: the figure is there to compare others with.
    None,
}

impl Goal {
    fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
            Self::None => true,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(limit) => format!("at most {limit}"),
            Self::AtLeast(limit) => format!("at least {limit}"),
            Self::None => String::new(),
        }
    }
}

/// The format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableFormat {
    /// For a terminal.
    Columns,
    /// For a web page, with `--markdown`.
    Markdown,
}

impl TableFormat {
    fn print_head(self) {
        match self {
            Self::Columns => println!("{:<62} {:>12} {:<8} {:<18}", "figure", "reached", "unit", "goal"),
            Self::Markdown => println!("| Figure | Reached | Goal |\n|---|---|---|"),
        }
    }

    fn print(self, Line { what, reached, unit, goal }: &Line) {
        let is_reached = goal.is_reached(*reached);
        match self {
            Self::Columns => {
                let verdict = if is_reached { "" } else { "  MISSED" };
                println!("{what:<62} {reached:>12.3} {unit:<8} {:<18}{verdict}", goal.text());
            }
            Self::Markdown => {
                let verdict = if is_reached { "" } else { ": missed" };
                let with_unit = |figure: String| format!("{figure} {unit}").trim_end().to_owned();
                let goal = match goal {
                    Goal::None => "–".to_owned(),
                    Goal::AtMost(_) | Goal::AtLeast(_) => with_unit(goal.text()),
                };
                println!("| {what} | {}{verdict} | {goal} |", with_unit(few_digits(*reached)));
            }
        }
    }
}

/// Three significant digits.
fn few_digits(value: f64) -> String {
    match value {
        value if value >= 100.0 || (value >= 1.0 && value.fract() == 0.0) => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Measures the scenes that the command line names, or all of them, and prints the table.
pub fn table(scenes: &[Scene]) {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let form = if words.iter().any(|word| word == "--markdown") { TableFormat::Markdown } else { TableFormat::Columns };
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    form.print_head();
    let mut missed = 0;
    for scene in scenes {
        if !wanted.is_empty() && !wanted.iter().any(|word| scene.name.contains(word.as_str())) {
            continue;
        }
        for line in (scene.measure)() {
            missed += usize::from(!line.goal.is_reached(line.reached));
            form.print(&line);
        }
    }
    println!("{missed} goals missed");
}
