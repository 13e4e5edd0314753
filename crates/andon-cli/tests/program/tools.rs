//! Tools with effects, which leave no process behind.

use std::path::Path;

use crate::child::*;

/// Distinguishes a test's processes from all others: they work in their own folder.
struct Mark {
    folder: tempfile::TempDir,
}

impl Mark {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn folder(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    /// Starts a command whose children leave its group, clear their environment and ignore TERM, and waits until they run. All of
    /// them work in the folder.
    fn start(&self, db: &Database) -> Program {
        let command = "shell: (setsid sleep 1000 &); (env -i setsid sh -c 'sleep 1000 & sleep 1000' &); trap '' TERM; \
                       echo under way; while :; do sleep 1; done";
        let mut program =
            db.start(&["run", "--instant", "--json", "--tool", "shell", "--folder", self.folder(), command]);
        program.wait_for("\"tool_output\":\"under way");
        while self.alive().len() < 4 {
            std::thread::yield_now();
        }
        program
    }

    /// The processes that work in the folder.
    fn alive(&self) -> Vec<String> {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let here = |process: &Path| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == self.folder.path());
        let is_dead = |process: &Path| {
            let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
            stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X'])
        };
        let alive = processes.map(|entry| entry.path()).filter(|process| here(process) && !is_dead(process));
        alive.map(|process| std::fs::read_to_string(process.join("cmdline")).unwrap_or_default()).collect()
    }

    fn until_none_lives(&self) {
        // A look takes about a millisecond, so this takes at least about twenty seconds.
        assert!((0..20_000).any(|_| self.alive().is_empty()), "still alive: {:?}", self.alive());
    }
}

#[test]
fn ctrl_c_ends_every_process_of_a_shell_command_and_keeps_what_it_printed() {
    let (db, mark) = (Database::new(), Mark::new());
    let program = mark.start(&db);
    program.interrupt();
    let ended = program.end_without_closing();
    assert_eq!(mark.alive(), [""; 0], "when the program has ended, all is over");
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let receipt = ended.receipt();
    assert_eq!((&receipt["leaked"], &receipt["calls"][0]["verdict"]), (&json!([]), &json!("unknown")));
    let finished = ended.json().into_iter().find(|line| line["type"] == "tool_finished").unwrap();
    assert!(finished["result"].to_string().contains("under way"), "{finished}");
}

#[test]
fn kill_9_of_the_program_leaves_nothing_of_a_shell_command_alive() {
    let (db, mark) = (Database::new(), Mark::new());
    mark.start(&db).kill();
    mark.until_none_lives();
}

#[test]
fn a_missing_folder_or_mcp_server_is_an_error_before_anything_runs() {
    let db = Database::new();
    let cases = [
        (["--folder", "/nowhere/at/all"], "/nowhere/at/all is not a folder: name one with --folder"),
        (["--mcp", "andon-no-such-command"], "there is no command `andon-no-such-command`"),
        (["--mcp", "'half"], "has a quote that is not closed"),
        (["--mcp", "http://127.0.0.1:1/mcp"], "the MCP server `http://127.0.0.1:1/mcp` cannot be used"),
        (["--tool", "hammer"], "[possible values: shell, read_file, write_file, http_get]"),
    ];
    for (words, expected) in cases {
        let ended = db.start(&[&["run", "hello"], &words[..]].concat()).end();
        assert!(matches!(ended.code, Some(1 | 2)) && ended.stderr.contains(expected), "{words:?}: {}", ended.stderr);
    }
    assert!(db.run(&["runs", "--json"]).json().is_empty(), "nothing ran");
}

#[test]
fn files_are_written_and_read_in_the_folder_and_nowhere_else() {
    let (db, mark) = (Database::new(), Mark::new());
    let run = |prompt: &str| {
        let words =
            ["run", "--instant", "--tool", "read_file", "--tool", "write_file", "--folder", mark.folder(), prompt];
        db.run(&words).stdout
    };
    assert!(run("write_file {\"path\": \"note.txt\", \"content\": \"buy milk\"}").contains("wrote 8 bytes"));
    assert!(run("read_file: note.txt").contains("buy milk"));
    assert!(run("read_file: ../note.txt").contains("is refused"));
    assert!(run("read_file: /etc/passwd").contains("is refused"));
}
