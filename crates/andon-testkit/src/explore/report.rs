//! What exploring a script found, and how it is told.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::mode::Mode;

/// What exploring a script found. It prints as what a test should say when it fails.
///
/// ```
/// # use andon_testkit::explore;
/// let report = explore("a promise").play(|world| async move { world.check("kept", |_| false) }).run();
/// let said: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
/// assert_eq!(said, ["a promise, undisturbed: check \"kept\": it does not hold"]);
/// println!("{report}");
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// The script's name.
    pub script: Arc<str>,
    /// How many points were tried.
    pub points: usize,
    /// How many more there are: see [`Script::at_most`](super::Script::at_most).
    pub left_out: usize,
    /// How many points each mode had.
    pub by_mode: BTreeMap<&'static str, usize>,
    /// Every promise that was broken, with the place.
    pub violations: Vec<Violation>,
    /// What was on record in the end, if only [one point](super::Script::only) was tried.
    pub story: Vec<String>,
}

/// A promise that was broken, at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The script's name.
    pub script: Arc<str>,
    /// Where the run was stopped; `None` if it was not.
    pub place: Option<Place>,
    /// What was broken.
    pub what: String,
}

/// Where and how a run was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// How.
    pub mode: Mode,
    /// The point's number.
    pub point: usize,
    /// The seam at this point.
    pub seam: &'static str,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at point {} ({})", self.mode.name(), self.point, self.seam)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{}, {place}: {}", self.script, self.what),
            None => write!(f, "{}, undisturbed: {}", self.script, self.what),
        }
    }
}

/// How many kinds of violations a report shows.
const KINDS: usize = 10;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { script, points, violations, .. } = self;
        let of = if self.left_out > 0 { format!(" of {}", points + self.left_out) } else { String::new() };
        writeln!(f, "\"{script}\": {points}{of} points, {} violations", violations.len())?;
        if *points == 0 && violations.is_empty() {
            writeln!(
                f,
                "There was nothing to stop: open an agent with `world.open`, and play a prompt with `world.play`."
            )?;
        }
        let kinds = self.kinds();
        for (what, violations) in kinds.iter().take(KINDS) {
            writeln!(f, "\n{what}")?;
            let Some(first) = violations.first() else { continue };
            match first.place {
                None => writeln!(f, "    when nobody stopped it")?,
                Some(place) => {
                    let more = violations.len() - 1;
                    let others = if more > 0 { format!(", and at {more} more") } else { String::new() };
                    writeln!(f, "    {place}{others}")?;
                    writeln!(f, "    to play it alone: .only(Mode::{:?}, {})", place.mode, place.point)?;
                }
            }
        }
        if kinds.len() > KINDS {
            writeln!(f, "\n… and {} other violations", kinds.len() - KINDS)?;
        }
        if !self.story.is_empty() {
            writeln!(f, "\nOn record in the end:")?;
        }
        self.story.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl Report {
    /// Whether the script was stopped somewhere, and nothing was broken.
    pub fn is_whole(&self) -> bool {
        self.points > 0 && self.violations.is_empty()
    }

    /// The violations by what was broken, in the order in which they were found.
    fn kinds(&self) -> Vec<(&str, Vec<&Violation>)> {
        let mut kinds: Vec<(&str, Vec<&Violation>)> = Vec::new();
        for violation in &self.violations {
            match kinds.iter_mut().find(|(what, _)| *what == violation.what) {
                Some((_, violations)) => violations.push(violation),
                None => kinds.push((&violation.what, vec![violation])),
            }
        }
        kinds
    }
}
