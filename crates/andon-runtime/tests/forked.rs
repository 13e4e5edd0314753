//! A forked child has none of its parent's threads, and runs agents in a runtime of its own.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::io::Read;
use std::process::{Command, Stdio, exit};
use std::sync::mpsc::channel;
use std::time::Duration;

use andon_practice::Practice;
use andon_runtime::{Agent, FnTool, Returned, Runtime, StartError};
use serde_json::json;

/// Set in the process that forks.
const FORKS: &str = "ANDON_TEST_FORKS";

/// An agent whose run needs a driver's thread, a thread for async tools and one for blocking tools.
fn agent(runtime: &Runtime) -> Agent {
    let schema = || json!({"type": "object", "properties": {}});
    let soft = FnTool::new("launch", "Launches it.", schema(), |_| async { Ok("launched".into()) as Returned });
    let hard = FnTool::blocking("land", "Lands it.", schema(), |_| Ok("landed".into()) as Returned);
    let agent = Agent::builder().model(Practice::instant()).runtime(runtime).tool(soft).tool(hard);
    agent.build().unwrap()
}

/// Runs the agent on threads of its runtime, and returns what its tools returned.
fn results(agent: &Agent) -> Vec<String> {
    let ran = ["Launch", "Land"].map(|prompt| agent.start(prompt).unwrap().wait().unwrap());
    ran.iter().flat_map(|outcome| outcome.receipt.calls.iter().map(|call| format!("{:?}", call.verdict))).collect()
}

/// Not a test of its own: the process that [`a_forked_child_runs_agents_in_a_runtime_of_its_own`] starts. It forks, and what
/// goes on is the child.
#[test]
fn the_process_that_forks() {
    if std::env::var_os(FORKS).is_none() {
        return;
    }
    let runtime = Runtime::builder().build();
    let before = agent(&runtime);
    let by_default = Agent::builder().model(Practice::instant()).build().unwrap();
    assert_eq!(results(&before), ["Finished", "Finished"]);
    assert_eq!(by_default.start("Hello").unwrap().wait().unwrap().stop_reason(), "end_turn");
    let parent = std::process::id();

    // The parent ends in here, and its only thread in the child is this one.
    nix::unistd::daemon(true, true).unwrap();
    assert_ne!(std::process::id(), parent);
    println!("child {}", std::process::id());

    // What belongs to the parent is refused, and does not hang; nor does dropping it.
    assert_eq!(before.start("Launch").unwrap_err(), StartError::Forked);
    assert_eq!(by_default.start("Hello").unwrap_err(), StartError::Forked);
    drop((before, runtime, by_default));

    assert_eq!(results(&agent(&Runtime::builder().build())), ["Finished", "Finished"]);
    let by_default = Agent::builder().model(Practice::instant()).build().unwrap();
    assert_eq!(by_default.start("Hello").unwrap().wait().unwrap().stop_reason(), "end_turn");
    println!("the child ran");
    // The test harness has no thread in this process.
    exit(0);
}

#[test]
fn a_forked_child_runs_agents_in_a_runtime_of_its_own() {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_forks", "--nocapture", "--test-threads=1"])
        .env(FORKS, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    // The child holds the pipe open until it ends.
    let mut said = process.stdout.take().unwrap();
    let (sender, text) = channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = said.read(&mut buffer) {
            bytes.extend_from_slice(&buffer[..read]);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        }
    });
    process.wait().unwrap();
    let mut all = String::new();
    // A child that hangs says nothing more.
    while let Ok(more) = text.recv_timeout(Duration::from_secs(60)) {
        all = more;
    }
    let has_run = all.contains("the child ran");
    if !has_run {
        kill(&all);
    }
    assert!(has_run, "{all}");
    reader.join().unwrap();
}

/// Ends a child that hangs.
fn kill(said: &str) {
    let pid = said.lines().find_map(|line| line.rsplit_once("child ")?.1.trim().parse().ok());
    if let Some(pid) = pid {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
}

/// How many threads of this process are for tools.
fn tools_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "andon-tools").count()
}

#[test]
fn the_threads_of_a_runtime_end_with_it() {
    let runtime = Runtime::builder().build();
    assert_eq!(results(&agent(&runtime)), ["Finished", "Finished"]);
    assert!(tools_threads() > 0);
    drop(runtime);
    while tools_threads() > 0 {
        std::thread::yield_now();
    }
}
