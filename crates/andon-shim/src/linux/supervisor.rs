//! The shim's main function: from the host's first byte to the proof.

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
use super::sweep::{Children, Reaper, Swept, ask_to_end, living, now, sweep};
use super::{proc, start};
use crate::protocol::{Config, Status, Word};

/// After this long a tool gets a cgroup. Moving into one can take milliseconds, which a short command should not pay.
const SETTLING: Duration = Duration::from_millis(30);
/// How many looks moving the tree may take.
const LOOKS: usize = 20;
/// How often to try to remove an empty cgroup.
const REMOVALS: usize = 50;

/// What the shim was started with: the socket, and the tool's output.
struct Inheritance {
    control: Control,
    host: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// Supervises one tool for its host, and returns the exit code.
pub(crate) fn serve(host: Pid) -> i32 {
    match take_over(host).and_then(|inheritance| Ok((inheritance, catch_signals()?))) {
        Ok((inheritance, signals)) => supervise(inheritance, &signals),
        // The host is gone or has sent nothing: nothing was started, and there is nobody to tell.
        Err(_) => 1,
    }
}

/// Turns this process into a shim. Nothing has been started while this can still fail.
fn take_over(host: Pid) -> io::Result<Inheritance> {
    let [control, stdout, stderr] = [stdin(), stdout(), stderr()].map(|fd| fcntl_dupfd_cloexec(fd, 3));
    let (control, stdout, stderr) = (Control::new(control?), stdout?, stderr?);
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    let handle = match pidfd_open(host, PidfdFlags::empty()) {
        Ok(handle) => Some(handle),
        // If the kernel has no pidfds, the end of the socket must be enough.
        Err(Errno::NOSYS | Errno::PERM) => None,
        Err(error) => return Err(error.into()),
    };
    // A tool can stop its shim, which then would not notice the host's death: with this the kernel wakes it. At any other time
    // the signal does nothing (it is also sent when a thread of the host ends).
    set_parent_process_death_signal(Some(rustix::process::Signal::CONT))?;
    // Only now is it certain that the handle is the host's, and not that of another process with its id.
    if getppid() != Some(host) {
        return Err(Errno::SRCH.into());
    }
    // A name for the list of processes.
    let _ = rustix::thread::set_name(c"andon-shim");
    // Leaves the host's terminal. It fails only if this process already leads a session.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    Ok(Inheritance { control, host: handle, stdout, stderr })
}

/// Signals are read from a descriptor, like everything else. The tool does not inherit this: its mask is cleared at its start.
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
        // The host has changed its mind. Nothing was started, so nothing is left.
        control.say(&Word::Gone);
        return 0;
    };
    // The tool's descriptors are moved into it and closed here, so that its pipes end when the tool closes them.
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

/// Waits until the tree must be ended or has ended by itself. Returns its cgroup.
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
        // When the main process ends, the rest is ended with it, unless the tree was asked to end: then it has the host's grace.
        if children == Children::None || (reaper.status.is_some() && !asked) {
            return cgroup;
        }
        if gather_at.is_some_and(|at| now() >= at) {
            gather_at = None;
            cgroup = gather(control);
        }
        match wait_for_news(control, host, signals, gather_at) {
            News::LookAgain => {}
            News::Wish(Wish::Term) => {
                asked = true;
                ask_to_end();
            }
            News::Wish(Wish::Kill) => return cgroup,
        }
    }
}

/// Moves the whole tree into its own cgroup, if one can be created. A process that is forked during this is found by the next
/// look.
fn gather(control: &Control) -> Option<Cgroup> {
    let cgroup = Cgroup::make(&format!("andon-{}", std::process::id()))?;
    // The host is told first: if the shim dies a moment later, it finds them there.
    control.say(&Word::Grouped(cgroup.path().into()));
    let looks = (0..LOOKS).map(|_| living().collect());
    // The cgroup is only an addition: a process that cannot be moved is found without it.
    proc::until_none_is_new(looks, |process| drop(cgroup.take_in(process.pid)));
    Some(cgroup)
}

enum News {
    /// A child may have died, or the time is up: look again.
    LookAgain,
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
        Ok(0) | Err(Errno::INTR) => return News::LookAgain,
        Ok(_) => {}
        // If it cannot watch, it is better to end everything.
        Err(_) => return News::Wish(Wish::Kill),
    }
    let ready: Vec<bool> = fds.iter().map(is_ready).collect();
    match ready.as_slice() {
        [_, _, true] => News::Wish(Wish::Kill),
        [true, ..] if drain(signals.as_fd()) => News::Wish(Wish::Kill),
        [_, true, ..] => News::Wish(control.receive_order()),
        _ => News::LookAgain,
    }
}

/// Reads all signals that have come. Returns whether one of them asks this process to end.
pub(crate) fn drain(signals: BorrowedFd<'_>) -> bool {
    let mut asked = false;
    let mut info = [0; 128];
    // The kernel writes 128 bytes per signal, which begin with the signal's number.
    while let Ok(128) = rustix::io::read(signals, &mut info) {
        let number = info.first_chunk().map_or(0, |word| i32::from_ne_bytes(*word));
        asked |= number != Signal::SIGCHLD as i32;
    }
    asked
}

/// Ends what is left, and tells the host how that went.
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
    // It is an unreaped child of this process, so it is visible, dead or alive.
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
