//! The ways in which the explorer stops a run.

/// How a run is stopped.
///
/// ```
/// # use andon_testkit::explore::{Mode, explore};
/// let script = explore("crashes").play(|_| async {}).modes([Mode::Crash, Mode::PullThenCrash]);
/// # script.run();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Mode {
    /// The cord is pulled gracefully.
    Graceful,
    /// The cord is pulled with no grace.
    Now,
    /// The cord is pulled so that the turn finishes.
    AfterTurn,
    /// The cord is pulled gracefully, and harder a little later.
    Harden,
    /// Every handle that the caller holds is dropped.
    DropHandles,
    /// The process dies; its journal is recovered.
    Crash,
    /// The cord is pulled gracefully, and a little later the process dies.
    PullThenCrash,
    /// The cord is pulled gracefully, and a little later the driver panics.
    PullThenPanic,
    /// A tool panics.
    PanicTool,
    /// A hook panics.
    PanicHook,
    /// The driver, or the model that it polls, panics.
    PanicDriver,
    /// The disk is full, and a little later there is room again.
    DiskFull,
    /// The disk is full when the cord is pulled, and a little later there is room again.
    PullOnFullDisk,
    /// The disk is full; a little later the cord is pulled, and there is room again.
    DiskFullThenPull,
    /// The process's lease is over, because it does not hear from a journal that it shares; a little later it is told.
    LeaseOver,
    /// The lease is over, and another process takes over every run at work; a little later this one hears of it.
    TakenOver,
}

impl Mode {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Graceful,
        Self::Now,
        Self::AfterTurn,
        Self::Harden,
        Self::DropHandles,
        Self::Crash,
        Self::PullThenCrash,
        Self::PullThenPanic,
        Self::PanicTool,
        Self::PanicHook,
        Self::PanicDriver,
        Self::DiskFull,
        Self::PullOnFullDisk,
        Self::DiskFullThenPull,
        Self::LeaseOver,
        Self::TakenOver,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Graceful => "graceful",
            Self::Now => "now",
            Self::AfterTurn => "after_turn",
            Self::Harden => "harden",
            Self::DropHandles => "drop",
            Self::Crash => "crash",
            Self::PullThenCrash => "pull then crash",
            Self::PullThenPanic => "pull then panic",
            Self::PanicTool => "panic in a tool",
            Self::PanicHook => "panic in a hook",
            Self::PanicDriver => "panic in the driver",
            Self::DiskFull => "disk full",
            Self::PullOnFullDisk => "pull on a full disk",
            Self::DiskFullThenPull => "disk full, then pull",
            Self::LeaseOver => "lease over",
            Self::TakenOver => "taken over",
        }
    }

    /// Whether the process dies.
    pub(super) fn is_crash(self) -> bool {
        matches!(self, Self::Crash | Self::PullThenCrash)
    }

    /// Whether the journal is shared with other processes.
    pub(super) fn shares_the_journal(self) -> bool {
        matches!(self, Self::LeaseOver | Self::TakenOver)
    }

    /// Whether nothing can be written for a while.
    pub(super) fn fills_the_disk(self) -> bool {
        matches!(self, Self::DiskFull | Self::PullOnFullDisk | Self::DiskFullThenPull)
    }

    /// Whether the driver panics.
    pub(super) fn is_drivers_panic(self) -> bool {
        matches!(self, Self::PanicDriver | Self::PullThenPanic)
    }

    /// Whether the cord is pulled so that work in progress is cut, and the run goes on to its end by itself.
    pub(super) fn cuts(self) -> bool {
        matches!(self, Self::Graceful | Self::Now | Self::Harden | Self::PullOnFullDisk | Self::DiskFullThenPull)
    }

    /// Whether this can happen at a seam: a tool panics only where a tool is.
    pub fn applies_at(self, seam: &str) -> bool {
        match self {
            Self::PanicTool => seam.starts_with("tool:"),
            Self::PanicHook => seam.starts_with("hook:"),
            Self::PanicDriver => is_drivers(seam),
            _ => true,
        }
    }
}

/// Whether the driver, or the model that it polls, is here.
pub(super) fn is_drivers(seam: &str) -> bool {
    seam.starts_with("driver:") || seam.starts_with("model:")
}
