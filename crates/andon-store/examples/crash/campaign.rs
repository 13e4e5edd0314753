//! A campaign: rounds until there were as many kills as requested, two rounds at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use std::vec;

use anyhow::{Result, bail};
use parking_lot::Mutex;

use crate::disk::Disk;
use crate::judge::Outages;
use crate::outage::{Cause, Outage};
use crate::parent::{Courses, Report, Setting, play};
use crate::points::{Course, Plan, hold};
use crate::store::is_on_a_server;

/// How many rounds are played at once.
const AT_ONCE: usize = 2;
/// The most kills on one database.
const KILLS_A_ROUND: u32 = 5;

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Campaign {
    pub(crate) base: PathBuf,
    pub(crate) kills: usize,
    pub(crate) seed: u64,
    /// Whether disks can be mounted, and so can be filled.
    pub(crate) has_disks: bool,
    /// Stop at the first violation that contains this text.
    pub(crate) until: Option<String>,
}

/// The result.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) kills: usize,
    pub(crate) rounds: usize,
    /// Lives that ended before they reached their kill point.
    pub(crate) missed: usize,
    /// Kills before recovery was over.
    pub(crate) in_recovery: usize,
    pub(crate) outages: Outages,
    pub(crate) violations: Vec<String>,
}

/// Courses that are known in advance.
#[derive(Default)]
struct These {
    courses: vec::IntoIter<Course>,
    killed: usize,
}

impl Courses for These {
    fn next(&mut self) -> Option<Course> {
        self.courses.next()
    }

    fn done(&mut self, _course: &Course, killed: bool) {
        self.killed += usize::from(killed);
    }
}

/// Plays two rounds without a kill, one of each kind, to learn how often a life passes each seam.
fn survey(campaign: &Campaign, tally: &mut Tally) -> Result<Plan> {
    let (mut seams, mut life_us) = (BTreeMap::new(), 0);
    for seed in [0, 1] {
        let (base, is_hunt) = (campaign.base.join("survey"), campaign.until.is_some());
        let setting = Setting { base, seed, disk: Disk::Shared, is_hunt };
        let report = play(&setting, &mut These::default())?;
        note(&report, &setting, tally);
        for (seam, hits) in report.seams {
            let most: &mut u64 = seams.entry(seam).or_default();
            *most = hits.max(*most);
        }
        life_us = report.life_us.max(life_us);
    }
    if campaign.until.is_none() {
        let all: u64 = seams.values().sum();
        println!(
            "seed {}: a life takes {} ms and passes {} seams {all} times",
            campaign.seed,
            life_us / 1000,
            seams.len()
        );
        for (seam, hits) in &seams {
            println!("  {seam:<28} {hits:>6}");
        }
    }
    Ok(Plan::new(&seams, campaign.kills, life_us, campaign.seed))
}

struct Shared {
    plan: Plan,
    wanted: usize,
    /// Kills that were handed out and have not been confirmed yet.
    pending: usize,
    tally: Tally,
    until: Option<String>,
    /// A worker has failed, and the other must not wait for it.
    broken: bool,
}

impl Shared {
    fn is_over(&self) -> bool {
        let found = |until: &str| self.tally.violations.iter().any(|violation| violation.contains(until));
        self.broken || self.tally.kills >= self.wanted || self.until.as_deref().is_some_and(found)
    }

    fn next(&mut self, life: u32, outage: Option<Outage>) -> Option<Course> {
        if self.is_over() || self.tally.kills + self.pending >= self.wanted {
            return None;
        }
        let kill = match &outage {
            Some(outage) => self.plan.next_with(outage, life),
            None => Some(self.plan.next(life)),
        };
        self.pending += usize::from(kill.is_some());
        Some(Course { kill, outage })
    }

    fn done(&mut self, course: &Course, killed: bool) {
        if course.kill.is_none() {
            return;
        }
        self.pending -= 1;
        if killed {
            self.tally.kills += 1;
            if self.tally.kills.is_multiple_of(500) {
                println!("{} kills so far, {} violations", self.tally.kills, self.tally.violations.len());
            }
        } else {
            self.tally.missed += 1;
        }
    }
}

/// The courses of one round.
struct OfRound<'a> {
    shared: &'a Mutex<Shared>,
    dice: fastrand::Rng,
    life: u32,
    lives: u32,
    /// Why its store cannot write in some of its lives, if so.
    cause: Option<Cause>,
}

impl<'a> OfRound<'a> {
    fn new(shared: &'a Mutex<Shared>, seed: u64, has_disks: bool) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        let lives = dice.u32(1..=KILLS_A_ROUND);
        let cause = match dice.u8(0..8) {
            _ if is_on_a_server() => None,
            0 => Some(Cause::Locked),
            1 if has_disks => Some(Cause::Full),
            _ => None,
        };
        Self { shared, dice, life: 0, lives, cause }
    }

    fn disk(&self) -> Disk {
        if self.cause == Some(Cause::Full) { Disk::Own } else { Disk::Shared }
    }
}

impl Courses for OfRound<'_> {
    fn next(&mut self) -> Option<Course> {
        self.life += 1;
        if self.life > self.lives {
            return None;
        }
        let cause = self.cause.filter(|_| self.dice.u8(0..4) > 0);
        let outage = cause.map(|cause| Outage::any(cause, &mut self.dice));
        self.shared.lock().next(self.life, outage)
    }

    fn done(&mut self, course: &Course, killed: bool) {
        self.shared.lock().done(course, killed);
    }
}

pub(crate) fn run(campaign: &Campaign) -> Result<Tally> {
    let mut tally = Tally::default();
    let plan = survey(campaign, &mut tally)?;
    let shared =
        Shared { plan, wanted: campaign.kills, pending: 0, tally, until: campaign.until.clone(), broken: false };
    let shared = Mutex::new(shared);
    let next_round = AtomicU64::new(0);
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| {
                    let worked = work(campaign, &shared, &next_round);
                    shared.lock().broken |= worked.is_err();
                    worked
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked"))).collect()
    });
    results.into_iter().collect::<Result<Vec<()>>>()?;
    Ok(shared.into_inner().tally)
}

fn work(campaign: &Campaign, shared: &Mutex<Shared>, next_round: &AtomicU64) -> Result<()> {
    loop {
        {
            let shared = shared.lock();
            if shared.is_over() {
                return Ok(());
            }
            if shared.tally.missed > 4 * shared.wanted + 200 {
                bail!("{} lives ended before their point came: the points are out of reach", shared.tally.missed);
            }
            if shared.tally.kills + shared.pending >= shared.wanted {
                drop(shared);
                // The other worker may return a kill that missed.
                hold(Duration::from_millis(20));
                continue;
            }
        }
        let seed = campaign.seed.wrapping_mul(1_000_003).wrapping_add(next_round.fetch_add(1, Ordering::Relaxed));
        let mut courses = OfRound::new(shared, seed, campaign.has_disks);
        let setting =
            Setting { base: campaign.base.clone(), seed, disk: courses.disk(), is_hunt: campaign.until.is_some() };
        let report = play(&setting, &mut courses)?;
        let mut shared = shared.lock();
        shared.tally.rounds += 1;
        note(&report, &setting, &mut shared.tally);
    }
}

/// Plays one round with these courses.
pub(crate) fn again(base: &Path, seed: u64, courses: Vec<Course>) -> Result<Tally> {
    let disk = if courses.iter().any(Course::fills_the_disk) { Disk::Own } else { Disk::Shared };
    let setting = Setting { base: base.to_path_buf(), seed, disk, is_hunt: false };
    let mut these = These { courses: courses.into_iter(), killed: 0 };
    let report = play(&setting, &mut these)?;
    let mut tally = Tally { kills: these.killed, rounds: 1, ..Tally::default() };
    note(&report, &setting, &mut tally);
    Ok(tally)
}

/// Prints what is wrong, and how to reproduce it.
fn note(report: &Report, setting: &Setting, tally: &mut Tally) {
    tally.in_recovery += report.in_recovery;
    tally.outages.add(&report.outages);
    let Some(folder) = &report.folder else { return };
    if !setting.is_hunt {
        for violation in &report.violations {
            println!("violation: {violation}");
        }
        let points: String = report.planned.iter().map(|course| format!(" --point \"{course}\"")).collect();
        println!("    again: cargo xtask crash --seed {}{points}", setting.seed);
        println!("    kept:  {}", folder.display());
    }
    let last =
        report.planned.last().map_or_else(|| "without a kill".to_owned(), |course| format!("after \"{course}\""));
    tally.violations.extend(report.violations.iter().map(|text| format!("{text} ({last})")));
}
