//! A wire to the server that can be cut while an answer is on it, or on which nothing is heard for a while.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::server::url;

/// The socket's name in its folder.
const SOCKET: &str = ".s.PGSQL.5432";

/// What the server says when it has committed.
const COMMITTED: &[u8] = b"COMMIT\0";

/// Passes on what client and server say.
pub(crate) struct Wire {
    folder: tempfile::TempDir,
    knife: Arc<Knife>,
}

/// What decides when the wire is cut.
#[derive(Default)]
struct Knife {
    is_out: AtomicBool,
    cuts: AtomicUsize,
    is_silent: Mutex<bool>,
    speaks: Condvar,
}

impl Knife {
    /// Waits while nothing is to be heard.
    fn wait(&self) {
        drop(self.speaks.wait_while(self.is_silent.lock().unwrap(), |is_silent| *is_silent).unwrap());
    }

    /// Whether to cut before this part of an answer is passed on. Every third commit's answer is lost.
    fn cuts(&self, answer: &[u8]) -> bool {
        let is_commit = answer.windows(COMMITTED.len()).any(|part| part == COMMITTED);
        let cuts = is_commit && self.is_out.load(Ordering::SeqCst) && fastrand::u8(..3) == 0;
        self.cuts.fetch_add(usize::from(cuts), Ordering::SeqCst);
        cuts
    }
}

impl Wire {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let knife = Arc::new(Knife::default());
        let for_all = Arc::clone(&knife);
        // It ends with the tests.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let server = UnixStream::connect(server_socket()).unwrap();
                let (there, back) = (Arc::clone(&for_all), Arc::clone(&for_all));
                pass_on(&client, &server, move |_| {
                    there.wait();
                    false
                });
                pass_on(&server, &client, move |answer| {
                    back.wait();
                    back.cuts(answer)
                });
            }
        });
        Self { folder, knife }
    }

    pub(crate) fn url(&self) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://andon@{folder}/postgres")
    }

    pub(crate) fn cut_at_commits(&self) {
        self.knife.is_out.store(true, Ordering::SeqCst);
    }

    pub(crate) fn cut_no_more(&self) {
        self.knife.is_out.store(false, Ordering::SeqCst);
    }

    /// From here on nothing is heard, and no connection is closed: a black hole.
    pub(crate) fn silence(&self) {
        *self.knife.is_silent.lock().unwrap() = true;
    }

    pub(crate) fn speak(&self) {
        *self.knife.is_silent.lock().unwrap() = false;
        self.knife.speaks.notify_all();
    }

    pub(crate) fn cuts(&self) -> usize {
        self.knife.cuts.load(Ordering::SeqCst)
    }
}

fn server_socket() -> String {
    let url = url();
    let (_, place) = url.split_once('@').unwrap();
    let (folder, _) = place.rsplit_once('/').unwrap();
    format!("{}/{SOCKET}", folder.replace("%2F", "/"))
}

/// Passes on what comes from one side, until it ends or is cut.
fn pass_on(from: &UnixStream, to: &UnixStream, is_cut: impl Fn(&[u8]) -> bool + Send + 'static) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut part = [0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut part) {
            if is_cut(&part[..length]) || to.write_all(&part[..length]).is_err() {
                break;
            }
        }
        // Both sides are told; one that is closed already does not mind.
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    });
}
