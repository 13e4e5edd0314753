//! A test's server with its own database, and a connection to it that breaks.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::Value;

use crate::child::{Database, Ended, Program};

/// A test's server.
pub(crate) struct Served {
    pub(crate) db: Database,
    server: Option<Program>,
    /// Its address, such as `http://127.0.0.1:40000`.
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// With more flags.
    pub(crate) fn with(flags: &[&str]) -> Self {
        let db = Database::new();
        let (server, address) = serve(&db, "127.0.0.1:0", flags);
        Self { db, server: Some(server), address }
    }

    /// Kills it like `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.server.take().unwrap().kill();
    }

    /// Starts it again at the same address.
    pub(crate) fn start_again(&mut self) {
        let bind = self.address.strip_prefix("http://").unwrap().to_owned();
        let (server, address) = serve(&self.db, &bind, &[]);
        assert_eq!(address, self.address);
        self.server = Some(server);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.server.as_ref().unwrap().signal(signal);
    }

    /// Suspends the server.
    pub(crate) fn freeze(&self) {
        self.server.as_ref().unwrap().freeze();
    }

    /// Starts a command that finds the server through the database.
    pub(crate) fn start(&self, args: &[&str]) -> Program {
        self.db.start(args)
    }

    /// Runs one to its end, which must be a success.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.db.run(args)
    }

    /// Starts a run, leaves it to the server, and returns its id.
    pub(crate) fn detach(&self, flags: &[&str], prompt: &str) -> String {
        let args = [&["run", "--detach"], flags, &[prompt]].concat();
        self.run(&args).stdout.trim().to_owned()
    }

    /// Waits until a run's feed has had an event of this type.
    pub(crate) fn wait_for(&self, run: &str, kind: &str) {
        let mut watch = self.start(&["watch", run, "--json"]);
        watch.wait_for(&format!("\"type\":\"{kind}\""));
        watch.interrupt();
        let code = watch.end().code;
        assert!(matches!(code, Some(130 | 0 | 3)), "{code:?}");
    }

    /// A run's receipt from its server.
    pub(crate) fn receipt(&self, run: &str) -> Value {
        self.run(&["receipt", run, "--json", "--server", &self.address]).json().remove(0)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            drop(server.kill());
        }
    }
}

fn serve(db: &Database, bind: &str, flags: &[&str]) -> (Program, String) {
    let mut server = db.start(&[&["serve", "--bind", bind], flags].concat());
    server.wait_for("Andon is at http://");
    server.wait_for(", with its database in");
    let (_, after) = server.seen.split_once("Andon is at ").unwrap();
    let address = after.split(',').next().unwrap().to_owned();
    (server, address)
}

/// A proxy for a server on which feeds break.
pub(crate) struct Bridge {
    pub(crate) address: String,
    broken: Arc<AtomicUsize>,
}

impl Bridge {
    /// Cuts each of the first `breaks` feeds after this many bytes.
    pub(crate) fn new(to: &str, breaks: usize, after: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let to = to.strip_prefix("http://").unwrap().to_owned();
        let broken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&broken);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, count) = (TcpStream::connect(&to).unwrap(), Arc::clone(&count));
                std::thread::spawn(move || pass(client, server, breaks, after, &count));
            }
        });
        Self { address, broken }
    }

    /// How many feeds were cut.
    pub(crate) fn broken(&self) -> usize {
        self.broken.load(Ordering::SeqCst)
    }
}

/// Passes one connection on, which breaks if a feed is requested on it.
fn pass(client: TcpStream, server: TcpStream, breaks: usize, after: usize, broken: &AtomicUsize) {
    let is_feed = Arc::new(AtomicBool::new(false));
    let (mut from, mut to, asked) = (client.try_clone().unwrap(), server.try_clone().unwrap(), Arc::clone(&is_feed));
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if String::from_utf8_lossy(&buffer[..length]).contains("/events ") {
                asked.store(true, Ordering::SeqCst);
            }
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let (mut from, mut to, mut passed, mut buffer) = (server, client, 0, [0; 4096]);
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let mut whole = length;
        if is_feed.load(Ordering::SeqCst) {
            whole = length.min(after.saturating_sub(passed));
            passed += whole;
        }
        let is_cut = whole < length
            && broken
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |broken| (broken < breaks).then_some(broken + 1))
                .is_ok();
        let whole = if is_cut { whole } else { length };
        if to.write_all(&buffer[..whole]).is_err() || is_cut {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}
