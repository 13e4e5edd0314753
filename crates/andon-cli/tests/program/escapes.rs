//! A terminal does not obey text that others wrote, whichever command shows it.

use andon_testkit::provider::{BadProvider, Dialect, Protocol, Reply, Script, Tokens};

use crate::child::*;
use crate::hostile::{CANARY, Hostile};
use crate::server::Served;
use crate::terminal::Terminal;

/// The sequences that the program itself may write: its styles, and those of the progress line.
const OWN: [&str; 9] =
    ["\r\x1b[K", "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\r\n"];

/// Fails if a terminal would do anything but show the text.
fn assert_harmless(what: &str, seen: &str) {
    let rest = OWN.iter().fold(seen.to_owned(), |rest, own| rest.replace(own, "\n"));
    let hidden = "\u{202e}\u{200b}\u{e0041}";
    let bad = rest.chars().find(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || hidden.contains(*c));
    assert_eq!(bad, None, "{what} lets it through:\n{seen:?}");
}

/// Like that, for a command that shows no text of several lines, such as an answer.
fn assert_in_line(what: &str, seen: &str) {
    assert_harmless(what, seen);
    assert!(!seen.contains("\nMay it?"), "{what} shows a line that nobody wrote:\n{seen}");
}

/// Runs a command in a terminal to its end, and returns what was on the screen.
fn on_screen(db: &Database, args: &[&str], typed: &str) -> String {
    let mut terminal = Terminal::coloured(&db.file("none.db"), args);
    terminal.press(typed);
    terminal.read_until(None);
    std::mem::take(&mut terminal.seen)
}

/// A server with runs that ended in every way, and one that needs approval.
fn played(db: &Database) -> Served {
    let served = Served::start(db, &["--instant"]);
    let run = |id: &str, session: &str, input: &str| {
        let body = json!({"app": "practice", "user": "ada", "session": session, "run_id": id, "input": input});
        let (status, run) = served.post("/v1/runs", &body);
        assert_eq!(status, 201, "{run}");
    };
    run("done", "otter", "think, and roll 3 dice");
    served.wait_for("done", "run_settled");
    run("waiting", "heron", &format!("write a note: {CANARY}"));
    served.wait_for("waiting", "approval_requested");
    run("stopped", "wren", "write a note: stop here");
    served.wait_for("stopped", "approval_requested");
    let (_, stopped) = served.post("/v1/runs/stopped/cancel", &json!({"note": CANARY, "wait": true}));
    assert_eq!(stopped["reply"], "accepted", "{stopped}");
    let (status, key) = served.post("/v1/keys", &json!({"name": "some", "scopes": ["run:read"]}));
    assert_eq!(status, 201, "{key}");
    let (status, held) = served.put("/v1/line", &json!({"state": "held", "user": "bea", "reason": "maintenance"}));
    assert_eq!(status, 200, "{held}");
    served
}

#[test]
fn no_command_lets_foreign_text_act_on_the_terminal() {
    let db = Database::new();
    let served = played(&db);
    let hostile = Hostile::before(&served.url);
    let at = ["--server", hostile.address.as_str()];
    let commands: [(&[&str], &str); 18] = [
        (&["receipt", "done"], "canary"),
        (&["receipt", "stopped"], "canary"),
        (&["receipt", "stopped", "--json"], "canary"),
        (&["receipt", "nobody"], "there is no run"),
        (&["watch", "done"], "canary"),
        (&["watch", "stopped"], "canary"),
        (&["watch", "done", "--json"], "canary"),
        (&["runs"], "canary"),
        (&["runs", "--json"], "canary"),
        (&["sessions"], "canary"),
        (&["history", "practice/ada/otter"], "canary"),
        (&["history", "practice/ada/otter", "--json"], "canary"),
        (&["line", "status"], "canary"),
        (&["cancel", "done"], "Too late"),
        (&["usage"], ""),
        (&["keys", "list"], "canary"),
        (&["approve", "waiting", "--deny"], "canary"),
        (&["cancel", "waiting", "--wait"], "canary"),
    ];
    for (args, told) in commands {
        let seen = on_screen(&db, &[args, &at].concat(), "");
        assert!(seen.contains(told), "{args:?} does not tell it:\n{seen}");
        match args[0] {
            "watch" | "history" => assert_harmless(&args.join(" "), &seen),
            _ => assert_in_line(&args.join(" "), &seen),
        }
    }
    // A person is asked, and says no.
    let seen = on_screen(&db, &[&["delete", "practice/ada/otter"], &at[..]].concat(), "n\n");
    assert!(seen.contains("canary") && seen.contains("Nothing was deleted"), "{seen}");
    assert_in_line("delete", &seen);
    for args in [&["run", "--user", "ada", "roll a die"][..], &["run", "--user", "ada", "--json", "roll a die"]] {
        let seen = on_screen(&db, &[args, &at].concat(), "");
        assert!(seen.contains("canary"), "{seen}");
        assert_harmless(&args.join(" "), &seen);
    }
}

#[test]
fn no_line_of_a_chat_acts_on_the_terminal() {
    let db = Database::new();
    let served = played(&db);
    let hostile = Hostile::before(&served.url);
    let args = ["chat", "--session", "otter", "--user", "ada", "--server", &hostile.address];
    let chat = crate::child::command(db.file("none.db"), &args);
    // The line editor draws what a person types, with its own sequences.
    let mut chat = Terminal::of_piped(chat, "roll a die\n/receipt\n/history\n/sessions\n/session\n/quit\n");
    chat.read_until(None);
    assert!(chat.seen.matches("canary").count() > 6, "{}", chat.seen);
    assert_harmless("chat", &chat.seen);
}

#[test]
fn no_terminal_obeys_a_models_or_a_providers_text() {
    let provider = BadProvider::start_on_thread(Protocol::Http1);
    let call = Reply::text([CANARY]).call("c1", &format!("made_up{CANARY}"), [format!("{{\"a\":{}}}", json!(CANARY))]);
    provider.answer(Script::reply(Dialect::OpenAiChat, &call.model("small").usage(Tokens::new(3, 4))));
    let refused = json!({"error": {"message": format!("bad request {CANARY}"), "code": CANARY}});
    provider.always(Script::json(400, &refused));
    let db = Database::new();
    let base = provider.base_url();
    let serve = ["serve", "--bind", "127.0.0.1:0", "--model", "openai/small", "--log", "debug"];
    let mut server = crate::child::command(db.file("andon.db"), &serve);
    server.env("OPENAI_API_KEY", "sk-none").env("OPENAI_BASE_URL", &base);
    let mut server = Terminal::of(server, 400);
    server.read_until(Some("Ctrl-C shuts the server down"));
    let ended = Program::start_on(db.file("andon.db"), &["run", "--run-id", "odd", "Go."]).end();
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    for args in [&["receipt", "odd"][..], &["watch", "odd"], &["runs"], &["receipt", "odd", "--json"]] {
        let mut terminal = Terminal::coloured(&db.file("andon.db"), args);
        terminal.read_until(None);
        assert_harmless(&args.join(" "), &terminal.seen);
        if args != ["runs"] {
            assert!(terminal.seen.contains("made_up") && terminal.seen.contains("bad request"), "{}", terminal.seen);
        }
    }
    let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&server.child), Signal::TERM);
    server.read_until(None);
    assert!(server.seen.contains("odd"), "nothing was logged: {}", server.seen);
    assert_in_line("serve", &server.seen);
}
