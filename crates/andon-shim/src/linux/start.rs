//! Starts the tool, in the shim.

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

/// The last signal that has a name. The C library uses some of those above.
const LAST_SIGNAL: libc::c_int = 31;

/// Starts the tool in its own session, with this standard input, output and error.
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

/// What to do in the new process before it executes the tool's program.
struct Birth {
    shim: Pid,
    folder: Option<OwnedFd>,
    limits: Vec<(Resource, Rlimit)>,
}

impl Birth {
    /// Only system calls: it allocates no memory and takes no lock.
    fn happen(&self) -> io::Result<()> {
        // The shim has blocked its signals because it reads them elsewhere; the tool must get its own.
        SigSet::empty().thread_set_mask()?;
        setsid()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The line above does not notice a shim that died before it.
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

/// The only unsafe code in the project. It runs in the shim, never in the host, so the host's memory is not copied, and its
/// locks and threads are not in the new process.
#[expect(unsafe_code, reason = "a session, a parent-death signal and limits can only be set between fork and exec")]
fn arrange(command: &mut Command, birth: Birth) {
    // SAFETY: the closure only makes system calls; it allocates no memory and takes no lock, and the shim has a single thread.
    // The call for the descriptors touches no memory, and only marks them to be closed at the exec. SIG_DFL is not a handler, so
    // none can be called.
    unsafe {
        command.pre_exec(move || {
            // The tool must not get descriptors that the host, or whoever started it, has left open for its children. Before
            // Linux 5.11 there is no such call, and the tool gets them.
            let _ = libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
            // A host that was started by `nohup` or in a shell's background ignores some signals. The tool must not, because a stop
            // is a signal. For two of them this call fails, because they can never be ignored.
            for number in 1..=LAST_SIGNAL {
                let _ = libc::signal(number, libc::SIG_DFL);
            }
            birth.happen()
        })
    };
}

/// Opens the working folder here, so that its errors can be distinguished from the command's.
fn enter(folder: &OsStr) -> Result<OwnedFd, Refusal> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(folder, flags, Mode::empty()).map_err(|error| Refusal::new(Part::Folder, folder, &error.into()))
}

fn refusal(config: &Config, error: &io::Error) -> Refusal {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN) => Refusal::new(Part::Means, "the limit on processes has been reached", error),
        Some(Errno::NOMEM) => Refusal::new(Part::Means, "there is not enough memory, or its limit is too low", error),
        Some(Errno::MFILE | Errno::NFILE) => Refusal::new(Part::Means, "too many files are open", error),
        // The folder could be opened, but not entered.
        Some(Errno::ACCESS) if config.cwd.as_deref().is_some_and(is_locked) => {
            Refusal::new(Part::Folder, config.cwd.clone().unwrap_or_default(), error)
        }
        _ => Refusal::new(Part::Command, &config.program, error),
    }
}

fn is_locked(folder: &OsStr) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::EXEC_OK).is_err()
}
