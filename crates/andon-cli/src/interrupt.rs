//! Ctrl-C: the one place that hears signals.
//!
//! Signals are heard on a thread of their own, and the cord is pulled right there: a terminal that has stopped taking
//! output delays no stop, and no third Ctrl-C.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use andon::{Cancel, Cord, Reason};
use anyhow::Context;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::Exit;

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
    Run { cord: Cord, pulls: u32 },
    /// A server is there, and was told so often to end.
    Server { told: u32 },
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

    /// From now on signals pull this cord, until the guard is dropped.
    pub(crate) fn aim_at(&self, cord: Cord) -> Aimed {
        *lock(&self.aim) = Aim::Run { cord, pulls: 0 };
        Aimed(Arc::clone(&self.aim))
    }

    /// As [`aim_at`](Self::aim_at), and a signal that came before there was a run counts for this one.
    pub(crate) fn aim_at_first(&mut self, cord: Cord) -> Aimed {
        let aimed = self.aim_at(cord);
        while let Ok(interrupt) = self.idle.try_recv() {
            pull(&mut lock(&self.aim), interrupt);
        }
        aimed
    }

    /// From now on the first two signals of either kind are [told](Self::while_idle), and the third leaves at once.
    pub(crate) fn aim_at_server(&self) {
        *lock(&self.aim) = Aim::Server { told: 0 };
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

/// Pulls the cord of the run that is there, if one is.
fn pull(aim: &mut Aim, interrupt: Interrupt) -> bool {
    let (cord, pulls) = match aim {
        Aim::Nobody => return false,
        Aim::Server { told } => {
            *told += 1;
            if *told > 2 {
                Exit::Interrupted.leave();
            }
            return false;
        }
        Aim::Run { cord, pulls } => (cord, pulls),
    };
    let cancel = match interrupt {
        Interrupt::Terminate => Cancel::graceful().reason(Reason::Shutdown).by("system").note("SIGTERM"),
        Interrupt::CtrlC => {
            *pulls += 1;
            match pulls {
                1 => Cancel::graceful().by(who()).note("Ctrl-C"),
                2 => Cancel::now().by(who()).note("second Ctrl-C"),
                _ => Exit::Interrupted.leave(),
            }
        }
    };
    cord.pull(cancel);
    true
}

/// Who sits at the terminal, as far as the system says.
pub(crate) fn who() -> String {
    std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "terminal".to_owned())
}

fn lock(aim: &Mutex<Aim>) -> MutexGuard<'_, Aim> {
    aim.lock().unwrap_or_else(PoisonError::into_inner)
}
