//! Ctrl-C: the one place that hears signals.
//!
//! Signals are heard on a thread of their own, and the cord is pulled right there: a terminal that has stopped taking
//! output delays no stop, and no third Ctrl-C. A run at a server is told by a task of its own, so nothing waits here either.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use andon_runtime::{Force, Reason};
use anyhow::Context;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::Exit;
use crate::how::How;
use crate::show::out::write_last;

/// How long a terminal is waited for to take the last words.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Whether Ctrl-C was pressed for the run that signals are aimed at.
static WAS_PULLED: AtomicBool = AtomicBool::new(false);

/// Whether Ctrl-C was pressed here for the run that is followed, so that another one stops it now.
pub(crate) fn was_pulled() -> bool {
    WAS_PULLED.load(Ordering::Relaxed)
}

/// What was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// SIGINT: a person pressed Ctrl-C.
    CtrlC,
    /// SIGTERM: the system wants the program to end.
    Terminate,
}

/// What a signal does at this moment.
enum Aim {
    /// No run is there: whoever waits for a prompt is told.
    Nobody,
    /// A run is there, and was pulled at so often.
    Run { target: Target, pulls: u32 },
    /// A server is there, and was told so often to end.
    Server { told: u32 },
    /// Somebody only looks: any signal leaves, with these words.
    Watch { last_words: String },
}

/// What signals stop.
pub(crate) struct Target {
    /// Stops it; does not wait.
    pub(crate) pull: Box<dyn Fn(How) + Send>,
    /// What is said when it is left by a third signal.
    pub(crate) last_words: Option<String>,
}

/// The signals that come while no run is there, and the aim of those that come while one is.
pub(crate) struct Interrupts {
    aim: Arc<Mutex<Aim>>,
    idle: UnboundedReceiver<Interrupt>,
}

impl Interrupts {
    /// Begins to listen.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let heard = "signals cannot be heard";
        let mut ctrl_c = signal(SignalKind::interrupt()).context(heard)?;
        let mut terminate = signal(SignalKind::terminate()).context(heard)?;
        let aim = Arc::new(Mutex::new(Aim::Nobody));
        let (tell, idle) = unbounded_channel();
        let (handle, aimed) = (Handle::current(), Arc::clone(&aim));
        let listen = move || {
            handle.block_on(async {
                while let Some(interrupt) = next(&mut ctrl_c, &mut terminate).await {
                    act(&aimed, interrupt, &tell);
                }
            });
        };
        std::thread::Builder::new().name("andon-signals".to_owned()).spawn(listen).context(heard)?;
        Ok(Self { aim, idle })
    }

    /// From now on signals stop this, until the guard is dropped.
    pub(crate) fn aim_at(&self, target: Target) -> Aimed {
        WAS_PULLED.store(false, Ordering::Relaxed);
        *lock(&self.aim) = Aim::Run { target, pulls: 0 };
        Aimed(Arc::clone(&self.aim))
    }

    /// As [`aim_at`](Self::aim_at), and a signal that came before there was a run counts for this one.
    pub(crate) fn aim_at_first(&mut self, target: Target) -> Aimed {
        let aimed = self.aim_at(target);
        while let Ok(interrupt) = self.idle.try_recv() {
            pull(&mut lock(&self.aim), interrupt);
        }
        aimed
    }

    /// From now on the first two signals of either kind are [told](Self::while_idle), and the third leaves at once.
    pub(crate) fn aim_at_server(&self) {
        *lock(&self.aim) = Aim::Server { told: 0 };
    }

    /// From now on any signal leaves at once, with these words, also while a terminal takes no output. So does one that has come
    /// already.
    pub(crate) fn leave_with(&mut self, last_words: String) {
        *lock(&self.aim) = Aim::Watch { last_words };
        if let Ok(interrupt) = self.idle.try_recv() {
            pull(&mut lock(&self.aim), interrupt);
        }
    }

    /// The next signal that comes while no run is there.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a signal is taken only when it is returned.
    pub(crate) async fn while_idle(&mut self) -> Interrupt {
        match self.idle.recv().await {
            Some(interrupt) => interrupt,
            // Nobody listens any more, so nothing will come.
            None => std::future::pending().await,
        }
    }
}

/// While this lives, signals go to a run.
pub(crate) struct Aimed(Arc<Mutex<Aim>>);

impl Drop for Aimed {
    fn drop(&mut self) {
        *lock(&self.0) = Aim::Nobody;
    }
}

async fn next(ctrl_c: &mut Signal, terminate: &mut Signal) -> Option<Interrupt> {
    tokio::select! {
        heard = ctrl_c.recv() => heard.map(|()| Interrupt::CtrlC),
        heard = terminate.recv() => heard.map(|()| Interrupt::Terminate),
    }
}

fn act(aim: &Mutex<Aim>, interrupt: Interrupt, tell: &UnboundedSender<Interrupt>) {
    let mut aim = lock(aim);
    let was_aimed = pull(&mut aim, interrupt);
    if !was_aimed || interrupt == Interrupt::Terminate {
        // Who does not listen has left already.
        let _ = tell.send(interrupt);
    }
}

/// Stops the run that is there, if one is.
fn pull(aim: &mut Aim, interrupt: Interrupt) -> bool {
    let (target, pulls) = match aim {
        Aim::Nobody => return false,
        Aim::Server { told } => {
            *told += 1;
            if *told > 2 {
                Exit::Interrupted.leave();
            }
            return false;
        }
        Aim::Watch { last_words } => leave(Some(std::mem::take(last_words))),
        Aim::Run { target, pulls } => (target, pulls),
    };
    *pulls += 1;
    let how = match interrupt {
        Interrupt::Terminate => {
            let force = match pulls {
                1 => Force::Graceful,
                2 => Force::Now,
                _ => leave(target.last_words.take()),
            };
            let asked = How::asked(force, Some("SIGTERM".to_owned()));
            How { reason: Reason::Shutdown, by: "system".to_owned(), ..asked }
        }
        Interrupt::CtrlC => {
            WAS_PULLED.store(true, Ordering::Relaxed);
            match pulls {
                1 => How::asked(Force::Graceful, Some("Ctrl-C".to_owned())),
                2 => How::asked(Force::Now, Some("second Ctrl-C".to_owned())),
                _ => leave(target.last_words.take()),
            }
        }
    };
    (target.pull)(how);
    true
}

/// Leaves at once. A terminal that takes no output does not hear the last words, and delays nothing.
fn leave(last_words: Option<String>) -> ! {
    if let Some(words) = last_words {
        let (said, heard) = std::sync::mpsc::channel();
        let say = move || {
            write_last(&words);
            // Who waits may have left already.
            let _ = said.send(());
        };
        if std::thread::Builder::new().spawn(say).is_ok() {
            let _ = heard.recv_timeout(LAST_WORDS);
        }
    }
    Exit::Interrupted.leave()
}

fn lock(aim: &Mutex<Aim>) -> MutexGuard<'_, Aim> {
    aim.lock().unwrap_or_else(PoisonError::into_inner)
}
