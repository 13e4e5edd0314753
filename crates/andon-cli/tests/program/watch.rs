//! `andon watch`.

use crate::child::*;
use crate::served::{Bridge, Served};

#[test]
fn a_run_is_watched_from_its_beginning_or_from_an_event_in_the_middle() {
    let served = Served::with(&["--instant"]);
    let ran = served.run(&["run", "--json", "roll 3 dice"]);
    let id = ran.receipt()["run"].as_str().unwrap().to_owned();
    let watched = served.run(&["watch", &id[..30], "--json"]);
    assert_eq!(watched.receipt(), ran.receipt());
    assert_eq!(watched.streamed(), ran.streamed());
    let (lines, delta) = (watched.json(), |line: &serde_json::Value| line["type"] == "delta");
    let place = lines.iter().position(delta).unwrap();
    let after = lines[place]["at"].as_str().unwrap();
    let rest = served.run(&["watch", &id, "--json", "--after", after]);
    assert_eq!(rest.json(), lines[place + 1..]);
    let text = served.run(&["watch", &id]);
    let letters = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(letters(&text.stdout), letters(&watched.streamed()));
    assert!(text.stderr.contains("✓ Completed"), "{}", text.stderr);
}

#[test]
fn ctrl_c_exits_and_the_run_goes_on() {
    let served = Served::new();
    let id = served.detach(&[], "tell me a long story");
    let mut watch = served.start(&["watch", &id]);
    watch.wait_for("# ");
    watch.interrupt();
    let ended = watch.end();
    assert_eq!(ended.code, Some(130));
    assert!(ended.stderr.contains(&format!("The run goes on. To stop it: {ANDON} cancel {id}")), "{}", ended.stderr);
    assert_eq!(served.receipt(&id)["outcome"], json!(null));
}

#[test]
fn ctrl_c_exits_while_the_terminal_accepts_no_output() {
    let served = Served::new();
    let id = served.detach(&[], "tell me a long story");
    let mut watch = served.db.start_paused(&["watch", &id]);
    watch.wait_for_thread("andon-signals");
    watch.signal(Signal::INT);
    assert_eq!(watch.end(), Some(130));
    assert_eq!(served.receipt(&id)["outcome"], json!(null));
}

#[test]
fn it_shows_how_a_run_ended_that_another_program_stopped() {
    let served = Served::new();
    let id = served.detach(&[], "tell me a long story");
    let mut watch = served.start(&["watch", &id, "--json"]);
    watch.wait_for("\"type\":\"delta\"");
    served.run(&["cancel", &id]);
    let ended = watch.end();
    assert_eq!((ended.code, &ended.receipt()["reason"]), (Some(3), &json!("requested")));
}

#[test]
fn a_broken_connection_resumes_exactly_where_it_was() {
    let served = Served::with(&["--instant"]);
    let ran = served.run(&["run", "--json", "think, then use both, and count to 1"]);
    let id = ran.receipt()["run"].as_str().unwrap().to_owned();
    let whole = served.run(&["watch", &id, "--json"]);
    let bridge = Bridge::new(&served.address, 3, 1_500);
    let broken = served.run(&["watch", &id, "--json", "--server", &bridge.address]);
    assert_eq!(bridge.broken(), 3);
    assert_eq!((broken.stdout.as_str(), broken.code), (whole.stdout.as_str(), Some(0)));
    for told in ["The connection broke", "the connection was cut", "Reconnected"] {
        assert!(broken.stderr.contains(told), "{}", broken.stderr);
    }
}

#[test]
fn an_answer_whose_connection_breaks_is_complete_on_the_screen() {
    let served = Served::new();
    let bridge = Bridge::new(&served.address, 2, 2_000);
    let args = ["run", "--json", "--server", &bridge.address, "roll 3 dice"];
    let ended = served.run(&args);
    assert_eq!(bridge.broken(), 2);
    let receipt = ended.receipt();
    let said: String = ended.json().iter().filter(|line| line["type"] == "message").map(text_of).collect();
    assert_eq!(ended.streamed(), said);
    assert_eq!(receipt["outcome"]["kind"], "completed");
}

fn text_of(line: &serde_json::Value) -> String {
    let parts = line["message"]["parts"].as_array().unwrap();
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

#[test]
fn a_server_that_was_killed_and_restarted_reports_what_happened_to_the_run() {
    let mut served = Served::new();
    let id = served.detach(&[], "tell me a long story");
    let mut watch = served.start(&["watch", &id, "--json"]);
    watch.wait_for_times("\"type\":\"delta\"", 2);
    served.kill();
    served.start_again();
    let ended = watch.end();
    assert_eq!((ended.code, &ended.receipt()["outcome"]), (Some(1), &json!({"kind": "lost"})));
    assert!(ended.stderr.contains("The connection broke"), "{}", ended.stderr);
}

#[test]
fn only_whoever_pressed_the_first_ctrl_c_is_offered_a_second() {
    let served = Served::new();
    let run = served.start(&["run", "--run-id", "other", "count stubbornly to 20"]);
    // It may not have arrived yet: then there is nothing to watch.
    while served.start(&["receipt", "other"]).end().code != Some(0) {}
    served.wait_for("other", "tool_started");
    served.run(&["cancel", "other"]);
    let watched = served.start(&["watch", "other"]).end();
    for stderr in [run.end().stderr, watched.stderr] {
        assert!(stderr.contains("slow_count was told to stop.") && !stderr.contains("Ctrl-C"), "{stderr}");
    }
    let mut chat = served.start(&["chat"]);
    chat.say("count stubbornly to 20", "→ slow_count");
    let run = served.run(&["runs", "--open", "--json"]).json().remove(0);
    served.wait_for(run["run_id"].as_str().unwrap(), "tool_started");
    chat.interrupt();
    chat.wait_for("slow_count was told to stop. Ctrl-C again stops it now.");
    assert_eq!(chat.end().code, Some(0));
}

#[test]
fn an_event_that_does_not_exist_yet_is_reported_as_such() {
    let served = Served::with(&["--instant"]);
    served.run(&["run", "--run-id", "short", "roll a die"]);
    for flags in [&[][..], &["--server", &served.address], &["--db", &served.db.file("andon.db"), "--json"]] {
        let ended = served.run(&[&["watch", "short", "--after", "99999"], flags].concat());
        assert!(ended.stderr.contains("There is no event 99999 yet"), "{}", ended.stderr);
        for wrong in ["lost", "broken"] {
            assert!(!ended.stderr.contains(wrong) && !ended.stdout.contains("text_lost"), "{}", ended.stderr);
        }
    }
}

#[test]
fn an_unknown_run_and_an_ambiguous_id_are_errors() {
    let served = Served::with(&["--instant"]);
    assert!(served.db.refused(&["watch", "nope"]).contains("there is no run nope on the server"));
    for id in ["run-1", "run-2"] {
        served.run(&["run", "--run-id", id, "hello"]);
    }
    assert!(served.db.refused(&["watch", "run-"]).contains("2 runs have an id that begins with run-"));
}
