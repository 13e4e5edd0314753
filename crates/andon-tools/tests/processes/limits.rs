//! Limits that strike, and only the tool.
//!
//! What a user loses if one of these fails: a machine that one tool has used up.

use std::time::Duration;

use andon_tools::process::{Command, Finished, Limits, Status};

use crate::runner::tests;
use crate::world::{Token, block_on, run, sh, unprivileged};

tests![
    cpu_time_ends_who_uses_too_much,
    memory_is_refused_to_who_wants_too_much,
    files_are_refused_to_who_opens_too_many,
    a_file_that_grows_too_large_ends_its_writer,
    processes_are_refused_to_a_user_who_has_too_many,
    more_than_the_host_may_use_is_not_an_error,
];

fn limited(script: &str, limits: Limits) -> Finished {
    let (finished, remains) = block_on(run(sh(script, Token::new()).limits(limits)));
    assert!(remains.is_none(), "the shim is not limited: {remains:?}");
    finished
}

fn cpu_time_ends_who_uses_too_much() {
    let limits = Limits { cpu: Some(Duration::from_secs(1)), ..Limits::default() };
    assert_eq!(limited("while :; do :; done", limits).status, Some(Status::Signal(24)));
}

fn memory_is_refused_to_who_wants_too_much() {
    let limits = Limits { memory: Some(64 << 20), ..Limits::default() };
    let script = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo it had ${#x} bytes";
    let finished = limited(script, limits);
    assert_ne!(finished.status, Some(Status::Code(0)));
    assert_eq!(finished.stdout.into_text(), "");
}

fn files_are_refused_to_who_opens_too_many() {
    let limits = Limits { open_files: Some(6), ..Limits::default() };
    let finished = limited("exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null; echo all", limits);
    assert_ne!(finished.status, Some(Status::Code(0)));
    assert_eq!(finished.stdout.into_text(), "");
}

fn a_file_that_grows_too_large_ends_its_writer() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { file_size: Some(10_000), ..Limits::default() };
    let command = sh("exec head -c 100000 /dev/zero > file", Token::new()).cwd(folder.path()).limits(limits);
    let (finished, _) = block_on(run(command));
    assert_eq!(finished.status, Some(Status::Signal(25)));
    assert_eq!(std::fs::metadata(folder.path().join("file")).unwrap().len(), 10_000);
}

fn processes_are_refused_to_a_user_who_has_too_many() {
    let limits = Limits { processes: Some(3), ..Limits::default() };
    let script = "for i in 1 2 3 4 5 6; do sleep 5 & done; echo all of them";
    let words = [unprivileged(), vec!["sh", "-c", script]].concat();
    let (finished, remains) = block_on(run(Command::new(words[0]).args(&words[1..]).limits(limits)));
    assert!(remains.is_none());
    assert_eq!(finished.stdout.into_text(), "");
    assert!(finished.stderr.into_text().contains("fork"));
}

fn more_than_the_host_may_use_is_not_an_error() {
    let limits = Limits { open_files: Some(u64::MAX), memory: Some(u64::MAX), ..Limits::default() };
    assert_eq!(limited("exit 0", limits).status, Some(Status::Code(0)));
}
