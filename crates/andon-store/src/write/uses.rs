//! When sessions were last used: written to the file a little after the runs that used them.
//!
//! Every run uses its session twice, and a session that is used again and again is written once for all of these.
//!
//! # Invariants
//!
//! 1. A use is added here after the commit that caused it is durable, and before its caller is answered.
//! 2. Every list combines the uses here with those in the file.
//! 3. Uses lost with the process are found again: from `caught_up.before_run` on, it is not known whether a run's use is in the
//!    file. Earlier runs have settled, and their uses are in it.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rusqlite::{Connection, params};

use super::store::Store;
use crate::read::{SessionRow, Use, unwritten};

/// How many uses may wait here. Any excess is written with the commits that add it.
const MANY: usize = 4_096;

/// How many more such a commit writes, so that the next ones need not. Few, because a caller waits for it.
const ROOM: usize = 8;

/// How many are written in one transaction when there is nothing else to do.
const SOME: usize = 64;

/// What a transaction has done to a session.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    /// It was used at this time.
    Used(SessionRow, i64),
    /// It was deleted, and another session may get its row.
    Gone(i64),
}

/// Uses that are not in the file yet, in the order of their rows, so that those written together are on few pages.
#[derive(Debug, Default)]
pub(crate) struct Uses(Mutex<BTreeMap<i64, Use>>);

impl Uses {
    /// Those that an earlier process may not have written (invariant 3).
    pub(crate) fn left(connection: &Connection) -> rusqlite::Result<Self> {
        let uses = unwritten(connection)?.into_iter().map(|used| (used.row.id, used));
        Ok(Self(Mutex::new(uses.collect())))
    }

    /// Applies what a commit has done.
    pub(crate) fn apply(&self, effects: Vec<Effect>) {
        if effects.is_empty() {
            return;
        }
        let mut uses = self.0.lock();
        for effect in effects {
            match effect {
                Effect::Used(row, at) => {
                    let known = uses.entry(row.id).or_insert(Use { row, at });
                    known.at = known.at.max(at);
                }
                Effect::Gone(id) => drop(uses.remove(&id)),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// The uses that are not in the file. A reader must ask for them before it reads the file, so that it misses none.
    pub(crate) fn pending(&self) -> Vec<Use> {
        self.0.lock().values().copied().collect()
    }

    /// Some of them, and whether these are all.
    pub(super) fn some(&self) -> (Vec<Use>, bool) {
        let uses = self.0.lock();
        (uses.values().take(SOME).copied().collect(), uses.len() <= SOME)
    }

    /// Those that the next commit has to write.
    fn excess(&self) -> Vec<Use> {
        let uses = self.0.lock();
        let over = uses.len().checked_sub(MANY).map_or(0, |over| over + ROOM);
        uses.values().take(over).copied().collect()
    }

    /// Removes those that are in the file now.
    pub(crate) fn written(&self, written: &[Use]) {
        if written.is_empty() {
            return;
        }
        let mut uses = self.0.lock();
        for used in written {
            // A session that was used again meanwhile must be written again.
            if uses.get(&used.row.id) == Some(used) {
                uses.remove(&used.row.id);
            }
        }
    }
}

impl Store {
    /// Writes those that are too many, within a transaction.
    pub(crate) fn write_excess_uses(&self, uses: &Uses) -> rusqlite::Result<Vec<Use>> {
        let some = uses.excess();
        self.write_uses(&some)?;
        Ok(some)
    }

    pub(super) fn write_uses(&self, uses: &[Use]) -> rusqlite::Result<()> {
        if uses.is_empty() {
            return Ok(());
        }
        let sql = "UPDATE sessions SET updated_at = ?2 WHERE id = ?1 AND updated_at < ?2";
        let mut update = self.connection.prepare_cached(sql)?;
        for used in uses {
            update.execute(params![used.row.id, used.at])?;
        }
        Ok(())
    }

    /// Records that the file has all uses, so that settled runs need not be read again after a restart.
    pub(super) fn caught_up(&self) -> rusqlite::Result<()> {
        let mut before: i64 =
            self.connection.query_row("SELECT coalesce(max(id), 0) + 1 FROM runs", [], |row| row.get(0))?;
        let mut query = self.connection.prepare_cached("SELECT min(id) FROM runs WHERE settled = 0 AND state IS ?1")?;
        for state in [None, Some(0), Some(1), Some(2), Some(3)] {
            let first: Option<i64> = query.query_row([state], |row| row.get(0))?;
            before = before.min(first.unwrap_or(before));
        }
        self.execute("UPDATE caught_up SET before_run = ?1", [before]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use andon_runtime::core::event::{Accepted, Entry, Event, Record};
    use andon_runtime::core::id::{RunId, SessionKey};
    use andon_runtime::core::outcome::Ending;
    use andon_runtime::core::time::{Stamp, Wall};
    use andon_runtime::{Batch, Message};

    use super::*;
    use crate::file::MIGRATIONS;
    use crate::record::Encoded;

    fn store() -> Store {
        let mut connection = Connection::open_in_memory().unwrap();
        let transaction = connection.transaction().unwrap();
        MIGRATIONS.iter().for_each(|migrate| migrate(&transaction).unwrap());
        transaction.commit().unwrap();
        Store::new(connection).unwrap()
    }

    fn entry(seq: u64, at: u64, event: Event) -> Entry {
        let at = Stamp { wall: Wall(at), mono_us: at };
        Entry::Fact(Arc::new(Record::new(seq, 1, at, event)))
    }

    fn write(store: &mut Store, run: &str, entries: Vec<Entry>) {
        let batch = Batch::new(RunId::new(run).unwrap(), 1, entries);
        store.append(&Encoded::new(&batch).unwrap()).unwrap();
    }

    fn accepted(run: &str, at: u64) -> Entry {
        let session = SessionKey::new("shop", "ada", "s").unwrap();
        let accepted = Accepted::new(RunId::new(run).unwrap(), session, Arc::new(Message::user("Go.")));
        entry(1, at, Event::RunAccepted { accepted: Arc::new(accepted) })
    }

    fn settled(at: u64) -> Entry {
        entry(2, at, Event::RunSettled { outcome: Arc::new(Ending::Lost) })
    }

    fn left(store: &Store) -> Vec<i64> {
        Uses::left(&store.connection).unwrap().pending().iter().map(|used| used.at).collect()
    }

    /// Writes all of them, as the writer does when it is idle.
    fn rest(store: &mut Store, uses: &Uses) {
        uses.apply(store.take_effects());
        let pending = uses.pending();
        store.write_uses(&pending).unwrap();
        store.caught_up().unwrap();
        uses.written(&pending);
        assert!(uses.is_empty());
    }

    /// Checks P10: a crash before a use is written does not change a list.
    #[test]
    fn the_last_use_of_a_session_is_found_again_after_a_crash() {
        let (mut store, uses) = (store(), Uses::default());
        write(&mut store, "old", vec![accepted("old", 10)]);
        write(&mut store, "one", vec![accepted("one", 20), settled(30)]);
        assert_eq!(left(&store), [30]);
        rest(&mut store, &uses);
        assert!(left(&store).is_empty(), "all uses are in the file");
        // A run that came before others, whose uses are written, settles after them.
        write(&mut store, "old", vec![settled(40)]);
        assert_eq!(left(&store), [40]);
        rest(&mut store, &uses);
        write(&mut store, "two", vec![accepted("two", 50)]);
        assert_eq!(left(&store), [50]);
    }

    /// Checks P10: the row of a deleted run may be reused.
    #[test]
    fn the_use_of_a_run_that_reuses_a_deleted_row_is_found_after_a_crash() {
        let (mut store, uses) = (store(), Uses::default());
        write(&mut store, "one", vec![accepted("one", 20), settled(30)]);
        rest(&mut store, &uses);
        store.delete(&SessionKey::new("shop", "ada", "s").unwrap()).unwrap();
        rest(&mut store, &uses);
        write(&mut store, "two", vec![accepted("two", 50), settled(60)]);
        assert_eq!(left(&store), [60]);
    }

    #[test]
    fn excess_uses_are_written_with_the_commits_that_add_them() {
        let (store, uses) = (store(), Uses::default());
        let row = |id| SessionRow { id, app_place: 1, user_place: 2 };
        let all = i64::try_from(MANY).unwrap();
        uses.apply((0..all).map(|id| Effect::Used(row(id), id)).collect());
        assert_eq!(uses.excess().len(), ROOM);
        uses.apply((0..64).map(Effect::Gone).collect());
        assert!(store.write_excess_uses(&uses).unwrap().is_empty());
    }

    #[test]
    fn a_session_that_is_used_while_its_use_is_written_is_written_again() {
        let uses = Uses::default();
        let row = SessionRow { id: 1, app_place: 1, user_place: 2 };
        uses.apply(vec![Effect::Used(row, 5)]);
        let written = uses.pending();
        uses.apply(vec![Effect::Used(row, 7), Effect::Used(row, 6)]);
        uses.written(&written);
        assert_eq!(uses.pending(), [Use { row, at: 7 }]);
        uses.written(&[Use { row, at: 7 }]);
        assert!(uses.is_empty());
    }
}
