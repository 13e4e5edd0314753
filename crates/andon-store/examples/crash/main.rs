//! The crash harness: kills the real runtime on the real SQLite journal, again and again, and checks that nothing is
//! lost. `cargo xtask crash --kills 2000` runs it.
//!
//! # Theory of operation
//!
//! A *life* is a separate process of this program: it opens the database, recovers what the previous life left, and
//! plays every [scene](provider::Scene) at once, each in its own session. It writes down what its clients see, what its
//! tools do and what its provider reports: one line each, with one write(2), at the moment it happens. A life is
//! ended by a real SIGKILL: by itself at the n-th hit of a [seam](points), or by its parent at a random instant.
//!
//! A *round* is up to five lives on one database, each killed, and a last one that recovers, decides what waits, gives
//! every session its next prompt and ends. After each kill, and when the round is over, the [judge](judge) compares a
//! copy of the database with what was written down.
//!
//! In some rounds the store has an [outage](outage): in some lives another connection holds its lock or its disk is full for a
//! while, and the same process continues afterwards. Such a life is killed before, during or after the outage, or ends by itself;
//! then none of its runs may be left unsettled.
//!
//! On a PostgreSQL [server](store) connections are cut and the server is killed while lives go on, in place of outages.
//!
//! In most lives a [ghost](ghost) tries to write before and after recovery, and must be refused.
//!
//! `cargo xtask faults` breaks the protocol itself, and each time this program must notice.

mod book;
mod campaign;
mod child;
mod client;
mod disk;
mod ghost;
mod judge;
mod log;
mod outage;
mod parent;
mod points;
mod provider;
mod scenes;
#[cfg(feature = "postgres")]
mod server;
mod store;
mod tools;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::campaign::{Campaign, Tally};
use crate::points::Course;

const HELP: &str = "\
Kills the runtime on its journal and checks that nothing is lost: on SQLite or, if ANDON_POSTGRES is the address of a server, on
PostgreSQL (`cargo xtask crash --store postgres` starts one).

  --kills N        how many kills, 200 by default; the last line is `N kills, V violations`
  --seed S         the seed of every random choice, 1 by default; it is printed
  --point POINT..  one round with exactly these lives, as a violation names them: killed at \"store: before commit:17\",
                   or \"to the end\"; after either \" with locked:17+1200\" or \" with full:17+300\" if the store
                   cannot write after its 17th commit for so many milliseconds
  --until TEXT     ends with the first violation that has this in it, and shows no others";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["--life", orders] => live(orders).map(|()| ExitCode::SUCCESS),
        ["--help" | "-h"] => {
            println!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        words => Wishes::read(words).and_then(Wishes::fulfil),
    };
    result.unwrap_or_else(|error| {
        eprintln!("crash: {error:#}");
        ExitCode::FAILURE
    })
}

fn live(orders: &str) -> Result<()> {
    child::live(&serde_json::from_str(orders)?)
}

/// The program's arguments.
#[derive(Debug)]
struct Wishes {
    kills: usize,
    seed: u64,
    points: Vec<Course>,
    /// Disks can be mounted.
    has_disks: bool,
    until: Option<String>,
}

impl Wishes {
    fn read(words: &[&str]) -> Result<Self> {
        let mut wishes = Self { kills: 200, seed: 1, points: Vec::new(), has_disks: false, until: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match *word {
                "--kills" => wishes.kills = value()?.parse().context("--kills takes a number")?,
                "--seed" => wishes.seed = value()?.parse().context("--seed takes a number")?,
                "--point" => wishes.points.push(value()?.parse()?),
                "--until" => wishes.until = Some((*value()?).to_owned()),
                disk::INSIDE => wishes.has_disks = true,
                other => bail!("`{other}` means nothing here\n\n{HELP}"),
            }
        }
        Ok(wishes)
    }

    fn fulfil(mut self) -> Result<ExitCode> {
        if store::is_on_a_server() {
            // Disks and locks are SQLite's; the server has troubles of its own.
            self.has_disks = false;
        } else if !self.has_disks {
            disk::go_inside();
            eprintln!("not tried: rounds with a full disk, because no disk can be mounted here");
            if self.points.iter().any(Course::fills_the_disk) {
                bail!("a full disk is part of this round");
            }
        }
        let base = tempfile::Builder::new().prefix("andon-crash-").tempdir()?;
        let tally = if self.points.is_empty() {
            let (base, until) = (base.path().to_path_buf(), self.until.clone());
            campaign::run(&Campaign { base, kills: self.kills, seed: self.seed, has_disks: self.has_disks, until })?
        } else {
            campaign::again(base.path(), self.seed, self.points)?
        };
        let Tally { kills, rounds, missed, in_recovery, outages, violations } = tally;
        match &self.until {
            Some(until) => {
                let found = violations.iter().find(|violation| violation.contains(until.as_str()));
                found.iter().for_each(|violation| println!("violation: {violation}"));
            }
            None if violations.is_empty() => {}
            // Files with violations are kept for inspection.
            None => drop(base.keep()),
        }
        println!("{rounds} rounds; {in_recovery} kills came before recovery was over");
        println!("{outages}");
        println!("{missed} lives ended before their point came, and do not count");
        println!("{kills} kills, {} violations", violations.len());
        Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
