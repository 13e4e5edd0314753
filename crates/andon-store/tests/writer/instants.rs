//! When a run settled is written with another commit, or alone in a commit that does not sync.

use std::sync::atomic::{AtomicU64, Ordering};

use andon_runtime::core::time::Stamp;
use tempfile::TempDir;

use super::*;

const SETTLED: Stamp = Stamp { wall: Wall(1_006), mono_us: 6 };

/// Counts the commits that sync.
#[derive(Default)]
struct Commits(AtomicU64);

impl Probe for Commits {
    fn hit(&self, seam: &'static str) {
        self.0.fetch_add(u64::from(seam == "store: after commit"), Ordering::SeqCst);
    }
}

/// A journal with a run that has settled, and when.
async fn settled(folder: &TempDir) -> (SqliteJournal, Arc<Commits>, Told) {
    let commits = Arc::new(Commits::default());
    let options = Options::new().probe(Arc::clone(&commits) as Arc<dyn Probe>);
    let journal = SqliteJournal::open_with(folder.path().join("andon.db"), &options).unwrap();
    let mut told = Told::new("r", "s");
    let entries = [told.begun(), vec![told.settled()]].concat();
    told.write(&journal, entries).await;
    journal.keep_settled(&told.run, SETTLED);
    (journal, commits, told)
}

/// What is in the file, as opposed to the memory of the process that has it open.
async fn in_the_file(folder: &Path, told: &Told) -> Option<Stamp> {
    let reader = SqliteJournal::open_to_read(folder.join("andon.db")).unwrap();
    reader.read(&told.run).await.unwrap().unwrap().settled_at
}

#[tokio::test]
async fn an_instant_is_in_the_file_once_the_next_commit_is_acknowledged() {
    let folder = TempDir::new().unwrap();
    let (journal, commits, told) = settled(&folder).await;
    let mut next = Told::new("next", "s");
    let begun = next.begun();
    next.write(&journal, begun).await;
    assert_eq!(in_the_file(folder.path(), &told).await, Some(SETTLED));
    assert_eq!(commits.0.load(Ordering::SeqCst), 2, "one for each append");
}

#[tokio::test]
async fn an_instant_is_written_without_a_commit_that_syncs_if_nothing_else_comes() {
    let folder = TempDir::new().unwrap();
    let (_journal, commits, told) = settled(&folder).await;
    let written = async {
        while in_the_file(folder.path(), &told).await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, written).await.expect("it is written by itself");
    assert_eq!(in_the_file(folder.path(), &told).await, Some(SETTLED));
    assert_eq!(commits.0.load(Ordering::SeqCst), 1, "the run's own");
}

#[tokio::test]
async fn a_program_that_is_about_to_exit_can_wait_until_all_instants_are_in_the_file() {
    let folder = TempDir::new().unwrap();
    let (journal, commits, told) = settled(&folder).await;
    journal.keep_all().await;
    assert_eq!(in_the_file(folder.path(), &told).await, Some(SETTLED));
    journal.keep_all().await;
    assert!(commits.0.load(Ordering::SeqCst) <= 2, "without instants there is nothing to write");
    let mut many: Vec<Told> = (0..600).map(|number| Told::new(&format!("r{number}"), "s")).collect();
    let given = many.iter_mut().map(|told| {
        let entries = [told.begun(), vec![told.settled()]].concat();
        told.give(&journal, entries)
    });
    for given in given.collect::<Vec<_>>() {
        given.await.unwrap();
    }
    many.iter().for_each(|told| journal.keep_settled(&told.run, SETTLED));
    journal.keep_all().await;
    let reader = SqliteJournal::open_to_read(folder.path().join("andon.db")).unwrap();
    let runs = reader.sessions().runs(RunFilter::default()).await.unwrap();
    assert_eq!(runs.iter().filter(|run| run.settled_at == Some(SETTLED.wall)).count(), 601);
}

#[tokio::test]
async fn an_instant_survives_a_commit_that_is_rolled_back() {
    let folder = TempDir::new().unwrap();
    let (journal, _, told) = settled(&folder).await;
    let mut bad = Told::new("bad", "s");
    let twice = [bad.begun(), vec![bad.settled(), bad.settled()]].concat();
    assert!(bad.give(&journal, twice).await.is_err());
    let mut next = Told::new("next", "s");
    let begun = next.begun();
    next.write(&journal, begun).await;
    assert_eq!(in_the_file(folder.path(), &told).await, Some(SETTLED));
}
