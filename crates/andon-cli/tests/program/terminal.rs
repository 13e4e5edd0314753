//! The program in a real terminal.

use std::fs::File;
use std::process::Child;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::child::command;
use crate::child::*;
use crate::served::Served;

/// A terminal with this many columns: our end of it, and the program's.
fn open_terminal(columns: u16) -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&ours, size).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::from(open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap());
    (File::from(ours), theirs)
}

/// The program in a terminal.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    keys: File,
    pub(crate) seen: String,
}

impl Terminal {
    fn start(db: &str, columns: u16, args: &[&str]) -> Self {
        let mut command = command(db, args);
        command.env("NO_COLOR", "1");
        Self::of(command, columns)
    }

    /// A wide one with colours.
    pub(crate) fn coloured(db: &str, args: &[&str]) -> Self {
        Self::of(command(db, args), 400)
    }

    /// One for a program that reads its input from a pipe.
    pub(crate) fn of_piped(mut command: Command, typed: &str) -> Self {
        let (keys, theirs) = open_terminal(400);
        command.env("TERM", "xterm").stdin(Stdio::piped());
        let mut child = command.stdout(theirs.try_clone().unwrap()).stderr(theirs).spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        Self { child, keys, seen: String::new() }
    }

    pub(crate) fn of(mut command: Command, columns: u16) -> Self {
        let (keys, theirs) = open_terminal(columns);
        command.env("TERM", "xterm").stdin(theirs.try_clone().unwrap());
        let child = command.stdout(theirs.try_clone().unwrap()).stderr(theirs).spawn().unwrap();
        Self { child, keys, seen: String::new() }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until this is on the screen, or until the program has ended.
    pub(crate) fn read_until(&mut self, text: Option<&str>) {
        let mut buffer = [0; 4096];
        while text.is_none_or(|text| !self.seen.contains(text)) {
            match self.keys.read(&mut buffer) {
                Ok(length @ 1..) => self.seen.push_str(&String::from_utf8_lossy(&buffer[..length])),
                _ => return assert_eq!(text, None, "it did not come; there was:\n{}", self.seen),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn ctrl_d_during_an_answer_quits_and_the_run_goes_on_on_its_server() {
    let served = Served::new();
    let mut chat = Terminal::start(&served.db.file("andon.db"), 40, &["chat", "--session", "otter"]);
    chat.read_until(Some("> "));
    let longest = chat.seen.lines().filter(|line| !line.contains("andon chat --")).map(|line| line.trim_end().len());
    assert!(longest.max().unwrap() < 40, "{}", chat.seen);
    chat.press("tell me a long story\r");
    chat.read_until(Some("## 1. "));
    chat.press("\x04");
    chat.read_until(None);
    assert!(chat.seen.contains("goes on.") && chat.seen.contains("andon chat --session otter"), "{}", chat.seen);
    assert_eq!(chat.child.wait().unwrap().code(), Some(0));
    let runs = served.run(&["runs", "--open", "--json"]).json();
    assert_eq!((runs.len(), &runs[0]["session"]), (1, &json!("otter")));
}

#[test]
fn lines_that_reach_the_prompt_together_are_prompts_one_after_another() {
    let db = Database::new();
    let mut chat = Terminal::start(&db.file("andon.db"), 80, &["chat", "--session", "otter"]);
    chat.read_until(Some("> "));
    chat.press("roll 1 dice\rroll 2 dice\r/quit\r");
    chat.read_until(None);
    assert_eq!(chat.child.wait().unwrap().code(), Some(0), "{}", chat.seen);
    assert_eq!(db.run(&["runs", "--json"]).json().len(), 2, "{}", chat.seen);
}
