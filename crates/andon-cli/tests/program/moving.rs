//! Export, import and delete.

use crate::child::{ANDON, Database, Program};

fn with_a_stopped_story(db: &Database) {
    let mut chat = db.start(&["chat", "--session", "otter"]);
    chat.say("tell me a long story", "## 1. ");
    chat.interrupt();
    chat.wait_for("■ Stopped");
    assert_eq!(chat.end().code, Some(0));
}

#[test]
fn a_session_is_moved_to_another_database_and_continues_there() {
    let (here, there) = (Database::new(), Database::new());
    with_a_stopped_story(&here);
    let file = here.file("otter.jsonl");
    let told = here.run(&["export", "otter", "--out", &file]);
    assert!(told.stdout.is_empty() && told.stderr.contains("Wrote session otter"), "{}", told.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), here.run(&["export", "otter"]).stdout);

    let told = there.run(&["import", &file]).stdout;
    assert!(
        told.contains(&format!("Imported session otter, with 1 run. To continue: {ANDON} chat --session otter")),
        "{told}"
    );
    assert_eq!(there.run(&["export", "otter"]).stdout, here.run(&["export", "otter"]).stdout);
    assert_eq!(there.run(&["history", "otter"]).stdout, here.run(&["history", "otter"]).stdout);
    let mut chat = there.start(&["chat", "--instant", "--continue"]);
    chat.wait_for("■ cut here: requested");
    chat.say("hello", "I know that my last answer was stopped");
    assert_eq!(chat.end().code, Some(0));

    let twice = there.refused(&["import", &file]);
    assert!(twice.contains("nothing was imported: there is already a session practice/local/otter"), "{twice}");
    assert_eq!(there.run(&["runs", "--json"]).json().len(), 2);
}

#[test]
fn a_run_that_was_in_progress_is_settled_where_it_is_imported() {
    let (here, there) = (Database::new(), Database::new());
    let mut chat = here.start(&["chat", "--session", "otter"]);
    chat.say("tell me a long story", "## 1. ");
    let lines = here.run(&["export", "otter"]).stdout;
    chat.kill();
    let mut import = there.start(&["import", "-"]);
    import.type_all(&lines);
    assert_eq!(import.end().code, Some(0));
    let runs = there.run(&["runs", "--json"]).json();
    assert_eq!((runs.len(), &runs[0]["outcome"]["kind"]), (1, &"lost".into()));
    assert!(there.run(&["history", "otter"]).stdout.contains("■ cut here: the program ended"));
}

#[test]
fn an_open_question_is_moved_too_and_asked_there() {
    let (here, there) = (Database::new(), Database::new());
    let mut chat = here.start(&["chat", "--instant", "--session", "otter"]);
    chat.say("write a note: buy milk", "May write_note run? [y/n]");
    let file = here.file("otter.jsonl");
    here.run(&["export", "otter", "--out", &file]);
    chat.kill();
    there.run(&["import", &file]);
    let mut chat = there.start(&["chat", "--instant", "-c"]);
    chat.wait_for("May write_note run? [y/n]");
    chat.say("y", "kept as note 1: buy milk");
    assert_eq!(chat.end().code, Some(0));
}

#[test]
fn a_file_that_is_cut_short_or_garbage_is_refused_whole() {
    let (here, there) = (Database::new(), Database::new());
    with_a_stopped_story(&here);
    let whole = here.run(&["export", "otter"]).stdout;
    let lines: Vec<&str> = whole.lines().collect();
    let cut_short = lines[..lines.len() - 1].join("\n");
    let half_a_line = &whole[..whole.len() - 8];
    let mut broken = lines.clone();
    broken[2] = "{}";
    let wrong: [(&str, Vec<u8>, &str); 6] = [
        ("short", cut_short.into_bytes(), "the export is incomplete"),
        ("half", half_a_line.as_bytes().to_vec(), &format!("line {} is not one that `export` writes", lines.len())),
        ("broken", broken.join("\n").into_bytes(), "line 3 is not one that `export` writes"),
        ("garbage", b"garbage\n".to_vec(), "line 1 is not one that `export` writes"),
        ("bytes", b"{}\n\xff\xfe".to_vec(), "line 2 is not text"),
        ("empty", Vec::new(), "it is empty"),
    ];
    for (name, bytes, told) in wrong {
        let file = there.file(name);
        std::fs::write(&file, bytes).unwrap();
        let why = there.refused(&["import", &file]);
        assert!(why.contains(told), "{name}: {told} is not in {why}");
    }
    assert!(there.refused(&["import", &there.file("nowhere")]).contains("cannot read"));
    assert_eq!(there.run(&["sessions", "--json"]).stdout, "");
    let in_memory = Program::run(&["import", "/dev/null"]);
    assert!(in_memory.code == Some(1) && in_memory.stderr.contains("name a file with --db PATH"));
}

#[test]
fn a_deleted_session_is_gone_and_only_that_one() {
    let db = Database::new();
    for session in ["otter", "finch"] {
        db.run(&["run", "--instant", "--session", session, "hello"]);
    }
    assert!(db.refused(&["delete", "otter"]).contains("use --yes"));
    assert!(db.run(&["delete", "otter", "--yes"]).stdout.contains("Session otter was deleted"));
    let left = db.run(&["sessions", "--json"]).json();
    assert_eq!((left.len(), &left[0]["session"]), (1, &"finch".into()));
    for gone in [vec!["history", "otter"], vec!["export", "otter"], vec!["delete", "otter", "--yes"]] {
        assert!(db.refused(&gone).contains("there is no session otter"));
    }
}

#[test]
fn a_session_with_a_run_that_was_left_open_can_be_deleted() {
    let db = Database::new();
    let mut chat = db.start(&["chat", "--session", "otter"]);
    chat.say("tell me a long story", "## 1. ");
    chat.kill();
    db.run(&["delete", "otter", "--yes"]);
    assert_eq!(db.run(&["runs", "--json"]).stdout, "");

    let mut chat = db.start(&["chat", "--instant", "--session", "finch"]);
    chat.say("write a note: buy milk", "May write_note run? [y/n]");
    chat.kill();
    db.run(&["delete", "finch", "--yes"]);
    assert_eq!(db.run(&["runs", "--json"]).stdout, "");
}
