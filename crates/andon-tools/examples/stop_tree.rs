//! A stop that nothing escapes: an agent's shell command starts processes that do all they can to survive; the run is
//! cancelled; and `/proc` shows that none of them is left.
//!
//! ```console
//! $ cargo run -p andon-tools --example stop_tree                  # the run is cancelled
//! $ cargo run -p andon-tools --example stop_tree -- --kill-host   # the whole program is killed with SIGKILL
//! ```

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};
use std::time::Duration;

use andon_runtime::{Agent, Cancel};
use andon_testkit::model::{Act, ScriptedModel};
use andon_tools::Shell;
use serde_json::json;
use tokio::time::{sleep, timeout};

/// What the agent runs. `MARK` is a number in the arguments of each process, so that they can be found again.
const COMMAND: &str = r#"
    echo "a process in a session of its own";            setsid sleep MARK &
    echo "a process whose parent has exited";            (sleep MARK &)
    echo "a daemon without any environment";             (setsid env -i /bin/sh -c 'trap "" TERM HUP; sleep MARK & wait' MARK >/dev/null 2>&1 &)
    echo "a process that does not listen to SIGTERM";    sh -c 'trap "" TERM; sleep MARK & wait' MARK &
    echo "a process that is stopped";                    setsid sh -c 'kill -STOP $$; sleep MARK' MARK &
    wait
"#;
/// How many processes that makes, without the shell itself.
const PROCESSES: usize = 7;

#[tokio::main]
async fn run(role: Option<String>) -> Result<ExitCode, Box<dyn std::error::Error>> {
    match role.as_deref() {
        None => cancel_the_run().await,
        Some("--kill-host") => kill_the_host().await,
        Some(mark) => {
            // The host that is about to be killed.
            agent(mark)?.run("Start them all.").await?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    // First thing in `main`: this program can now be executed as its own shim.
    andon_shim::init();
    run(std::env::args().nth(1))
}

async fn cancel_the_run() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mark = mark();
    let run = agent(&mark)?.start("Start them all.")?;
    let started = wait_for(&mark, |found| found.len() >= PROCESSES).await?;
    println!("{} processes run; the run is cancelled", started.len());
    run.cancel(Cancel::graceful().by("ada").grace(Duration::from_secs(1)));
    let outcome = run.outcome().await;
    println!(
        "the run ended {} after {} ms",
        outcome.stop_reason(),
        outcome.receipt.took.settled_us.unwrap_or(0) / 1000
    );
    for call in &outcome.receipt.calls {
        println!("  {}: {:?} {:?}", call.tool, call.verdict, call.notes);
    }
    println!("  leaked: {:?}", outcome.receipt.leaked);
    Ok(verdict(&mark))
}

async fn kill_the_host() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mark = mark();
    let mut host = Command::new(std::env::current_exe()?).arg(&mark).spawn()?;
    let started = wait_for(&mark, |found| found.len() > PROCESSES).await?;
    println!("{} processes run; their host, process {}, is killed with SIGKILL", started.len() - 1, host.id());
    host.kill()?;
    host.wait()?;
    wait_for(&mark, BTreeSet::is_empty).await?;
    Ok(verdict(&mark))
}

/// An agent whose model asks for one shell command.
fn agent(mark: &str) -> Result<Agent, andon_runtime::BuildError> {
    let input = json!({ "command": COMMAND.replace("MARK", mark) }).to_string();
    let asks = [Act::call(0, "call-1", "shell", &input), vec![Act::tool_use()]].concat();
    Agent::builder().model(ScriptedModel::new([asks])).tool(Shell::new()).build()
}

/// A number that no other process has among its arguments.
fn mark() -> String {
    format!("7000{:07}", std::process::id())
}

/// All living processes with the mark among their arguments, without this one.
fn find(mark: &str) -> BTreeSet<u32> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_marked = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|word| word == mark.as_bytes())
    };
    pids.filter(is_marked).collect()
}

/// Waits until the processes found are as wanted, with a timeout.
async fn wait_for(mark: &str, wanted: impl Fn(&BTreeSet<u32>) -> bool) -> Result<BTreeSet<u32>, String> {
    let look = async {
        loop {
            let found = find(mark);
            if wanted(&found) {
                return found;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), look).await.map_err(|_| format!("after 10 s there are {:?}", find(mark)))
}

fn verdict(mark: &str) -> ExitCode {
    let alive = find(mark);
    println!("still alive: {}", alive.len());
    if alive.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
