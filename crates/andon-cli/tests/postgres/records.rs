//! The commands that work on the record, without a server of ours.

use crate::child::{ANDON, Database, Program, json};
use crate::database::{Shared, url};

#[test]
fn a_database_without_records_is_an_empty_list_and_gets_no_tables() {
    let db = Shared::new();
    for list in ["sessions", "runs"] {
        assert!(db.run(&[list]).stdout.contains("Nothing has been recorded yet in postgres://"));
        assert_eq!(db.run(&[list, "--json"]).stdout, "");
    }
    let why = db.refused(&["cancel", "--all"]);
    assert!(why.contains("nothing has been recorded in postgres://"), "{why}");
    assert!(db.run(&["keys", "list"]).stdout.contains("There are no keys."));
}

#[test]
fn the_variable_names_a_database_and_the_flag_comes_first() {
    let (db, other) = (Shared::new(), Shared::new());
    let run = |args: &[&str]| Program::start_on(&db.url, args).end();
    assert_eq!(run(&["run", "--instant", "--session", "otter", "hello"]).code, Some(0));
    assert_eq!(run(&["runs", "--json"]).json()[0]["session"], "otter");
    assert_eq!(run(&["runs", "--json", "--db", &other.url]).stdout, "");
    // Other commands find it by the variable, too, so they need no flag.
    let hint = run(&["receipt", "nobody"]).stderr;
    assert!(hint.contains(&format!("list them with `{ANDON} runs`")), "{hint}");
    // By the flag, they need it.
    let hint = db.refused(&["receipt", "nobody"]);
    assert!(hint.contains(&format!("runs --db '{}'`", db.url)), "{hint}");
}

#[test]
fn a_schema_has_records_of_its_own() {
    let (here, there) = (Shared::new(), Shared::new());
    here.run(&["run", "--instant", "--session", "otter", "hello"]);
    there.run(&["run", "--instant", "--session", "finch", "hello"]);
    let sessions = |db: &Shared| {
        db.run(&["sessions", "--json"]).json().iter().map(|one| one["session"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((sessions(&here), sessions(&there)), (vec![json!("otter")], vec![json!("finch")]));
    let wrong = Program::run(&["runs", "--db", &format!("{}?schema=pg_mine", url())]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("`pg_mine` cannot be the name of a schema"), "{}", wrong.stderr);
}

#[test]
fn a_session_moves_from_a_file_to_a_server_and_back() {
    let (file, db) = (Database::new(), Shared::new());
    file.run(&["run", "--instant", "--session", "otter", "roll 3 dice"]);
    let out = file.file("otter.jsonl");
    file.run(&["export", "otter", "--out", &out]);
    assert!(db.run(&["import", &out]).stdout.contains("Imported session otter, with 1 run."));
    let why = db.refused(&["import", &out]);
    assert!(why.contains("import into another database or schema with --db"), "{why}");
    assert_eq!(db.run(&["export", "otter"]).stdout, std::fs::read_to_string(&out).unwrap());
    assert_eq!(db.run(&["history", "otter"]).stdout, file.run(&["history", "otter"]).stdout);
    // And the conversation goes on, in a terminal.
    let mut chat = db.start(&["chat", "--instant", "--continue"]);
    chat.say("hello", "✓ Completed");
    assert_eq!(chat.end().code, Some(0));
    assert_eq!(db.run(&["runs", "--json"]).json().len(), 2);
    db.run(&["delete", "otter", "--yes"]);
    assert!(db.run(&["runs"]).stdout.contains("Nothing has been recorded yet"));
}

#[test]
fn a_key_that_was_recorded_opens_a_server_that_is_started_later() {
    let db = Shared::new();
    let created = db.run(&["keys", "create", "me", "--scope", "admin"]);
    assert!(created.stderr.contains("from their next start on"), "{}", created.stderr);
    let key = created.stdout.trim();
    let served = db.serve(&["--auth", "--instant"]);
    assert!(served.program.seen.contains("It reads the keys when it starts"), "{}", served.program.seen);
    assert_eq!(served.get("/v1/runs").0, 401);
    assert_eq!(served.get_with("/v1/runs", &[("authorization", format!("Bearer {key}"))]).0, 200);
    let id = db.run(&["keys", "list", "--json"]).json()[0]["id"].as_str().unwrap().to_owned();
    assert!(db.run(&["keys", "revoke", &id]).stderr.contains("until their next start"));
    assert_eq!(served.terminate().code, Some(0));
}

#[test]
fn a_question_that_was_left_open_is_asked_again() {
    let db = Shared::new();
    let mut program = db.start(&["chat", "--instant", "--session", "otter"]);
    program.say("write a note: buy milk", "May write_note run? [y/n]");
    program.kill();
    assert_eq!(db.only_run("otter")["state"], "waiting");
    let mut next = db.start(&["chat", "--instant", "--continue"]);
    next.wait_for("1 run continues. It needs your approval.");
    next.say("y", "kept as note 1: buy milk");
    next.wait_for("✓ Completed");
    assert_eq!(next.end().code, Some(0));
    assert_eq!(db.outcome("otter")["kind"], "completed");
}
