//! The `read_file` tool.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use andon_runtime::{Effect, Invocation, Returned, Tool, ToolError, ToolSpec, Work};
use serde_json::{Value, json};

use super::root::Root;
use crate::process::{begun_at_the_end, lossless};

/// The default of how many bytes one call returns at most.
const MAX_BYTES: u64 = 256 * 1024;

/// Reads a file in a folder, whole or some of its lines.
///
/// It takes `{"path": "…", "offset": 1, "limit": 100}`: lines, counted from 1. No path leads out of the folder, and only regular
/// files are read. Bytes that are not UTF-8 are written as `\xNN`.
#[derive(Debug, Clone)]
pub struct ReadFile {
    spec: Arc<ToolSpec>,
    root: Root,
    max_bytes: u64,
}

impl ReadFile {
    /// Reads files in this folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The file, relative to the folder." },
                "offset": { "type": "integer", "minimum": 1, "description": "The first line to read, counted from 1." },
                "limit": { "type": "integer", "minimum": 1, "description": "How many lines to read." },
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        let description =
            "Reads a text file, whole or some of its lines. If it is too long, a last line says where to continue.";
        let mut spec = ToolSpec::new("read_file", description, schema);
        spec.effect = Effect::ReadOnly;
        Self { spec: Arc::new(spec), root: Root::new(root), max_bytes: MAX_BYTES }
    }

    /// How many bytes one call returns at most. Default: 256 KiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }
}

impl Tool for ReadFile {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, invocation: Invocation) -> Work {
        let (root, max_bytes) = (self.root.clone(), self.max_bytes);
        Work::blocking(move || read(&root, &invocation, max_bytes))
    }
}

fn read(root: &Root, invocation: &Invocation, max_bytes: u64) -> Returned {
    let path = invocation.input.get("path").and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| invocation.input.get(name).and_then(Value::as_u64);
    let wanted =
        LineRange { first: number("offset").unwrap_or(1), lines: number("limit").unwrap_or(u64::MAX), max_bytes };
    let mut file = BufReader::new(File::from(root.open_file(path)?));
    let found = lines(&mut file, wanted, || invocation.cord.is_pulled());
    match found.map_err(|error| ToolError::new(format!("`{path}`: {error}")))? {
        Some(text) => Ok(text.into()),
        None => Err(ToolError::new("stopped before the file was read")),
    }
}

#[derive(Debug, Clone, Copy)]
struct LineRange {
    first: u64,
    lines: u64,
    max_bytes: u64,
}

/// The wanted lines, with a notice if there are more; `None` if it was stopped.
fn lines(file: &mut impl BufRead, wanted: LineRange, stopped: impl Fn() -> bool) -> io::Result<Option<String>> {
    let mut kept = Vec::new();
    let (mut line, mut last) = (1, wanted.first.saturating_add(wanted.lines));
    loop {
        if stopped() {
            return Ok(None);
        }
        let bytes = file.fill_buf()?;
        if bytes.is_empty() || line >= last {
            break;
        }
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let piece = bytes.get(..end.map_or(bytes.len(), |end| end + 1)).unwrap_or_default();
        if line >= wanted.first {
            let room = usize::try_from(wanted.max_bytes).unwrap_or(usize::MAX).saturating_sub(kept.len());
            kept.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
            if room < piece.len() {
                return Ok(Some(cut(kept, wanted, line)));
            }
        }
        let read = piece.len();
        line += u64::from(end.is_some());
        file.consume(read);
    }
    last = last.min(line);
    let more = !file.fill_buf()?.is_empty();
    let mut text = lossless(kept);
    if more {
        text.push_str(&format!("[there is more: continue with offset {last}]"));
    }
    if text.is_empty() {
        let nothing = if wanted.first > 1 { "[the file has fewer lines]" } else { "[the file is empty]" };
        return Ok(Some(nothing.to_owned()));
    }
    Ok(Some(text))
}

/// What fits into one answer: whole lines, or the beginning of the first if not even that fits.
fn cut(mut kept: Vec<u8>, wanted: LineRange, line: u64) -> String {
    match kept.iter().rposition(|&byte| byte == b'\n') {
        Some(end) if line > wanted.first => {
            kept.truncate(end + 1);
            lossless(kept) + &format!("[there is more: continue with offset {line}]")
        }
        _ => {
            // A character that was cut is left out.
            kept.truncate(kept.len() - begun_at_the_end(&kept));
            let shown = kept.len();
            lossless(kept) + &format!("\n[line {line} is too long: only its first {shown} bytes are shown]")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_lines(text: &[u8], first: u64, lines_wanted: u64, max_bytes: u64) -> String {
        // A tiny buffer cuts every line.
        let mut file = BufReader::with_capacity(3, text);
        lines(&mut file, LineRange { first, lines: lines_wanted, max_bytes }, || false).unwrap().unwrap()
    }

    #[test]
    fn a_file_comes_back_byte_for_byte() {
        assert_eq!(read_lines("eins\nzwei\nüber".as_bytes(), 1, u64::MAX, 100), "eins\nzwei\nüber");
    }

    #[test]
    fn some_lines_come_with_the_offset_to_continue_with() {
        assert_eq!(read_lines(b"1\n2\n3\n4\n", 2, 2, 100), "2\n3\n[there is more: continue with offset 4]");
        assert_eq!(read_lines(b"1\n2\n3\n4\n", 4, 2, 100), "4\n");
        assert_eq!(read_lines(b"1\n2\n", 9, 2, 100), "[the file has fewer lines]");
        assert_eq!(read_lines(b"", 1, 2, 100), "[the file is empty]");
    }

    #[test]
    fn following_the_notice_reads_a_long_file_to_its_end() {
        let file: String = (0..500).map(|number| format!("line {number}\n")).collect();
        let (mut whole, mut next) = (String::new(), 1);
        loop {
            let text = read_lines(file.as_bytes(), next, u64::MAX, 100);
            match text.rsplit_once("[there is more: continue with offset ") {
                Some((part, rest)) => {
                    whole.push_str(part);
                    next = rest.trim_end_matches(']').parse().unwrap();
                }
                None => {
                    whole.push_str(&text);
                    break;
                }
            }
        }
        assert_eq!(whole, file);
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_with_a_notice() {
        let text = read_lines("äääää\n".as_bytes(), 1, 9, 5);
        assert_eq!(text, "ää\n[line 1 is too long: only its first 4 bytes are shown]");
    }
}
