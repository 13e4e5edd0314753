//! A script, its options, and its exploration.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::Observer;

use super::director::Plan;
use super::judge;
use super::mode::Mode;
use super::panics::watch_panics;
use super::report::{Place, Report, Violation};
use super::witness::Witness;
use super::world::World;

/// The default grace of a tool, and a moment to drop it.
const WITHIN: Duration = Duration::from_millis(2_100);

/// Explores what you do with your agent: plays it, and stops it at every point.
///
/// ```
/// use andon_runtime::Agent;
/// use andon_testkit::{Act, explore};
///
/// // In a plain `#[test]`: the explorer makes its own runtimes.
/// explore("a question")
///     .play(|world| async move {
///         let model = world.model([vec![Act::text("It is "), Act::text("noon."), Act::end()]]);
///         let session = world.open(Agent::builder().model(model).instructions("Be brief."));
///         world.play(session.prompt("What time is it?")).await;
///     })
///     .assert();
/// ```
pub fn explore(name: impl Into<Arc<str>>) -> Explore {
    Explore { name: name.into() }
}

/// A name, for a [`Script`].
#[derive(Debug)]
#[must_use = "nothing is explored without `play`"]
pub struct Explore {
    name: Arc<str>,
}

impl Explore {
    /// What happens when nobody interferes. The closure is called once for each point, in a world of its own: so clone into the future
    /// what the closure has captured, and make in it whatever must begin anew.
    ///
    /// ```
    /// # use andon_runtime::Agent;
    /// # use andon_testkit::{Act, explore};
    /// let instructions = String::from("Be brief.");
    /// let script = explore("a question").play(move |world| {
    ///     let instructions = instructions.clone();
    ///     async move {
    ///         let model = world.model([vec![Act::text("Noon."), Act::end()]]);
    ///         let session = world.open(Agent::builder().model(model).instructions(instructions));
    ///         world.play(session.prompt("What time is it?")).await;
    ///     }
    /// });
    /// # script.at_most(10).assert();
    /// ```
    pub fn play<F: Future<Output = ()> + 'static>(self, play: impl Fn(World) -> F + 'static) -> Script {
        Script {
            name: self.name,
            settles_within: WITHIN,
            disk: None,
            seed: 0,
            observer: None,
            modes: Mode::ALL.to_vec(),
            at_most: usize::MAX,
            enough: usize::MAX,
            only: None,
            play: Box::new(move |world| Box::pin(play(world))),
        }
    }
}

/// A script: what happens when nobody interferes, and how it is explored.
///
/// ```
/// use std::time::Duration;
///
/// # use andon_runtime::Agent;
/// # use andon_testkit::explore::{Mode, World, explore};
/// # use andon_testkit::Act;
/// async fn ask(world: World) {
///     let model = world.model([vec![Act::text("It is "), Act::text("noon."), Act::end()]]);
///     world.play(world.open(Agent::builder().model(model)).prompt("What time is it?")).await;
/// }
///
/// // It has no tools: a stop waits for nothing but the disk.
/// explore("a question on a slow disk")
///     .play(ask)
///     .disk(Duration::from_millis(30))
///     .within(Duration::from_millis(150))
///     .modes([Mode::Graceful, Mode::Crash])
///     .assert();
/// ```
#[must_use = "nothing is explored without `assert` or `run`"]
pub struct Script {
    name: Arc<str>,
    pub(super) settles_within: Duration,
    pub(super) disk: Option<Duration>,
    pub(super) seed: u64,
    observer: Option<Box<dyn Fn() -> Arc<dyn Observer>>>,
    modes: Vec<Mode>,
    at_most: usize,
    enough: usize,
    only: Option<(Mode, usize)>,
    pub(super) play: Box<Play>,
}

type Play = dyn Fn(World) -> Pin<Box<dyn Future<Output = ()>>>;

impl Script {
    /// How long a stop may take, in virtual time: the longest grace of its tools and hooks, and what a slow disk adds. By default 2.1
    /// seconds: the default grace, and a moment.
    pub fn within(mut self, settles_within: Duration) -> Self {
        self.settles_within = settles_within;
        self
    }

    /// Each write to the disk takes this long.
    pub fn disk(mut self, delay: Duration) -> Self {
        self.disk = Some(delay);
        self
    }

    /// The ways in which it is stopped: [all of them](Mode::ALL) by default.
    pub fn modes(mut self, modes: impl IntoIterator<Item = Mode>) -> Self {
        self.modes = modes.into_iter().collect();
        self
    }

    /// What is left to chance, such as ids and how long a retry backs off, comes from this seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Tries at most this many points, evenly spread over all; the seed says which.
    pub fn at_most(mut self, points: usize) -> Self {
        self.at_most = points;
        self
    }

    /// Ends the exploration when it has found this many violations.
    pub fn enough(mut self, violations: usize) -> Self {
        self.enough = violations;
        self
    }

    /// Stops it at this point in this mode, and nowhere else: what a report says to play alone. The report then shows what is on record.
    pub fn only(mut self, mode: Mode, point: usize) -> Self {
        self.only = Some((mode, point));
        self
    }

    /// Makes an observer for each process of the script, the one after a crash included.
    pub fn observer(mut self, observer: impl Fn() -> Arc<dyn Observer> + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Explores it.
    ///
    /// # Panics
    ///
    /// If a promise or a [check](World::check) was broken anywhere, or there was nothing to stop. The message says what, where, and how
    /// to play that point alone.
    #[track_caller]
    #[expect(clippy::panic, reason = "a promise that is broken fails a test")]
    pub fn assert(self) {
        let report = self.run();
        if !report.is_whole() {
            panic!("{report}");
        }
    }

    /// Explores it, and says what was found.
    ///
    /// ```
    /// # use andon_runtime::Agent;
    /// # use andon_testkit::explore::{Mode, explore};
    /// let script = explore("nothing").play(|_| async {});
    /// let report = script.modes([Mode::Graceful, Mode::Crash]).run();
    /// assert_eq!((report.points, report.violations), (0, vec![]));
    /// ```
    pub fn run(&self) -> Report {
        let _exploring = watch_panics();
        let mut report = Report { script: Arc::clone(&self.name), ..Report::default() };
        let dry = judge::play(self, Plan::default());
        let mut undisturbed = dry.violations.clone();
        if dry.trace != judge::play(self, Plan::default()).trace {
            undisturbed.push(
                "two undisturbed runs passed different seams: it depends on chance, on threads or on real time"
                    .to_owned(),
            );
        }
        if let Some((_, point)) = self.only.filter(|(_, point)| *point >= dry.trace.len()) {
            undisturbed.push(format!(
                "there is no point {point}: they are numbered from 0, and there are {}",
                dry.trace.len()
            ));
        }
        self.note(&mut report, None, undisturbed);
        for place in self.places(&dry.trace, &mut report) {
            if report.violations.len() >= self.enough {
                break;
            }
            report.points += 1;
            *report.by_mode.entry(place.mode.name()).or_default() += 1;
            let played =
                judge::play(self, Plan { stop: Some((place.point, place.mode)), expected: dry.endings.clone() });
            self.note(&mut report, Some(place), played.violations);
            if self.only.is_some() {
                report.story = played.story;
            }
        }
        report
    }

    fn note(&self, report: &mut Report, place: Option<Place>, found: Vec<String>) {
        let violation = |what| Violation { script: Arc::clone(&self.name), place, what };
        report.violations.extend(found.into_iter().map(violation));
    }

    /// The points to try.
    fn places(&self, trace: &[&'static str], report: &mut Report) -> Vec<Place> {
        if let Some((mode, point)) = self.only {
            return trace.get(point).map(|seam| Place { mode, point, seam }).into_iter().collect();
        }
        let of_mode = |mode: &Mode| {
            let mode = *mode;
            let seams = trace.iter().enumerate().filter(move |(_, seam)| mode.applies_at(seam));
            seams.map(move |(point, seam)| Place { mode, point, seam })
        };
        let all: Vec<Place> = self.modes.iter().flat_map(of_mode).collect();
        if all.len() <= self.at_most {
            return all;
        }
        report.left_out = all.len() - self.at_most;
        spread(&all, self.at_most, self.seed)
    }

    /// The observers of one of its processes.
    pub(super) fn observers(&self, witness: &Witness) -> Vec<Arc<dyn Observer>> {
        let witness: Arc<dyn Observer> = Arc::new(witness.clone());
        std::iter::once(witness).chain(self.observer.as_ref().map(|make| make())).collect()
    }
}

/// Some of these places, evenly spread.
fn spread(all: &[Place], most: usize, seed: u64) -> Vec<Place> {
    let first = (seed % all.len().max(1) as u64) as usize;
    (0..most).filter_map(|number| all.get((first + number * all.len() / most) % all.len()).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_points_as_are_wanted_are_spread_over_all() {
        let place = |point| Place { mode: Mode::Now, point, seam: "" };
        let all: Vec<Place> = (0..10).map(place).collect();
        let points = |seed| spread(&all, 3, seed).iter().map(|place| place.point).collect::<Vec<_>>();
        assert_eq!((points(0), points(8)), (vec![0, 3, 6], vec![8, 1, 4]));
    }
}
