//! A folder that no path leads out of: not by `..`, not by an absolute path, not by a link.
//!
//! On Linux the kernel makes sure of that. Elsewhere each step of the path is opened separately, and links are not followed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, mkdirat, open, openat};
use rustix::io::Errno;
use thiserror::Error;

/// The folder.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    path: PathBuf,
}

/// Why a path is refused.
#[derive(Debug, Error)]
pub(crate) enum PathError {
    #[error("`{0}` is refused: give a path relative to the folder, without `..`")]
    Outside(String),
    #[error("`{0}` is refused: a link in it leads out of the folder")]
    Link(String),
    #[error("`{path}` is {what}, not a file")]
    NotAFile { path: String, what: &'static str },
    #[error("there is no file `{0}`")]
    NotFound(String),
    #[error("`{path}`: {error}")]
    Io { path: String, error: io::Error },
}

impl Root {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn open(&self) -> Result<OwnedFd, PathError> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        open(&self.path, flags, Mode::empty())
            .map_err(|error| PathError::Io { path: self.path.display().to_string(), error: error.into() })
    }

    /// Opens a regular file for reading. Opening a device can have effects, and opening a FIFO can wait forever.
    pub(crate) fn open_file(&self, path: &str) -> Result<OwnedFd, PathError> {
        let root = self.open()?;
        let relative = inside(path)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        #[cfg(target_os = "linux")]
        {
            let looked_at =
                beneath(root.as_fd(), &relative, OFlags::PATH | OFlags::CLOEXEC).map_err(|error| about(path, error))?;
            is_a_file(path, &looked_at)?;
        }
        let file = beneath(root.as_fd(), &relative, flags).map_err(|error| about(path, error))?;
        // Checked again, because it may have been replaced in the meantime.
        is_a_file(path, &file)?;
        Ok(file)
    }

    /// The folder of a file, created if it does not exist, and the file's name.
    pub(crate) fn open_parent(&self, path: &str) -> Result<(OwnedFd, std::ffi::OsString), PathError> {
        let relative = inside(path)?;
        let name = relative.file_name().ok_or_else(|| PathError::Outside(path.to_owned()))?.to_owned();
        let root = self.open()?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let mut folder = root.try_clone().map_err(|error| PathError::Io { path: path.to_owned(), error })?;
        let mut so_far = PathBuf::new();
        for step in relative.parent().unwrap_or(Path::new("")).components() {
            so_far.push(step);
            let mut next = beneath(root.as_fd(), &so_far, flags);
            if next.as_ref().is_err_and(|&error| error == Errno::NOENT) {
                match mkdirat(&folder, step.as_os_str(), Mode::from_raw_mode(0o777)) {
                    // Somebody else may have created it in the meantime.
                    Ok(()) | Err(Errno::EXIST) => next = beneath(root.as_fd(), &so_far, flags),
                    Err(error) => return Err(about(path, error)),
                }
            }
            folder = next.map_err(|error| about(path, error))?;
        }
        Ok((folder, name))
    }
}

/// The path, if it only leads downwards.
fn inside(path: &str) -> Result<PathBuf, PathError> {
    let refused = || PathError::Outside(path.to_owned());
    let mut steps = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(step) => steps.push(step),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(refused()),
        }
    }
    if steps.as_os_str().is_empty() || path.contains('\0') { Err(refused()) } else { Ok(steps) }
}

/// Opens a path in a folder.
fn beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        // The kernel asks to try again if something was renamed in the meantime.
        for _ in 0..10 {
            match openat2(root, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                Err(Errno::NOSYS) => break,
                other => return other,
            }
        }
    }
    step_by_step(root, path, flags)
}

/// Opens a path in a folder, one step at a time, without following links.
fn step_by_step(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut steps: Vec<&OsStr> = path.iter().collect();
    let last = steps.pop().ok_or(Errno::NOENT)?;
    let mut folder = rustix::io::fcntl_dupfd_cloexec(root, 0)?;
    for step in steps {
        let way = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        folder = openat(&folder, step, way, Mode::empty())?;
    }
    openat(&folder, last, flags | OFlags::NOFOLLOW, Mode::empty())
}

fn is_a_file(path: &str, opened: &OwnedFd) -> Result<(), PathError> {
    let stat = fstat(opened).map_err(|error| about(path, error))?;
    match kind(FileType::from_raw_mode(stat.st_mode)) {
        None => Ok(()),
        Some(what) => Err(PathError::NotAFile { path: path.to_owned(), what }),
    }
}

/// What it is, if it is not a regular file.
pub(crate) fn kind(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile => None,
        FileType::Directory => Some("a folder"),
        FileType::Symlink => Some("a link"),
        FileType::Fifo => Some("a FIFO"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}

/// The kernel's error, for this path.
pub(crate) fn about(path: &str, error: Errno) -> PathError {
    let path = path.to_owned();
    match error {
        Errno::XDEV | Errno::LOOP => PathError::Link(path),
        Errno::NOENT => PathError::NotFound(path),
        error => PathError::Io { path, error: error.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_lead_downwards_are_accepted() {
        for refused in ["", ".", "/", "/etc/passwd", "..", "a/../../b", "a/..", "a\0b"] {
            assert!(inside(refused).is_err(), "{refused:?}");
        }
        assert_eq!(inside("./a//b/./c").unwrap(), Path::new("a/b/c"));
    }

    #[test]
    fn without_the_kernels_help_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("real")).unwrap();
        std::fs::write(folder.path().join("real/file"), "x").unwrap();
        std::os::unix::fs::symlink("real", folder.path().join("link")).unwrap();
        let root = Root::new(folder.path()).open().unwrap();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        assert!(step_by_step(root.as_fd(), Path::new("real/file"), flags).is_ok());
        assert!(step_by_step(root.as_fd(), Path::new("link/file"), flags).is_err());
        assert!(step_by_step(root.as_fd(), Path::new("link"), flags).is_err());
    }
}
