//! Commands through a server, which they find by the database or by its address.

use crate::child::*;
use crate::served::Served;

/// The types of all events, one after the other.
fn events(ended: &Ended) -> Vec<String> {
    let lines = ended.json().into_iter().map(|line| line["type"].as_str().unwrap().to_owned());
    lines.filter(|kind| kind != "delta").collect()
}

#[test]
fn a_run_on_the_server_that_holds_the_database_looks_like_a_local_one() {
    let served = Served::with(&["--instant"]);
    let there = served.run(&["run", "--json", "roll 3 dice"]);
    let here = Program::run(&["run", "--json", "--instant", "roll 3 dice"]);
    assert_eq!(events(&there), events(&here));
    let outcome = json!({"kind": "completed", "stop": "end_turn"});
    assert_eq!((&there.receipt()["outcome"], &here.receipt()["outcome"]), (&outcome, &outcome));
    let text = served.run(&["run", "roll 3 dice"]);
    assert!(text.stdout.contains("`dice` answered:"), "{}", text.stdout);
    assert!(text.stderr.contains("→ dice") && text.stderr.contains("✓ Completed"), "{}", text.stderr);
    assert!(text.stderr.contains("session "), "{}", text.stderr);
}

#[test]
fn ctrl_c_stops_the_run_on_the_server_and_shows_the_receipt() {
    let served = Served::new();
    let mut run = served.start(&["run", "--json", "tell me a long story"]);
    run.wait_for_times("\"type\":\"delta\"", 3);
    run.interrupt();
    let ended = run.end();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let receipt = ended.receipt();
    assert_eq!(receipt["outcome"], json!({"kind": "cancelled", "reason": "requested"}));
    assert_eq!((&receipt["note"], &receipt["force"]), (&json!("Ctrl-C"), &json!("graceful")));
    assert_eq!(served.receipt(receipt["run"].as_str().unwrap()), receipt);
}

#[test]
fn a_second_ctrl_c_stops_it_now() {
    let served = Served::new();
    let force = |_| {
        let mut run = served.start(&["run", "--json", "count stubbornly to 20"]);
        run.wait_for("\"type\":\"tool_started\"");
        run.interrupt();
        run.wait_for("\"type\":\"cancel_requested\"");
        run.interrupt();
        let ended = run.end();
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        ended.receipt()["force"].clone()
    };
    // The tool has a grace of two seconds. On a busy machine it may be over before the second one arrives.
    assert!((0..10).map(force).any(|force| force == json!("now")));
}

#[test]
fn a_third_ctrl_c_exits_even_if_the_server_does_not_answer() {
    let served = Served::new();
    let mut run = served.start(&["run", "--json", "tell me a long story"]);
    run.wait_for("\"type\":\"delta\"");
    served.freeze();
    assert_eq!(run.interrupt_until_gone(), Some(130));
    served.signal(Signal::CONT);
}

#[test]
fn flags_for_local_agents_are_refused_on_a_server_and_work_with_another_database() {
    let served = Served::new();
    for flags in [vec!["--instant"], vec!["--model", "ollama/x"], vec!["--tool", "shell", "--seed", "1"]] {
        let args = [vec!["run"], flags.clone(), vec!["hello"]].concat();
        let why = served.db.refused(&args);
        for told in [flags[0], served.address.as_str(), "--app", "--db memory"] {
            assert!(why.contains(told), "{told} is not in {why}");
        }
    }
    let other = served.db.file("other.db");
    served.run(&["run", "--instant", "--db", &other, "hello"]);
}

#[test]
fn a_run_that_is_requested_twice_by_id_runs_once() {
    let served = Served::with(&["--instant"]);
    let ask = |prompt: &str| served.start(&["run", "--detach", "--json", "--run-id", "once", prompt]).end();
    let (first, second) = (ask("hello"), ask("hello"));
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{}{}", first.stderr, second.stderr);
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(served.run(&["runs", "--json"]).json().len(), 1);
    assert_eq!(ask("something else").code, Some(1));
}

#[test]
fn a_session_can_be_named_as_it_is_printed() {
    let served = Served::with(&["--instant"]);
    served.run(&["run", "--user", "ada", "--session", "otter", "hello"]);
    served.run(&["run", "--session", "practice/ada/otter", "what time is it"]);
    let runs = served.run(&["runs", "--session", "practice/ada/otter", "--json"]).json();
    assert_eq!(runs.len(), 2);
    let said = served.run(&["history", "practice/ada/otter", "--json"]).json();
    assert_eq!((said.len() >= 4, &said[0]["role"]), (true, &serde_json::json!("user")), "{said:?}");
    let two = served.db.refused(&["run", "--session", "practice/ada/otter", "--user", "bob", "hello"]);
    assert!(two.contains("--user bob contradicts --session practice/ada/otter"), "{two}");
    assert!(Database::new().refused(&["run", "--session", "shop/ada/otter", "hello"]).contains("no server is using"));
}

#[test]
fn import_is_refused_while_a_server_runs_and_says_what_to_do() {
    let served = Served::with(&["--instant"]);
    served.run(&["run", "--session", "otter", "hello"]);
    let file = served.db.file("otter.jsonl");
    served.run(&["export", "otter", "--out", &file]);
    let why = served.db.refused(&["import", &file]);
    assert!(why.contains("a running server cannot import: shut it down, import, and start it again"), "{why}");
}

#[test]
fn a_flag_that_needs_a_server_says_so_without_one() {
    for flags in [&["--detach"][..], &["--app", "shop"], &["--when-busy", "queue"], &["--on-disconnect", "5s"]] {
        let ended = Program::run(&[&["run", "--instant"], flags, &["hello"]].concat());
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.contains(flags[0]) && ended.stderr.contains("needs a server"), "{}", ended.stderr);
    }
}

#[test]
fn a_server_that_is_down_or_does_not_answer_is_named_with_what_to_do() {
    let nobody = Program::run(&["run", "--server", "127.0.0.1:1", "hello"]);
    assert_eq!((nobody.code, nobody.stdout.as_str()), (Some(1), ""));
    assert!(
        nobody.stderr.contains(&format!("no server answers at http://127.0.0.1:1: start one with `{ANDON} serve`"))
    );
    let both = Program::run(&["runs", "--server", "127.0.0.1:1", "--db", "x.db"]);
    assert_eq!(both.code, Some(2), "{}", both.stderr);
    let served = Served::new();
    served.freeze();
    let why = served.db.refused(&["run", "hello"]);
    served.signal(Signal::CONT);
    for told in ["is in use by process", "andon serve", "does not answer", "--db"] {
        assert!(why.contains(told), "{told} is not in {why}");
    }
}

#[test]
fn a_server_without_tls_is_reported_as_such() {
    let served = Served::new();
    let address = served.address.replace("http://", "https://");
    let why = served.db.refused(&["runs", "--server", &address]);
    assert!(why.contains("is it http:// instead of https://?"), "{why}");
}

#[test]
fn a_variable_names_the_server_and_a_killed_server_is_not_used() {
    let mut served = Served::with(&["--instant"]);
    let variables = [("ANDON_SERVER", served.address.as_str())];
    let ended = Program::start_in("memory", &variables, &["run", "--run-id", "by-variable", "hello"]).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(served.receipt("by-variable")["outcome"]["kind"], "completed");
    served.kill();
    let here = served.run(&["run", "--instant", "--json", "hello"]);
    assert_eq!(here.receipt()["outcome"]["kind"], "completed");
    assert_eq!(served.run(&["runs", "--json"]).json().len(), 2);
}

#[test]
fn an_unknown_app_is_refused_with_the_known_ones() {
    let served = Served::new();
    let why = served.db.refused(&["run", "--app", "shop", "hello"]);
    assert!(why.contains("has no app shop; it has: practice"), "{why}");
}

#[test]
fn a_busy_session_rejects_queues_or_supersedes_as_requested() {
    let served = Served::new();
    let first = served.detach(&["--session", "otter"], "tell me a long story");
    let why = served.db.refused(&["run", "--session", "otter", "roll a die"]);
    assert!(why.contains("--when-busy queue"), "{why}");
    let queued = served.detach(&["--session", "otter", "--when-busy", "queue"], "roll a die");
    let ended = served.run(&["run", "--session", "otter", "--when-busy", "supersede", "--json", "roll a die"]);
    assert_eq!(ended.receipt()["outcome"]["kind"], "completed");
    for run in [first, queued] {
        assert_eq!(served.receipt(&run)["outcome"], json!({"kind": "cancelled", "reason": "superseded"}));
    }
}

#[test]
fn the_same_run_id_is_the_same_run() {
    let served = Served::with(&["--instant"]);
    let again = ["run", "--json", "--session", "otter", "--run-id", "my-run", "roll a die"];
    let (first, second) = (served.run(&again), served.run(&again));
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(first.receipt()["run"], "my-run");
}

#[test]
fn a_run_with_on_disconnect_cancel_is_stopped_when_its_reader_is_killed() {
    let served = Served::new();
    let args = ["run", "--json", "--run-id", "lonely", "--on-disconnect", "cancel", "tell me a long story"];
    let mut run = served.start(&args);
    run.wait_for("\"type\":\"delta\"");
    drop(run.kill());
    let ended = served.start(&["watch", "lonely", "--json"]).end();
    assert_eq!((ended.code, &ended.receipt()["reason"]), (Some(3), &json!("client_disconnected")));
}

#[test]
fn a_call_that_needs_approval_is_approved_or_denied() {
    let served = Served::with(&["--instant"]);
    let verdict = |flags: &[&str]| {
        let ended = served.run(&[&["run", "--json"], flags, &["write a note: milk"]].concat());
        ended.receipt()["calls"][0]["verdict"].clone()
    };
    assert_eq!((verdict(&["--yes"]), verdict(&[])), (json!("finished"), json!("never_started")));
}

#[test]
fn approve_shows_the_call_and_decides_about_exactly_that_call() {
    let served = Served::with(&["--instant"]);
    let run = served.detach(&[], "write a note: buy milk");
    served.wait_for(&run, "approval_requested");
    let nobody = served.db.refused(&["approve", &run]);
    assert!(nobody.contains("write_note {\"text\":\"buy milk\"}") && nobody.contains("--yes"), "{nobody}");
    let yes = served.run(&["approve", &run[..13], "--yes", "--json"]).json();
    assert_eq!((&yes[0]["run_id"], &yes[0]["decision"]), (&json!(run), &json!("approve")));
    let ended = served.run(&["watch", &run, "--json"]);
    assert_eq!(ended.receipt()["calls"][0]["verdict"], "finished");
    let again = served.db.refused(&["approve", &run, "--yes"]);
    assert!(again.contains("has ended"), "{again}");
    let run = served.detach(&[], "write a note: no");
    served.wait_for(&run, "approval_requested");
    served.run(&["approve", &run, "--deny", "--why", "not today"]);
    assert!(served.run(&["watch", &run]).stderr.contains("not today"));
}

#[test]
fn a_conversation_through_a_server_is_the_same_and_can_be_continued() {
    let served = Served::new();
    let mut chat = served.start(&["chat", "--session", "otter"]);
    chat.wait_for(&served.address);
    chat.say("roll 3 dice", "✓ Completed");
    chat.say("tell me a long story", "## 1. ");
    chat.interrupt();
    chat.wait_for("■ Stopped");
    chat.type_line("/receipt");
    chat.wait_for_times("■ Stopped", 2);
    chat.say("/sessions", "FIRST PROMPT");
    let ended = chat.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains(&format!("To continue later: {ANDON} chat --session otter")), "{}", ended.stdout);
    let again = served.start(&["chat", "--continue"]).end();
    assert!(
        again.stdout.contains("Session otter, where you left off") && again.stdout.contains("tell me a long story")
    );
}

#[test]
fn a_chat_follows_the_run_in_progress_and_a_held_line_does_not_end_it() {
    let served = Served::new();
    served.detach(&["--session", "otter"], "write a note: milk");
    let mut chat = served.start(&["chat", "--session", "otter"]);
    chat.wait_for("May write_note run? [y/n]");
    chat.say("y", "✓ Completed");
    served.run(&["line", "hold", "--reason", "lunch"]);
    chat.say("roll a die", "lunch");
    served.run(&["line", "open"]);
    chat.type_line("roll a die");
    chat.wait_for_times("✓ Completed", 2);
    assert_eq!(chat.end().code, Some(0));
}

#[test]
fn the_records_are_the_same_from_the_file_and_from_the_server() {
    let served = Served::with(&["--instant"]);
    served.run(&["run", "--session", "otter", "roll 3 dice"]);
    served.run(&["run", "--session", "finch", "hello"]);
    served.detach(&["--session", "otter"], "write a note: x");
    let commands: [&[&str]; 7] = [
        &["runs", "--json", "--settled"],
        &["runs", "--json", "--open"],
        &["runs", "--session", "otter"],
        &["sessions", "--json"],
        &["history", "otter"],
        &["usage"],
        &["runs", "--limit", "1"],
    ];
    for command in commands {
        let file = served.run(command).stdout.replace(&format!("in {}", served.db.file("andon.db")), "at X");
        let there = served.run(&[command, &["--server", &served.address]].concat()).stdout;
        assert_eq!(there.replace(&format!("on the server at {}", served.address), "at X"), file, "{command:?}");
    }
    let run = served.run(&["runs", "--json", "--settled"]).json().remove(0);
    let id = run["run_id"].as_str().unwrap();
    for form in [&["receipt", id, "--json"][..], &["receipt", &id[..20]]] {
        assert_eq!(served.run(&[form, &["--server", &served.address]].concat()).stdout, served.run(form).stdout);
    }
}

#[test]
fn delete_goes_through_the_server_and_stops_runs() {
    let served = Served::new();
    let run = served.detach(&["--session", "otter"], "tell me a long story");
    assert!(served.run(&["delete", "otter", "--yes"]).stdout.contains("Session otter was deleted"));
    assert!(served.db.refused(&["receipt", &run]).contains("there is no run"));
    let why = served.db.refused(&["delete", "otter", "--yes"]);
    assert!(why.contains("there is no session otter on the server"), "{why}");
}

#[test]
fn a_program_that_is_not_a_server_is_named_and_its_file_can_be_read() {
    let db = crate::child::Database::new();
    let mut chat = db.start(&["chat", "--instant"]);
    chat.say("hello", "✓ Completed");
    let run: Value = db.run(&["runs", "--json"]).json().remove(0);
    db.run(&["watch", run["run_id"].as_str().unwrap()]);
    for command in [&["line", "status"][..], &["approve", "x"], &["cancel", "--all"]] {
        let why = db.refused(command);
        assert!(why.contains(&format!("process {}", chat.id())), "{why}");
    }
    assert_eq!(chat.end().code, Some(0));
}
