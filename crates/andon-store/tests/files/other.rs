//! Another process.

use std::fs::File;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, fcntl_lock};

use super::*;

const WHAT: &str = "ANDON_TEST_WHAT";
const WHERE: &str = "ANDON_TEST_WHERE";

/// What another process prints when it does this to a database.
fn says(what: &str, path: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "other::what_the_other_process_does", "--ignored", "--nocapture"]);
    let output = command.env(WHAT, what).env(WHERE, path).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let line = said.lines().find_map(|line| line.split_once("it says: ")).expect("it says something");
    line.1.to_owned()
}

/// Opens a database for writing as any program does, counts its sessions, closes it, and cleans up if nobody has it open.
pub(crate) fn counts_sessions(path: &Path) -> usize {
    says("count", path).parse().unwrap()
}

/// Tries to open a database as its writer.
pub(crate) fn opens(path: &Path) -> String {
    says("open", path)
}

/// What SQLite before 3.51 does when it closes a database that nobody has locked. Later versions check twice, which would hide
/// that the locks are gone.
fn tidy_up(path: &Path) {
    let database = File::options().read(true).write(true).open(path).unwrap();
    if fcntl_lock(&database, FlockOperation::NonBlockingLockExclusive).is_ok() {
        let connection = Connection::open(path).unwrap();
        let _: i64 = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0)).unwrap();
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        // The connection may have removed it already.
        let _ = std::fs::remove_file(wal);
    }
}

#[test]
#[ignore = "other tests start it in a separate process"]
fn what_the_other_process_does() {
    let path = PathBuf::from(std::env::var_os(WHERE).expect("other tests start it"));
    let said = match std::env::var(WHAT).unwrap().as_str() {
        "count" => {
            let connection = Connection::open(&path).unwrap();
            let count: i64 = connection.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
            connection.close().unwrap();
            tidy_up(&path);
            count.to_string()
        }
        "open" => match SqliteJournal::open(path) {
            Ok(_) => "opened".to_owned(),
            Err(error) => error.to_string(),
        },
        other => panic!("it cannot {other}"),
    };
    println!("it says: {said}");
}
