//! A campaign: rounds until there were as many kills as were asked for, two rounds at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use std::vec;

use anyhow::{Result, bail};
use parking_lot::Mutex;

use crate::parent::{Kills, Report, Setting, play};
use crate::points::{Kill, Plan, hold};

/// How many rounds are played at a time.
const AT_ONCE: usize = 2;
/// The most kills on one database.
const KILLS_A_ROUND: u32 = 5;

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) struct Campaign {
    pub(crate) base: PathBuf,
    pub(crate) kills: usize,
    pub(crate) seed: u64,
    pub(crate) fault: Option<String>,
    /// Ends with the first violation that has this in it.
    pub(crate) until: Option<&'static str>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) kills: usize,
    pub(crate) rounds: usize,
    /// Lives that ended before their point came.
    pub(crate) missed: usize,
    /// Kills before recovery was over.
    pub(crate) in_recovery: usize,
    pub(crate) violations: Vec<String>,
}

/// Kills that are known beforehand.
#[derive(Default)]
struct These {
    kills: vec::IntoIter<Kill>,
    happened: usize,
}

impl Kills for These {
    fn next(&mut self) -> Option<Kill> {
        self.kills.next()
    }

    fn done(&mut self, happened: bool) {
        self.happened += usize::from(happened);
    }
}

/// Plays two rounds without a kill, one of each kind, to learn how often a life passes each seam.
fn survey(campaign: &Campaign, tally: &mut Tally) -> Result<Plan> {
    let (mut seams, mut life_us) = (BTreeMap::new(), 0);
    for seed in [0, 1] {
        let setting =
            Setting { base: campaign.base.join("survey"), fault: None, seed, is_hunt: campaign.until.is_some() };
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
    /// Kills that were handed out and of which nobody knows yet whether they happened.
    pending: usize,
    tally: Tally,
    until: Option<&'static str>,
    /// A worker could not go on: the other is not to wait for it.
    broken: bool,
}

impl Shared {
    fn is_over(&self) -> bool {
        let found = |until: &str| self.tally.violations.iter().any(|violation| violation.contains(until));
        self.broken || self.tally.kills >= self.wanted || self.until.is_some_and(found)
    }

    fn next(&mut self, life: u32) -> Option<Kill> {
        if self.is_over() || self.tally.kills + self.pending >= self.wanted {
            return None;
        }
        self.pending += 1;
        Some(self.plan.next(life))
    }

    fn done(&mut self, happened: bool) {
        self.pending -= 1;
        if happened {
            self.tally.kills += 1;
            if self.tally.kills.is_multiple_of(500) {
                println!("{} kills so far, {} violations", self.tally.kills, self.tally.violations.len());
            }
        } else {
            self.tally.missed += 1;
        }
    }
}

/// The kills of one round.
struct OfRound<'a> {
    shared: &'a Mutex<Shared>,
    life: u32,
    lives: u32,
}

impl Kills for OfRound<'_> {
    fn next(&mut self) -> Option<Kill> {
        self.life += 1;
        if self.life > self.lives {
            return None;
        }
        self.shared.lock().next(self.life)
    }

    fn done(&mut self, happened: bool) {
        self.shared.lock().done(happened);
    }
}

pub(crate) fn run(campaign: &Campaign) -> Result<Tally> {
    let mut tally = Tally::default();
    let plan = survey(campaign, &mut tally)?;
    let shared = Shared { plan, wanted: campaign.kills, pending: 0, tally, until: campaign.until, broken: false };
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
                // The other worker may give one back.
                hold(Duration::from_millis(20));
                continue;
            }
        }
        let seed = campaign.seed.wrapping_mul(1_000_003).wrapping_add(next_round.fetch_add(1, Ordering::Relaxed));
        let setting = Setting {
            base: campaign.base.clone(),
            fault: campaign.fault.clone(),
            seed,
            is_hunt: campaign.until.is_some(),
        };
        let lives = fastrand::Rng::with_seed(seed).u32(1..=KILLS_A_ROUND);
        let report = play(&setting, &mut OfRound { shared, life: 0, lives })?;
        let mut shared = shared.lock();
        shared.tally.rounds += 1;
        note(&report, &setting, &mut shared.tally);
    }
}

/// Plays one round with these kills.
pub(crate) fn again(base: &Path, seed: u64, kills: Vec<Kill>, fault: Option<String>) -> Result<Tally> {
    let setting = Setting { base: base.to_path_buf(), fault, seed, is_hunt: false };
    let mut these = These { kills: kills.into_iter(), happened: 0 };
    let report = play(&setting, &mut these)?;
    let mut tally = Tally { kills: these.happened, rounds: 1, ..Tally::default() };
    note(&report, &setting, &mut tally);
    Ok(tally)
}

/// Says what is wrong, and how to see it again.
fn note(report: &Report, setting: &Setting, tally: &mut Tally) {
    tally.in_recovery += report.in_recovery;
    let Some(folder) = &report.folder else { return };
    if !setting.is_hunt {
        for violation in &report.violations {
            println!("violation: {violation}");
        }
        let fault: String = setting.fault.iter().map(|fault| format!(" --fault {fault}")).collect();
        let points: String = report.planned.iter().map(|kill| format!(" --point \"{kill}\"")).collect();
        println!("    again: cargo xtask crash --seed {}{fault}{points}", setting.seed);
        println!("    kept:  {}", folder.display());
    }
    let last = report.planned.last().map_or_else(|| "without a kill".to_owned(), |kill| format!("after \"{kill}\""));
    tally.violations.extend(report.violations.iter().map(|text| format!("{text} ({last})")));
}
