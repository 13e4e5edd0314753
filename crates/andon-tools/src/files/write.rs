//! The `write_file` tool.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use andon_runtime::{Effect, Invocation, Returned, Tool, ToolError, ToolSpec, Work};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fchmod, fsync, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use serde_json::{Value, json};
use thiserror::Error;

use super::root::{PathError, Root, about, kind};

/// The default of how large a file may become.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes a file in a folder, as a whole or not at all.
///
/// It takes `{"path": "…", "content": "…", "append": false}`. The new content is written beside the old file and then replaces
/// it, so a reader sees either the old file or the new one, whenever the write is cut. Missing folders are created. No path
/// leads out of the folder; links, folders and devices are not written to.
#[derive(Debug, Clone)]
pub struct WriteFile {
    spec: Arc<ToolSpec>,
    root: Root,
    max_bytes: u64,
}

impl WriteFile {
    /// Writes files in this folder. Because it can append, a call must not be repeated; see
    /// [`without_append`](Self::without_append).
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The file, relative to the folder." },
                "content": { "type": "string", "description": "What to write." },
                "append": { "type": "boolean", "description": "Add to the end of the file instead of replacing it." },
            },
            "required": ["path", "content"],
            "additionalProperties": false,
        });
        let description = "Writes a text file: replaces it, or adds to its end. Missing folders are created.";
        let spec = ToolSpec::new("write_file", description, schema);
        Self { spec: Arc::new(spec), root: Root::new(root), max_bytes: MAX_BYTES }
    }

    /// Only replaces files, and is therefore idempotent: a call whose effect is unknown can be repeated.
    #[must_use]
    pub fn without_append(mut self) -> Self {
        let spec = Arc::make_mut(&mut self.spec);
        if let Some(properties) = spec.schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.remove("append");
        }
        spec.description = "Writes a text file, and replaces it if it exists. Missing folders are created.".to_owned();
        spec.effect = Effect::Idempotent;
        self
    }

    /// How large a file may become, in bytes. Default: 16 MiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, invocation: Invocation) -> Work {
        let (root, max_bytes) = (self.root.clone(), self.max_bytes);
        Work::blocking(move || {
            let input = |name: &str| invocation.input.get(name).and_then(Value::as_str).unwrap_or_default();
            let append = invocation.input.get("append").and_then(Value::as_bool).unwrap_or(false);
            let mode = if append { Writing::Append } else { Writing::Replace };
            let job = WriteJob { path: input("path"), content: input("content").as_bytes(), mode, max_bytes };
            result(&job, job.write(&root, || invocation.cord.is_pulled()))
        })
    }
}

fn result(job: &WriteJob<'_>, done: Result<WriteOutcome, WriteError>) -> Returned {
    let (bytes, path) = (job.content.len(), job.path);
    match done? {
        WriteOutcome::Created => Ok(format!("wrote {bytes} bytes to the new file `{path}`").into()),
        WriteOutcome::Replaced => Ok(format!("replaced `{path}` with {bytes} bytes").into()),
        WriteOutcome::Appended => Ok(format!("added {bytes} bytes to the end of `{path}`").into()),
        WriteOutcome::Stopped => Err(ToolError::new(format!("stopped before `{path}` was changed"))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    Replace,
    Append,
}

struct WriteJob<'a> {
    path: &'a str,
    content: &'a [u8],
    mode: Writing,
    max_bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum WriteOutcome {
    Created,
    Replaced,
    Appended,
    Stopped,
}

#[derive(Debug, Error)]
enum WriteError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("`{path}` would have {size} bytes, but at most {limit} are allowed: write less")]
    TooLarge { path: String, size: u64, limit: u64 },
}

impl WriteJob<'_> {
    /// Writes; `stopped` is checked at the last moment before the file is changed.
    fn write(&self, root: &Root, stopped: impl Fn() -> bool) -> Result<WriteOutcome, WriteError> {
        self.fits(self.content.len() as u64)?;
        let (folder, name) = root.open_parent(self.path)?;
        let old = self.look(&folder, &name)?;
        let before = match (&old, self.mode) {
            (Some(_), Writing::Append) => self.read_old(&folder, &name)?,
            (None, _) | (_, Writing::Replace) => Vec::new(),
        };
        self.fits((before.len() + self.content.len()) as u64)?;
        let draft = Draft::new(folder, self.path)?;
        draft.fill(&[&before, self.content], old.as_ref()).map_err(|error| self.failed(error))?;
        if stopped() {
            return Ok(WriteOutcome::Stopped);
        }
        draft.publish(&name).map_err(|error| about(self.path, error))?;
        Ok(match (old, self.mode) {
            (None, _) => WriteOutcome::Created,
            (Some(_), Writing::Replace) => WriteOutcome::Replaced,
            (Some(_), Writing::Append) => WriteOutcome::Appended,
        })
    }

    fn fits(&self, size: u64) -> Result<(), WriteError> {
        if size > self.max_bytes {
            return Err(WriteError::TooLarge { path: self.path.to_owned(), size, limit: self.max_bytes });
        }
        Ok(())
    }

    /// The old file, if there is one. A link is not followed, because the new file would replace it.
    fn look(&self, folder: &OwnedFd, name: &OsStr) -> Result<Option<Stat>, PathError> {
        match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match kind(FileType::from_raw_mode(stat.st_mode)) {
                None => Ok(Some(stat)),
                Some(what) => Err(PathError::NotAFile { path: self.path.to_owned(), what }),
            },
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(about(self.path, error)),
        }
    }

    fn read_old(&self, folder: &OwnedFd, name: &OsStr) -> Result<Vec<u8>, WriteError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(folder, name, flags, Mode::empty()).map_err(|error| about(self.path, error))?;
        let mut before = Vec::new();
        // One byte more than allowed shows that it is too much.
        let read = File::from(file).take(self.max_bytes.saturating_add(1)).read_to_end(&mut before);
        read.map_err(|error| self.failed(error))?;
        Ok(before)
    }

    fn failed(&self, error: io::Error) -> PathError {
        PathError::Io { path: self.path.to_owned(), error }
    }
}

/// The new content beside the old file. It is removed unless it is published.
struct Draft {
    folder: OwnedFd,
    name: OsString,
    file: File,
}

impl Draft {
    fn new(folder: OwnedFd, path: &str) -> Result<Self, PathError> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".andon-{}-{number}", std::process::id()));
        // A dead process with the same id may have left a file with this name.
        let _ = unlinkat(&folder, &name, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, &name, flags, Mode::from_raw_mode(0o666)).map_err(|error| about(path, error))?;
        Ok(Self { folder, name, file: File::from(file) })
    }

    fn fill(&self, parts: &[&[u8]], old: Option<&Stat>) -> io::Result<()> {
        for part in parts {
            (&self.file).write_all(part)?;
        }
        if let Some(old) = old {
            fchmod(&self.file, Mode::from_raw_mode(old.st_mode & 0o7777))?;
        }
        Ok(fsync(&self.file)?)
    }

    /// Replaces the old file, in one step.
    fn publish(&self, name: &OsStr) -> rustix::io::Result<()> {
        renameat(&self.folder, &self.name, &self.folder, name)?;
        // Best effort: without it, the old file may come back after a crash, but one of the two is there.
        let _ = fsync(self.folder.as_fd());
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // If it was published, there is no file with this name.
        let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job<'a>(path: &'a str, content: &'a str, mode: Writing) -> WriteJob<'a> {
        WriteJob { path, content: content.as_bytes(), mode, max_bytes: 20 }
    }

    #[test]
    fn a_file_is_created_replaced_and_added_to() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let go = |content, mode| job("a/b/c.txt", content, mode).write(&root, || false).unwrap();
        assert_eq!(go("one", Writing::Append), WriteOutcome::Created);
        assert_eq!(go(" two", Writing::Append), WriteOutcome::Appended);
        assert_eq!(std::fs::read_to_string(folder.path().join("a/b/c.txt")).unwrap(), "one two");
        assert_eq!(go("three", Writing::Replace), WriteOutcome::Replaced);
        assert_eq!(std::fs::read_to_string(folder.path().join("a/b/c.txt")).unwrap(), "three");
        assert_eq!(std::fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_write_that_is_stopped_leaves_the_old_file_and_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "old").unwrap();
        let done = job("f", "new", Writing::Replace).write(&Root::new(folder.path()), || true).unwrap();
        assert_eq!(done, WriteOutcome::Stopped);
        assert_eq!(std::fs::read_to_string(folder.path().join("f")).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.sh");
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o751)).unwrap();
        job("run.sh", "new", Writing::Replace).write(&Root::new(folder.path()), || false).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o751);
    }

    #[test]
    fn a_file_that_would_grow_too_large_is_refused_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let twelve = "x".repeat(12);
        job("f", &twelve, Writing::Replace).write(&root, || false).unwrap();
        let error = job("f", &twelve, Writing::Append).write(&root, || false).unwrap_err();
        assert_eq!(error.to_string(), "`f` would have 24 bytes, but at most 20 are allowed: write less");
        assert_eq!(std::fs::read_to_string(folder.path().join("f")).unwrap(), twelve);
    }
}
