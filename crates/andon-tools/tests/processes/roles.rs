//! Hosts that this program plays for its own tests: to be killed, to have secrets, to have no shim.

use std::process::{Command as Process, Stdio, exit};

use andon_shim::proc::Process as Found;
use andon_tools::process::{Command, Tree};

use crate::ends::{DAEMON, GROUP};
use crate::world::{Token, block_on, never, sh, shims, until};

const ROLE: &str = "play-the-host";

/// A host that plays this role.
pub(crate) fn host(role: &str, token: Token) -> Process {
    let mut command = Process::new(std::env::current_exe().unwrap());
    command.args([ROLE, role, &token.to_string()]).stdin(Stdio::null());
    command
}

pub(crate) fn play_if_asked() {
    let args: Vec<String> = std::env::args().collect();
    let [_, word, role, token] = args.as_slice() else { return };
    if word != ROLE {
        return;
    }
    let token = Token::parse(token);
    match role.as_str() {
        "runs a group" => run_for_ever(GROUP, token),
        "runs a daemon" => run_for_ever(DAEMON, token),
        "environment" => show_environment(),
        "bare group" => end_and_tell(GROUP, token, |found| found.len() == 8),
        "bare daemon" => end_and_tell(DAEMON, token, |found| found.len() == 4),
        "helper" => {
            andon_shim::set_helper(std::env::current_exe().unwrap());
            end_and_tell(DAEMON, token, |found| found.len() == 4);
        }
        "gives up" => {
            andon_shim::init();
            let script = format!(
                r#"{} --reuid=0 --regid=0 --clear-groups sleep "$0" & wait"#,
                std::env::var("TO_ROOT").unwrap()
            );
            end_and_tell(&script, token, |found| found.iter().any(|one| one.name == "sleep"));
        }
        "no helper" => try_helpers_that_are_none(),
        other => panic!("no such role: {other}"),
    }
    exit(0);
}

fn run_for_ever(script: &str, token: Token) {
    andon_shim::init();
    block_on(async { sh(script, token).run(&Tree::new(), &never(), |_| {}).await.unwrap() });
}

fn end_and_tell(script: &str, token: Token, is_up: impl Fn(&[Found]) -> bool) {
    block_on(async {
        let tree = Tree::new();
        let _running = sh(script, token).start(&tree).await.unwrap();
        until(|| is_up(&token.processes()).then_some(())).await;
        let remains = tree.end().await;
        println!("leaked: {:?} notes: {:?}", remains.leaked, remains.notes);
    });
}

fn show_environment() {
    andon_shim::init();
    block_on(async {
        let tree = Tree::new();
        // It waits for its input as long as its shim is looked at.
        let waiting = Command::new("sh").args(["-c", "read end"]).stdin(andon_tools::process::Stdin::Open);
        let running = waiting.start(&tree).await.unwrap();
        let bytes = std::fs::read(format!("/proc/{}/environ", shims()[0].pid)).unwrap();
        println!("the shim's environment: {} bytes", bytes.len());
        drop(running);
        let command = Command::new("env").env("SET", "by hand").pass("NAMED");
        let finished = command.run(&tree, &never(), |_| {}).await.unwrap();
        println!("{}", finished.stdout.into_text());
        tree.end().await;
    });
}

fn try_helpers_that_are_none() {
    for helper in ["/no/such/helper", "/bin/true"] {
        andon_shim::set_helper(helper);
        block_on(async {
            let tree = Tree::new();
            println!("{}", Command::new("true").run(&tree, &never(), |_| {}).await.unwrap_err());
            println!("{:?}", tree.end().await);
        });
    }
}
