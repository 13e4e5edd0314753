//! The configuration file, and completions.

use crate::child::*;
use crate::server::Served;

#[test]
fn a_file_is_found_by_flag_variable_or_folder_and_the_command_line_wins() {
    let db = Database::new();
    let file = db.file("andon/andon.yaml");
    std::fs::create_dir(db.file("andon")).unwrap();
    std::fs::write(&file, "# Ours.\nbind: 127.0.0.1:0\nhost: andon.example\ninstant: true\ndrain: 3s\n").unwrap();
    let folder = db.file("");
    let ways = [
        (None, vec!["--config", &file]),
        (None, vec!["serve", "--config", &file]),
        (Some(("ANDON_CONFIG", file.as_str())), vec![]),
        (Some(("XDG_CONFIG_HOME", folder.as_str())), vec!["serve"]),
    ];
    for (variable, args) in ways {
        let served = Served::of(Program::start_in("memory", variable.as_slice(), &args));
        assert!(served.program.seen.contains("get 3s to finish"), "{args:?}: {}", served.program.seen);
        assert!(!served.url.ends_with(":8000"));
        assert_eq!(served.terminate().code, Some(0));
    }
    let served = Served::of(Program::start(&["serve", "--config", &file, "--drain", "4s"]));
    assert!(served.program.seen.contains("get 4s to finish"), "{}", served.program.seen);
}

#[test]
fn the_environment_wins_over_the_file_and_a_path_is_relative_to_it() {
    let db = Database::new();
    let file = db.file("andon.yaml");
    std::fs::write(&file, "db: other.db\nrun:\n  instant: true\n").unwrap();
    let is_there = |name: &str| std::path::Path::new(&db.file(name)).exists();
    // An empty variable counts as unset.
    let empty = [("ANDON_SERVER", ""), ("ANDON_MODEL", ""), ("ANDON_CONFIG", "")];
    let ended = Program::start_in("", &empty, &["run", "--config", &file, "hello"]).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(is_there("other.db") && !is_there("andon.db"));
    db.run(&["run", "--config", &file, "hello"]);
    assert!(is_there("andon.db"));
}

#[test]
fn settings_in_a_file_give_way_to_a_server_or_database_on_the_command_line() {
    let db = Database::new();
    let file = db.file("andon.yaml");
    std::fs::write(&file, "tool: [shell]\ninstant: true\ndb: andon.db\nbind: 127.0.0.1:0\n").unwrap();
    let served = Served::of(Program::start_in("", &[], &["--config", &file]));
    let ask = |args: &[&str]| Program::start_in("", &[], &[args, &["--config", &file]].concat()).end();
    // It finds the server through the file's database, and the server already has the tool.
    let ended = ask(&["run", "shell: echo $((6 * 7))", "--yes"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let refused = ask(&["run", "hello", "--tool", "shell"]);
    assert!(refused.code != Some(0) && refused.stderr.contains("--tool"), "{}", refused.stderr);
    // A server on the command line wins over the file's database, and a database there wins over the file's server.
    assert_eq!(ask(&["runs", "--server", &served.url]).code, Some(0));
    std::fs::write(&file, "server: http://127.0.0.1:1\n").unwrap();
    assert_eq!(ask(&["runs", "--db", &db.file("andon.db")]).code, Some(0));
    assert_ne!(ask(&["runs"]).code, Some(0));
}

#[test]
fn an_error_in_a_file_has_its_line_and_help_still_works() {
    let db = Database::new();
    let file = db.file("andon.yaml");
    let refused = |words: &[&str]| {
        let ended = Program::start_in("memory", &[("ANDON_CONFIG", &file)], words).end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
        ended.stderr
    };
    assert!(refused(&["runs"]).contains("cannot read"));
    std::fs::write(&file, "drain: 3s\nsettel: 3s\n").unwrap();
    assert!(refused(&["runs"]).contains(&format!("{file}:2:1: there is no flag --settel")));
    std::fs::write(&file, "drain: soon\n").unwrap();
    let words = refused(&[]);
    assert!(words.contains(&format!("{file}:1:8: invalid value 'soon' for '--drain <TIME>'")), "{words}");
    let same = Program::run(&["--drain", "soon"]).stderr;
    let said = words.split("invalid value").nth(1).unwrap().lines().next().unwrap();
    assert!(same.contains(said), "{said} is not in {same}");
    let help = Program::start_in("memory", &[("ANDON_CONFIG", &file)], &["serve", "--help"]).end();
    assert!(help.code == Some(0) && help.stdout.contains("Limits:"), "{}", help.stderr);
}

#[test]
fn a_mistake_in_the_default_file_does_not_disable_stopping() {
    let served = crate::served::Served::new();
    let run = served.detach(&[], "tell me a long story");
    std::fs::create_dir(served.db.file("andon")).unwrap();
    let file = served.db.file("andon/andon.yaml");
    std::fs::write(&file, "bindd: 1\n").unwrap();
    let (folder, db) = (served.db.file(""), served.db.file("andon.db"));
    let start = |name: &str, value: &str, words: &[&str]| Program::start_in(&db, &[(name, value)], words).end();
    let usual = |words: &[&str]| start("XDG_CONFIG_HOME", &folder, words);
    for words in [&["line", "status"][..], &["cancel", &run, "--wait"], &["watch", &run], &["cancel", "--all"]] {
        let ended = usual(words);
        assert!(matches!(ended.code, Some(0 | 3)), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(&format!("warning: {file}:1:1: there is no flag --bindd")), "{}", ended.stderr);
    }
    assert!(usual(&["approve", &run, "--yes"]).stderr.contains("has ended"));
    // With a named file, and for every other command, it is an error.
    assert_eq!(start("ANDON_CONFIG", &file, &["cancel", "--all"]).code, Some(2));
    assert_eq!(usual(&["runs"]).code, Some(2));
    // The commands that explain the file do not read it.
    for words in [&["config"][..], &["completions", "bash"]] {
        let ended = usual(words);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn a_file_never_decides_or_aims() {
    let db = Database::new();
    let file = db.file("andon.yaml");
    for text in ["approve:\n  yes: true\n", "line:\n  hold:\n    cancel: true\n", "delete:\n  yes: true\n"] {
        std::fs::write(&file, text).unwrap();
        let ended = db.start(&["approve", "ap1", "--deny", "--config", &file]).end();
        assert_eq!(ended.code, Some(2), "{text}");
        assert!(ended.stderr.contains("so it must be on the command line"), "{}", ended.stderr);
    }
}

#[test]
fn the_printed_example_is_a_valid_file_that_sets_nothing() {
    let db = Database::new();
    let example = Program::run(&["config"]);
    assert_eq!(example.code, Some(0));
    for key in ["#bind: 127.0.0.1:8000", "#drain: 10s", "#run:", "#  json: false"] {
        assert!(example.stdout.contains(key), "{key} is not in\n{}", example.stdout);
    }
    std::fs::write(db.file("andon.yaml"), &example.stdout).unwrap();
    db.run(&["runs", "--config", &db.file("andon.yaml")]);
}

#[test]
fn shells_accept_their_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = Program::run(&["completions", shell]);
        assert_eq!(ended.code, Some(0));
        for word in ["serve", "--max-runs", "receipt", "completions"] {
            assert!(ended.stdout.contains(word.trim_start_matches('-')), "{word} is not in that of {shell}");
        }
    }
    let script = Program::run(&["completions", "bash"]).stdout;
    let ask = "COMP_WORDS=(andon serve --max-r); COMP_CWORD=2; _andon andon --max-r serve; echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash").args(["-c", &format!("{script}\n{ask}")]).stderr(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&bash.stdout).trim(), "--max-runs --max-runs-per-user");
    assert_eq!(Program::run(&["completions", "tcsh"]).code, Some(2));
}
