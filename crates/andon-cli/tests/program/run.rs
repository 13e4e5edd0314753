//! `andon run`.

use crate::child::*;

#[test]
fn a_run_completes_with_code_0_and_the_answer_alone_on_standard_output() {
    let ended = Program::run(&["run", "--instant", "--seed", "1", "roll 2 dice"]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.contains("`dice` answered:"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("Completed") && !ended.stdout.contains('→'), "{}", ended.stdout);
    assert!(ended.stderr.contains("→ dice {\"dice\":2}") && ended.stderr.contains("✓ Completed"), "{}", ended.stderr);
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let answer = |seed: &str| Program::run(&["run", "--instant", "--seed", seed, "hello"]).stdout;
    assert_eq!(answer("5"), answer("5"));
    assert_ne!(answer("5"), answer("6"));
}

#[test]
fn every_line_is_json_and_the_last_is_the_receipt() {
    let ended = Program::run(&["run", "--instant", "--json", "think, then use both, and count to 1"]);
    assert_eq!(ended.code, Some(0));
    let receipt = ended.receipt();
    assert_eq!(receipt["outcome"], json!({"kind": "completed", "stop": "end_turn"}));
    let tools: Vec<&Value> = receipt["calls"].as_array().unwrap().iter().map(|call| &call["tool"]).collect();
    assert_eq!(tools, [&json!("dice"), &json!("slow_count")]);
    assert_eq!(ended.stderr, "");
}

#[test]
fn ctrl_c_in_mid_answer_gives_code_3_a_receipt_and_keeps_the_text() {
    let mut program = Program::start(&["run", "--json", "tell me a long story"]);
    program.wait_for_times("\"type\":\"delta\"", 5);
    program.interrupt();
    let ended = program.end();
    assert_eq!(ended.code, Some(3));
    let receipt = ended.receipt();
    assert_eq!(receipt["outcome"], json!({"kind": "cancelled", "reason": "requested"}));
    assert_eq!((&receipt["reason"], &receipt["by"]), (&json!("requested"), &json!("ada")));
    assert_eq!((&receipt["force"], &receipt["cut_in"]), (&json!("graceful"), &json!("model")));
    let message = ended.json().into_iter().find(|line| line["type"] == "message").unwrap();
    assert_eq!(message["message"]["parts"][0]["text"], json!(ended.streamed()));
    assert_eq!(message["message"]["cut"], json!({"by": "cancelled", "reason": "requested"}));
    assert!(ended.streamed().split_whitespace().count() >= 5);
}

#[test]
fn the_stored_receipt_has_the_same_settled_time_as_the_printed_one() {
    let db = Database::new();
    let mut program = db.start(&["run", "--json", "be silent"]);
    program.wait_for("\"type\":\"model_started\"");
    program.interrupt();
    let told = program.end().receipt();
    assert_eq!(told["on_disk"], true);
    let [delivered, quiet, settled] =
        ["delivered_us", "quiet_us", "settled_us"].map(|instant| told["took"][instant].as_u64().unwrap());
    assert!(delivered <= quiet && quiet < settled, "{told}");
    let run = told["run"].as_str().unwrap();
    assert_eq!(db.run(&["receipt", run, "--json"]).json(), std::slice::from_ref(&told));
    assert!(db.run(&["receipt", run]).stdout.contains("settled on disk"));
    let listed = db.run(&["runs", "--json"]).json().remove(0);
    assert_eq!(listed["settled_at"], told["settled_at"]);
}

#[test]
fn ctrl_c_while_the_model_is_silent_stops_at_once() {
    let mut program = Program::start(&["run", "--json", "be silent"]);
    program.wait_for("\"type\":\"model_started\"");
    program.interrupt();
    let ended = program.end();
    assert_eq!(ended.code, Some(3));
    let settled = ended.receipt()["took"]["settled_us"].as_u64().unwrap();
    assert!(settled < 5_000_000, "{settled} µs of 30 s of silence");
}

/// Pulls the cord while a tool runs. A call is on record before its tool starts, and a pull between the two leaves nothing to
/// stop: then it tries again.
fn with_a_tool_that_runs(stop: impl Fn(&mut Program)) -> Ended {
    let attempt = |_| {
        let mut program = Program::start(&["run", "--json", "count stubbornly to 60"]);
        program.wait_for("\"type\":\"tool_started\"");
        program.wait_for_thread("andon-tools");
        stop(&mut program);
        program.end()
    };
    let ran = |ended: &Ended| ended.receipt()["calls"][0]["verdict"] != "never_started";
    (0..50).map(attempt).find(ran).expect("the tool never started")
}

#[test]
fn a_second_ctrl_c_hardens_the_stop_before_the_grace_is_over() {
    let ended = with_a_tool_that_runs(|program| {
        program.interrupt();
        program.wait_for("\"type\":\"cancel_requested\"");
        program.interrupt();
    });
    assert_eq!(ended.code, Some(3));
    let receipt = ended.receipt();
    let forces: Vec<&Value> = receipt["requests"].as_array().unwrap().iter().map(|asked| &asked["force"]).collect();
    assert_eq!((forces, &receipt["force"]), (vec![&json!("graceful"), &json!("now")], &json!("now")));
    assert_eq!(receipt["calls"][0]["verdict"], "cut");
    let settled = receipt["took"]["settled_us"].as_u64().unwrap();
    assert!(settled < 2_000_000, "{settled} µs, though the grace of 2 s was taken away");
}

#[test]
fn a_stubborn_tool_is_stopped_when_its_grace_is_over() {
    let ended = with_a_tool_that_runs(|program| program.interrupt());
    assert!(ended.json().iter().any(|line| line["type"] == "grace_ended"));
    let receipt = ended.receipt();
    assert_eq!((&receipt["calls"][0]["verdict"], &receipt["leaked"]), (&json!("cut"), &json!([])));
}

#[test]
fn a_third_ctrl_c_leaves_with_code_130_even_if_nobody_reads_the_output() {
    // The prompt is in the first line of the feed, which does not fit into the pipe.
    let mut program = Program::start(&["run", "--json", "-"]);
    program.type_all(&"so many words ".repeat(100_000));
    program.wait_for("run_accepted");
    assert_eq!(program.interrupt_until_gone(), Some(130));
}

#[test]
fn a_run_whose_output_is_closed_is_stopped() {
    let mut program = Program::start(&["run", "--json", "tell me a long story"]);
    program.wait_for("\"type\":\"delta\"");
    program.close_output();
    assert_eq!(program.end().code, Some(3));
}

#[test]
fn sigterm_stops_the_run_as_a_shutdown() {
    let mut program = Program::start(&["run", "--json", "tell me a long story"]);
    program.wait_for("\"type\":\"delta\"");
    program.signal(Signal::TERM);
    let ended = program.end();
    assert_eq!((ended.code, &ended.receipt()["reason"]), (Some(3), &json!("shutdown")));
}

#[test]
fn limits_stop_a_run_with_code_3_and_say_which_it_was() {
    for (limit, value, prompt, reason) in [
        ("--deadline", "300ms", "tell me a long story", "deadline"),
        ("--silence", "300ms", "be silent", "deadline"),
        ("--tokens", "150", "tell me a long story", "budget"),
        ("--turns", "1", "roll dice", "budget"),
    ] {
        let ended = Program::run(&["run", "--json", limit, value, prompt]);
        let receipt = ended.receipt();
        assert_eq!((ended.code, &receipt["reason"]), (Some(3), &json!(reason)), "{limit}");
        assert_eq!(receipt["by"], "limit");
    }
}

#[test]
fn a_call_that_needs_approval_is_approved_with_yes_and_denied_if_nobody_can_be_asked() {
    let with_yes = Program::run(&["run", "--instant", "--json", "--yes", "write a note: buy milk"]);
    assert_eq!(with_yes.receipt()["calls"][0]["verdict"], "finished");
    let with_nobody = Program::run(&["run", "--instant", "--json", "write a note: buy milk"]);
    assert_eq!(with_nobody.receipt()["calls"][0]["refused"], "denied_by_person");
    assert_eq!((with_yes.code, with_nobody.code), (Some(0), Some(0)));
}

#[test]
fn a_wrong_command_line_gives_code_2_and_says_what_is_wrong() {
    for wrong in [
        vec!["run"],
        vec!["run", "--deadline", "soon", "hello"],
        vec!["run", "--deadline", "0s", "hello"],
        vec!["run", "--turns", "0", "hello"],
        vec!["dance"],
        vec!["chat", "--json"],
    ] {
        let ended = Program::run(&wrong);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{wrong:?}");
        assert!(ended.stderr.contains("error:"), "{wrong:?}: {}", ended.stderr);
    }
}

#[test]
fn help_names_the_exit_codes() {
    let ended = Program::run(&["--help"]);
    assert_eq!(ended.code, Some(0));
    for code in ["  0 ", "  1 ", "  2 ", "  3 ", "  130 "] {
        assert!(ended.stdout.contains(code), "{}", ended.stdout);
    }
}
