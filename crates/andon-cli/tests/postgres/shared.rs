//! Several servers on one database, one after the other and at the same time.

use serde_json::json;

use crate::database::Shared;
use crate::server::Served;

fn order(session: &str, input: &str) -> serde_json::Value {
    json!({"app": "practice", "session": session, "run_id": session, "input": input})
}

fn start(served: &Served, session: &str, input: &str) {
    let (status, run) = served.post("/v1/runs", &order(session, input));
    assert_eq!(status, 201, "{run}");
}

fn outcome(served: &Served, run: &str) -> serde_json::Value {
    served.wait_for(run, "\"type\":\"run_settled\"");
    served.get(&format!("/v1/runs/{run}")).1["outcome"].clone()
}

/// Checks P10 with a server that is killed in mid-answer.
#[test]
fn the_runs_of_a_killed_server_are_taken_up_at_once_by_the_next_one_on_this_machine() {
    let db = Shared::new();
    let first = db.serve(&[]);
    start(&first, "otter", "tell me a long story");
    first.wait_for("otter", "\"text\"");
    let seen = db.only_run("otter");
    assert_eq!((&seen["state"], &seen["outcome"]), (&json!("running"), &json!(null)));
    first.program.kill();

    // It says so before it is ready: it did not wait for the end of a lease.
    let next = db.serve(&["--instant"]);
    let said = "1 run that an earlier program left open has been settled: lost, but its text is kept.";
    assert!(next.program.seen.contains(said), "{}", next.program.seen);
    assert_eq!(db.only_run("otter")["outcome"]["kind"], "lost");
    let receipt = db.run(&["receipt", "otter"]).stdout;
    assert!(receipt.contains("✗ Lost: the program that ran it ended"), "{receipt}");
    let history = db.run(&["history", "otter"]).stdout;
    let is_kept = history.starts_with("> tell me a long story\n# ");
    assert!(is_kept && history.contains("■ cut here: the program ended"), "{history}");

    let (status, again) =
        next.post("/v1/runs", &json!({"app": "practice", "session": "otter", "run_id": "again", "input": "hello"}));
    assert_eq!(status, 201, "{again}");
    assert_eq!(outcome(&next, "again")["kind"], "completed");
    let history = db.run(&["history", "otter"]).stdout;
    assert!(history.contains("I know that my last answer was stopped"), "{history}");
    assert_eq!(next.terminate().code, Some(0));
}

#[test]
fn two_servers_share_a_database_and_each_stops_the_others_runs() {
    let db = Shared::new();
    let (here, there) = (db.serve(&[]), db.serve(&[]));
    for (served, session) in [(&here, "h"), (&there, "t")] {
        start(served, session, "tell me a long story");
        served.wait_for(session, "\"text\"");
    }
    // Both lists have both.
    for served in [&here, &there] {
        assert_eq!(served.get("/v1/runs").1["runs"].as_array().unwrap().len(), 2);
    }
    let (status, reply) = there.post("/v1/runs/h/cancel", &json!({"note": "from there"}));
    assert_eq!((status, &reply["reply"]), (202, &json!("accepted")), "{reply}");
    assert_eq!(outcome(&here, "h"), json!({"kind": "cancelled", "reason": "requested"}));
    let receipt = here.get("/v1/runs/h/receipt").1;
    assert_eq!(receipt["note"], "from there");
    // A program that serves nothing can do that, too, and waits for it.
    let told = db.run(&["cancel", "t", "--wait"]).stdout;
    assert!(told.contains("Run t has stopped"), "{told}");
    assert_eq!(db.only_run("t")["outcome"], json!({"kind": "cancelled", "reason": "requested"}));
    for served in [here, there] {
        assert_eq!(served.terminate().code, Some(0));
    }
}

#[test]
fn a_session_whose_run_is_in_progress_on_a_server_is_deleted_once_that_has_stopped() {
    let db = Shared::new();
    let served = db.serve(&[]);
    start(&served, "otter", "tell me a long story");
    served.wait_for("otter", "\"text\"");
    let why = db.refused(&["watch", "otter"]);
    assert!(why.contains("only the server that runs it can show it") && why.contains("--server"), "{why}");
    let told = db.run(&["delete", "otter", "--yes"]).stdout;
    assert!(told.contains("Session otter was deleted"), "{told}");
    assert!(db.refused(&["history", "otter"]).contains("there is no session otter"));
    assert_eq!(served.terminate().code, Some(0));
}
