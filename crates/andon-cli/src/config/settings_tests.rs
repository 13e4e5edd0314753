use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};

use super::*;
use crate::args::{Args, BuiltIn, Command as Chosen, ServeArgs};

fn args(text: &str, words: &[&str]) -> Args {
    let (command, _) = apply(Args::command(), text, Path::new("/etc/andon/andon.yaml")).unwrap();
    command.clone().debug_assert();
    let matches = command.try_get_matches_from([&["andon"], words].concat()).unwrap();
    Args::from_arg_matches(&matches).unwrap()
}

fn serve(text: &str, words: &[&str]) -> ServeArgs {
    let Args { command, serve, .. } = args(text, words);
    match command {
        Some(Chosen::Serve(args)) => args,
        None => serve,
        Some(other) => panic!("{other:?}"),
    }
}

fn fault(text: &str) -> String {
    let applied = apply(Args::command(), text, Path::new("/etc/andon/andon.yaml"));
    applied.err().unwrap_or_else(|| panic!("{text:?} is taken")).to_string()
}

const FILE: &str = "
# How we serve here.
bind: 127.0.0.1:8001
agents: ./agents
db: /var/andon.db
drain: 30s
max-runs: 100
tool: [shell, read_file]
host: andon.example
instant: true
deadline: 2m
";

#[test]
fn a_file_is_as_good_as_flags_for_every_command_that_has_them() {
    for words in [&[][..], &["serve"]] {
        let args = serve(FILE, words);
        assert_eq!(args.bind.to_string(), "127.0.0.1:8001");
        assert_eq!(args.agents.as_deref(), Some(Path::new("/etc/andon/./agents")));
        let options = args.server_options();
        assert_eq!((options.drain, options.max_runs), (Duration::from_secs(30), 100));
        assert_eq!(options.hosts, ["andon.example"]);
        assert!(args.options.instant);
        assert_eq!(args.options.tools, [BuiltIn::Shell, BuiltIn::ReadFile]);
    }
    let Some(Chosen::Chat(chat)) = args(FILE, &["chat"]).command else { panic!("that is a chat") };
    assert_eq!(chat.options.limits().deadline, Some(Duration::from_secs(120)));
    assert_eq!(chat.options.tools.len(), 2);
}

#[test]
fn the_command_line_wins() {
    let args = serve(FILE, &["serve", "--bind", "127.0.0.1:9", "--tool", "http_get", "--drain", "1s"]);
    assert_eq!(args.bind.to_string(), "127.0.0.1:9");
    assert_eq!(args.options.tools, [BuiltIn::HttpGet]);
    assert_eq!(args.server_options().drain, Duration::from_secs(1));
}

#[test]
fn a_section_is_for_its_command_and_wins_over_what_is_for_all() {
    let file = "run:\n  yes: true\n  deadline: 3s\ndeadline: 2m\n";
    let Some(Chosen::Run(run)) = args(file, &["run", "hello"]).command else { panic!("that is a run") };
    assert!(run.yes && !run.json);
    assert_eq!(run.options.limits().deadline, Some(Duration::from_secs(3)));
    assert_eq!(serve(file, &[]).options.limits().deadline, Some(Duration::from_secs(120)));
}

#[test]
fn a_path_is_one_beside_the_file_and_memory_is_no_path() {
    let db = |text: &str| serve(text, &[]).db.db.unwrap().into_string().unwrap();
    assert_eq!(db("db: shop.db"), "/etc/andon/shop.db");
    assert_eq!(db("db: /shop.db"), "/shop.db");
    assert_eq!(db("db: memory"), "memory");
    assert!(db("db: ~/shop.db").ends_with("/shop.db") && !db("db: ~/shop.db").contains('~'));
}

#[test]
fn nothing_in_it_is_nothing_said() {
    for text in ["", "# nothing\n", "{}\n", "run:\n"] {
        assert_eq!(serve(text, &[]).server_options(), andon_server::Options::default(), "{text:?}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_what_to_do() {
    let cases = [
        ("bind: 127.0.0.1:1\nbint: 1\n", ":2:1: there is no flag --bint: `andon config` lists all of them"),
        ("version: x\n", ":1:1: there is no flag --version: `andon config` lists all of them"),
        ("run: x\n", ":1:6: `run` is a command: put its flags under it, indented"),
        ("json: true\n", ":1:1: --json is no flag of every command: put `json` under `run:`"),
        ("run:\n  bind: 1\n", ":2:3: `andon run` has no flag --bind: `andon run --help` lists them"),
        ("cancel:\n  all: true\n", ":2:3: --all says what `andon cancel` is aimed at, and goes on the command line"),
        ("line:\n  hold:\n    app: x\n", ":3:5: --app says what `andon line hold` is aimed at"),
        ("a: 1\na: 2\n", ":2:1: the key `a` is here twice: leave one out"),
        ("instant: perhaps\n", ":1:10: `instant` must be true or false"),
        ("bind: [a, b]\n", ":1:7: `bind` takes one value, and no list"),
        ("bind:\n", ":1:6: `bind` has no value: give it one, or leave the key out"),
        ("- bind\n", ":1:1: the file must be keys with values, such as `bind: 127.0.0.1:8001`"),
        (
            "tool: shel\n",
            ":1:7: invalid value 'shel' for '--tool <NAME>' [possible values: shell, read_file, write_file, http_get]",
        ),
        ("drain: soon\n", ":1:8: invalid value 'soon' for '--drain <TIME>': "),
        ("max-runs: -1\n", ":1:11: invalid value '-1' for '--max-runs <NUMBER>': "),
        ("tool:\n  - shell\n  - {}\n", ":3:5: `tool` must be a value"),
    ];
    for (text, expected) in cases {
        let said = fault(text);
        assert!(said.starts_with(expected), "{text:?}: {said}");
    }
    assert!(fault("bind: 0.0.0.0:80\n").contains("reached from other machines"));
    assert!(fault("bind: [\n").starts_with(":2"));
}

#[test]
fn the_file_in_the_guide_is_taken_as_it_stands() {
    let guide = include_str!("../../../../docs/server.md");
    let file = guide.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let options = serve(file, &[]).server_options();
    assert_eq!((options.drain, options.max_runs), (Duration::from_secs(30), 5000));
    assert_eq!(options.origins, ["https://app.example"]);
}
