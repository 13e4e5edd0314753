//! The one way to standard output and standard error.
//!
//! # Invariants
//!
//! 1. A terminal only shows the text that comes here. The one exception are the exact escape sequences of
//!    [`Style`](super::Style): foreign text that was not made [plain](super::plain()) can choose a colour, and nothing else.
//! 2. No other file of this program writes to a terminal (a test reads them all).
//! 3. Programs get the answer and JSON with their meaning unchanged.

use std::io::{self, IsTerminal, Write};

use super::plain::{escaped, seen};

/// The escape sequences that styles use.
const LOOKS: [&str; 7] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"];

/// Writes to standard output, at once.
pub(crate) fn write(text: &str) -> io::Result<()> {
    write_now(&mut anstream::stdout(), &guarded(text))
}

/// Writes to standard error, at once.
pub(crate) fn write_beside(text: &str) -> io::Result<()> {
    write_now(&mut anstream::stderr(), &guarded(text))
}

/// Writes a remark to standard error. A failure is ignored, because the command's work does not depend on it.
pub(crate) fn aside(text: &str) {
    let _ = write_beside(text);
}

/// Writes a piece of an answer to standard output. A program that reads it gets it unchanged, without escape sequences.
pub(crate) fn write_answer(text: &str) -> io::Result<()> {
    match is_terminal() {
        true => write(text),
        false => write_now(&mut anstream::AutoStream::never(io::stdout()), text),
    }
}

/// Writes one line of JSON to standard output, at once.
pub(crate) fn write_line(json: &str) -> io::Result<()> {
    write_lines(&format!("{json}\n"))
}

/// Writes lines of JSON to standard output, at once.
pub(crate) fn write_lines(json: &str) -> io::Result<()> {
    write_now(&mut io::stdout().lock(), &escaped(json))
}

/// Writes this program's own text for other programs to read.
pub(crate) fn write_own(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

/// Replaces the last line on standard error. A failure is ignored.
pub(crate) fn write_over(text: &str) {
    let _ = write_now(&mut anstream::stderr(), &format!("\r\x1b[K{}", guarded(text)));
}

/// Writes a log line to standard error. It stays one line, whatever is in it.
pub(crate) fn write_log(line: &[u8]) -> io::Result<()> {
    let line = String::from_utf8_lossy(line);
    let line = line.strip_suffix('\n').unwrap_or(&line);
    let line = if line.starts_with('{') { escaped(line) } else { super::plain_line(line) };
    io::stderr().lock().write_all(format!("{line}\n").as_bytes())
}

/// Writes the last words of a program that exits at once: finishes the line being written, and keeps others from starting one.
pub(crate) fn write_last(words: &str) {
    let mut out = io::stdout().lock();
    let _ = out.flush();
    std::mem::forget(out);
    aside(&format!("\n{words}\n"));
}

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(crate) fn is_terminal_beside() -> bool {
    io::stderr().is_terminal()
}

fn write_now(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The text with its styles, and without any other control sequence (invariant 1).
fn guarded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let look = LOOKS.iter().find(|look| c == '\x1b' && rest.starts_with(**look));
        match look {
            Some(look) => out.push_str(look),
            None => out.push(seen(c)),
        }
        rest = rest.get(look.map_or(c.len_utf8(), |look| look.len())..).unwrap_or_default();
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Style;
    use super::*;

    #[test]
    fn our_own_styles_pass_and_no_other_sequence_does() {
        for style in [Style::DIM, Style::BOLD, Style::TOOL, Style::GOOD, Style::STOP, Style::BAD] {
            let text = format!("{style}海 ok{style:#}\n");
            assert_eq!(guarded(&text), text);
        }
        let acts = "\x1b]0;title\x07\x1b]52;c;Y2xpcA==\x1b\\\x1b[2J\x1b[8m\x1b[31\u{9b}5m\r\u{202e}";
        let shown = guarded(acts);
        assert!(!shown.contains(['\x1b', '\x07', '\r', '\u{9b}', '\u{202e}']), "{shown:?}");
        assert!(shown.contains("]0;title"), "{shown:?}");
    }

    #[test]
    fn nothing_else_in_this_program_writes_to_a_terminal() {
        let mut writers = Vec::new();
        look_into(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut writers);
        writers.sort();
        // The other file only asks for the terminal's size.
        assert_eq!(writers, ["print/out.rs", "print/width.rs"], "write through print::out");
    }

    fn look_into(folder: &Path, writers: &mut Vec<String>) {
        let words = ["stdout()", "stderr()", "println!(", "print!(", "anstream::std", "AutoStream", "dbg!("];
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                look_into(&path, writers);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            if words.iter().any(|word| text.contains(word)) {
                let name = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
                writers.push(name.to_str().unwrap().to_owned());
            }
        }
    }
}
