//! A small database for the tests of lists.

use rusqlite::{Connection, params_from_iter, types::Value as Bound};

use crate::file::MIGRATIONS;

/// SQLite's plan for a query.
pub(super) fn plan(connection: &Connection, sql: &str, values: &[Bound]) -> String {
    let mut query = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps = query.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
    steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

pub(super) fn migrated(older: usize, rows: &str) -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    let transaction = connection.transaction().unwrap();
    let (older, newer) = MIGRATIONS.split_at(older);
    older.iter().for_each(|migrate| migrate(&transaction).unwrap());
    transaction.execute_batch(rows).unwrap();
    newer.iter().for_each(|migrate| migrate(&transaction).unwrap());
    transaction.commit().unwrap();
    connection
}

/// Two users of one app, one of them with two sessions; a run that has not started and one that has settled.
pub(super) const OF_FORMAT_4: &str = "
    INSERT INTO sessions VALUES (1, 't', 'shop', 'ada', 's', 10, 10), (2, 't', 'shop', 'ada', 'empty', 11, 12),
                                (3, 't', 'shop', 'bob', 's', 11, 11);
    INSERT INTO runs (id, run, session, epoch, owner, next_seq, started, settled, accepted_at, settled_at, ending, title)
    VALUES (1, 'a', 1, 1, 'me', 2, NULL, 0, 20, NULL, NULL, 'waits'),
           (2, 'b', 1, 1, 'me', 9, 1, 1, 30, 40, '{\"kind\":\"lost\"}', 'first');";

pub(super) fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}
