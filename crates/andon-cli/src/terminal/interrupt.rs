//! Ctrl-C: the one place that handles signals.
//!
//! A separate thread handles signals and pulls the cord itself, so a terminal that accepts no output delays neither a stop nor
//! a third Ctrl-C. For a run on a server, a separate task sends the cancel, so nothing waits here either.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use andon_runtime::{Force, Reason};
use anyhow::Context;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::exit::Exit;
use crate::how::How;
use crate::print::out::write_last;

/// How long to wait for the terminal to accept the last words.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Whether Ctrl-C was pressed for the current run.
static WAS_PULLED: AtomicBool = AtomicBool::new(false);

/// Whether Ctrl-C was pressed for the current run, so that a second one stops it now.
pub(crate) fn was_pulled() -> bool {
    WAS_PULLED.load(Ordering::Relaxed)
}

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// SIGINT: a person pressed Ctrl-C.
    CtrlC,
    /// SIGTERM: the system wants the program to end.
    Terminate,
}

/// What a signal does at the moment.
enum SignalAim {
    /// There is no run: the signal goes to whoever waits for a prompt.
    Nobody,
    /// It stops a run, whose cord was pulled this often.
    Run { target: SignalTarget, pulls: u32 },
    /// It shuts a server down, which was told to do so this often.
    Server { told: u32 },
    /// Somebody is only watching: any signal exits with these words.
    Watch { last_words: String },
}

/// What signals stop.
pub(crate) struct SignalTarget {
    /// Stops it; does not wait.
    pub(crate) pull: Box<dyn Fn(How) + Send>,
    /// What to print when a third signal exits.
    pub(crate) last_words: Option<String>,
}

/// The signals that come while there is no run, and the aim of the others.
pub(crate) struct Interrupts {
    aim: Arc<Mutex<SignalAim>>,
    idle: UnboundedReceiver<Interrupt>,
}

impl Interrupts {
    /// Starts to listen.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let failed = "cannot listen for signals";
        let mut ctrl_c = signal(SignalKind::interrupt()).context(failed)?;
        let mut terminate = signal(SignalKind::terminate()).context(failed)?;
        let aim = Arc::new(Mutex::new(SignalAim::Nobody));
        let (tell, idle) = unbounded_channel();
        let (handle, aimed) = (Handle::current(), Arc::clone(&aim));
        let listen = move || {
            handle.block_on(async {
                while let Some(interrupt) = next(&mut ctrl_c, &mut terminate).await {
                    act(&aimed, interrupt, &tell);
                }
            });
        };
        std::thread::Builder::new().name("andon-signals".to_owned()).spawn(listen).context(failed)?;
        Ok(Self { aim, idle })
    }

    /// Makes signals stop this target, until the guard is dropped.
    pub(crate) fn aim_at(&self, target: SignalTarget) -> SignalGuard {
        WAS_PULLED.store(false, Ordering::Relaxed);
        *lock(&self.aim) = SignalAim::Run { target, pulls: 0 };
        SignalGuard(Arc::clone(&self.aim))
    }

    /// Like [`aim_at`](Self::aim_at), but signals that came before there was a run count as well.
    pub(crate) fn aim_at_first(&mut self, target: SignalTarget) -> SignalGuard {
        let aimed = self.aim_at(target);
        while let Ok(interrupt) = self.idle.try_recv() {
            pull(&mut lock(&self.aim), interrupt);
        }
        aimed
    }

    /// From now on the first two signals of either kind are [returned](Self::while_idle), and the third exits at once.
    pub(crate) fn aim_at_server(&self) {
        *lock(&self.aim) = SignalAim::Server { told: 0 };
    }

    /// From now on any signal exits at once with these words, even while the terminal accepts no output. So does one that has
    /// already come.
    pub(crate) fn leave_with(&mut self, last_words: String) {
        *lock(&self.aim) = SignalAim::Watch { last_words };
        if let Ok(interrupt) = self.idle.try_recv() {
            pull(&mut lock(&self.aim), interrupt);
        }
    }

    /// The next signal that comes while there is no run.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a signal is taken only when it is returned.
    pub(crate) async fn while_idle(&mut self) -> Interrupt {
        match self.idle.recv().await {
            Some(interrupt) => interrupt,
            // The thread has ended, so nothing will come.
            None => std::future::pending().await,
        }
    }
}

/// While this lives, signals go to a run.
pub(crate) struct SignalGuard(Arc<Mutex<SignalAim>>);

impl Drop for SignalGuard {
    fn drop(&mut self) {
        *lock(&self.0) = SignalAim::Nobody;
    }
}

async fn next(ctrl_c: &mut Signal, terminate: &mut Signal) -> Option<Interrupt> {
    tokio::select! {
        heard = ctrl_c.recv() => heard.map(|()| Interrupt::CtrlC),
        heard = terminate.recv() => heard.map(|()| Interrupt::Terminate),
    }
}

fn act(aim: &Mutex<SignalAim>, interrupt: Interrupt, tell: &UnboundedSender<Interrupt>) {
    let mut aim = lock(aim);
    let was_aimed = pull(&mut aim, interrupt);
    if !was_aimed || interrupt == Interrupt::Terminate {
        // Fails only if the receiver is gone.
        let _ = tell.send(interrupt);
    }
}

/// Acts on the current aim. Returns whether a run was stopped.
fn pull(aim: &mut SignalAim, interrupt: Interrupt) -> bool {
    let (target, pulls) = match aim {
        SignalAim::Nobody => return false,
        SignalAim::Server { told } => {
            *told += 1;
            if *told > 2 {
                super::leave(Exit::Interrupted);
            }
            return false;
        }
        SignalAim::Watch { last_words } => leave(Some(std::mem::take(last_words))),
        SignalAim::Run { target, pulls } => (target, pulls),
    };
    *pulls += 1;
    let (force, typed) = match pulls {
        1 => (Force::Graceful, "Ctrl-C"),
        2 => (Force::Now, "second Ctrl-C"),
        _ => leave(target.last_words.take()),
    };
    let how = match interrupt {
        Interrupt::Terminate => {
            let asked = How::asked(force, Some("SIGTERM"));
            How { reason: Reason::Shutdown, by: "system".into(), ..asked }
        }
        Interrupt::CtrlC => {
            WAS_PULLED.store(true, Ordering::Relaxed);
            How::asked(force, Some(typed))
        }
    };
    (target.pull)(how);
    true
}

/// Exits at once. A terminal that accepts no output misses the last words, and delays nothing.
fn leave(last_words: Option<String>) -> ! {
    if let Some(words) = last_words {
        let (said, heard) = std::sync::mpsc::channel();
        let say = move || {
            write_last(&words);
            // The other thread may have stopped waiting.
            let _ = said.send(());
        };
        if std::thread::Builder::new().spawn(say).is_ok() {
            let _ = heard.recv_timeout(LAST_WORDS);
        }
    }
    super::leave(Exit::Interrupted)
}

fn lock(aim: &Mutex<SignalAim>) -> MutexGuard<'_, SignalAim> {
    aim.lock().unwrap_or_else(PoisonError::into_inner)
}
