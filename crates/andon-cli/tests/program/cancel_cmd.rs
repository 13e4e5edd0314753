//! `andon cancel`.

use crate::child::*;
use crate::served::Served;

#[test]
fn a_run_is_stopped_and_asking_again_changes_nothing() {
    let served = Served::new();
    let id = served.detach(&[], "tell me a long story");
    let told = served.run(&["cancel", &id[..23], "--note", "wrong file", "--json"]).json();
    assert_eq!((told.len(), &told[0]["reply"], &told[0]["run_id"]), (1, &json!("accepted"), &json!(id)));
    served.start(&["watch", &id]).end();
    let receipt = served.receipt(&id);
    assert_eq!((&receipt["note"], &receipt["force"]), (&json!("wrong file"), &json!("graceful")));
    let again = served.run(&["cancel", &id, "--now"]);
    assert_eq!(again.stdout, format!("Too late: run {id} had already been stopped.\n"));
    assert_eq!(served.receipt(&id), receipt);
    let done = served.run(&["run", "--json", "what time is it"]).receipt();
    let late = served.run(&["cancel", done["run"].as_str().unwrap()]);
    assert!(late.stdout.contains("had already completed"), "{}", late.stdout);
}

#[test]
fn with_wait_the_receipt_is_shown_when_the_run_has_settled() {
    let served = Served::new();
    let id = served.detach(&[], "count stubbornly to 30");
    served.wait_for(&id, "tool_started");
    let told = served.run(&["cancel", &id, "--wait", "--grace", "10ms"]);
    assert!(told.stdout.contains(&format!("■ Run {id} has stopped.\n■ Stopped by local")), "{}", told.stdout);
    assert!(told.stdout.contains("slow_count") && told.stdout.contains("leaked  nothing"), "{}", told.stdout);
    let id = served.detach(&[], "tell me a long story");
    let json = served.run(&["cancel", &id, "--wait", "--json"]).json();
    assert_eq!((&json[0]["state"], &json[0]["receipt"]["run"]), (&json!("settled"), &json!(id)));
}

#[test]
fn one_call_is_stopped_and_the_run_goes_on() {
    let served = Served::new();
    let id = served.detach(&[], "count slowly to 500");
    let mut watch = served.start(&["watch", &id, "--json"]);
    watch.wait_for("\"type\":\"tool_started\"");
    // The line before is complete: it is the answer that asks for the call.
    let asks = watch.seen.lines().find(|line| line.contains("\"type\":\"message\"")).unwrap();
    let asks: Value = serde_json::from_str(asks).unwrap();
    let call = asks["message"]["parts"].as_array().unwrap().iter().find_map(|part| part["id"].as_str()).unwrap();
    assert!(served.db.refused(&["cancel", &id, "--call", "nope"]).contains("no such call"));
    let told = served.run(&["cancel", &id, "--call", call]);
    assert!(told.stdout.contains("is stopping; the run goes on."), "{}", told.stdout);
    let ended = watch.end();
    assert_eq!((ended.code, &ended.receipt()["outcome"]["kind"]), (Some(0), &json!("completed")));
    let late = served.run(&["cancel", &id, "--call", call]).stdout;
    assert!(late.contains("had already completed"), "{late}");
}

#[test]
fn a_session_a_user_or_everything_is_stopped_including_queued_runs() {
    let served = Served::new();
    let start = |flags: &[&str]| served.detach(flags, "tell me a long story");
    let otter = [start(&["--session", "otter"]), start(&["--session", "otter", "--when-busy", "queue"])];
    let (ada, other) = (start(&["--user", "ada"]), start(&[]));
    let told = served.run(&["cancel", "--session", "otter", "--wait", "--json"]).json();
    let ids: Vec<&Value> = told[..2].iter().map(|run| &run["run_id"]).collect();
    assert!(otter.iter().all(|id| ids.contains(&&json!(id))), "{told:?}");
    assert_eq!((&told[2]["cancelled"], &told[2]["settled"]), (&json!(2), &json!(true)));
    let told = served.run(&["cancel", "--user", "ada", "--wait"]).stdout;
    assert!(told.starts_with(&format!("■ Run {ada} has stopped.\n1 run cancelled, all settled in ")), "{told}");
    let tail = "leaked: none.\nLooked for all runs of the user ada. 1 other run is still in progress.\n";
    assert!(told.ends_with(tail), "{told}");
    let told = served.run(&["cancel", "--all", "--json"]).json();
    assert_eq!((&told[0]["run_id"], told.len()), (&json!(other), 2));
    served.start(&["watch", &other]).end();
    let nothing = "Nothing was running: looked for everything on this server. No other run was in progress.\n";
    assert_eq!(served.run(&["cancel", "--all"]).stdout, nothing);
}

/// Checks P7 and P9.
#[test]
fn a_stop_that_reached_nothing_says_what_it_looked_for_and_what_goes_on() {
    let served = Served::new();
    let run = served.detach(&["--user", "ada"], "tell me a long story");
    // Scripts see it, too: nothing of that name was ever on record.
    let stop = |command: &[&str]| {
        let ended = served.start(command).end();
        assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
        ended
    };
    let told = stop(&["cancel", "--user", "Ada", "--wait"]).stdout;
    let said = "Nothing was stopped: looked for all runs of the user Ada, but found none on record. 1 other run is still in progress. \
                Did you mean --user ada?\n";
    assert_eq!(told, said);
    let told = stop(&["cancel", "--user", "Ada", "--wait", "--json"]).json();
    assert_eq!((told.len(), &told[0]["cancelled"], &told[0]["settled"]), (1, &json!(0), &json!(false)), "{told:?}");
    assert_eq!((&told[0]["looked_for"], &told[0]["others"]), (&json!("all runs of the user Ada"), &json!(1)));
    let told = stop(&["cancel", "--session", "otter"]).stdout;
    assert!(
        told.contains("all runs in the session otter, but found none on record. 1 other run is still in progress."),
        "{told}"
    );
    for command in [&["cancel", "--app", "practise"][..], &["cancel", "--app", "practise", "--wait", "--json"]] {
        let ended = served.start(command).end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains("there is no app practise here") && ended.stderr.contains("there is practice"));
    }
    assert_eq!(served.run(&["runs", "--json", "--open"]).json()[0]["run_id"], json!(run), "it goes on");
    assert!(served.run(&["cancel", "--app", "practice"]).stdout.contains(&run));
}

#[test]
fn cancelling_an_unknown_run_is_an_error_and_stops_it_when_it_comes() {
    let served = Served::new();
    let why = served.db.refused(&["cancel", "early", "--note", "too soon"]);
    assert!(why.contains("there is no run early") && why.contains("is stopped at once"), "{why}");
    let ended = served.start(&["run", "--json", "--run-id", "early", "tell me a long story"]).end();
    assert_eq!((ended.code, &ended.receipt()["note"]), (Some(3), &json!("too soon")));
    assert_eq!(ended.streamed(), "");
}

#[test]
fn cancelling_a_call_of_an_unknown_run_is_an_error_and_stops_nothing_later() {
    let served = Served::with(&["--instant"]);
    let why = served.db.refused(&["cancel", "early", "--call", "c1"]);
    assert!(why.contains("there is no run early") && !why.contains("is stopped at once"), "{why}");
    let ended = served.run(&["run", "--json", "--run-id", "early", "roll a die"]);
    assert_eq!(ended.receipt()["outcome"]["kind"], "completed");
}

#[test]
fn a_cancel_must_name_exactly_one_thing() {
    let db = Database::new();
    for wrong in [&["cancel"][..], &["cancel", "x", "--all"], &["cancel", "--all", "--user", "ada"]] {
        assert_eq!(db.start(wrong).end().code, Some(2), "{wrong:?}");
    }
    for wrong in [&["cancel", "--all", "--call", "c"][..], &["cancel", "x", "--now", "--after-turn"]] {
        assert_eq!(db.start(wrong).end().code, Some(2), "{wrong:?}");
    }
}

#[test]
fn without_a_server_runs_left_open_are_settled_and_waiting_ones_are_stopped() {
    let db = Database::new();
    let mut chat = db.start(&["chat", "--session", "otter"]);
    chat.say("tell me a long story", "## 1. ");
    chat.kill();
    let mut chat = db.start(&["chat", "--session", "finch", "--db", &db.file("b.db")]);
    chat.say("write a note: x", "[y/n]");
    chat.kill();
    let told = db.run(&["cancel", "--all"]);
    let place = format!("in {}, which no server is using", db.file("andon.db"));
    let nothing = format!("Nothing was running: looked for everything {place}. No other run was in progress.\n");
    assert_eq!(told.stdout, nothing);
    assert!(told.stderr.contains("1 run that an earlier program left open has been settled"), "{}", told.stderr);
    let told = db.run(&["cancel", "--session", "finch", "--json", "--db", &db.file("b.db")]).json();
    assert_eq!((&told[0]["reply"], &told[0]["state"]), (&json!("accepted"), &json!("settled")));
    assert_eq!(told[0]["outcome"], json!({"kind": "cancelled", "reason": "requested"}));
    assert!(db.refused(&["cancel", "nope"]).contains("there is no run nope in "));
}

#[test]
fn without_a_server_an_unknown_app_or_user_is_an_error() {
    let db = Database::new();
    let place = format!("{}, which no server is using", db.file("andon.db"));
    for aim in [&["--app", "practice"][..], &["--user", "ada"], &["--all"], &["--all", "--json"]] {
        let told = db.refused(&[&["cancel"], aim].concat());
        assert!(told.contains(&format!("there is no database at {}", db.file("andon.db"))), "{aim:?}: {told}");
    }
    let mut chat = db.start(&["chat", "--session", "finch"]);
    chat.say("write a note: x", "[y/n]");
    chat.kill();
    assert!(db.refused(&["cancel", "--app", "practise"]).contains(&format!("in {place}: there is practice")));
    let ended = db.start(&["cancel", "--user", "Ada", "--wait", "--json"]).end();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let told = ended.json();
    assert_eq!((&told[0]["settled"], &told[0]["known"], &told[0]["others"]), (&json!(false), &json!(false), &json!(1)));
    let told = db.run(&["cancel", "--app", "practice", "--wait", "--json"]).json();
    assert_eq!((&told[1]["cancelled"], &told[1]["settled"], &told[1]["others"]), (&json!(1), &json!(true), &json!(0)));
}
