//! The explorer: stops a run at every point.
//!
//! It runs a script once, under a paused clock on one thread, and counts every poll and every seam. Then it runs the script again
//! for each of them and stops it exactly there, in each [`Mode`]. It checks the promises at every seam and at the end, and then
//! continues the session.
//!
//! It cannot see threads; those have tests of their own.

mod alone;
mod director;
mod judge;
mod mode;
mod panics;
mod witness;
mod world;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::Observer;

pub use mode::Mode;
pub use world::World;

use director::Plan;
use panics::{unwatch_panics, watch_panics};
use witness::Witness;

/// A script: what happens when nobody interferes.
pub struct Script {
    /// Its name.
    pub name: &'static str,
    /// How long a stop may take, in virtual time: the grace of its tools and the slowness of its disk.
    pub settles_within: Duration,
    /// How long each append takes.
    pub disk: Option<Duration>,
    /// Makes one more observer for each process of the script, the one after a crash included.
    pub observer: Option<fn() -> Arc<dyn Observer>>,
    /// Plays it.
    pub play: fn(World) -> Pin<Box<dyn Future<Output = ()>>>,
}

impl Script {
    /// The observers of one of its processes.
    fn observers(&self, witness: &Witness) -> Vec<Arc<dyn Observer>> {
        let witness: Arc<dyn Observer> = Arc::new(witness.clone());
        std::iter::once(witness).chain(self.observer.map(|make| make())).collect()
    }
}

/// What exploring a script found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// How many points were tried.
    pub points: usize,
    /// How many points each mode had.
    pub by_mode: BTreeMap<&'static str, usize>,
    /// Every promise that was broken, with the place.
    pub violations: Vec<String>,
}

/// Explores a script in every mode.
pub fn explore(script: &Script) -> Report {
    explore_modes(script, &Mode::ALL, usize::MAX)
}

/// Explores a script in some modes, and stops after a number of violations.
pub fn explore_modes(script: &Script, modes: &[Mode], enough: usize) -> Report {
    watch_panics();
    let report = explore_watched(script, modes, enough);
    unwatch_panics();
    report
}

fn explore_watched(script: &Script, modes: &[Mode], enough: usize) -> Report {
    let mut report = Report::default();
    let dry = judge::play(script, Plan::default());
    report.violations.extend(dry.violations.iter().map(|text| format!("{}, undisturbed: {text}", script.name)));
    let again = judge::play(script, Plan::default());
    if dry.trace != again.trace {
        report.violations.push(format!("{}: two undisturbed runs passed different seams", script.name));
    }
    for mode in modes {
        for (point, seam) in dry.trace.iter().enumerate().filter(|(_, seam)| mode.applies_at(seam)) {
            if report.violations.len() >= enough {
                return report;
            }
            report.points += 1;
            *report.by_mode.entry(mode.name()).or_default() += 1;
            let played = judge::play(script, Plan { stop: Some((point, *mode)), expected: dry.endings.clone() });
            let place = format!("{}, {} at point {point} ({seam})", script.name, mode.name());
            report.violations.extend(played.violations.into_iter().map(|text| format!("{place}: {text}")));
        }
    }
    report
}
