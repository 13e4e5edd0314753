//! `kill -9`, and what is left afterwards.

use crate::child::*;

#[test]
fn a_chat_killed_during_an_answer_keeps_all_that_was_shown_but_the_last_50_ms() {
    let db = Database::new();
    let mut program = db.start(&["chat"]);
    program.say("tell me a long story", "## 1. ");
    let killed = program.kill();
    let (_, shown) = killed.stdout.split_once("> tell me a long story\n").unwrap();

    let mut next = db.start(&["chat", "--continue"]);
    next.wait_for("1 run that an earlier program left open has been settled: lost, but its text is kept.");
    next.wait_for("■ cut here: the program ended");
    next.say("/receipt", "✗ Lost: the program that ran it ended");
    next.say("roll 3 dice", "✓ Completed");
    let ended = next.end();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));

    let session = db.run(&["sessions", "--json"]).json()[0]["session"].as_str().unwrap().to_owned();
    let answer = db.facts(&session, "message").remove(0)["message"].clone();
    assert_eq!(answer["cut"], json!({"by": "lost"}));
    let kept = answer["parts"][0]["text"].as_str().unwrap();
    assert!(ended.stdout.contains(&format!("> tell me a long story\n{kept}")), "{}", ended.stdout);
    // The journal may have been a word ahead of the terminal.
    let (long, short) = if shown.len() > kept.len() { (shown, kept) } else { (kept, shown) };
    let lost = long.strip_prefix(short).expect("it is the same text").split_whitespace().count();
    // A word takes more than 25 ms. A slow disk may have held up a few more.
    assert!(lost <= 4, "{lost} words were lost of\n{shown}");
    assert!(ended.stdout.contains("I know that my last answer was stopped"), "{}", ended.stdout);
}

#[test]
fn a_tool_that_ran_when_the_program_was_killed_is_closed_and_not_run_again() {
    let db = Database::new();
    let mut program = db.start(&["chat", "--session", "otter"]);
    program.type_line("count slowly to 60");
    db.wait_for_record("otter", "\"tool_started\"");
    program.kill();

    let left = db.run(&["runs", "--json"]).json().remove(0);
    assert_eq!((&left["state"], &left["left_open"]), (&json!("running"), &json!(true)));
    assert!(db.run(&["runs"]).stdout.contains("The next start settles the runs that were left open"));
    let run = left["run_id"].as_str().unwrap();
    assert!(db.run(&["receipt", run]).stdout.contains("Left open:"));

    let mut next = db.start(&["chat", "-c"]);
    next.wait_for("← slow_count was stopped, effect unknown");
    next.say("hello", "✓ Completed");
    assert_eq!(next.end().code, Some(0));
    assert_eq!(db.facts("otter", "tool_started").len(), 1);
    let receipt = db.run(&["receipt", run, "--json"]).json().remove(0);
    assert_eq!((&receipt["outcome"]["kind"], &receipt["calls"][0]["verdict"]), (&json!("lost"), &json!("unknown")));
}

#[test]
fn a_question_that_was_open_when_the_program_was_killed_is_asked_again() {
    let db = Database::new();
    let mut program = db.start(&["chat", "--instant"]);
    program.say("write a note: buy milk", "May write_note run? [y/n]");
    program.kill();
    let waits = db.run(&["runs", "--open"]).stdout;
    assert!(waits.contains("waiting") && waits.contains("needs your approval"), "{waits}");

    // Killed again while the question is open: nothing is lost by that, either.
    let mut again = db.start(&["chat", "--instant", "--continue"]);
    again.wait_for("1 run continues. It needs your approval.");
    again.wait_for("May write_note run? [y/n]");
    again.kill();

    let mut last = db.start(&["chat", "--instant", "--continue"]);
    last.wait_for("> write a note: buy milk");
    last.wait_for("May write_note run? [y/n]");
    last.say("y", "kept as note 1: buy milk");
    last.wait_for("✓ Completed");
    assert_eq!(last.end().code, Some(0));
    assert!(db.run(&["runs", "--open"]).stdout.contains("No run is open."));
}

#[test]
fn a_question_in_another_session_stays_open_and_its_session_is_named() {
    let db = Database::new();
    let mut program = db.start(&["chat", "--instant", "--session", "otter"]);
    program.say("write a note: buy milk", "May write_note run? [y/n]");
    program.kill();
    let mut other = db.start(&["chat", "--instant", "--session", "finch"]);
    other.say("hello", "✓ Completed");
    let ended = other.end();
    assert!(
        ended
            .stdout
            .contains(&format!("1 run in session otter needs approval: decide in `{ANDON} chat --session otter`."))
    );
    assert!(!ended.stdout.contains("May write_note"), "{}", ended.stdout);

    let nobody = db.refused(&["run", "--session", "otter", "hello"]);
    assert!(nobody.contains("needs approval"), "{nobody}");
    let with_yes = db.run(&["run", "--instant", "--json", "--yes", "--session", "otter", "hello"]);
    assert_eq!(with_yes.receipt()["outcome"]["kind"], "completed");
    let settled = db.run(&["runs", "--session", "otter", "--settled", "--json"]).json();
    assert_eq!(settled.len(), 2);
    assert!(settled.iter().all(|run| run["outcome"]["kind"] == "completed"), "{settled:?}");
}
