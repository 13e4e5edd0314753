//! What a tool can learn about the program that started it: not its keys.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::child::command;

const CANARY: &str = "sk-canary-environ-4b1d";

/// Searches every process that it may: environments, memory, and open files.
const SEARCH: &str = "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ | sed \"s|^|$p |\"; done 2>/dev/null; \
                      p=$$; while [ $p -gt 1 ]; do cat /proc/$p/stat; head -c 1 /proc/$p/mem 2>&1; \
                      p=$(cut -d' ' -f4 /proc/$p/stat); done; echo searched";

/// A user who is not root: the one who runs the tests, or `nobody`.
fn as_somebody(command: &mut Command) -> &mut Command {
    match rustix::process::getuid().is_root() {
        true => command.uid(65_534).gid(65_534),
        false => command,
    }
}

#[test]
fn a_tool_of_the_same_user_cannot_read_the_keys_of_its_host() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (db, place) = (folder.path().join("andon.db"), folder.path().to_str().unwrap());
    let words = format!("shell: {SEARCH}");
    let args = ["run", "--instant", "--json", "--tool", "shell", "--folder", place, &words];
    let mut host = command(&db, &args);
    as_somebody(&mut host).env("OPENAI_API_KEY", CANARY).env("HOME", place).current_dir(place);
    let output = host.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    // The search worked: it looked into its own shell and its parent, the supervisor.
    assert!(said.contains("searched") && said.contains("PATH=") && said.contains("(andon-shim)"), "{said}");
    assert!(!said.contains(CANARY), "the key is there:\n{said}");
}

#[test]
fn hidden_memory_does_not_disturb_tools_or_their_stop() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (db, place) = (folder.path().join("andon.db"), folder.path().to_str().unwrap());
    let words =
        "shell: (setsid sleep 1000 &); (env -i setsid sh -c 'sleep 1000' &); trap '' TERM; echo under way; sleep 1000";
    let args = ["run", "--instant", "--json", "--deadline", "1s", "--tool", "shell", "--folder", place, words];
    let mut host = command(&db, &args);
    as_somebody(&mut host).env("HOME", place).current_dir(place);
    let output = host.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let receipt: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(receipt["receipt"]["reason"], "deadline", "{said}");
    assert_eq!(receipt["receipt"]["leaked"], serde_json::json!([]), "{said}");
    assert_eq!(receipt["receipt"]["calls"][0]["notes"], serde_json::json!(null), "a shim was there: {said}");
}
