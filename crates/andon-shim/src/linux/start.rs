//! Starting the tool, from within the shim.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::libc;
use nix::sys::signal::SigSet;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, fchdir, getpid, getppid, set_parent_process_death_signal, setrlimit, setsid,
};

use super::limits::rlimits;
use crate::protocol::Config;
use crate::refusal::{Part, Refusal};

/// The last signal that has a name. What is above is the C library's own affair.
const LAST_SIGNAL: libc::c_int = 31;

/// Starts the tool in a session of its own, with this standard input, output and error.
pub(crate) fn start(config: &Config, stdio: [Option<OwnedFd>; 3]) -> Result<Pid, Refusal> {
    let folder = config.cwd.as_deref().map(enter).transpose()?;
    let mut command = Command::new(&config.program);
    command.args(&config.args).env_clear().envs(config.env.iter().map(|(name, value)| (name, value)));
    let [stdin, stdout, stderr] = stdio.map(|fd| fd.map_or_else(Stdio::null, Stdio::from));
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let birth = Birth { shim: getpid(), folder, limits: rlimits(&config.limits) };
    arrange(&mut command, birth);
    let child = command.spawn().map_err(|error| refusal(config, &error))?;
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| refusal(config, &io::Error::from(Errno::SRCH)))
}

/// What is to be done in the new process before the tool's program is in it.
struct Birth {
    shim: Pid,
    folder: Option<OwnedFd>,
    limits: Vec<(Resource, Rlimit)>,
}

impl Birth {
    /// Only system calls: no memory is taken and no lock.
    fn happen(&self) -> io::Result<()> {
        // The shim reads its signals elsewhere and has blocked them; the tool is to get its own.
        SigSet::empty().thread_set_mask()?;
        setsid()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A shim that died before the line above would not be noticed by it.
        if getppid() != Some(self.shim) {
            return Err(Errno::SRCH.into());
        }
        if let Some(folder) = &self.folder {
            fchdir(folder.as_fd())?;
        }
        self.limits.iter().try_for_each(|&(resource, limit)| setrlimit(resource, limit))?;
        Ok(())
    }
}

/// The one piece of unsafe code in the project. It runs in the shim, never in the host, whose memory is not copied and whose
/// locks and threads are not in the new process.
#[expect(unsafe_code, reason = "a session, a parent-death signal and limits can only be set between fork and exec")]
fn arrange(command: &mut Command, birth: Birth) {
    // SAFETY: the closure makes system calls only; it takes no memory and no lock, and the shim has a single thread. The call
    // for the descriptors touches no memory, and marks them for the exec: nobody's descriptor is closed under him. The default is
    // no handler, so that none can be called.
    unsafe {
        command.pre_exec(move || {
            // What the host, or whoever started it, has left open for its children is not for the tool. Before Linux 5.11 there is
            // no such call, and the tool gets them.
            let _ = libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
            // What the host ignores, as one that `nohup` or a shell's background has started does, the tool is to hear: a stop is a
            // signal. Two of them cannot be ignored, and say so.
            for number in 1..=LAST_SIGNAL {
                let _ = libc::signal(number, libc::SIG_DFL);
            }
            birth.happen()
        })
    };
}

/// The working folder, opened here so that its faults can be told from those of the command.
fn enter(folder: &OsStr) -> Result<OwnedFd, Refusal> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(folder, flags, Mode::empty()).map_err(|error| Refusal::new(Part::Folder, folder, &error.into()))
}

fn refusal(config: &Config, error: &io::Error) -> Refusal {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN) => Refusal::new(Part::Means, "the limit on processes is reached", error),
        Some(Errno::NOMEM) => Refusal::new(Part::Means, "there is not enough memory, or its limit is too low", error),
        Some(Errno::MFILE | Errno::NFILE) => Refusal::new(Part::Means, "too many files are open", error),
        // The folder was opened, and yet may not be entered.
        Some(Errno::ACCESS) if config.cwd.as_deref().is_some_and(is_locked) => {
            Refusal::new(Part::Folder, config.cwd.clone().unwrap_or_default(), error)
        }
        _ => Refusal::new(Part::Command, &config.program, error),
    }
}

fn is_locked(folder: &OsStr) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::EXEC_OK).is_err()
}
