//! `andon line`.

use crate::child::without_settings;
use crate::child::*;
use crate::served::Served;

#[test]
fn a_held_line_refuses_runs_with_its_reason_and_survives_a_restart() {
    let mut served = Served::new();
    assert!(served.run(&["line", "status"]).stdout.contains("The line is open"));
    let held = served.run(&["line", "hold", "--reason", "upgrade at noon"]).stdout;
    assert!(held.contains("The line is held for all (by local, just now): upgrade at noon"), "{held}");
    assert!(served.db.refused(&["run", "hello"]).contains("upgrade at noon"));
    served.kill();
    served.start_again();
    let status = served.run(&["line", "status", "--json"]).json().remove(0);
    assert_eq!((&status["state"], &status["holds"][0]["reason"]), (&json!("held"), &json!("upgrade at noon")));
    assert!(served.run(&["line", "open"]).stdout.contains("The line is open"));
    served.run(&["run", "what time is it"]);
}

#[test]
fn a_hold_can_be_on_a_single_app_or_user() {
    let served = Served::with(&["--instant"]);
    let told = served.run(&["line", "hold", "--user", "ada"]).stdout;
    assert!(told.contains("held for the user ada") && told.contains("The line is open for everything else"), "{told}");
    assert!(served.db.refused(&["run", "--user", "ada", "hello"]).contains("for the user ada"));
    served.run(&["run", "hello"]);
    served.run(&["line", "hold"]);
    let told = served.run(&["line", "open", "--user", "ada"]).stdout;
    assert!(told.contains("No new run starts for the user ada yet") && told.contains("line open`."), "{told}");
    served.run(&["line", "open"]);
    served.run(&["line", "hold", "--app", "practice"]);
    assert!(served.db.refused(&["run", "hello"]).contains("for the app practice"));
    assert_eq!(served.start(&["line", "hold", "--app", "a", "--user", "b"]).end().code, Some(2));
    assert_eq!(served.start(&["line", "hold", "--wait"]).end().code, Some(2));
}

#[test]
fn holding_with_cancel_and_wait_proves_that_all_runs_have_settled() {
    let served = Served::new();
    let runs: Vec<String> = (0..3).map(|_| served.detach(&[], "tell me a long story")).collect();
    let told = served.run(&["line", "hold", "--cancel", "--now", "--wait", "--reason", "stop it all"]).stdout;
    assert!(told.contains("3 runs cancelled, all settled in ") && told.contains("leaked: none."), "{told}");
    for run in &runs {
        let receipt = served.receipt(run);
        assert_eq!((&receipt["reason"], &receipt["force"]), (&json!("operator"), &json!("now")));
        assert_eq!(receipt["note"], "stop it all");
    }
    let again = served.run(&["line", "hold", "--cancel", "--wait", "--json"]).json().remove(0);
    let stopped = &again["stopped"];
    assert_eq!((&stopped["cancelled"], &stopped["settled"], &stopped["runs"]), (&json!(0), &json!(true), &json!([])));
    assert_eq!((&stopped["looked_for"], &stopped["others"]), (&json!("everything on this server"), &json!(0)));
}

/// Checks P7 and P9.
#[test]
fn a_hold_on_something_unknown_is_refused_or_says_so_and_proves_nothing() {
    let served = Served::new();
    let run = served.detach(&["--user", "ada"], "tell me a long story");
    for command in [&["line", "hold"][..], &["line", "open"], &["line", "hold", "--cancel", "--wait"]] {
        let ended = served.start(&[command, &["--app", "practise"]].concat()).end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("there is no app practise here") && ended.stderr.contains("did you mean practice?")
        );
    }
    assert!(served.run(&["line", "status"]).stdout.contains("The line is open"));
    let told = served.run(&["line", "hold", "--user", "Ada"]).stdout;
    let slip = "The hold is on all runs of the user Ada, and no such run is on record. 1 other run is still in progress. Did you mean --user ada?\n";
    assert!(told.contains("held for the user Ada") && told.ends_with(slip), "{told}");
    let hold = ["line", "hold", "--user", "Ada", "--cancel", "--wait"];
    let told = served.run(&hold).stdout;
    assert!(
        told.starts_with("Nothing was stopped: looked for all runs of the user Ada, but found none on record."),
        "{told}"
    );
    let line = served.run(&[&hold[..], &["--json"]].concat()).json().remove(0);
    assert_eq!((&line["stopped"]["settled"], &line["stopped"]["others"]), (&json!(false), &json!(1)), "{line}");
    let told = served.run(&["line", "hold", "--user", "ada", "--cancel", "--wait"]).stdout;
    assert!(told.contains(&run) && told.contains("No other run was in progress."), "{told}");
}

#[test]
fn without_a_server_there_is_no_line() {
    let db = Database::new();
    let file = db.file("andon.db");
    for command in [&["line", "hold"][..], &["line", "open"], &["line", "status"], &["run", "--detach", "hello"]] {
        let why = db.refused(command);
        assert!(why.contains("no server is using") && why.contains(&format!("{ANDON} serve --db {file}")), "{why}");
        let why = Program::run(command).stderr;
        assert!(!why.contains("start one") && why.contains("name a server with --server"), "{why}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error_not_a_panic() {
    let served = Served::new();
    let run = served.detach(&[], "tell me a long story");
    let full = |words: &str| {
        let script = format!("{ANDON} {words} --server {} > /dev/full", served.address);
        let mut shell = std::process::Command::new("sh");
        let ended = without_settings(&mut shell).args(["-c", &script]).output().unwrap();
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let all = ["line status", "line hold --cancel --wait", "line open", &format!("cancel {run}"), "cancel --all"];
    for words in all {
        let (code, said) = full(words);
        assert!(code == Some(1) && said.contains("No space left"), "{words}: {code:?} {said}");
    }
}
