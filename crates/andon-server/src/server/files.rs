//! How many files the process may have open. Each connection is one.

use std::fs::File;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files that this process may open as far as the system allows, and returns that number; `None`
/// if there is no limit. Most systems start with a low limit, for historical reasons.
pub fn raise_file_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(_) => current,
    }
}

/// How many files may be open.
pub(crate) fn file_limit() -> usize {
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// How many files are open now; a typical number if the system does not tell.
pub(crate) fn open_files() -> usize {
    const USUAL: usize = 24;
    std::fs::read_dir("/proc/self/fd").map_or(USUAL, Iterator::count)
}

/// Spare file descriptors. They are closed one by one, so that a connection can still be accepted when no more files
/// can be opened.
pub(crate) struct Spares(Vec<File>);

impl Spares {
    const MOST: usize = 4;

    pub(crate) fn new() -> Self {
        let mut spares = Self(Vec::with_capacity(Self::MOST));
        spares.put_back();
        spares
    }

    /// Closes one, if there is one.
    pub(crate) fn give_up_one(&mut self) -> bool {
        self.0.pop().is_some()
    }

    /// Opens the missing ones again, as far as possible.
    pub(crate) fn put_back(&mut self) {
        while self.0.len() < Self::MOST {
            match File::open("/dev/null") {
                Ok(file) => self.0.push(file),
                Err(_) => return,
            }
        }
    }
}
