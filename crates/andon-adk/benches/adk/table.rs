//! The table: ours, theirs, how many times theirs that is, and whether it is enough.

use std::time::Duration;

/// One thing that is measured.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) measure: fn() -> Vec<Line>,
}

/// One line of the table.
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) andon: f64,
    /// `None` if ADK has no equivalent.
    pub(crate) adk: Option<f64>,
    pub(crate) unit: &'static str,
    pub(crate) goal: Goal,
}

/// The goal.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// At least this many times ADK's figure.
    TimesAtLeast(f64),
    /// At most this many times ADK's figure.
    TimesAtMost(f64),
    /// At most this, whatever ADK's figure is.
    AtMost(f64),
    /// No goal: for comparison.
    None,
}

impl Line {
    fn ratio(&self) -> Option<f64> {
        self.adk.map(|adk| self.andon / adk)
    }

    fn is_reached(&self) -> bool {
        match self.goal {
            Goal::TimesAtLeast(times) => self.ratio().is_some_and(|ratio| ratio >= times),
            Goal::TimesAtMost(times) => self.ratio().is_some_and(|ratio| ratio <= times),
            Goal::AtMost(most) => self.andon <= most,
            Goal::None => true,
        }
    }

    fn print(&self) {
        let adk = self.adk.map(|adk| format!("{adk:.3}")).unwrap_or_default();
        let ratio = self.ratio().map(|ratio| format!("{ratio:.3}×")).unwrap_or_default();
        let goal = match self.goal {
            Goal::TimesAtLeast(times) => format!("at least {times}×"),
            Goal::TimesAtMost(times) => format!("at most {times}×"),
            Goal::AtMost(most) => format!("at most {most} {}", self.unit),
            Goal::None => String::new(),
        };
        let verdict = match (self.goal, self.is_reached()) {
            (Goal::None, _) => "",
            (_, true) => "reached",
            (_, false) => "MISSED",
        };
        let Self { what, andon, unit, .. } = self;
        println!("{what:<66} {andon:>12.3} {adk:>12} {unit:<5} {ratio:>10}  {goal:<16} {verdict}");
    }
}

/// Measures the scenes that the command line names, or all of them, and prints the table.
pub(crate) fn print(scenes: &[Scene]) {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    println!("load average before: {}", load());
    let (figure, ratio) = ("figure", "ratio");
    println!("{figure:<66} {:>12} {:>12} {:<5} {ratio:>10}  {:<16}", "Andon", "ADK", "", "goal");
    let mut missed = 0;
    for scene in scenes {
        if !wanted.is_empty() && !wanted.iter().any(|word| scene.name.contains(word.as_str())) {
            continue;
        }
        for line in (scene.measure)() {
            line.print();
            missed += usize::from(!line.is_reached());
        }
    }
    println!("load average after: {}", load());
    println!("{missed} goals missed");
}

/// How much else goes on.
fn load() -> String {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    told.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// The middle one.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Milliseconds.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
