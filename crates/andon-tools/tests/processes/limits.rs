//! Limits take effect, and only on the tool.
//!
//! If one of these fails, one tool can use up a machine.

use andon_tools::process::Limits;

use crate::world::*;

tests![
    a_process_that_uses_too_much_cpu_time_is_ended,
    too_much_memory_is_refused,
    too_many_open_files_are_refused,
    a_file_that_grows_too_large_ends_its_writer,
    too_many_processes_are_refused,
    a_limit_above_the_hosts_is_not_an_error,
];

fn limited(script: &str, limits: Limits) -> Finished {
    let (finished, remains) = block_on(run(sh(script, Token::new()).limits(limits)));
    assert!(remains.is_none(), "the shim is not limited: {remains:?}");
    finished
}

fn a_process_that_uses_too_much_cpu_time_is_ended() {
    let limits = Limits { cpu: Some(Duration::from_secs(1)), ..Limits::default() };
    assert_eq!(limited("while :; do :; done", limits).status, Some(Status::Signal(24)));
}

fn too_much_memory_is_refused() {
    let limits = Limits { memory: Some(64 << 20), ..Limits::default() };
    let script = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo it had ${#x} bytes";
    let finished = limited(script, limits);
    assert_ne!(finished.status, Some(Status::Code(0)));
    assert_eq!(finished.stdout.into_text(), "");
}

fn too_many_open_files_are_refused() {
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

fn too_many_processes_are_refused() {
    let limits = Limits { processes: Some(3), ..Limits::default() };
    let script = "for i in 1 2 3 4 5 6; do sleep 5 & done; echo all of them";
    let words = [unprivileged(), vec!["sh", "-c", script]].concat();
    let (finished, remains) = block_on(run(Command::new(words[0]).args(&words[1..]).limits(limits)));
    assert!(remains.is_none());
    assert_eq!(finished.stdout.into_text(), "");
    let complaint = finished.stderr.into_text();
    assert!(complaint.contains("fork"), "{complaint}");
}

fn a_limit_above_the_hosts_is_not_an_error() {
    let limits = Limits { open_files: Some(u64::MAX), memory: Some(u64::MAX), ..Limits::default() };
    assert_eq!(limited("exit 0", limits).status, Some(Status::Code(0)));
}
