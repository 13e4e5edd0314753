//! Sessions: a new one, a named one, the last one.

use crate::child::{ANDON, Database, Program};

#[test]
fn a_new_session_has_a_name_and_says_how_to_continue_it() {
    let db = Database::new();
    let mut chat = db.start(&["chat", "--instant"]);
    chat.type_line("hello");
    chat.type_line("/session");
    let ended = chat.end();
    let session = db.run(&["sessions", "--json"]).json()[0]["session"].as_str().unwrap().to_owned();
    assert_eq!(session.split('-').count(), 3);
    let later = format!("{ANDON} chat --session {session}\n");
    assert!(ended.stdout.contains(&format!("Session {session}. To continue later: {later}")), "{}", ended.stdout);
    assert!(ended.stdout.contains(&format!("stored in {}", db.file("andon.db"))), "{}", ended.stdout);
    assert!(ended.stdout.ends_with(&format!("To continue later: {later}")), "{}", ended.stdout);
}

#[test]
fn a_chat_in_which_nothing_was_said_leaves_no_session() {
    let db = Database::new();
    db.run(&["chat"]);
    assert!(db.run(&["sessions"]).stdout.contains("Nothing has been recorded yet"));
}

#[test]
fn the_last_session_is_continued_where_it_ended() {
    let db = Database::new();
    db.run(&["run", "--instant", "--session", "otter", "roll 3 dice"]);
    db.run(&["run", "--instant", "--session", "finch", "what time is it"]);
    db.run(&["run", "--instant", "--continue", "think about it"]);
    let mut chat = db.start(&["chat", "--instant", "--continue"]);
    chat.type_line("/sessions");
    let shown = chat.end().stdout;
    assert!(shown.contains("Session finch, where you left off:"), "{shown}");
    let (earlier, last) = shown.split_once("  you  what time is it").expect(&shown);
    assert!(!earlier.contains("dice") && last.contains("\n> think about it\n"), "{shown}");
    let (finch, otter) = (last.find("\nfinch ").expect(last), last.find("\notter ").expect(last));
    assert!(finch < otter, "{last}");
}

#[test]
fn there_is_nothing_to_continue_at_first() {
    let db = Database::new();
    let why = db.refused(&["chat", "--continue"]);
    assert!(why.contains("there is no session to continue") && why.contains("andon chat"), "{why}");
    let in_memory = Program::run(&["run", "-c", "hello"]);
    assert_eq!(in_memory.code, Some(1));
    assert!(in_memory.stderr.contains("`--db memory` keeps nothing"), "{}", in_memory.stderr);
}

#[test]
fn the_flag_wins_over_the_variable_and_is_in_every_hint() {
    let db = Database::new();
    let other = db.file("other one.db");
    let shown = db.run(&["chat", "--instant", "--session", "otter", "--db", &other]).stdout;
    assert!(shown.contains(&format!("andon chat --session otter --db '{other}'")), "{shown}");
    assert!(std::path::Path::new(&other).exists() && !std::path::Path::new(&db.file("andon.db")).exists());
}

#[test]
fn a_file_that_is_not_a_database_is_left_alone() {
    let db = Database::new();
    let notes = db.file("notes.txt");
    std::fs::write(&notes, "mine").unwrap();
    for command in [vec!["chat"], vec!["sessions"], vec!["runs"], vec!["import", "/dev/null"]] {
        let why = db.refused(&[&command[..], &["--db", &notes]].concat());
        assert!(why.contains("is not an Andon database"), "{why}");
    }
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "mine");
}
