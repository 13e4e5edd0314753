//! The hosts that this program plays for its own tests: one that is killed, one with secrets, one without a shim.

use std::process::{Command as Process, Stdio, exit};

use andon_runtime::Cancel;
use andon_shim::proc::Process as Found;
use andon_tools::Shell;
use tokio::time::timeout;

use crate::ends::{DAEMON, GROUP};
use crate::world::*;

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
        "runs a group" => run_forever(GROUP, token),
        "runs a daemon" => run_forever(DAEMON, token),
        "environment" => show_environment(),
        "signals" => show_signals(),
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
        "adopts orphans" => adopt_orphans(token),
        "a helper that hangs" => try_a_helper_that_hangs(token),
        other => panic!("no such role: {other}"),
    }
    exit(0);
}

fn run_forever(script: &str, token: Token) {
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
        let script = r#"env; echo "the shim's environment: $(wc -c < /proc/$PPID/environ) bytes""#;
        let command = Command::new("sh").args(["-c", script]).env("SET", "by hand").pass("NAMED");
        let tree = Tree::new();
        let finished = command.run(&tree, &never(), |_| {}).await.unwrap();
        println!("{}", finished.stdout.into_text());
        tree.end().await;
    });
}

fn show_signals() {
    andon_shim::init();
    block_on(async {
        let tree = Tree::new();
        let finished = Command::new("cat").arg("/proc/self/status").run(&tree, &never(), |_| {}).await.unwrap();
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

fn try_a_helper_that_hangs(token: Token) {
    andon_shim::set_helper(std::env::var("HELPER").unwrap());
    let nothing = || Command::new("true");
    block_on(async {
        let agent = crate::agents::agent(Shell::new().grace(Duration::from_millis(300)), "true");
        let run = agent.start("go").unwrap();
        token.at_least(1).await;
        let begun = now();
        run.cancel(Cancel::graceful());
        let outcome = run.outcome().await;
        println!("a stop took {}", begun.elapsed().as_millis());
        println!("{:?}", outcome.receipt);

        let tree = Tree::new();
        for _ in 0..5 {
            assert!(timeout(Duration::from_millis(20), nothing().start(&tree)).await.is_err());
        }
        let begun = now();
        let remains = tree.end().await;
        println!("the end of five together took {}", begun.elapsed().as_millis());
        println!("{remains:?}");

        let tree = Tree::new();
        let begun = now();
        let error = nothing().start(&tree).await.unwrap_err();
        println!("a start was given up after {}", begun.elapsed().as_millis());
        println!("{error} {:?}", tree.end().await);
    });
}

/// A tool that kills its shim, again and again, while other tools do their work.
fn adopt_orphans(token: Token) {
    // An older child: that of a program which this one has replaced.
    let mut earlier = Process::new("sleep").arg("1000").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    andon_shim::init();
    andon_tools::process::adopt_orphans();
    block_on(async {
        let (tree, other) = (Tree::new(), Token::new());
        let bystander = sh(GROUP, other).start(&tree).await.unwrap();
        let known = other.at_least(8).await;
        let work = async {
            for _ in 0..60 {
                let finished = Command::new("true").run(&Tree::new(), &never(), |_| {}).await.unwrap();
                assert_eq!(finished.status, Some(Status::Code(0)), "somebody else's tool");
            }
        };
        tokio::join!(work, kill_shims(token));
        assert!(earlier.try_wait().unwrap().is_none() && bystander.status().is_none());
        assert!(known.iter().all(|one| proc::lives(one.pid, one.start)), "a tool that had done nothing");
        assert!(tree.end().await.is_none());
    });
    earlier.kill().unwrap();
    earlier.wait().unwrap();
    let own = std::process::id() as i32;
    println!("children left: {:?}", proc::all().into_iter().filter(|one| one.parent == own).collect::<Vec<_>>());
}

async fn kill_shims(token: Token) {
    // At once, and when the daemon is up and has left no trace.
    for pause in ["", "sleep 0.02;", "sleep 0.1;"] {
        for _ in 0..4 {
            let command = format!(
                "(env -i setsid sh -c 'sleep {token} & exec sleep {token}' &); {pause} kill -9 $PPID; sleep {token}"
            );
            let agent = crate::agents::agent(Shell::new(), &command);
            let outcome = agent.run("go").await.unwrap();
            token.assert_none_lives(&[]);
            assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
            println!("{:?}", outcome.receipt.calls[0].notes);
        }
    }
}
