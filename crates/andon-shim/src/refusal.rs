//! Why a process could not be started, with a message that says what to do.

use std::ffi::OsString;
use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// Why a process could not be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What it failed at.
    pub part: Part,
    /// The path or name in question.
    pub what: OsString,
    /// The kernel's error number; 0 if it was not the kernel.
    pub errno: i32,
}

/// What starting a process failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// The working folder.
    Folder,
    /// The command itself.
    Command,
    /// Something that every process needs: descriptors, memory, a free process slot.
    Means,
}

impl Refusal {
    /// A refusal for this reason.
    pub fn new(part: Part, what: impl Into<OsString>, error: &io::Error) -> Self {
        Self { part, what: what.into(), errno: error.raw_os_error().unwrap_or(0) }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what.to_string_lossy();
        let error = io::Error::from_raw_os_error(self.errno);
        match (self.part, error.kind()) {
            (Part::Folder, io::ErrorKind::NotFound) => {
                write!(f, "the working folder `{what}` does not exist: create it, or name another")
            }
            (Part::Folder, io::ErrorKind::NotADirectory) => {
                write!(f, "the working folder `{what}` is not a folder: name one")
            }
            (Part::Folder, _) => write!(f, "the working folder `{what}` cannot be entered: {error}"),
            (Part::Command, io::ErrorKind::NotFound) => {
                write!(
                    f,
                    "there is no command `{what}` (or the interpreter that its first line names): check its name and PATH"
                )
            }
            // The system searched all of PATH, and may not have had access to one of its folders.
            (Part::Command, io::ErrorKind::PermissionDenied) if !what.contains('/') => {
                write!(f, "there is no executable command `{what}`: check its name, its permissions and PATH")
            }
            (Part::Command, io::ErrorKind::PermissionDenied) => {
                write!(f, "`{what}` may not be executed: check that it is a program and its permissions")
            }
            (Part::Command, io::ErrorKind::ArgumentListTooLong) => {
                write!(f, "the arguments of `{what}` are longer than the system allows: put them into a file")
            }
            (Part::Command, _) => write!(f, "`{what}` could not be started: {error}"),
            (Part::Means, _) if self.errno == 0 => write!(f, "cannot start a process: {what}"),
            (Part::Means, _) => write!(f, "cannot start a process: {what}: {error}"),
        }
    }
}
