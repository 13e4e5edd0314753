//! The shim's own course: from the host's first byte to the proof.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{
    Pid, PidfdFlags, chdir, getpid, getppid, pidfd_open, set_child_subreaper, set_parent_process_death_signal, setsid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stderr, stdin, stdout};

use super::cgroup::Cgroup;
use super::control::{Control, Wish};
use super::sweep::{Children, Reaper, Swept, ask_to_end, now, sweep};
use super::{proc, start};
use crate::protocol::{Config, Status, Word};

/// After this long a tool gets a cgroup. Moving into one can take milliseconds, which a short command need not pay.
const SETTLING: Duration = Duration::from_millis(30);
/// How many looks the moving takes at most.
const LOOKS: usize = 20;
/// How often an empty cgroup is asked to go.
const REMOVALS: usize = 50;

/// What the shim was started with: the socket, and the tool's output.
struct Inheritance {
    control: Control,
    host: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// Supervises one tool for its host, and says with which code to exit.
pub(crate) fn serve(host: Pid) -> i32 {
    match take_over(host).and_then(|inheritance| Ok((inheritance, catch_signals()?))) {
        Ok((inheritance, signals)) => supervise(inheritance, &signals),
        // The host is gone, or has sent nothing: nothing was started, and nobody is there to be told.
        Err(_) => 1,
    }
}

/// Becomes what a shim is. Nothing has been started while this can still fail.
fn take_over(host: Pid) -> io::Result<Inheritance> {
    let [control, stdout, stderr] = [stdin(), stdout(), stderr()].map(|fd| fcntl_dupfd_cloexec(fd, 3));
    let (control, stdout, stderr) = (Control::new(control?), stdout?, stderr?);
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    let handle = match pidfd_open(host, PidfdFlags::empty()) {
        Ok(handle) => Some(handle),
        // Where the kernel has no pidfds, the end of the socket has to be enough.
        Err(Errno::NOSYS | Errno::PERM) => None,
        Err(error) => return Err(error.into()),
    };
    // A tool can stop its shim, which then would not notice that the host dies: the kernel wakes it. At any other time (a
    // host's thread that ends counts as well) the signal does nothing.
    set_parent_process_death_signal(Some(rustix::process::Signal::CONT))?;
    // Only now it is certain that the handle is that of the host, and not of somebody who got its id.
    if getppid() != Some(host) {
        return Err(Errno::SRCH.into());
    }
    // A name for those who look at the list of processes.
    let _ = rustix::thread::set_name(c"andon-shim");
    // Away from the host's terminal. It fails only where this process leads a session already.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    Ok(Inheritance { control, host: handle, stdout, stderr })
}

/// Signals are read where everything else is waited for. The tool does not inherit that: its mask is cleared when it starts.
fn catch_signals() -> io::Result<SignalFd> {
    let mut caught = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        caught.add(signal);
    }
    caught.thread_block()?;
    Ok(SignalFd::with_flags(&caught, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

fn supervise(inheritance: Inheritance, signals: &SignalFd) -> i32 {
    let Inheritance { mut control, host, stdout, stderr } = inheritance;
    let Ok((stdin, config)) = control.receive_stdin().and_then(|stdin| Ok((stdin, control.receive_config()?))) else {
        // The host has thought better of it. Nothing was started, and that is the same proof.
        control.say(&Word::Gone);
        return 0;
    };
    // The tool's descriptors are moved into it and closed here, so that its pipes end when its own ends of them are closed.
    let tool = match start::start(&config, [stdin, Some(stdout), Some(stderr)]) {
        Ok(tool) => tool,
        Err(refusal) => {
            control.say(&Word::Refused(refusal));
            return 0;
        }
    };
    // The host's folder can be removed while the tool runs elsewhere.
    let _ = chdir("/");
    control.say(&started(tool));
    let mut reaper = Reaper::new(tool);
    let cgroup = watch(&mut control, host.as_ref(), signals, &mut reaper);
    end(&control, signals, &mut reaper, cgroup.as_ref(), &config)
}

/// Waits until the tree is to be ended, or has ended by itself. Says in which cgroup it is.
fn watch(control: &mut Control, host: Option<&OwnedFd>, signals: &SignalFd, reaper: &mut Reaper) -> Option<Cgroup> {
    let mut asked = false;
    let mut cgroup = None;
    let mut gather_at = Some(now() + SETTLING);
    loop {
        let had_ended = reaper.status.is_some();
        let children = reaper.reap();
        if let (false, Some(status)) = (had_ended, reaper.status) {
            control.say(&Word::Exited(status));
        }
        // What is left when the main process ends is ended with it. Only who was asked to end has the host's grace for it.
        if children == Children::None || (reaper.status.is_some() && !asked) {
            return cgroup;
        }
        if gather_at.is_some_and(|at| now() >= at) {
            gather_at = None;
            cgroup = gather(control);
        }
        match wait_for_news(control, host, signals, gather_at) {
            News::Death | News::Quiet => {}
            News::Wish(Wish::Term) => {
                asked = true;
                ask_to_end();
            }
            News::Wish(Wish::Kill) => return cgroup,
        }
    }
}

/// Puts the whole tree into a cgroup of its own, where one can be made. Whoever is forked meanwhile is found by the next look.
fn gather(control: &Control) -> Option<Cgroup> {
    let cgroup = Cgroup::make(&format!("andon-{}", std::process::id()))?;
    // Said first: a host whose shim dies a moment later finds them there.
    control.say(&Word::Grouped(cgroup.path().into()));
    let mut known = HashSet::new();
    for _ in 0..LOOKS {
        let tree = proc::descendants(getpid().as_raw_nonzero().get());
        let fresh: Vec<_> =
            tree.into_iter().filter(|one| !one.is_dead() && known.insert((one.pid, one.start))).collect();
        if fresh.is_empty() {
            break;
        }
        for process in fresh {
            // It is there on top: what cannot be moved, or is gone, is found without it.
            let _ = cgroup.take_in(process.pid);
        }
    }
    Some(cgroup)
}

enum News {
    /// A child may have died.
    Death,
    /// Nothing has happened, and the time is over.
    Quiet,
    Wish(Wish),
}

fn wait_for_news(control: &mut Control, host: Option<&OwnedFd>, signals: &SignalFd, until: Option<Instant>) -> News {
    if control.holds_an_order() {
        return News::Wish(control.receive_order());
    }
    let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    let mut fds = vec![PollFd::new(signals, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
    fds.extend(host.map(|host| PollFd::new(host, PollFlags::IN)));
    let left = until.map(|until| until.saturating_duration_since(now()));
    let left = left.map(|left| Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() });
    match poll(&mut fds, left.as_ref()) {
        Ok(0) => return News::Quiet,
        Ok(_) => {}
        Err(Errno::INTR) => return News::Death,
        // Without eyes it is better to end everything than to let it run unwatched.
        Err(_) => return News::Wish(Wish::Kill),
    }
    let ready: Vec<bool> = fds.iter().map(is_ready).collect();
    match ready.as_slice() {
        [_, _, true] => News::Wish(Wish::Kill),
        [true, ..] if drain(signals.as_fd()) => News::Wish(Wish::Kill),
        [_, true, ..] => News::Wish(control.receive_order()),
        _ => News::Death,
    }
}

/// Reads all signals that have come; says whether one of them asks this process to end.
pub(crate) fn drain(signals: BorrowedFd<'_>) -> bool {
    let mut asked = false;
    let mut info = [0; 128];
    // The signal's number is the first word of what the kernel writes, 128 bytes a signal.
    while let Ok(128) = rustix::io::read(signals, &mut info) {
        let number = info.first_chunk().map_or(0, |word| i32::from_ne_bytes(*word));
        asked |= number != Signal::SIGCHLD as i32;
    }
    asked
}

/// Ends what is left, and says how that went.
fn end(control: &Control, signals: &SignalFd, reaper: &mut Reaper, cgroup: Option<&Cgroup>, config: &Config) -> i32 {
    let had_ended = reaper.status.is_some();
    let swept = sweep(reaper, cgroup, signals.as_fd(), Duration::from_millis(config.patience_ms));
    if let (false, Some(status)) = (had_ended, reaper.status) {
        // It may have ended by itself at the last moment.
        let by_force = status == Status::Signal(Signal::SIGKILL as i32);
        control.say(&if by_force { Word::Killed } else { Word::Exited(status) });
    }
    remove(cgroup);
    match swept {
        Swept::Gone => {
            control.say(&Word::Gone);
            0
        }
        Swept::GaveUp(survivors) => {
            control.say(&Word::GaveUp(survivors));
            1
        }
    }
}

fn started(tool: Pid) -> Word {
    let pid = tool.as_raw_nonzero().get();
    // It is this process's child and unreaped, so it can be looked at, dead or alive.
    let start = proc::look(pid).map_or(0, |process| process.start);
    Word::Started { pid, start }
}

/// Removes the cgroup, which the kernel allows a moment after the last process in it was reaped.
fn remove(cgroup: Option<&Cgroup>) {
    let Some(cgroup) = cgroup else { return };
    for _ in 0..REMOVALS {
        if cgroup.remove() {
            return;
        }
        rustix::thread::sched_yield();
    }
}
