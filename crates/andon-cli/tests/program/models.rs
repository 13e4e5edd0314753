//! Real models without a key: a provider on this machine that uses their format.

use std::path::Path;

use andon_testkit::provider::{BadProvider, Dialect, Protocol, Refusal, Reply, Script, Tokens};

use crate::child::*;

const CANARY: &str = "sk-canary-5e1f00d";

struct World {
    provider: BadProvider,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let provider = BadProvider::start_on_thread(Protocol::Http1);
        Self { provider, folder: tempfile::tempdir().unwrap() }
    }

    fn db(&self) -> std::path::PathBuf {
        self.folder.path().join("andon.db")
    }

    fn start(&self, args: &[&str]) -> Program {
        let address = self.provider.base_url();
        let names = [("OPENAI", &address), ("ANTHROPIC", &address), ("GROQ", &address)];
        let variables: Vec<(String, &str)> = names
            .iter()
            .flat_map(|(name, address)| {
                [(format!("{name}_BASE_URL"), address.as_str()), (format!("{name}_API_KEY"), CANARY)]
            })
            .collect();
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        Program::start_in(self.db(), &variables, args)
    }

    fn run(&self, args: &[&str]) -> Ended {
        self.start(args).end()
    }
}

fn story() -> Reply {
    Reply::text(["Once ", "upon ", "a ", "time."]).model("small-2026-11-01").usage(Tokens::new(31, 7))
}

/// Whether any file in a folder contains the key.
fn holds_the_key(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    files.into_iter().any(|bytes| bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()))
}

#[test]
fn a_model_is_named_and_answers_with_the_providers_own_figures() {
    let world = World::new();
    for (name, dialect) in [("openai/small", Dialect::OpenAiChat), ("anthropic/small", Dialect::Anthropic)] {
        world.provider.answer(Script::reply(dialect, &story()));
        let ended = world.run(&["run", "--model", name, "--instructions", "Be brief.", "Tell me a story."]);
        assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "Once upon a time."), "{}", ended.stderr);
        assert!(ended.stderr.contains("31 in, 7 out"), "{}", ended.stderr);
    }
    let asked = world.provider.all_seen()[0].json();
    assert_eq!(asked["model"], json!("small"));
    assert!(asked["messages"].to_string().contains("Be brief."), "{asked}");
    assert!(!holds_the_key(world.folder.path()));
}

#[test]
fn ctrl_c_closes_the_connection_and_the_receipt_says_what_was_used_and_how_it_is_known() {
    let world = World::new();
    let frames = Dialect::OpenAiChat.frames(&story());
    let script = Script::stream(Dialect::OpenAiChat).header("x-request-id", "req_7");
    world.provider.answer(script.frames(frames.into_iter().take(4)).stall());
    let mut program = world.start(&["run", "--model", "openai/small", "--json", "Tell me a story."]);
    program.wait_for("upon");
    program.interrupt();
    let ended = program.end();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let output = &ended.receipt()["usage"]["delivered"]["output"];
    assert!(output["value"].as_u64().is_some_and(|value| value > 0), "{output}");
    assert_eq!(output["provenance"], json!("estimated"));
    let call = &ended.receipt()["model_calls"][0];
    let told = ["model", "answered_by", "request_id"].map(|field| call[field].as_str());
    assert_eq!(told, [Some("openai/small"), Some("small-2026-11-01"), Some("req_7")]);
    let shown = world.run(&["receipt", ended.receipt()["run"].as_str().unwrap()]).stdout;
    assert!(shown.contains("1: openai/small, answered by small-2026-11-01, request req_7"), "{shown}");
    assert!(world.provider.all_seen()[0].closed_already().unwrap().by_client());
}

#[test]
fn estimates_are_learned_and_shown() {
    let world = World::new();
    let ended = world.run(&["usage"]);
    assert!(ended.stdout.contains("No call of a real model") || ended.stdout.contains("Nothing"), "{}", ended.stdout);
    world.provider.always(Script::reply(Dialect::OpenAiChat, &story()));
    // No program waits long for what it can learn from its last call, so on a busy machine it takes more than three.
    let mut calls = 0;
    for _ in 0..30 {
        assert_eq!(world.run(&["run", "--model", "openai/small", "Tell me a story."]).code, Some(0));
        let ended = world.run(&["usage", "--json", "small"]);
        if let Some(learned) = ended.stdout.lines().next().map(|_| ended.json()) {
            assert_eq!(learned[0]["model"], json!("openai/small-2026-11-01"));
            calls = learned[0]["calls"].as_u64().unwrap();
        }
        if calls >= 3 {
            break;
        }
    }
    assert!(calls >= 3, "{calls} calls were learned from");
    let ended = world.run(&["usage"]);
    assert!(ended.stdout.contains("openai/small-2026-11-01"), "{}", ended.stdout);
    assert_eq!(world.run(&["usage", "--json", "large"]).stdout, "");
}

#[test]
fn a_bad_model_is_refused_before_anything_is_recorded() {
    let wrong = [
        ("openai/small", "OPENAI_API_KEY"),
        ("anthropic/small", "ANTHROPIC_API_KEY"),
        ("antropic/small", "anthropic"),
        ("small", "provider/model"),
        ("openai/", "openai/MODEL"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("andon.db");
    for (name, hint) in wrong {
        let ended = Program::start_in(&db, &[], &["run", "--model", name, "Hello"]).end();
        assert_eq!(ended.code, Some(1), "{name}: {}", ended.stderr);
        assert!(ended.stderr.contains(hint), "{name}: {}", ended.stderr);
    }
    let runs = Program::start_in(&db, &[], &["runs", "--json"]).end();
    assert_eq!(runs.stdout, "");
}

#[test]
fn a_wrong_key_is_named_by_its_variable_and_never_shown() {
    let world = World::new();
    world.provider.answer(Script::refuse(Dialect::OpenAiChat, Refusal::WrongKey));
    let ended = world.run(&["run", "--model", "openai/small", "Hello"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("OPENAI_API_KEY"), "{}", ended.stderr);
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains(CANARY), "{}", ended.stderr);
    assert!(!holds_the_key(world.folder.path()));
    assert_eq!(world.provider.all_seen().len(), 1, "a wrong key is not tried again");
    world.provider.answer(Script::reply(Dialect::OpenAiChat, &story()));
    let ended = world.run(&["run", "--model", "openai/small", "--continue", "Hello again"]);
    assert_eq!(ended.code, Some(0), "the session goes on: {}", ended.stderr);
}

#[test]
fn a_signal_while_a_figure_is_awaited_exits_with_the_receipt_as_it_is() {
    for signal in [Signal::INT, Signal::TERM] {
        let world = World::new();
        let frames = Dialect::OpenAiChat.frames(&story());
        world.provider.answer(Script::stream(Dialect::OpenAiChat).frames(frames.into_iter().take(4)).stall());
        // Closing does not stop Groq's bill, so it is drained.
        let mut program = world.start(&["run", "--model", "groq/small", "--json", "Tell me a story."]);
        program.wait_for("upon");
        program.interrupt();
        program.wait_for("run_settled");
        program.signal(signal);
        let ended = program.end();
        assert_eq!(ended.code, Some(3), "{signal:?}: {}", ended.stderr);
        let account = &ended.receipt()["model_calls"][0];
        assert_eq!(account["pending"]["what"], json!("draining"), "{account}");
        assert!(ended.stderr.contains("draining"), "{}", ended.stderr);
    }
}
