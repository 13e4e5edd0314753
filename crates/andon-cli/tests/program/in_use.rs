//! Two programs and one database.

use crate::child::Database;

#[test]
fn a_second_program_is_refused_with_the_owner_and_what_to_do_and_works_afterwards() {
    let db = Database::new();
    let mut first = db.start(&["chat"]);
    first.wait_for("Ctrl-C stops it");
    let holder = format!("process {} (andon chat", first.id());
    for second in [vec!["run", "--instant", "hello"], vec!["chat"]] {
        let why = db.refused(&second);
        for told in [&holder, "--db PATH", "--db memory"] {
            assert!(why.contains(told), "{told} is not in {why}");
        }
    }
    assert_eq!(first.end().code, Some(0));
    db.run(&["run", "--instant", "hello"]);
}

#[test]
fn a_command_that_only_reads_does_not_disturb_a_program_that_writes() {
    let db = Database::new();
    let mut chat = db.start(&["chat", "--session", "otter"]);
    chat.say("roll 3 dice", "✓ Completed");
    chat.say("tell me a long story", "## 1. ");
    let runs = db.run(&["runs", "--json"]).json();
    assert_eq!((&runs[0]["state"], &runs[0]["left_open"]), (&"running".into(), &false.into()));
    assert!(db.run(&["receipt", runs[0]["run_id"].as_str().unwrap()]).stdout.contains("Not settled: running"));
    assert!(db.run(&["sessions"]).stdout.contains("roll 3 dice"));
    assert!(db.run(&["history", "otter"]).stdout.starts_with("> roll 3 dice\n"));
    db.run(&["export", "otter"]);
    let why = db.refused(&["delete", "otter", "--yes"]);
    assert!(why.contains("is in use by process"), "{why}");
    chat.interrupt();
    chat.wait_for("■ Stopped");
    assert_eq!(chat.end().code, Some(0));
}
