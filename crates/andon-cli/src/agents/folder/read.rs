//! Turns the bytes of a file into an agent, or into an error with its line.

use andon_runtime::Runtime;
use tokio::sync::Semaphore;

use super::FILE;
use super::build::{AppFolder, Built, build};
use super::file::AgentFile;
use super::scan::Content;
use crate::yaml;
use crate::yaml::fields::FieldError;

/// Why a file is refused, with file and line.
pub(super) struct FileError {
    pub(super) why: String,
    pub(super) may_pass: bool,
}

/// Reads a file and builds its agent. An agent with MCP servers waits for a slot.
pub(super) async fn read_and_build(
    content: &Content,
    home: &AppFolder,
    runtime: &Runtime,
    slots: &Semaphore,
) -> Result<Built, FileError> {
    let app = home.app.as_str();
    let refuse = |why: String| FileError { why: format!("{app}/{FILE}: {why}"), may_pass: false };
    let text = match content {
        Content::Unreadable(why) => return Err(refuse(why.clone())),
        Content::Bytes(bytes) => text_of(app, bytes)?,
    };
    let root = yaml::parse(text).map_err(|bad| FileError { why: format!("{app}/{FILE}{bad}"), may_pass: false })?;
    let worded =
        |fault: FieldError| FileError { why: placed(app, content, fault.at, &fault.why), may_pass: fault.may_pass };
    let file = AgentFile::read(&root, app).map_err(worded)?;
    let _slot = match file.has_servers() {
        // The semaphore is never closed.
        true => slots.acquire().await.ok(),
        false => None,
    };
    build(file, home, runtime).await.map_err(worded)
}

fn text_of<'b>(app: &str, bytes: &'b [u8]) -> Result<&'b str, FileError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        FileError { why: format!("{app}/{FILE}:{line}: this is not UTF-8: save the file as UTF-8"), may_pass: false }
    })
}

/// A message with its file and line.
pub(super) fn placed(app: &str, content: &Content, at: yaml::NodeIndex, why: &str) -> String {
    let text = match content {
        Content::Bytes(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        Content::Unreadable(_) => "",
    };
    format!("{app}/{FILE}{}", yaml::bad_node(text, at, why.to_owned()))
}
