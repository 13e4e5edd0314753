//! The pages that show the server with curl: runs every command in them, in order, like a reader.

use std::process::{Command, Output};

use crate::child::Database;
use crate::server::Served;

/// The commands of a page: the lines after `$` in its console blocks.
fn commands(page: &str) -> String {
    let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut is_console = false;
    let mut commands = String::new();
    for line in text.lines() {
        match line {
            "```console" => is_console = true,
            "```" => is_console = false,
            "$ andon serve" => {}
            line if is_console => {
                commands.push_str(line.strip_prefix("$ ").unwrap_or(line));
                commands.push('\n');
            }
            _ => {}
        }
    }
    commands
}

/// Runs a page's commands against a server, and returns what they print. Where the page tells the reader to wait a while, this
/// repeats a command until it succeeds: a while may be too short on a busy machine.
fn follow(page: &str, until: &str) -> String {
    // A failed request ends the page.
    let script = format!(
        "set -eu\ncurl() {{ command curl --fail-with-body --show-error \"$@\"; }}\n\
         sleep() {{ until {until}; do command sleep 0.1; done; }}\n{}",
        // The page's own patience with a feed that goes on is for a machine that has nothing else to do.
        commands(page).replace(" -m 1 ", " -m 3 ").replace(" -m 2 ", " -m 90 ")
    );
    for _ in 0..5 {
        let run = run(&script);
        let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        // A disk that is busy for a second may be too slow for a page that asks only once.
        if !out.contains("urn:andon:not-recorded") {
            assert!(run.status.success(), "{page} broke off with {}\n{script}\n{out}\n{err}", run.status);
            return out.into_owned();
        }
    }
    panic!("the disk is always too slow for {page}");
}

/// Runs a script in an empty folder, with a server for it.
fn run(script: &str) -> Output {
    let db = Database::new();
    let served = Served::start(&db, &[]);
    let script = script.replace("localhost:8000", served.url.strip_prefix("http://").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut bash = Command::new("bash");
    // The server is on this machine, so no proxy is needed.
    bash.arg("-c").arg(&script).current_dir(folder.path()).env("no_proxy", "*").output().unwrap()
}

#[test]
fn every_command_of_the_servers_guide_works() {
    let printed = follow("server.md", "true");
    for expected in [
        r#""reply":"accepted","state":"settled","outcome":{"kind":"cancelled","reason":"requested"}"#,
        r#""note":"stop button""#,
        r#""cut":{"by":"cancelled","reason":"requested"}"#,
        r#""decision":"approve""#,
        r#""reason":"runaway loop""#,
        r#""stopped":{"cancelled""#,
        "andon_runs_started_total",
    ] {
        assert!(printed.contains(expected), "{expected} is not in what was printed:\n{printed}");
    }
}

#[test]
fn every_command_of_the_page_on_disconnects_works() {
    let printed = follow("disconnects.md", r#"curl -s localhost:8000/v1/runs/tunnel | grep -q '"state":"settled"'"#);
    assert!(printed.contains(r#""reason":"client_disconnected""#), "{printed}");
}

#[test]
fn every_command_of_the_page_for_adk_users_works() {
    let printed = follow("adk.md", "grep -q partial story.txt");
    for expected in [r#""status":"cancelled""#, "INVOCATION_ABORTED", r#""mood":"good""#, "It was a long story."] {
        assert!(printed.contains(expected), "{expected} is not in what was printed:\n{printed}");
    }
}
