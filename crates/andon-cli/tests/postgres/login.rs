//! Logins that work, and what those that do not are told. No password is ever shown.

use std::os::unix::fs::PermissionsExt as _;

use crate::child::{Ended, Program};
use crate::database::{Shared, new_schema, url, url_of};

const PASSWORD: &str = "open sesame";

/// A user that needs a password, whose name the server's rules have. Some other test may have created it.
fn guarded() -> String {
    let create = "DO $$ BEGIN CREATE ROLE keeper LOGIN SUPERUSER PASSWORD 'open sesame'; EXCEPTION WHEN duplicate_object OR \
                  unique_violation THEN NULL; END $$; ALTER ROLE keeper SUPERUSER PASSWORD 'open sesame'";
    sql(create);
    format!("{}?schema={}", url_of("keeper", "postgres"), new_schema())
}

fn sql(statements: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.unwrap();
        tokio::select! {
            done = client.batch_execute(statements) => done.unwrap(),
            ended = connection => panic!("the connection ended: {ended:?}"),
        }
    });
}

fn runs(url: &str, variables: &[(&str, &str)]) -> Ended {
    // None of the developer's own.
    let none = [("PGPASSWORD", ""), ("PGPASSFILE", "/nonexistent"), ("PGUSER", "")];
    let variables: Vec<_> = none.iter().chain(variables).copied().collect();
    let ended = Program::start_in("memory", &variables, &["runs", "--db", url]).end();
    assert!(!ended.stderr.contains("sesame") && !ended.stdout.contains("sesame"), "{}", ended.stderr);
    ended
}

fn why(url: &str, variables: &[(&str, &str)]) -> String {
    let ended = runs(url, variables);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    println!("{}", ended.stderr);
    ended.stderr
}

#[test]
fn a_login_that_fails_is_explained() {
    let url = guarded();
    let wrong = url.replace("keeper@", "keeper:wrong%20sesame@");
    for why in [why(&url, &[]), why(&wrong, &[]), why(&url, &[("PGPASSWORD", "sesame")])] {
        assert!(why.contains("does not let this user in") && why.contains("PGPASSWORD"), "{why}");
    }
    let served = Program::run(&["serve", "--bind", "127.0.0.1:0", "--db", &wrong]);
    assert_eq!((served.code, served.stdout.as_str()), (Some(1), ""));
    assert!(!served.stderr.contains("sesame"), "{}", served.stderr);
}

#[test]
fn a_database_or_a_server_that_is_not_there_is_named_with_what_to_do() {
    let missing = why(&url_of("andon:sesame", "no_such"), &[]);
    assert!(missing.contains("/no_such does not exist") && missing.contains("createdb"), "{missing}");
    let nobody = why("postgres://andon:sesame@127.0.0.1:1/app", &[]);
    assert!(
        nobody.contains("postgres://127.0.0.1:1/app cannot be reached") && nobody.contains("is running"),
        "{nobody}"
    );
    let wrong = why("postgres://andon:sesame@/app", &[]);
    assert!(wrong.contains("it names no host"), "{wrong}");
}

#[test]
fn a_password_on_the_command_line_is_not_in_the_list_of_processes() {
    let url = guarded();
    let given = url.replace("keeper@", "keeper:open%20sesame@");
    let mut chat = Program::start(&["chat", "--instant", "--db", &given]);
    chat.wait_for("Ctrl-C stops it");
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", chat.id())).unwrap();
    assert!(line.ends_with(&format!("\0chat\0--instant\0--db\0{url}\0")), "{line:?}");
    chat.say("hello", "✓ Completed");
    let ended = chat.end();
    assert_eq!(ended.code, Some(0));
    assert!(!ended.stdout.contains("sesame"), "{}", ended.stdout);
}

#[test]
fn a_password_comes_from_the_address_a_variable_or_a_file() {
    let url = guarded();
    let is_in = |url: &str, variables: &[(&str, &str)]| {
        let ended = runs(url, variables);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr
    };
    is_in(&url.replace("keeper@", "keeper:open%20sesame@"), &[]);
    is_in(&url, &[("PGPASSWORD", PASSWORD)]);
    is_in(&url.replace("keeper@", ""), &[("PGPASSWORD", PASSWORD), ("PGUSER", "keeper")]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pgpass");
    std::fs::write(&file, format!("*:*:*:eve:wrong\n*:5432:postgres:keeper:{PASSWORD}\n")).unwrap();
    let variable = [("PGPASSFILE", file.to_str().unwrap())];
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(is_in(&url, &variable), "");
    // One that others may read is not used, and somebody who needs none of it is told, too.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = why(&url, &variable);
    assert!(refused.contains("does not let this user in") && refused.contains("chmod 600"), "{refused}");
    let told = is_in(&Shared::new().url, &variable);
    assert!(told.starts_with("warning: the password file ") && told.lines().count() == 1, "{told}");
}

#[test]
fn a_user_who_may_only_read_reads_and_is_told_what_is_missing_to_write() {
    let db = Shared::new();
    db.run(&["run", "--instant", "--session", "otter", "hello"]);
    let schema = db.url.rsplit('=').next().unwrap();
    let reader = format!("reader_of_{schema}");
    sql(&format!(
        "CREATE ROLE {reader} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {reader}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader}"
    ));
    let own = format!("{}?schema={schema}", url_of(&reader, "postgres"));
    for read in [&["runs"][..], &["sessions"], &["history", "otter"], &["export", "otter"], &["keys", "list"]] {
        let ended = Program::run(&[read, &["--db", &own]].concat());
        assert_eq!(ended.code, Some(0), "{read:?}: {}", ended.stderr);
    }
    let why = Program::run(&["run", "--instant", "hello", "--db", &own]).stderr;
    assert!(why.contains("permission denied") && why.contains("grant it what is missing"), "{why}");
}
