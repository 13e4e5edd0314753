//! A run that was queued when its program ended.

use crate::child::*;

/// A database with a run in session `otter` that was accepted and has not started.
fn with_a_queued_run() -> Database {
    let (here, there) = (Database::new(), Database::new());
    here.run(&["run", "--instant", "--session", "otter", "tell me a long story"]);
    let export = here.run(&["export", "otter"]).stdout;
    // The session, the run as if it had not settled, and its first event.
    let mut lines: Vec<Value> = export.lines().take(3).map(|line| serde_json::from_str(line).unwrap()).collect();
    lines[1].as_object_mut().unwrap().remove("settled_at");
    lines.push(json!({"line": "end", "lines": 3}));
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let mut import = there.start(&["import", "-"]);
    import.type_all(&lines.join("\n"));
    assert_eq!(import.end().code, Some(0));
    assert_eq!(there.run(&["runs", "--json"]).json()[0]["state"], "queued");
    there
}

#[test]
fn a_queued_run_goes_on_and_is_followed_in_its_session() {
    let db = with_a_queued_run();
    let mut chat = db.start(&["chat", "--instant", "--continue"]);
    chat.wait_for("1 queued run continues.");
    chat.wait_for("> tell me a long story");
    chat.wait_for("✓ Completed");
    assert_eq!(chat.end().code, Some(0));
}

#[test]
fn a_queued_run_of_another_session_is_stopped_and_kept_when_the_program_ends() {
    let db = with_a_queued_run();
    let mut chat = db.start(&["chat", "--session", "finch"]);
    chat.wait_for("1 queued run in session otter continues.");
    db.wait_for_record("otter", "\"model_started\"");
    assert_eq!(chat.end().code, Some(0));
    let run = db.run(&["runs", "--json"]).json().remove(0);
    assert_eq!(run["outcome"], json!({"kind": "cancelled", "reason": "shutdown"}));
}
