use std::ffi::OsString;
use std::time::Duration;

use andon_runtime::Force;
use clap::{CommandFactory, FromArgMatches};

use super::super::line::CommandLine;
use super::*;
use crate::args::{Args, BuiltIn, Command as Chosen, ServeArgs};

fn args(text: &str, words: &[&str]) -> Args {
    let command = apply(Args::command(), text, Path::new("/etc/andon/andon.yaml")).unwrap();
    let words: Vec<OsString> = [&["andon"], words].concat().iter().map(OsString::from).collect();
    let command = CommandLine::read(&words).unwrap().in_front_of(command);
    command.clone().debug_assert();
    let matches = command.try_get_matches_from(words).unwrap();
    Args::from_arg_matches(&matches).unwrap()
}

fn serve(text: &str, words: &[&str]) -> ServeArgs {
    let Args { command, serve, .. } = args(text, words);
    match command {
        Some(Chosen::Serve(args)) => *args,
        None => serve,
        Some(other) => panic!("{other:?}"),
    }
}

fn fault(text: &str) -> String {
    let applied = apply(Args::command(), text, Path::new("/etc/andon/andon.yaml"));
    applied.err().unwrap_or_else(|| panic!("{text:?} is accepted")).to_string()
}

const FILE: &str = "
# How we serve.
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
fn a_key_sets_its_flag_in_every_command_that_has_it() {
    for words in [&[][..], &["serve"]] {
        let args = serve(FILE, words);
        assert_eq!(args.bind.to_string(), "127.0.0.1:8001");
        assert_eq!(args.agents.as_deref(), Some(Path::new("/etc/andon/./agents")));
        let options = args.server_options().unwrap();
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
    assert_eq!(args.server_options().unwrap().drain, Duration::from_secs(1));
}

#[test]
fn a_section_is_for_its_command_and_wins_over_what_is_for_all() {
    let file = "run:\n  yes: true\n  deadline: 3s\ndeadline: 2m\n";
    let Some(Chosen::Run(run)) = args(file, &["run", "hello"]).command else { panic!("that is a run") };
    assert!(run.yes && !run.json);
    assert_eq!(run.conversation.options.limits().deadline, Some(Duration::from_secs(3)));
    assert_eq!(serve(file, &[]).options.limits().deadline, Some(Duration::from_secs(120)));
}

#[test]
fn where_two_flags_exclude_each_other_the_line_takes_the_files_away() {
    let force = |text: &str, words: &[&str]| match args(text, &[&["cancel", "r1"], words].concat()).command {
        Some(Chosen::Cancel(cancel)) => cancel.force(),
        other => panic!("{other:?}"),
    };
    assert_eq!(force("cancel:\n  now: true\n", &[]), Force::Now);
    assert_eq!(force("cancel:\n  now: true\n", &["--after-turn"]), Force::AfterTurn);
    assert_eq!(force("cancel:\n  after-turn: true\n", &["--now"]), Force::Now);
    assert_eq!(force("cancel:\n  after-turn: true\n", &["--now=false"]), Force::AfterTurn);
    let Some(Chosen::Runs(runs)) = args("runs:\n  open: true\n", &["runs", "--settled"]).command else {
        panic!("runs")
    };
    assert!(runs.settled && !runs.open);
    let Some(Chosen::Run(run)) = args("run:\n  session: monday\n", &["run", "-c", "hello"]).command else {
        panic!("that is a run")
    };
    assert!(run.conversation.talk.continue_last && run.conversation.talk.session.is_none());
}

#[test]
fn the_command_line_can_switch_off_what_the_file_switches_on() {
    let file = "instant: true\nrun:\n  json: true\n";
    let run = |words: &[&str]| match args(file, &[&["run"], words].concat()).command {
        Some(Chosen::Run(run)) => (run.json, run.conversation.options.instant, run.prompt),
        other => panic!("{other:?}"),
    };
    let hello = vec!["hello".to_owned()];
    assert_eq!(run(&["hello"]), (true, true, hello.clone()));
    assert_eq!(run(&["--json=false", "--instant=false", "hello"]), (false, false, hello.clone()));
    assert_eq!(run(&["--json", "--instant=true", "hello"]), (true, true, hello));
}

#[test]
fn a_flag_that_aims_or_decides_takes_no_value() {
    for words in
        [&["cancel", "--all=false"][..], &["approve", "r1", "--yes=false"], &["line", "hold", "--cancel=false"]]
    {
        let words: Vec<OsString> = [&["andon"], words].concat().iter().map(OsString::from).collect();
        let command = CommandLine::read(&words).unwrap().in_front_of(Args::command());
        assert!(command.try_get_matches_from(&words).is_err(), "{words:?}");
    }
}

#[test]
fn a_path_is_relative_to_the_file_and_memory_is_not_a_path() {
    let db = |text: &str| serve(text, &[]).db.db.unwrap().into_string().unwrap();
    assert_eq!(db("db: shop.db"), "/etc/andon/shop.db");
    assert_eq!(db("db: /shop.db"), "/shop.db");
    assert_eq!(db("db: memory"), "memory");
    assert_eq!(db("db: postgres://ada@db/app"), "postgres://ada@db/app");
    assert!(db("db: ~/shop.db").ends_with("/shop.db") && !db("db: ~/shop.db").contains('~'));
}

#[test]
fn an_empty_file_changes_nothing() {
    for text in ["", "# nothing\n", "{}\n", "run:\n"] {
        assert_eq!(serve(text, &[]).server_options(), Ok(andon_server::Options::default()), "{text:?}");
    }
}

#[test]
fn an_error_has_its_line_and_says_what_to_do() {
    let cases = [
        ("bind: 127.0.0.1:1\nbint: 1\n", ":2:1: there is no flag --bint: see `andon config` for all of them"),
        ("version: x\n", ":1:1: there is no flag --version: see `andon config` for all of them"),
        ("run: x\n", ":1:6: `run` is a command: put its flags under it, indented"),
        ("json: true\n", ":1:1: --json does not apply to every command: put `json` under `run:`"),
        ("run:\n  bind: 1\n", ":2:3: `andon run` has no flag --bind: see `andon run --help`"),
        (
            "cancel:\n  all: true\n",
            ":2:3: --all says what `andon cancel` is aimed at, so it must be on the command line",
        ),
        ("line:\n  hold:\n    app: x\n", ":3:5: --app says what `andon line hold` is aimed at"),
        (
            "line:\n  hold:\n    cancel: true\n",
            ":3:5: --cancel decides what `andon line hold` does, so it must be on the",
        ),
        ("line:\n  hold:\n    now: true\n", ":3:5: --now decides what `andon line hold` does"),
        ("approve:\n  yes: true\n", ":2:3: --yes decides what `andon approve` does"),
        ("approve:\n  deny: false\n", ":2:3: --deny decides what `andon approve` does"),
        ("delete:\n  yes: true\n", ":2:3: --yes decides what `andon delete` does"),
        ("runs:\n  open: true\n  settled: true\n", ":3:3: --open and --settled cannot be used together: leave one out"),
        ("a: 1\na: 2\n", ":2:1: duplicate key `a`: remove one"),
        ("instant: perhaps\n", ":1:10: `instant` must be true or false"),
        ("bind: [a, b]\n", ":1:7: `bind` takes one value, not a list"),
        ("bind:\n", ":1:6: `bind` has no value: give it one, or remove the key"),
        ("- bind\n", ":1:1: the file must have keys and values, such as `bind: 127.0.0.1:8001`"),
        (
            "tool: shel\n",
            ":1:7: invalid value 'shel' for '--tool <NAME>' [possible values: shell, read_file, write_file, http_get]",
        ),
        ("drain: soon\n", ":1:8: invalid value 'soon' for '--drain <TIME>': "),
        ("max-runs: -1\n", ":1:11: invalid value '-1' for '--max-runs <NUMBER>': "),
        ("tool:\n  - shell\n  - {}\n", ":3:5: `tool` must be a single value"),
    ];
    for (text, expected) in cases {
        let said = fault(text);
        assert!(said.starts_with(expected), "{text:?}: {said}");
    }
    assert!(fault("bind: everywhere\n").contains("such as 127.0.0.1:8001"));
    let refused = serve("bind: 0.0.0.0:80\n", &[]).server_options().unwrap_err();
    assert!(refused.contains("reached from other machines"), "{refused}");
    assert!(serve("bind: 0.0.0.0:80\nauth: true\n", &[]).server_options().unwrap().auth);
    assert!(fault("bind: [\n").starts_with(":2"));
}

#[test]
fn the_file_in_the_guide_is_accepted() {
    let guide = include_str!("../../../../docs/server.md");
    let file = guide.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let options = serve(file, &[]).server_options().unwrap();
    assert_eq!((options.drain, options.max_runs), (Duration::from_secs(30), 5000));
    assert_eq!(options.origins, ["https://app.example"]);
}
