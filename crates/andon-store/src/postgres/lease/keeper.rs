//! Keeps the lease: renews it ten times in its length, and says when the fence has passed.
//!
//! # Invariants
//!
//! 1. The fence counts from before a renewal was sent, and lies before the end of the lease by the database's clock.
//! 2. A process whose lease had lapsed holds it again only after it has asked which of its runs are others' now.

use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use andon_runtime::core::id::RunId;
use andon_runtime::{JournalError, Lease};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::alive::{Alive, dead, forget};
use super::beat::{Answer, Replica};
use crate::postgres::server::{Fault, Link, PostgresAddress, PostgresError, refused};
use crate::record::{HashMap, Trouble};

/// How long before the end of the lease the fence is: this part of its length.
const MARGIN: u32 = 4;

/// How long to wait before trying again, at first.
const AGAIN: Duration = Duration::from_millis(50);

/// How long the last word may take.
const LAST: Duration = Duration::from_secs(2);

/// Told which requests were heard of which runs, and up to which number.
pub(in crate::postgres) type Heard = Box<dyn Fn(Vec<(RunId, i64)>) + Send>;

/// Where the lease is, and whose it is.
pub(in crate::postgres) struct Terms {
    pub(in crate::postgres) address: Arc<PostgresAddress>,
    /// The schema's name, and as SQL has it.
    pub(in crate::postgres) schema: (String, String),
    pub(in crate::postgres) program: String,
    /// The id of this journal as the owner of runs.
    pub(in crate::postgres) owner: String,
    pub(in crate::postgres) ttl: Duration,
    pub(in crate::postgres) trouble: Arc<Trouble>,
    pub(in crate::postgres) heard: Heard,
}

/// The thread that keeps the lease. Dropping it gives the lease back.
pub(in crate::postgres) struct Keeper {
    pub(in crate::postgres) lease: Arc<Lease>,
    thread: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

struct Heart {
    address: Arc<PostgresAddress>,
    replica: Replica,
    lease: Arc<Lease>,
    trouble: Arc<Trouble>,
    heard: Heard,
    link: Option<Link>,
    /// Since when the lease has been held without a break, as the server says it.
    since: Option<String>,
    /// Whether the runs were told that the fence has passed.
    is_over: bool,
    /// Which requests were passed on, until the server knows it.
    passed_on: HashMap<RunId, i64>,
    back_off: Duration,
    _alive: Option<Alive>,
}

impl Keeper {
    /// Takes the lease. Returns once it is held.
    pub(in crate::postgres) fn start(terms: Terms) -> Result<Self, PostgresError> {
        let Terms { address, schema: (name, schema), program, owner, ttl, trouble, heard } = terms;
        let shown = address.shown.clone();
        let failed = |why: std::io::Error| PostgresError::Other { address: shown.clone(), why: why.to_string() };
        let lease = Arc::new(Lease::new(boottime));
        let replica = Replica { id: owner, program, schema, ttl };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (stop, mut stopped) = oneshot::channel();
        let (begun, has_begun) = mpsc::channel();
        let for_thread = Arc::clone(&lease);
        let thread = thread::Builder::new().name("andon-lease".to_owned()).spawn(move || {
            runtime.block_on(async {
                // Without it, whoever comes after us waits for the end of the lease.
                let alive = Alive::announce(&replica.id).ok();
                let mut heart = Heart {
                    address,
                    replica,
                    lease: for_thread,
                    trouble,
                    heard,
                    link: None,
                    since: None,
                    is_over: false,
                    passed_on: HashMap::default(),
                    back_off: AGAIN,
                    _alive: alive,
                };
                match heart.begin().await {
                    Ok(()) => {
                        // Whoever opens the journal waits for this.
                        let _ = begun.send(Ok(()));
                        heart.keep(&mut stopped).await;
                    }
                    Err(fault) => drop(begun.send(Err(refused(&heart.address.shown, &name, fault)))),
                }
            });
        });
        let thread = Some((stop, thread.map_err(failed)?));
        match has_begun.recv() {
            Ok(Ok(())) => Ok(Self { lease, thread }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(failed(std::io::Error::other("the thread that keeps its lease has panicked"))),
        }
    }

    /// Gives the lease back, and waits until that is done or given up.
    pub(in crate::postgres) fn end(&mut self) {
        let Some((stop, thread)) = self.thread.take() else { return };
        drop(stop);
        // What it told may have held the last handle on the journal: then it is this very thread.
        if thread.thread().id() != thread::current().id() {
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

impl Heart {
    async fn begin(&mut self) -> Result<(), Fault> {
        let patience = self.replica.ttl;
        let mut link = Link::open(&self.address, &self.name()).await?;
        let dead = dead();
        if !dead.is_empty() {
            forget(&self.replica.are_dead(&mut link, &dead, patience).await?);
        }
        self.link = Some(link);
        self.beat(patience).await
    }

    fn name(&self) -> String {
        format!("andon lease {}", self.replica.schema)
    }

    /// Keeps the lease until the journal is closed.
    async fn keep(&mut self, stopped: &mut oneshot::Receiver<()>) {
        let mut pause = self.replica.ttl / 10;
        while timeout(pause, &mut *stopped).await.is_err() {
            let patience = self.until_the_fence().unwrap_or(LAST);
            pause = match timeout(patience, self.beat(patience)).await {
                Ok(Ok(())) => {
                    self.back_off = AGAIN;
                    self.replica.ttl / 10
                }
                failed => self.is_away(failed.unwrap_or(Err(Fault::Silent(patience))).err()),
            };
        }
        if let Some(link) = &mut self.link {
            // If the server does not hear it, it waits for the end of the lease.
            let _ = self.replica.leave(link, LAST).await;
        }
    }

    /// The time until the fence; `None` once it has passed.
    fn until_the_fence(&self) -> Option<Duration> {
        self.lease.fence().checked_sub(self.lease.now()).filter(|left| *left > 0).map(Duration::from_micros)
    }

    /// One heartbeat.
    async fn beat(&mut self, patience: Duration) -> Result<(), Fault> {
        let sent = self.lease.now();
        let link = match &mut self.link {
            Some(link) => link,
            none => {
                let name = format!("andon lease {}", self.replica.schema);
                none.insert(Link::open(&self.address, &name).await?)
            }
        };
        let Answer { since, asked, left } = self.replica.beat(link, patience).await?;
        let holders = self.lease.holders();
        if self.is_over || self.since.as_ref().is_some_and(|known| *known != since) {
            for holder in &holders {
                let lost = self.replica.lost(link, &holder.driven(), patience).await?;
                holder.runs_are_lost(&lost);
            }
        }
        self.since = Some(since);
        self.is_over = false;
        let length = self.replica.ttl - self.replica.ttl / MARGIN;
        self.lease.hold_until(sent.saturating_add(u64::try_from(length.as_micros()).unwrap_or(u64::MAX)));
        self.trouble.clear();
        self.pass_on(asked);
        if left {
            holders.into_iter().for_each(|holder| holder.runs_are_left());
        }
        Ok(())
    }

    /// Passes requests on to their runs, each once.
    fn pass_on(&mut self, asked: Vec<(RunId, i64, andon_runtime::core::cancel::CancelRequest)>) {
        let known = std::mem::take(&mut self.passed_on);
        let mut heard = Vec::new();
        for (run, number, request) in asked {
            if known.get(&run).is_none_or(|last| *last < number) {
                self.lease.holders().into_iter().for_each(|holder| holder.is_asked(&run, request.clone()));
                heard.push((run.clone(), number));
            }
            let last = self.passed_on.entry(run).or_default();
            *last = number.max(*last);
        }
        if !heard.is_empty() {
            (self.heard)(heard);
        }
    }

    /// A heartbeat has failed. Returns how long to wait until the next.
    fn is_away(&mut self, fault: Option<Fault>) -> Duration {
        self.link = None;
        if self.until_the_fence().is_none() && !std::mem::replace(&mut self.is_over, true) {
            let why = fault.map_or_else(String::new, |fault| format!(" ({fault})"));
            let why = format!("the lease of this process is over, because the database server does not answer{why}");
            self.trouble.set(JournalError::Storage(why));
            self.lease.holders().iter().for_each(|holder| holder.lease_is_over());
        }
        let pause = self.back_off;
        self.back_off = (pause * 2).min(self.replica.ttl / 10);
        self.until_the_fence().map_or(pause, |left| pause.min(left))
    }
}

/// A clock in microseconds that goes on while the machine is suspended.
#[cfg(target_os = "linux")]
fn boottime() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.unsigned_abs().saturating_mul(1_000_000).saturating_add(now.tv_nsec.unsigned_abs() / 1_000)
}

/// A clock in microseconds. Whether it goes on while the machine is suspended depends on the system.
#[cfg(not(target_os = "linux"))]
fn boottime() -> u64 {
    static BEGUN: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    1 + u64::try_from(BEGUN.elapsed().as_micros()).unwrap_or(u64::MAX)
}
