//! The program as a child process, with methods to wait for its output.

pub(crate) use std::io::{Read, Write};
pub(crate) use std::process::{Command, Stdio};
pub(crate) use std::time::Duration;

pub(crate) use rustix::process::Signal;
pub(crate) use serde_json::{Value, json};

use std::ffi::OsStr;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use rustix::process::{Pid, kill_process};

/// The program's command, as it prints it in hints.
pub(crate) const ANDON: &str = env!("CARGO_BIN_EXE_andon");

/// A wait that takes this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    output: Receiver<Vec<u8>>,
    /// Standard output so far.
    pub(crate) seen: String,
}

/// How the program ended, and everything that it wrote.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    /// Starts it with a journal in memory.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_on("memory", args)
    }

    /// Starts it with a database. No test touches the developer's own.
    pub(crate) fn start_on(db: impl AsRef<OsStr>, args: &[&str]) -> Self {
        Self::start_in(db, &[], args)
    }

    /// Starts it with a database and these variables. No test uses the developer's keys.
    pub(crate) fn start_in(db: impl AsRef<OsStr>, variables: &[(&str, &str)], args: &[&str]) -> Self {
        let mut child = command(db, args)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = chunks_of(child.stdout.take().unwrap());
        let stdin = child.stdin.take();
        Self { child, stdin, output, seen: String::new() }
    }

    /// Starts it in a terminal that accepts no output: nobody reads, and its buffer is full.
    pub(crate) fn start_paused(db: impl AsRef<OsStr>, args: &[&str]) -> Paused {
        let (reader, mut writer) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        while writer.write(&[b'x'; 512]).is_ok() {}
        while writer.write(b"x").is_ok() {}
        rustix::io::ioctl_fionbio(&writer, false).unwrap();
        let mut command = command(db, args);
        let child = command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
        Paused { child, _reader: reader }
    }

    /// Runs to the end, with empty standard input.
    pub(crate) fn run(args: &[&str]) -> Ended {
        Self::start(args).end()
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it like `kill -9`, and returns everything that it had written.
    pub(crate) fn kill(self) -> Ended {
        self.signal(Signal::KILL);
        self.end_without_closing()
    }

    pub(crate) fn type_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Types a line, and waits for this text.
    pub(crate) fn say(&mut self, line: &str, text: &str) {
        self.type_line(line);
        self.wait_for(text);
    }

    pub(crate) fn type_all(&mut self, text: &str) {
        self.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Reads until standard output contains the text, `times` times in all.
    pub(crate) fn wait_for_times(&mut self, text: &str, times: usize) {
        while self.seen.matches(text).count() < times {
            match self.output.recv_timeout(PATIENCE) {
                Ok(chunk) => self.seen.push_str(&String::from_utf8_lossy(&chunk)),
                Err(error) => panic!("{error}: {text:?} did not come; there was:\n{}", self.seen),
            }
        }
    }

    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_for_times(text, 1);
    }

    /// Waits until the program has a thread of this name.
    pub(crate) fn wait_for_thread(&mut self, name: &str) {
        wait_for_thread(&mut self.child, name);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // If the program has ended, the test will see that; its id is not reused before it is reaped.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    pub(crate) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Suspends it, and waits until each of its threads has stopped, which on a busy machine takes a while.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('T'))
        };
        while !std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().all(is_stopped) {
            std::thread::yield_now();
        }
    }

    /// Stops reading standard output, and closes its other end.
    pub(crate) fn close_output(&mut self) {
        let (_, closed) = channel();
        self.output = closed;
    }

    /// Sends Ctrl-C until the program has ended, without reading its output. Signals that come together count as one, so it is
    /// not known how many it takes.
    pub(crate) fn interrupt_until_gone(mut self) -> Option<i32> {
        let pid = Pid::from_child(&self.child);
        let (gone, ended) = channel();
        drop(self.stdin.take());
        let waiter = std::thread::spawn(move || gone.send(self.child.wait().unwrap().code()));
        let code = (0..5000).find_map(|_| {
            // It may have ended between the wait and the signal.
            let _ = kill_process(pid, Signal::INT);
            match ended.recv_timeout(Duration::from_millis(20)) {
                Ok(code) => Some(code),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => panic!("the waiter is gone"),
            }
        });
        waiter.join().unwrap().unwrap();
        code.expect("it did not leave")
    }

    /// Closes standard input and waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        drop(self.stdin.take());
        self.end_without_closing()
    }

    /// Waits for the end.
    pub(crate) fn end_without_closing(mut self) -> Ended {
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(chunk) => self.seen.push_str(&String::from_utf8_lossy(&chunk)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end; there was:\n{}", self.seen),
            }
        }
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let code = self.child.wait().unwrap().code();
        Ended { code, stdout: std::mem::take(&mut self.seen), stderr }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A test that failed leaves nothing running.
        let _ = self.child.kill();
    }
}

impl Ended {
    /// Standard output as JSON: every line must be valid.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The receipt, which must be the last line, after the only `run_settled`.
    pub(crate) fn receipt(&self) -> Value {
        let lines = self.json();
        let settled = lines.iter().filter(|line| line["type"] == "run_settled").count();
        assert_eq!(settled, 1, "{}", self.stdout);
        assert_eq!(lines[lines.len() - 2]["type"], "run_settled");
        let last = lines.last().unwrap();
        assert_eq!(last["type"], "receipt");
        last["receipt"].clone()
    }

    /// The text of all deltas, joined.
    pub(crate) fn streamed(&self) -> String {
        self.json().iter().filter_map(|line| line["text"].as_str().map(str::to_owned)).collect()
    }
}

fn chunks_of(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    // The channel has no buffer: a test that does not read makes the program wait, like a stopped terminal.
    let (send, receive) = std::sync::mpsc::sync_channel(0);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            if send.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receive
}

/// The program, with a test's database and without the developer's keys.
pub(crate) fn command(db: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(ANDON);
    without_settings(&mut command).args(args).env("USER", "ada").env("ANDON_DB", db);
    command
}

/// Removes the developer's own settings for the program from a command, which may be a shell: the tests need its defaults.
pub(crate) fn without_settings(command: &mut Command) -> &mut Command {
    for name in [
        "ANDON_DB",
        "ANDON_KEY",
        "ANDON_SERVER",
        "ANDON_CONFIG",
        "ANDON_MODEL",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    ] {
        command.env_remove(name);
    }
    command
        .env("XDG_CONFIG_HOME", "/nonexistent")
        // A mistake must never write to the developer's folders.
        .env("XDG_DATA_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/data"))
}

fn wait_for_thread(child: &mut Child, name: &str) {
    let tasks = format!("/proc/{}/task", child.id());
    let has_it = || {
        let threads = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
        let mut names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        names.any(|comm| comm.trim() == name)
    };
    while !has_it() {
        assert!(child.try_wait().unwrap().is_none(), "the program ended before it had a thread {name:?}");
        std::thread::yield_now();
    }
}

/// The program in a terminal that accepts no output.
pub(crate) struct Paused {
    child: Child,
    _reader: std::io::PipeReader,
}

impl Paused {
    /// Waits until the program has a thread of this name.
    pub(crate) fn wait_for_thread(&mut self, name: &str) {
        wait_for_thread(&mut self.child, name);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Option<i32> {
        let pid = Pid::from_child(&self.child);
        let (gone, ended) = channel();
        std::thread::spawn(move || gone.send(self.child.wait().unwrap().code()));
        ended.recv_timeout(PATIENCE).unwrap_or_else(|error| {
            let _ = kill_process(pid, Signal::KILL);
            panic!("{error}: it does not end")
        })
    }
}

/// A test's database, which is removed after it.
pub(crate) struct Database {
    folder: tempfile::TempDir,
}

impl Database {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A file beside it.
    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn start(&self, args: &[&str]) -> Program {
        Program::start_on(self.file("andon.db"), args)
    }

    /// Starts it in a terminal that accepts no output.
    pub(crate) fn start_paused(&self, args: &[&str]) -> Paused {
        Program::start_paused(self.file("andon.db"), args)
    }

    /// Runs to the end, which must be a success.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        let ended = self.start(args).end();
        assert_eq!(ended.code, Some(0), "{args:?}: {}{}", ended.stdout, ended.stderr);
        ended
    }

    /// Runs to the end, which must be an error, and returns it.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let ended = self.start(args).end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{args:?}: {}", ended.stderr);
        ended.stderr
    }

    /// Waits until a session's record, which another program writes, contains this text.
    pub(crate) fn wait_for_record(&self, session: &str, text: &str) {
        let has_it = |_| self.start(&["export", session]).end().stdout.contains(text);
        assert!((0..5000).any(has_it), "{text:?} did not come into the record of {session}");
    }

    /// The facts of a session that have this type.
    pub(crate) fn facts(&self, session: &str, kind: &str) -> Vec<Value> {
        let lines = self.run(&["export", session]).json();
        lines.iter().map(|line| line["fact"].clone()).filter(|fact| fact["type"] == kind).collect()
    }
}
