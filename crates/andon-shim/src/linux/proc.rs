//! Processes as `/proc` shows them: a snapshot that may already be out of date.
//!
//! A pid can be reused; a pid with its start time cannot. Signals go through a pidfd that is checked against the start time
//! after it was opened.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// One process at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub start: u64,
    /// Its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// Its state's letter: `Z` is a zombie, `T` is stopped.
    pub state: char,
    /// The first 15 bytes of its program's name, as the kernel keeps it.
    pub name: String,
}

impl Process {
    /// Whether it is dead and waiting to be reaped.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Sends it a signal, but never to another process that has got its id.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let gone = || io::Error::from(rustix::io::Errno::SRCH);
        let pid = Pid::from_raw(self.pid).ok_or_else(gone)?;
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        match look(self.pid) {
            Some(process) if process.start == self.start => Ok(pidfd_send_signal(&handle, signal)?),
            Some(_) | None => Err(gone()),
        }
    }
}

/// Looks at one process.
pub fn look(pid: i32) -> Option<Process> {
    let mut stat = Vec::with_capacity(512);
    fs::File::open(format!("/proc/{pid}/stat")).ok()?.read_to_end(&mut stat).ok()?;
    parse(&String::from_utf8_lossy(&stat))
}

/// Whether exactly this process lives: not another one with its id, and not a zombie.
pub fn lives(pid: i32, start: u64) -> bool {
    look(pid).is_some_and(|process| process.start == start && !process.is_dead())
}

/// All processes.
pub fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(look).collect()
}

/// All descendants of a process, parents before children.
pub fn descendants(of: i32) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = children.remove(&of).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next).map(|process| process.pid) {
        found.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// Does this to each process that these looks find, until one finds no process that is new. Returns all of them.
pub fn until_none_is_new(looks: impl IntoIterator<Item = Vec<Process>>, act: impl Fn(&Process)) -> Vec<Process> {
    let mut known = HashSet::new();
    let mut found = Vec::new();
    for look in looks {
        let fresh: Vec<_> = look.into_iter().filter(|process| known.insert((process.pid, process.start))).collect();
        if fresh.is_empty() {
            break;
        }
        fresh.iter().for_each(&act);
        found.extend(fresh);
    }
    found
}

/// `pid (name) state parent group session …`; the name may contain anything, even brackets.
fn parse(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    // The start time is the 22nd field; six have been read.
    let start = fields.nth(15)?.parse().ok()?;
    Some(Process { pid: pid.parse().ok()?, start, parent, group, session, state, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_move_the_fields() {
        let stat = "77 (a) S 1 (b)) T 5 6 7 0 -1 4 0 0 0 0 1 2 3 4 20 0 1 0 4242 1000 20";
        let process = parse(stat).unwrap();
        assert_eq!((process.pid, process.parent, process.group, process.session), (77, 5, 6, 7));
        assert_eq!((process.state, process.start, process.name.as_str()), ('T', 4242, "a) S 1 (b)"));
    }

    #[test]
    fn a_process_is_identified_by_its_start_time() {
        let me = look(std::process::id() as i32).unwrap();
        assert!(lives(me.pid, me.start));
        assert!(!lives(me.pid, me.start + 1));
    }

    #[test]
    fn a_signal_is_not_sent_to_a_process_with_a_reused_id() {
        let me = look(std::process::id() as i32).unwrap();
        let other = Process { start: me.start + 1, ..me };
        assert!(other.signal(Signal::KILL).is_err());
    }
}
