//! The commands that show what is on record.

use crate::child::*;

#[test]
fn a_missing_database_is_an_empty_list_not_an_error() {
    let db = Database::new();
    for list in ["sessions", "runs"] {
        let shown = db.run(&[list]).stdout;
        assert!(
            shown.contains("Nothing has been recorded yet") && shown.contains(&format!("`{ANDON} chat`")),
            "{shown}"
        );
        assert_eq!(db.run(&[list, "--json"]).stdout, "");
        assert_eq!(Program::run(&[list]).code, Some(0));
    }
    assert!(db.refused(&["receipt", "x"]).contains(&format!("list them with `{ANDON} runs`")));
    assert!(db.refused(&["history", "x"]).contains(&format!("list them with `{ANDON} sessions`")));
    assert!(!std::path::Path::new(&db.file("andon.db")).exists());
}

#[test]
fn lists_are_filtered_limited_and_json() {
    let db = Database::new();
    for (session, prompt) in [("otter", "hello"), ("finch", "roll 3 dice"), ("otter", "think about it")] {
        db.run(&["run", "--instant", "--session", session, prompt]);
    }
    let sessions = db.run(&["sessions", "--json"]).json();
    let told = |of: &serde_json::Value| (of["session"].clone(), of["runs"].clone(), of["title"].clone());
    let expected = [(json!("otter"), json!(2), json!("hello")), (json!("finch"), json!(1), json!("roll 3 dice"))];
    assert_eq!(sessions.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!((&sessions[0]["app"], &sessions[0]["user"]), (&json!("practice"), &json!("local")));

    let titles = |args: &[&str]| -> Vec<String> {
        let runs = db.run(&[&["runs", "--json"], args].concat()).json();
        runs.iter().map(|run| run["title"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(titles(&[]), ["think about it", "roll 3 dice", "hello"]);
    assert_eq!(titles(&["--session", "otter"]), ["think about it", "hello"]);
    assert_eq!(titles(&["--session", "practice/local/finch"]), ["roll 3 dice"]);
    assert_eq!(titles(&["--limit", "1"]), ["think about it"]);
    assert!(titles(&["--open"]).is_empty() && titles(&["--app", "shop"]).is_empty());
    assert_eq!(titles(&["--settled", "--user", "local"]).len(), 3);

    let table = db.run(&["runs", "--limit", "2"]).stdout;
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.lines().last().unwrap().contains("--limit N"), "{table}");
    assert!(db.run(&["sessions", "--app", "shop"]).stdout.contains("There is no such session"));
}

#[test]
fn a_receipt_is_found_by_the_beginning_of_its_run() {
    let db = Database::new();
    db.run(&["run", "--instant", "--session", "otter", "roll 3 dice"]);
    db.run(&["run", "--instant", "--session", "otter", "hello"]);
    let run = db.run(&["runs", "--json"]).json()[0]["run_id"].as_str().unwrap().to_owned();
    let receipt = db.run(&["receipt", &run]).stdout;
    for told in ["✓ Completed", &run, "session otter", "tokens"] {
        assert!(receipt.contains(told), "{told} is not in\n{receipt}");
    }
    let most = &run[..run.len() - 2];
    assert_eq!(db.run(&["receipt", most]).stdout, receipt);
    assert_eq!(db.run(&["receipt", most, "--json"]).json()[0]["run"], json!(run));
    let both = db.refused(&["receipt", &run[..2]]);
    assert!(both.contains("2 runs have an id that begins with") && both.contains(&run), "{both}");
    assert!(db.refused(&["receipt", "zzz"]).contains(&format!("list them with `{ANDON} runs`")));
}

#[test]
fn a_prompt_comes_from_standard_input_if_there_are_no_words() {
    let db = Database::new();
    for args in [vec!["run", "--instant"], vec!["run", "--instant", "-"]] {
        let mut program = db.start(&args);
        program.type_all("roll 3 dice\n");
        assert_eq!(program.end().code, Some(0));
    }
    let runs = db.run(&["runs", "--json"]).json();
    assert!(runs.len() == 2 && runs.iter().all(|run| run["title"] == "roll 3 dice"), "{runs:?}");
    for empty in [vec!["run"], vec!["run", "-"], vec!["run", "  "], vec!["run", ""]] {
        let ended = db.start(&empty).end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{empty:?}");
        assert!(ended.stderr.contains("the prompt is empty"), "{}", ended.stderr);
    }
}

#[test]
fn every_commands_help_has_an_example() {
    for command in ["serve", "chat", "run", "sessions", "runs", "receipt", "history", "export", "import", "delete"] {
        let ended = Program::run(&[command, "--help"]);
        assert_eq!(ended.code, Some(0), "{command}");
        for told in ["Usage: andon", "--db <PATH|memory|URL>", "ANDON_DB", "Example", &format!("\n  andon {command}")] {
            assert!(ended.stdout.contains(told), "{told} is not in\n{}", ended.stdout);
        }
    }
}
