//! Ends every shape of tree that tools have been seen to leave behind.
//!
//! If one of these fails, a stopped agent keeps working, unseen.

use andon_tools::process::Limits;

use crate::world::*;

tests![
    a_group_that_ignores_term_is_ended,
    a_double_fork_is_ended,
    a_stopped_process_in_its_own_session_is_ended,
    a_daemon_with_a_cleared_environment_is_ended,
    a_daemon_whose_root_has_exited_ends_with_its_call,
    a_background_process_ends_with_its_call,
    a_chain_that_forks_and_exits_forever_is_caught,
    a_replicating_bomb_is_frozen_and_ended,
    two_hundred_processes_are_ended_soon,
    an_ended_tree_leaves_no_cgroup,
    every_shape_is_ended_without_a_cgroup_too,
];

pub(crate) const GROUP: &str =
    r#"trap "" TERM; for i in 1 2 3; do sh -c 'trap "" TERM; sleep "$0" & wait' "$0" & done; sleep "$0" & wait"#;
const DOUBLE_FORK: &str =
    r#"(sh -c 'trap "" TERM; sleep "$0" & wait' "$0" &); (sleep "$0" & sleep "$0" &); sleep "$0" & wait"#;
const STOPPED: &str = r#"setsid sh -c 'sleep "$0" & kill -STOP $$; wait' "$0" &
    setsid sh -c 'sleep "$0" & kill -STOP $!; wait' "$0" & wait"#;
pub(crate) const DAEMON: &str = r#"(setsid env -i /bin/sh -c 'trap "" TERM HUP; sleep "$0" & wait' "$0" </dev/null >/dev/null 2>&1 &)
    sleep "$0" & wait"#;

/// Starts a tree of this many processes, kills it, and checks that nothing is left.
fn ended_by_force(command: Command, token: Token, count: usize) {
    block_on(async {
        let tree = Tree::new();
        let running = command.start(&tree).await.unwrap();
        let known = token.at_least(count).await;
        let remains = tree.end().await;
        token.assert_none_lives(&known);
        assert!(remains.is_none(), "{remains:?}");
        assert_eq!(running.exited().await, Some(Status::Signal(9)));
    });
}

/// The same with a stop whose grace is over before they have ended by themselves.
fn ended_after_grace(command: &Command, token: Token, count: usize) {
    block_on(async {
        let (tree, button) = (Tree::new(), Button::new(Duration::from_millis(100)));
        let press = async {
            let known = token.at_least(count).await;
            button.press();
            known
        };
        let (finished, known): (_, Vec<Process>) = tokio::join!(command.run(&tree, &button, |_| {}), press);
        assert!(finished.unwrap().stopped);
        // The proof came before the call returned, and not only after its cleanup.
        token.assert_none_lives(&known);
        assert!(tree.end().await.is_none());
    });
}

fn ended(script: &str, count: usize) {
    let token = Token::new();
    ended_by_force(sh(script, token), token, count);
    let token = Token::new();
    ended_after_grace(&sh(script, token), token, count);
}

fn a_group_that_ignores_term_is_ended() {
    ended(GROUP, 8);
}

fn a_double_fork_is_ended() {
    ended(DOUBLE_FORK, 6);
}

fn a_stopped_process_in_its_own_session_is_ended() {
    ended(STOPPED, 5);
}

fn a_daemon_with_a_cleared_environment_is_ended() {
    ended(DAEMON, 4);
}

fn a_daemon_whose_root_has_exited_ends_with_its_call() {
    let token = Token::new();
    let script = r#"(setsid env -i /bin/sh -c 'trap "" TERM HUP; echo up > /proc/self/fd/3; sleep "$0" & wait' "$0" 3>&1 </dev/null &)
        read up < /dev/null; sleep 0.2; exit 3"#;
    let (finished, remains) = block_on(run(sh(script, token)));
    assert_eq!(finished.status, Some(Status::Code(3)));
    assert_eq!(finished.stdout.into_text(), "up\n", "the daemon had been up");
    assert!(remains.is_none(), "{remains:?}");
    token.assert_none_lives(&[]);
}

fn a_background_process_ends_with_its_call() {
    let token = Token::new();
    let (finished, remains) = block_on(run(sh(r#"sleep "$0" & setsid sleep "$0" & echo done"#, token)));
    assert_eq!((finished.status, finished.stopped), (Some(Status::Code(0)), false));
    assert!(remains.is_none());
    token.assert_none_lives(&[]);
}

/// A script in a file, which it can execute again.
fn script(text: &str) -> (tempfile::TempDir, String) {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("script.sh");
    std::fs::write(&path, text).unwrap();
    (folder, path.to_str().unwrap().to_owned())
}

fn a_chain_that_forks_and_exits_forever_is_caught() {
    // Each link starts the next one and exits; there is one at a time, and after 20,000 it ends by itself.
    let chain = r#"[ "$2" -gt 20000 ] || setsid sh "$0" "$1" $(($2 + 1)) >/dev/null 2>&1 & exit 0"#;
    let (_folder, path) = script(chain);
    for _ in 0..5 {
        let token = Token::new();
        let command = sh(&format!(r#"sh {path} "$0" 0; sleep "$0" & wait"#), token);
        ended_by_force(command, token, 3);
    }
}

fn a_replicating_bomb_is_frozen_and_ended() {
    // Five levels that replace what ends below them: at most about 125 processes, all of them forking. It runs as a user
    // without privileges under a limit on processes, so that it stays small even if this test is wrong.
    let bomb = r#"[ "$2" -lt 5 ] || exec sleep 0.05
        for side in left right; do (while :; do sh "$0" "$1" $(($2 + 1)); done) & done; wait"#;
    let (_folder, path) = script(bomb);
    for _ in 0..3 {
        let token = Token::new();
        let token_text = token.to_string();
        let words = [unprivileged(), vec!["sh", &path, &token_text, "0"]].concat();
        let limits = Limits { processes: Some(200), cpu: Some(Duration::from_secs(20)), ..Limits::default() };
        ended_by_force(Command::new(words[0]).args(&words[1..]).limits(limits), token, 60);
    }
}

fn two_hundred_processes_are_ended_soon() {
    let token = Token::new();
    let script = r#"i=0; while [ $i -lt 200 ]; do sleep "$0" & i=$((i + 1)); done; wait"#;
    block_on(async {
        let tree = Tree::new();
        let _running = sh(script, token).start(&tree).await.unwrap();
        let known = token.at_least(201).await;
        let begun = crate::world::now();
        let remains = tree.end().await;
        let took = begun.elapsed();
        token.assert_none_lives(&known);
        assert!(remains.is_none());
        // The benchmark has the figure; this only notices if it gets much worse.
        assert!(took < crate::world::LONG, "it took {took:?}");
    });
}

fn an_ended_tree_leaves_no_cgroup() {
    with_tree(async |token, tree| {
        let _running = sh(GROUP, token).start(&tree).await.unwrap();
        let known = token.at_least(8).await;
        until_grouped(&known).await;
        let shim = crate::world::shims()[0].pid;
        tree.end().await;
        token.assert_none_lives(&known);
        assert!(!find_cgroup(&format!("andon-{shim}")), "the cgroup is left");
    });
}

/// Root can create cgroups, which would hide what the shim cannot do by itself. So all of these run again without privileges.
fn every_shape_is_ended_without_a_cgroup_too() {
    let words = unprivileged();
    if words.is_empty() {
        return println!("it has no privileges already");
    }
    // In a folder that everybody can read.
    let (folder, _) = script("");
    let copy = folder.path().join("processes");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut command = std::process::Command::new(words[0]);
    command.args(&words[1..]).arg(&copy).args(["ends::", "stopping::", "deaths::a_host"]).env("PATH", "/usr/bin:/bin");
    let output = command.current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no cgroup can be made here"), "it had cgroups all the same: {said}");
}

fn find_cgroup(name: &str) -> bool {
    let mut folders = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name() == name {
                return true;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    false
}
