//! Servers on which something would be lost, and addresses that are wrong: each is refused in words, and no password is in them.

use andon_store::{PostgresError, PostgresJournal, PostgresOptions};

use crate::server::{alone, journal, new_schema, shared, sql, url, url_of};

/// Why a journal is not opened.
fn why(url: &str, schema: &str) -> PostgresError {
    let opened = PostgresJournal::open_with(url, &PostgresOptions::new().schema(schema));
    let error = opened.err().unwrap_or_else(|| panic!("{url} was opened"));
    println!("{error}");
    error
}

fn role(name: &str, more: &str) {
    sql(&format!("DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN {more}"));
}

#[test]
fn a_login_that_fails_says_so_and_keeps_the_password() {
    let _server = shared();
    role("guarded", "SUPERUSER PASSWORD 'open sesame'");
    for (login, matches) in
        [("guarded:sesame", true), ("guarded", true), ("nobody_here", true), ("guarded:open%20sesame", false)]
    {
        let schema = new_schema();
        match PostgresJournal::open_with(&url_of(login, "postgres"), &PostgresOptions::new().schema(schema)) {
            Err(error) => {
                assert!(matches && matches!(error, PostgresError::Login { .. }), "{login}: {error:?}");
                assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
            }
            Ok(journal) => assert!(!matches && !format!("{journal:?}").contains("sesame")),
        }
    }
    sql("DROP OWNED BY guarded CASCADE");
}

#[test]
fn a_database_that_is_not_there_is_named() {
    let _server = shared();
    assert!(matches!(why(&url_of("andon", "no_such"), "andon"), PostgresError::Missing { .. }));
    assert!(matches!(why("postgres://andon@%2Fno%2Fsuch/postgres", "andon"), PostgresError::Unreachable { .. }));
    assert!(matches!(why("postgres://andon@127.0.0.1:1/postgres", "andon"), PostgresError::Unreachable { .. }));
    for schema in ["", "pg_mine", &"x".repeat(64)] {
        assert!(matches!(why(&url(), schema), PostgresError::Schema { .. }));
    }
}

#[test]
fn a_user_without_rights_is_told_what_to_ask_for() {
    let _server = shared();
    let schema = new_schema();
    let poor = format!("poor_{schema}");
    role(&poor, "");
    assert!(matches!(why(&url_of(&poor, "postgres"), &schema), PostgresError::Rights { .. }));
    // As the message says.
    sql(&format!("CREATE SCHEMA {schema} AUTHORIZATION {poor}"));
    let options = PostgresOptions::new().schema(&schema);
    drop(PostgresJournal::open_with(&url_of(&poor, "postgres"), &options).unwrap());
    sql(&format!("DROP SCHEMA {schema} CASCADE"));
}

#[test]
fn a_schema_that_is_newer_or_not_ours_is_refused_and_left_alone() {
    let _server = shared();
    let (newer, other) = (new_schema(), new_schema());
    drop(journal(&newer));
    sql(&format!("UPDATE {newer}.format SET version = 99"));
    assert!(matches!(why(&url(), &newer), PostgresError::Newer { found: 99, .. }));
    sql(&format!("CREATE SCHEMA {other}; CREATE TABLE {other}.cats (name text)"));
    assert!(matches!(why(&url(), &other), PostgresError::NotOurs { .. }));
    let tables = sql(&format!("SELECT relname FROM pg_class WHERE relnamespace = '{other}'::regnamespace"));
    assert_eq!(tables, ["cats"]);
}

#[test]
fn several_programs_that_create_the_tables_at_once_create_them_once() {
    let _server = shared();
    let schema = new_schema();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn({
                let schema = schema.clone();
                move || drop(journal(&schema))
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(sql(&format!("SELECT count(*) FROM {schema}.format")), ["1"]);
}

#[test]
fn a_server_that_would_lose_what_it_acknowledged_is_refused() {
    let _server = shared();
    role("careless", "SUPERUSER; ALTER ROLE careless SET synchronous_commit = off");
    let error = why(&url_of("careless", "postgres"), "andon");
    assert!(matches!(error, PostgresError::Setting { setting: "synchronous_commit", .. }), "{error:?}");
    role("reader", "SUPERUSER; ALTER ROLE reader SET default_transaction_read_only = on");
    assert!(matches!(why(&url_of("reader", "postgres"), "andon"), PostgresError::ReadOnly { .. }));
    sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'");
    let error = why(&url_of("andon", "latin"), "andon");
    assert!(matches!(error, PostgresError::Setting { setting: "the encoding", .. }), "{error:?}");
    sql("DROP DATABASE latin WITH (FORCE)");
}

#[test]
fn a_server_that_does_not_sync_is_refused() {
    let _server = alone();
    for setting in ["fsync", "full_page_writes"] {
        set(setting, "off");
        let error = why(&url(), "andon");
        set(setting, "on");
        assert!(matches!(&error, PostgresError::Setting { setting: found, .. } if *found == setting), "{error:?}");
    }
}

fn set(setting: &str, value: &str) {
    sql(&format!("ALTER SYSTEM SET {setting} = {value}"));
    sql("SELECT pg_reload_conf()");
    while sql(&format!("SHOW {setting}")) != [value] {
        std::thread::yield_now();
    }
}
