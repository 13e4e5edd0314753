//! The `andon-shim` program, used over its socket like a host does.
//!
//! If one of these fails, a host that cannot be its own shim has none.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use andon_shim::{Config, Order, Part, SHIM, Status, Word, proc, send_stdin};

struct Host {
    socket: UnixStream,
    words: BufReader<UnixStream>,
    shim: Child,
}

impl Host {
    fn start(config: &Config) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_stdin(&ours, None).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_andon-shim"));
        command.arg0(SHIM).arg(SHIM).arg(std::process::id().to_string()).env_clear();
        let shim = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        drop(command);
        let words = BufReader::new(ours.try_clone().unwrap());
        let mut host = Self { socket: ours, words, shim };
        host.say(&serde_json::to_string(config).unwrap());
        host
    }

    fn say(&mut self, line: &str) {
        writeln!(self.socket, "{line}").unwrap();
    }

    /// The next word; `None` at the end. Words about cgroups are skipped, because not every machine has them.
    fn hear(&mut self) -> Option<Word> {
        loop {
            let mut line = String::new();
            self.words.read_line(&mut line).unwrap();
            match (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap()) {
                Some(Word::Grouped(_)) => {}
                other => return other,
            }
        }
    }

    fn hear_started(&mut self) -> (i32, u64) {
        match self.hear() {
            Some(Word::Started { pid, start, .. }) => (pid, start),
            other => panic!("it did not start: {other:?}"),
        }
    }
}

fn config(script: &str) -> Config {
    Config {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        patience_ms: 5000,
        ..Config::default()
    }
}

#[test]
fn it_reports_the_start_the_end_and_the_proof() {
    let mut host = Host::start(&config("exit 5"));
    host.hear_started();
    assert_eq!(host.hear(), Some(Word::Exited(Status::Code(5))));
    assert_eq!(host.hear(), Some(Word::Gone));
    assert_eq!(host.hear(), None);
    assert!(host.shim.wait().unwrap().success());
}

#[test]
fn it_asks_and_then_kills_when_its_input_ends() {
    let ready = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("deaf-{}", std::process::id()));
    let script = format!("trap '' TERM; : > '{}'; setsid sleep 1000 & sleep 1000 & wait", ready.display());
    let mut host = Host::start(&config(&script));
    let (pid, start) = host.hear_started();
    // It ignores the signal only a moment after its start.
    while !ready.exists() {
        std::thread::yield_now();
    }
    std::fs::remove_file(&ready).unwrap();
    host.say(&serde_json::to_string(&Order::Term).unwrap());
    assert!(proc::lives(pid, start));
    host.socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(host.hear(), Some(Word::Killed));
    assert_eq!(host.hear(), Some(Word::Gone));
    assert!(!proc::lives(pid, start));
    host.shim.wait().unwrap();
}

#[test]
fn it_reports_a_command_that_cannot_be_started() {
    let mut host = Host::start(&Config { program: "no-such-command".into(), ..config("") });
    match host.hear() {
        Some(Word::Refused(refusal)) => assert_eq!(refusal.part, Part::Command),
        other => panic!("{other:?}"),
    }
    host.shim.wait().unwrap();
}

#[test]
fn it_reports_a_folder_that_does_not_exist() {
    let mut host = Host::start(&Config { cwd: Some("/no/such/folder".into()), ..config("") });
    assert!(matches!(host.hear(), Some(Word::Refused(refusal)) if refusal.part == Part::Folder));
    host.shim.wait().unwrap();
}

#[test]
fn a_person_who_starts_it_is_told_what_it_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_andon-shim")).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("supervises one process"));
}
