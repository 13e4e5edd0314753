//! Deleted sessions leave no trace on the disk.

use serde_json::json;

use super::*;

const SEED: u64 = 7;
const SESSIONS: usize = 450;

/// The marker before a secret's number.
const SECRET: &[u8] = b"quagga-";

/// A word that identifies its session and does not occur by chance.
fn secret(number: usize) -> String {
    format!("quagga-{number:05}")
}

/// A session with its secret in its name, its state and the keys of its state. Their order is shuffled, so that pages are split
/// and joined everywhere.
fn telling(number: usize) -> SessionKey {
    key(&format!("{:08x} of {}", (number as u32).wrapping_mul(2_654_435_761), secret(number)))
}

async fn tell(journal: &SqliteJournal, numbers: impl IntoIterator<Item = usize>) {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut created = Vec::new();
    for number in numbers {
        let entry = |n| {
            let value = format!("{}{}", secret(number), "x".repeat(random.usize(10..700)));
            (format!("{} {n}", secret(number)), json!(value))
        };
        let state: StateMap = (0..3).map(entry).collect();
        created.push(journal.sessions().create(&telling(number), Wall(1), state));
    }
    for created in created {
        assert_eq!(created.await, Ok(true));
    }
}

/// The numbers of the secrets in any file of a folder.
fn secrets_in(folder: &Path) -> Vec<usize> {
    let mut told = vec![false; SESSIONS];
    for name in names(folder).iter().filter(|name| !name.ends_with("-shm")) {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        for window in bytes.windows(SECRET.len() + 5).filter(|window| window.starts_with(SECRET)) {
            let number = std::str::from_utf8(&window[SECRET.len()..]).unwrap_or_default().parse::<usize>();
            if let Some(told) = number.ok().and_then(|number| told.get_mut(number)) {
                *told = true;
            }
        }
    }
    (0..SESSIONS).filter(|number| told[*number]).collect()
}

/// Numbers in a random order.
fn shuffled(seed: u64) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..SESSIONS).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut numbers);
    numbers
}

fn sorted(numbers: &[usize]) -> Vec<usize> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers
}

async fn delete(journal: &SqliteJournal, number: usize) {
    assert_eq!(journal.sessions().delete(&telling(number)).await, Ok(true));
}

#[tokio::test]
async fn of_many_sessions_the_deleted_ones_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("andon.db")).unwrap();
    tell(&journal, shuffled(SEED)).await;
    let order = shuffled(SEED + 1);
    let (deleted, kept) = order.split_at(SESSIONS / 3);
    // Some one by one, as people do it, and some together.
    let (one_by_one, together) = deleted.split_at(20);
    for number in one_by_one {
        delete(&journal, *number).await;
    }
    assert_eq!(secrets_in(folder.path()), sorted(&order[20..]), "seed {SEED}, one by one");
    let together: Vec<_> = together.iter().map(|number| journal.sessions().delete(&telling(*number))).collect();
    for gone in together {
        assert_eq!(gone.await, Ok(true));
    }
    assert_eq!(secrets_in(folder.path()), sorted(kept), "seed {SEED}, together");
}

/// A reader that holds a snapshot of the database.
fn looking(path: &Path) -> Connection {
    let looks = Connection::open(path).unwrap();
    looks.execute_batch("BEGIN").unwrap();
    let _: i64 = looks.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
    looks
}

#[tokio::test]
async fn an_erasure_that_was_held_up_when_the_process_was_killed_is_finished_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = SqliteJournal::open(&path).unwrap();
    tell(&journal, shuffled(SEED)).await;
    let looks = looking(&path);
    let order = shuffled(SEED + 2);
    delete(&journal, order[0]).await;
    assert!(secrets_in(folder.path()).contains(&order[0]), "nobody was in the way");
    let copy = as_if_killed(folder.path());
    drop((looks, journal));
    let next = SqliteJournal::open(copy.path().join("andon.db")).unwrap();
    assert_eq!(secrets_in(copy.path()), sorted(&order[1..]), "seed {SEED}");
    assert_eq!(next.sessions().state(&telling(order[0])).await, Ok(None));
}

/// Waits until only these secrets are left in a folder. The writer retries by itself, without a signal.
async fn until_told(folder: &Path, expected: &[usize]) {
    let mut found = secrets_in(folder);
    let over = tokio::time::timeout(SOON / 4, async {
        while found != expected {
            tokio::time::sleep(Duration::from_millis(50)).await;
            found = secrets_in(folder);
        }
    });
    let over = over.await;
    let left: Vec<_> = found.iter().filter(|number| !expected.contains(number)).collect();
    assert!(over.is_ok(), "seed {SEED}: traces of these are left: {left:?}");
}

#[tokio::test]
async fn many_deletions_while_a_reader_is_in_the_way_leave_no_trace_once_it_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    let journal = SqliteJournal::open(&path).unwrap();
    create(&journal, "first").await;
    let looks = looking(&path);
    assert_eq!(journal.sessions().delete(&key("first")).await, Ok(true));
    // These are created and deleted while the first deletion is held up.
    tell(&journal, shuffled(SEED)).await;
    let order = shuffled(SEED + 1);
    let (deleted, kept) = order.split_at(SESSIONS / 3);
    let gone: Vec<_> = deleted.iter().map(|number| journal.sessions().delete(&telling(*number))).collect();
    for gone in gone {
        assert_eq!(gone.await, Ok(true));
    }
    looks.execute_batch("COMMIT").unwrap();
    drop(looks);
    until_told(folder.path(), &sorted(kept)).await;
}

#[tokio::test]
async fn data_deleted_from_a_large_database_is_overwritten_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("andon.db")).unwrap();
    // Larger than a database that is rewritten for a deletion.
    let ballast: StateMap = (0..20).map(|n| (format!("k{n}"), json!("x".repeat(1 << 20)))).collect();
    assert_eq!(journal.sessions().create(&key("ballast"), Wall(1), ballast).await, Ok(true));
    tell(&journal, [1, 2, 3]).await;
    assert_eq!(secrets_in(folder.path()), [1, 2, 3]);
    delete(&journal, 2).await;
    assert_eq!(secrets_in(folder.path()), [1, 3]);
}
