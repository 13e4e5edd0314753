//! The parent: starts lives, ends them, and has the judge check what is left.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::book::Copy;
use crate::child::Orders;
use crate::disk::Disk;
use crate::judge::{self, Outages, Seen};
use crate::log::{BEATS, Beat, EFFECTS, SEEN, What, now_us, read_from};
use crate::outage::make_room;
use crate::points::{Course, Kill, hold};
#[cfg(feature = "postgres")]
use crate::server::Trouble;

/// The settings of a round.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// Where rounds have their folders.
    pub(crate) base: PathBuf,
    /// The seed of the round's random choices.
    pub(crate) seed: u64,
    /// What its database is on.
    pub(crate) disk: Disk,
    /// A violation is expected, and not printed.
    pub(crate) is_hunt: bool,
}

/// The result of a round.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The course of every life but the last.
    pub(crate) planned: Vec<Course>,
    pub(crate) violations: Vec<String>,
    /// The round's folder, kept if something is wrong.
    pub(crate) folder: Option<PathBuf>,
    /// How many lives were killed before their recovery was over.
    pub(crate) in_recovery: usize,
    pub(crate) outages: Outages,
    /// How often the first life passed each seam, if it ended by itself.
    pub(crate) seams: BTreeMap<String, u64>,
    /// How long that life took.
    pub(crate) life_us: u64,
}

/// Decides how each life goes, and is told whether it was killed.
pub(crate) trait Courses {
    fn next(&mut self) -> Option<Course>;
    fn done(&mut self, course: &Course, killed: bool);
}

/// Plays a round: life after life on one database while there are courses, then one that finishes everything.
pub(crate) fn play(setting: &Setting, courses: &mut dyn Courses) -> Result<Report> {
    let folder = setting.base.join(format!("round-{}", setting.seed));
    setting.disk.set_up(&folder)?;
    let mut round =
        Round { setting, folder, life: 0, seen: Seen::default(), read: (0, 0, 0), report: Report::default() };
    while let Some(course) = courses.next() {
        let killed = round.live(&course, false)?;
        courses.done(&course, killed);
        round.report.planned.push(course);
        if !round.report.violations.is_empty() {
            return round.end();
        }
    }
    if round.life == 0 {
        // Nothing is killed: this life counts how often each seam is passed.
        round.live(&Course::default(), false)?;
    }
    if round.report.violations.is_empty() {
        round.live(&Course::default(), true)?;
    }
    if round.report.violations.is_empty() {
        round.look_at_all()?;
    }
    round.end()
}

struct Round<'a> {
    setting: &'a Setting,
    folder: PathBuf,
    life: u32,
    seen: Seen,
    /// How far each of the three logs has been read.
    read: (u64, u64, u64),
    report: Report,
}

/// How a life ended.
enum Death {
    /// By SIGKILL; the time is known if the parent did it.
    Killed(Option<u64>),
    /// By itself, when everything was done.
    Ended,
    /// In another way.
    Failed(String),
}

impl Round<'_> {
    /// One life; returns whether it was killed.
    fn live(&mut self, course: &Course, is_last: bool) -> Result<bool> {
        self.life += 1;
        let kill = course.kill.as_ref();
        let seed = self.setting.seed;
        let orders = Orders {
            folder: self.folder.clone(),
            life: self.life,
            dice: seed.wrapping_mul(31).wrapping_add(self.life.into()),
            // Half of all rounds are played on one thread, as in the explorer, and half on several, as in a program.
            one_lane: seed.is_multiple_of(2),
            is_last,
            kill: kill.filter(|kill| matches!(kill, Kill::At { .. })).map(ToString::to_string),
            outage: course.outage,
        };
        #[cfg(feature = "postgres")]
        let trouble = crate::store::is_on_a_server().then(|| Trouble::begin(&self.folder, orders.dice)).flatten();
        let death = live(&orders, kill)?;
        #[cfg(feature = "postgres")]
        if let Some(trouble) = trouble {
            trouble.end()?;
        }
        make_room(&self.folder)?;
        self.read_logs()?;
        match death {
            Death::Ended => {
                self.note_seams();
                if !is_last {
                    self.look_now();
                }
            }
            Death::Failed(why) => {
                self.report.violations.push(format!("life {} failed: {why}", self.life));
                self.look_now();
            }
            Death::Killed(at_us) => {
                self.seen.killed_at.insert(self.life, at_us.or_else(|| self.killing_at()).unwrap_or_else(now_us));
                let asked = |what: &What| matches!(what, What::Asked { .. });
                let has_begun = self.seen.lines.iter().any(|line| line.life == self.life && asked(&line.what));
                self.report.in_recovery += usize::from(self.life > 1 && !has_begun);
                self.look_now();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has the judge check what a life left. Anything that the judge cannot read counts as wrong.
    fn look_now(&mut self) {
        let book = Copy::of(&self.folder).and_then(|copy| copy.read());
        let broken = match book {
            Ok(book) => judge::check_now(&book, &self.seen, self.life),
            Err(error) => vec![format!("{error:#}")],
        };
        self.report.violations.extend(broken);
    }

    /// Has the judge check everything.
    fn look_at_all(&mut self) -> Result<()> {
        let copy = Copy::of(&self.folder)?;
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let broken = tokio.block_on(judge::check_round(&copy, &self.seen));
        self.report.violations = broken.unwrap_or_else(|error| vec![format!("{error:#}")]);
        Ok(())
    }

    fn read_logs(&mut self) -> Result<()> {
        let (lines, seen) = read_from(&self.folder.join(SEEN), self.read.0)?;
        let (deeds, effects) = read_from(&self.folder.join(EFFECTS), self.read.1)?;
        let (new_beats, beats) = read_from::<Beat>(&self.folder.join(BEATS), self.read.2)?;
        self.seen.add(lines);
        self.seen.deeds.extend(deeds);
        self.seen.beats.extend(new_beats);
        self.read = (seen, effects, beats);
        Ok(())
    }

    /// When the life wrote that it was about to kill itself.
    fn killing_at(&self) -> Option<u64> {
        let lines = self.seen.lines.iter().rev().take_while(|line| line.life == self.life);
        lines.filter(|line| matches!(line.what, What::Killing { .. })).map(|line| line.at_us).next()
    }

    fn note_seams(&mut self) {
        if self.life > 1 {
            return;
        }
        let began = self.seen.lines.first().map_or(0, |line| line.at_us);
        if let Some(line) = self.seen.lines.last()
            && let What::Ended { seams } = &line.what
        {
            self.report.seams.clone_from(seams);
            self.report.life_us = line.at_us - began;
        }
    }

    fn end(mut self) -> Result<Report> {
        self.report.outages = self.seen.count_outages();
        self.setting.disk.take_down(&self.folder)?;
        if self.report.violations.is_empty() {
            #[cfg(feature = "postgres")]
            if crate::store::is_on_a_server() {
                crate::server::remove(&self.folder)?;
            }
            // If this fails, it only wastes disk space.
            let _ = fs::remove_dir_all(&self.folder);
        } else {
            self.report.folder = Some(self.folder);
        }
        Ok(self.report)
    }
}

/// Starts a life and waits for its end.
fn live(orders: &Orders, kill: Option<&Kill>) -> Result<Death> {
    let words = orders.folder.join("stderr.txt");
    let stderr = OpenOptions::new().create(true).append(true).open(&words)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--life").arg(serde_json::to_string(orders)?);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn()?;
    let killed_at = match kill {
        Some(Kill::After { micros }) => {
            until_ready(&mut child)?;
            hold(Duration::from_micros(*micros));
            let at_us = now_us();
            // A life that has ended by itself can no longer be killed.
            let _ = child.kill();
            Some(at_us)
        }
        Some(Kill::At { .. }) | None => None,
    };
    let Some(status) = wait(&mut child)? else {
        child.kill()?;
        child.wait()?;
        return Ok(Death::Failed(format!("it did not end within {} s: {}", PATIENCE.as_secs(), last_words(&words))));
    };
    Ok(match (status.signal(), status.code()) {
        (Some(signal), _) if signal == Signal::KILL.as_raw() && kill.is_some() => Death::Killed(killed_at),
        (None, Some(0)) => Death::Ended,
        _ => Death::Failed(format!("{status}: {}", last_words(&words))),
    })
}

/// How long a life may take: it usually takes a fifth of a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a life has ended; `None` if it does not.
fn wait(child: &mut Child) -> Result<Option<ExitStatus>> {
    const LOOK: Duration = Duration::from_millis(1);
    for _ in 0..PATIENCE.as_millis() {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        hold(LOOK);
    }
    Ok(None)
}

fn until_ready(child: &mut Child) -> Result<()> {
    let stdout = child.stdout.as_mut().context("a life has no voice")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    if line.trim() != "ready" {
        bail!("a life began with {line:?}");
    }
    Ok(())
}

fn last_words(path: &Path) -> String {
    let words = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = words.lines().rev().take(6).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
