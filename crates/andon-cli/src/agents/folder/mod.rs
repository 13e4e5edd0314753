//! Agents in YAML: a folder of apps, each of them a folder with a `root_agent.yaml`.
//!
//! A file is read in three independent steps: [`crate::yaml`] parses the text into a tree, [`mod@file`] reads the agent's settings from
//! the tree, and [`build`] builds the agent. An error at any step names the file, the line and what to change.
//!
//! As in ADK, an app has the name of its folder. The file's `name` must follow ADK's rules, and may be different.
//!
//! # Invariants
//!
//! 1. A change on disk affects no run in progress: an app gets a new agent, and a run keeps the one it started with.
//! 2. A bad file affects only its own app. If an earlier version is being served, it stays: an operator who saves a mistake
//!    loses only the change. If there is none, the app is refused by name.
//! 3. An app is removed when its file was missing in two scans in a row: some editors remove a file before they write it.
//! 4. A folder that cannot be read changes nothing.
//! 5. A problem that may go away by itself, such as a server that is not up yet, is tried again, less and less often, and
//!    reported once.
//! 6. Nobody waits for an app that takes long to build: scans continue, and other apps are served. Until it is built it is refused
//!    with that reason, unless something is served in its place.
//! 7. An app that was served before the folder was loaded, such as the built-in one, is served whenever the folder has no
//!    usable app of the same name.

mod build;
mod builds;
mod file;
mod mcp;
mod read;
mod report;
mod scan;
mod tool_entry;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use andon_runtime::Runtime;
use andon_server::{App, Apps};
use anyhow::bail;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use self::build::{AppFolder, Built};
use self::builds::Builds;
use self::read::{FileError, placed, read_and_build};
pub(crate) use self::report::Report;
use self::report::{Meanwhile, Refused};
use self::scan::{Content, Scan, scan};

/// The file that makes a folder an app.
const FILE: &str = "root_agent.yaml";
/// How often the folder is scanned.
const PACE: Duration = Duration::from_secs(1);
/// How long a start waits for agents whose MCP servers have not answered yet.
const PROMPTLY: Duration = Duration::from_secs(1);
/// After how many scans something is tried again, at first and at most.
const RETRIES: (u32, u32) = (5, 60);

/// A folder of agents, and what is served from it.
pub(crate) struct AgentFolder {
    dir: PathBuf,
    runtime: Runtime,
    apps: Apps,
    /// What was served before (invariant 7).
    before: BTreeMap<String, App>,
    known: BTreeMap<String, KnownApp>,
    /// The apps that are being built.
    builds: Builds,
    /// Notes that were already reported.
    told: BTreeSet<String>,
}

/// What is known about an app.
struct KnownApp {
    /// Its file at the last scan.
    seen: Content,
    /// Whether an agent from this file is served.
    is_served: bool,
    /// Whether its file was missing at the last scan.
    is_missing: bool,
    /// Why the file is refused, if it is.
    refused: Option<String>,
    /// When to try again although the file is the same.
    retry: Option<Retry>,
}

#[derive(Clone, Copy)]
struct Retry {
    /// This many scans from now.
    due_in: u32,
    /// This many scans after that one.
    then: u32,
}

impl AgentFolder {
    /// A folder whose agents run in this runtime and are served under these apps. Nothing is loaded yet.
    pub(crate) fn new(dir: impl Into<PathBuf>, runtime: &Runtime, apps: Apps) -> anyhow::Result<Self> {
        let dir = std::path::absolute(dir.into())?;
        if !dir.is_dir() {
            bail!("{} is not a folder: name the folder that has one folder per agent", dir.display());
        }
        let before = apps.all().into_iter().filter(|(_, app)| matches!(app, App::Served { .. })).collect();
        let (runtime, known, told) = (runtime.clone(), BTreeMap::new(), BTreeSet::new());
        Ok(Self { dir, runtime, apps, before, known, builds: Builds::new(), told })
    }

    /// Scans the folder for the first time. It does not wait long for agents (invariant 6): `watch` serves the slow ones
    /// when they are built.
    pub(crate) async fn load(&mut self) -> Report {
        let by = Instant::now() + PROMPTLY;
        let mut report = self.rescan().await;
        while let Ok(Some((app, built))) = timeout_at(by, self.builds.next()).await {
            self.take_up(app, built, &mut report);
        }
        report.notes.extend(self.builds.apps().map(prepared));
        report.sort();
        report
    }

    /// Scans the folder, and starts to build whatever has changed since the last scan. Agents without MCP servers are served
    /// when this returns.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it is dropped, nothing has been started.
    async fn rescan(&mut self) -> Report {
        let mut report = Report::default();
        let Some(Scan { found, mut hints }) = self.scan(&mut report).await else { return report };
        let due = self.due(&found);
        for retry in self.known.values_mut().filter_map(|known| known.retry.as_mut()) {
            retry.due_in = retry.due_in.saturating_sub(1);
        }
        for (app, content) in due {
            self.begin(app, content);
        }
        while let Some((app, built)) = self.builds.ready() {
            self.take_up(app, built, &mut report);
        }
        for app in self.builds.apps() {
            let says_why = self.known.get(app).is_some_and(|known| known.refused.is_some());
            if !says_why && !matches!(self.apps.get(app), Some(App::Served { .. })) {
                self.apps.refuse(app, prepared(app));
            }
        }
        self.remove_missing(&found, &mut report);
        if self.known.is_empty() {
            let dir = self.dir.display();
            hints.insert(format!("there are no agents in {dir}: an agent is a folder there with a {FILE}"));
        }
        report.notes.extend(hints.difference(&self.told).cloned());
        // A note that comes back after it was fixed is reported again.
        self.told = hints;
        report.sort();
        report
    }

    /// The files that are new, have changed, or are due to be tried again.
    fn due(&self, found: &BTreeMap<String, Content>) -> Vec<(String, Content)> {
        let is_due = |app: &str, content: &Content| {
            let Some(known) = self.known.get(app) else { return true };
            let is_over = known.retry.is_some_and(|retry| retry.due_in <= 1);
            known.seen != *content || (is_over && !self.builds.has(app))
        };
        let due = found.iter().filter(|(app, content)| is_due(app, content));
        due.map(|(app, content)| (app.clone(), content.clone())).collect()
    }

    /// Starts to build an app. A build of an earlier version of its file is dropped.
    fn begin(&mut self, app: String, content: Content) {
        let (home, runtime) = (AppFolder { app: app.clone(), dir: self.dir.clone() }, self.runtime.clone());
        let (file, slots) = (content.clone(), self.builds.slots());
        let known = self.known.entry(app.clone()).or_insert_with(|| KnownApp::new(content.clone()));
        if known.seen != content {
            *known = KnownApp { is_served: known.is_served, ..KnownApp::new(content) };
        }
        self.builds.begin(app, async move { read_and_build(&file, &home, &runtime, &slots).await });
    }

    /// Scans the folder about once a second until it is closed, and reports changes. Runs that a dead process left waiting
    /// are recovered when their app is loaded.
    pub(crate) async fn watch(mut self, closing: CancellationToken, tell: impl Fn(&Report)) {
        let mut next = Instant::now() + PACE;
        loop {
            let mut report = tokio::select! {
                biased;
                () = closing.cancelled() => return,
                report = self.step(&mut next) => report,
            };
            if report.has_new_apps()
                && !self.runtime.parked().is_empty()
                && let Err(error) = self.runtime.recover().await
            {
                report.notes.push(format!("the runs that an earlier server left waiting cannot be recovered: {error}"));
            }
            if !report.is_empty() {
                tell(&report);
            }
        }
    }

    /// Serves the next app that is built, or scans when it is time.
    async fn step(&mut self, next: &mut Instant) -> Report {
        let built = tokio::select! {
            biased;
            () = sleep_until(*next) => None,
            Some(built) = self.builds.next() => Some(built),
        };
        let Some((app, built)) = built else {
            let report = self.rescan().await;
            *next = Instant::now() + PACE;
            return report;
        };
        let mut report = Report::default();
        self.take_up(app, built, &mut report);
        report
    }

    async fn scan(&mut self, report: &mut Report) -> Option<Scan> {
        let dir = self.dir.clone();
        let scanned = tokio::task::spawn_blocking(move || scan(&dir)).await.map_err(io::Error::from).flatten();
        let unreadable = format!("cannot read the folder {}", self.dir.display());
        match scanned {
            Ok(found) => {
                self.told.remove(&unreadable);
                Some(found)
            }
            Err(why) => {
                let note = format!("{unreadable} ({why}): the agents loaded earlier are still served");
                report.notes.extend(self.told.insert(unreadable).then_some(note));
                None
            }
        }
    }

    fn take_up(&mut self, app: String, built: Result<Built, FileError>, report: &mut Report) {
        let Some(known) = self.known.get_mut(&app) else { return };
        let earlier = (known.refused.take(), known.retry.take());
        match built {
            Ok(Built { agent, description, notes }) => {
                self.apps.put(agent, description);
                let was_served = std::mem::replace(&mut known.is_served, true);
                let apps = if was_served { &mut report.changed } else { &mut report.loaded };
                report.notes.extend(notes.into_iter().map(|(at, why)| placed(&app, &known.seen, at, &why)));
                apps.push(app);
            }
            Err(FileError { why, may_pass }) => {
                let meanwhile = match self.before.get(&app) {
                    _ if known.is_served => Meanwhile::Earlier,
                    Some(_) => Meanwhile::BuiltIn,
                    None => Meanwhile::Nothing,
                };
                if meanwhile == Meanwhile::Nothing {
                    self.apps.refuse(&app, &why);
                }
                let is_same = earlier.0.as_ref() == Some(&why);
                known.retry = may_pass.then(|| Retry::after(earlier.1.filter(|_| is_same)));
                known.refused = Some(why.clone());
                if !is_same {
                    report.refused.push(Refused { app, why, meanwhile });
                }
            }
        }
    }

    fn remove_missing(&mut self, found: &BTreeMap<String, Content>, report: &mut Report) {
        let (apps, before, builds) = (&self.apps, &self.before, &mut self.builds);
        self.known.retain(|app, known| {
            let was_missing = std::mem::replace(&mut known.is_missing, !found.contains_key(app));
            let is_gone = was_missing && known.is_missing;
            if !is_gone {
                return true;
            }
            builds.drop(app);
            match before.get(app) {
                Some(App::Served { agent, description }) => {
                    apps.put(agent.clone(), description.clone());
                    report.back.push(app.clone());
                }
                _ => {
                    apps.remove(app);
                    report.removed.push(app.clone());
                }
            }
            false
        });
    }
}

impl KnownApp {
    fn new(seen: Content) -> Self {
        Self { seen, is_served: false, is_missing: false, refused: None, retry: None }
    }
}

impl Retry {
    fn after(earlier: Option<Self>) -> Self {
        let (first, most) = RETRIES;
        let due_in = earlier.map_or(first, |earlier| earlier.then);
        Self { due_in, then: (due_in * 2).min(most) }
    }
}

/// The text for an app that is not built yet. Only MCP servers take long.
fn prepared(app: impl AsRef<str>) -> String {
    format!("{}/{FILE}: the agent is not ready: its MCP server has not answered yet", app.as_ref())
}

#[cfg(test)]
mod tests;
