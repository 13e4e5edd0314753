//! Reads the folder of agents.
//!
//! Contents are compared, not times, so that a file that was replaced within one tick of the clock, or through a link, is
//! noticed. Files are small: reading a hundred of them takes a few milliseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use andon_runtime::SessionId;

use super::FILE;
use crate::yaml::MAX_BYTES;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The files, by their apps.
    pub(super) found: BTreeMap<String, Content>,
    /// Remarks about files and folders that look like an agent but are not.
    pub(super) hints: BTreeSet<String>,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Bytes(Vec<u8>),
    /// Why it cannot be read.
    Unreadable(String),
}

/// Scans the folder. This blocks.
pub(super) fn scan(dir: &Path) -> io::Result<Scan> {
    let mut scan = Scan::default();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        let Ok(name) = entry.file_name().into_string() else {
            if path.join(FILE).exists() {
                scan.hints.insert(format!("the folder {:?} is not an app: its name is not UTF-8", entry.file_name()));
            }
            continue;
        };
        if name == FILE {
            let why = "is not in its own folder: move it to APP/root_agent.yaml, or use the folder above with --agents";
            scan.hints.insert(format!("{FILE} {why}"));
        }
        // Links are followed: whoever can create one here can also write the file itself.
        if name.starts_with('.') || !path.is_dir() {
            continue;
        }
        match content(&path.join(FILE)) {
            Some(_) if SessionId::new(&name).is_err() => {
                let why = SessionId::new(&name).err().map(|error| error.to_string()).unwrap_or_default();
                scan.hints.insert(format!("the folder {name:?} is not an app: {why}"));
            }
            Some(content) => {
                scan.found.insert(name, content);
            }
            None => scan.hints.extend(near_miss(&path, &name)),
        }
    }
    Ok(scan)
}

/// A file's content; `None` if there is no file.
fn content(path: &Path) -> Option<Content> {
    let unreadable = |why: String| Some(Content::Unreadable(why));
    let forbidden = |error: io::Error| {
        unreadable(format!("the file cannot be read ({error}): make it readable for the user that runs the server"))
    };
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() => {
            return unreadable("this is not a file: write the agent into a file".to_owned());
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let is_link = path.symlink_metadata().is_ok();
            return is_link.then(|| Content::Unreadable("this link leads nowhere: fix it, or remove it".to_owned()));
        }
        Err(error) => return forbidden(error),
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() > MAX_BYTES => unreadable("the file is larger than 1 MiB: shorten it".to_owned()),
        Ok(_) => Some(Content::Bytes(bytes)),
        // It was removed a moment ago.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => forbidden(error),
    }
}

/// A remark about a file that somebody may have taken for an agent's.
fn near_miss(folder: &Path, app: &str) -> Option<String> {
    let renamed = ["root_agent.yml", "agent.yaml", "agent.yml", "root_agent.json"];
    if let Some(other) = renamed.iter().find(|other| folder.join(other).is_file()) {
        return Some(format!("{app}/{other} is ignored: rename it to {FILE}"));
    }
    let is_python = ["agent.py", "__init__.py"].iter().any(|other| folder.join(other).is_file());
    is_python.then(|| format!("{app} has no {FILE}: Andon does not run Python agents, so write it in YAML"))
}
