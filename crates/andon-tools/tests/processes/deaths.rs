//! The host is killed, the shim is killed, there is no shim.
//!
//! If one of these fails, processes are left that nobody owns, or the report on them is wrong.

use std::ffi::OsStr;

use andon_shim::proc;
use rustix::process::{Pid, Signal, kill_process};

use crate::ends::{DAEMON, GROUP};
use crate::roles;
use crate::world::*;

tests![
    a_host_that_is_killed_takes_its_trees_with_it,
    a_host_that_is_killed_right_after_the_start_takes_its_trees_with_it,
    a_host_that_is_killed_while_its_shim_is_stopped_takes_its_tree_with_it,
    a_shim_that_is_told_to_end_ends_its_tree,
    a_shim_that_is_killed_takes_its_tool_with_it_and_the_rest_is_found,
    a_daemon_that_outlives_its_shim_is_found_by_its_cgroup,
    what_outlives_its_shim_is_adopted_by_a_program_that_asked_for_it,
    a_shim_that_was_stopped_is_woken,
    a_shim_that_never_answers_is_ended_with_its_tree,
    a_process_that_cannot_be_killed_is_named,
    without_a_shim_a_stop_is_best_effort_and_reported_as_such,
    without_a_shim_a_daemon_escapes_and_the_note_warns_about_it,
];

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn a_host_that_is_killed_takes_its_trees_with_it() {
    for (role, count) in [("runs a group", 8), ("runs a daemon", 4)] {
        let token = Token::new();
        let mut host = roles::host(role, token).spawn().unwrap();
        block_on(async {
            let known = token.at_least(count + 1).await;
            signal(host.id() as i32, Signal::KILL);
            host.wait().unwrap();
            // A process that is being replaced has no environment to find it by for a moment.
            let live_on = || known.iter().any(|one| proc::lives(one.pid, one.start)) || !token.processes().is_empty();
            until(|| (!live_on()).then_some(())).await;
            token.assert_none_lives(&known);
            until(|| shims_of(host.id()).is_empty().then_some(())).await;
        });
    }
}

fn a_host_that_is_killed_right_after_the_start_takes_its_trees_with_it() {
    for delay in 0..30 {
        let token = Token::new();
        let mut host = roles::host("runs a group", token).spawn().unwrap();
        block_on(async {
            // Not a wait for a state: each time the kill hits another point of the start.
            tokio::time::sleep(Duration::from_micros(delay * 300)).await;
            signal(host.id() as i32, Signal::KILL);
            host.wait().unwrap();
            until(|| (shims_of(host.id()).is_empty() && token.processes().is_empty()).then_some(())).await;
        });
    }
}

fn a_host_that_is_killed_while_its_shim_is_stopped_takes_its_tree_with_it() {
    let token = Token::new();
    let mut host = roles::host("runs a daemon", token).spawn().unwrap();
    block_on(async {
        let known = token.at_least(5).await;
        let shim = shims_of(host.id())[0].clone();
        // The tool itself could do this.
        signal(shim.pid, Signal::STOP);
        until(|| proc::look(shim.pid).filter(|shim| shim.state == 'T')).await;
        signal(host.id() as i32, Signal::KILL);
        host.wait().unwrap();
        until(|| (shims_of(host.id()).is_empty() && token.processes().is_empty()).then_some(())).await;
        token.assert_none_lives(&known);
    });
}

fn a_shim_that_is_told_to_end_ends_its_tree() {
    with_tree(async |token, tree| {
        let running = sh(GROUP, token).start(&tree).await.unwrap();
        let known = token.at_least(8).await;
        signal(shims()[0].pid, Signal::TERM);
        running.over().await;
        token.assert_none_lives(&known);
        assert!(tree.end().await.is_none());
    });
}

fn a_shim_that_is_killed_takes_its_tool_with_it_and_the_rest_is_found() {
    with_tree(async |token, tree| {
        let command = sh(&format!("echo before; {GROUP}"), token);
        let kill = async {
            let known = token.at_least(8).await;
            signal(shims()[0].pid, Signal::KILL);
            known
        };
        let button = never();
        let (finished, known) = tokio::join!(command.run(&tree, &button, |_| {}), kill);
        let finished = finished.unwrap();
        assert_eq!((finished.status, finished.stdout.into_text().as_str()), (None, "before\n"));
        let remains = tree.end().await;
        token.assert_none_lives(&known);
        assert_eq!(remains.leaked, Vec::<String>::new());
        assert!(
            remains.notes[0]
                .starts_with("the shim of `sh` was killed: its processes were stopped on a best-effort basis")
        );
        assert_eq!(shims(), []);
    });
}

fn a_daemon_that_outlives_its_shim_is_found_by_its_cgroup() {
    with_tree(async |token, tree| {
        let _running = sh(DAEMON, token).start(&tree).await.unwrap();
        let known = token.at_least(4).await;
        let is_grouped = until_grouped(&known).await;
        // The shim's message about it is on its way, and is read before the end.
        signal(shims()[0].pid, Signal::KILL);
        let remains = tree.end().await;
        assert!(remains.notes[0].contains("may still be running"), "{remains:?}");
        if is_grouped {
            token.assert_none_lives(&known);
        } else {
            known.iter().filter(|one| proc::lives(one.pid, one.start)).for_each(|one| signal(one.pid, Signal::KILL));
        }
    });
}

fn what_outlives_its_shim_is_adopted_by_a_program_that_asked_for_it() {
    // As root, where a cgroup may help, and as a user without one.
    for words in [Vec::new(), unprivileged()] {
        let token = Token::new();
        let folder = open_folder();
        let copy = folder.path().join("host");
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let played = roles::host("adopts orphans", token);
        let mut host = std::process::Command::new(words.first().map_or(copy.as_os_str(), OsStr::new));
        host.args(words.iter().skip(1)).args(words.first().map(|_| &copy)).args(played.get_args()).current_dir("/");
        let output = host.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        token.assert_none_lives(&[]);
        assert!(said.contains("this program adopted the remaining processes and ended them"), "{said}");
        assert!(said.contains("children left: []"), "{said}");
    }
}

/// A folder that everybody may enter.
fn open_folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn a_shim_that_was_stopped_is_woken() {
    with_tree(async |token, tree| {
        let _running = sh(GROUP, token).start(&tree).await.unwrap();
        let known = token.at_least(8).await;
        signal(shims()[0].pid, Signal::STOP);
        assert!(tree.end().await.is_none());
        token.assert_none_lives(&known);
    });
}

fn a_shim_that_never_answers_is_ended_with_its_tree() {
    with_tree(async |token, tree| {
        let running = sh(DAEMON, token).start(&tree).await.unwrap();
        let known = token.at_least(4).await;
        let shim = shims()[0].clone();
        // It is stopped again and again.
        let keep_stopped = async {
            loop {
                // It may already be gone.
                let _ = shim.signal(Signal::STOP);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let remains = tokio::select! {
            remains = tree.end() => remains,
            () = keep_stopped => unreachable!(),
        };
        token.assert_none_lives(&known);
        assert_eq!(shims(), []);
        if !remains.is_none() {
            assert!(remains.notes[0].contains("best-effort"), "{remains:?}");
            assert_eq!(remains.leaked, Vec::<String>::new());
        }
        assert!(matches!(running.exited().await, None | Some(Status::Signal(9))));
    });
}

fn a_process_that_cannot_be_killed_is_named() {
    let words = unprivileged();
    if words.is_empty() {
        return println!("not tried: a process that cannot be killed, which only root can make");
    }
    use std::os::unix::fs::PermissionsExt;
    let token = Token::new();
    let folder = open_folder();
    let (copy, to_root) = (folder.path().join("host"), folder.path().join("to-root"));
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    std::fs::copy("/usr/bin/setpriv", &to_root).unwrap();
    std::fs::set_permissions(&to_root, std::fs::Permissions::from_mode(0o4755)).unwrap();
    // A host without privileges, and a tool that becomes root.
    let played = roles::host("gives up", token);
    let mut host = std::process::Command::new(words[0]);
    host.args(&words[1..]).arg(&copy).args(played.get_args()).env("TO_ROOT", &to_root).current_dir("/");
    let output = host.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let alive = token.processes();
    alive.iter().for_each(|one| signal(one.pid, Signal::KILL));
    assert_eq!(alive.len(), 1, "the one that became root, and nobody else: {alive:?} {said}");
    assert!(said.contains(&format!("leaked: [\"process {} (sleep) of `sh`\"]", alive[0].pid)), "{said}");
    assert!(said.contains("some processes of `sh` could not be killed within 5 s"), "{said}");
}

fn without_a_shim_a_stop_is_best_effort_and_reported_as_such() {
    let token = Token::new();
    let host = roles::host("bare group", token).output().unwrap();
    let said = String::from_utf8_lossy(&host.stdout).into_owned();
    assert!(said.contains("leaked: []"), "{said}");
    assert!(said.contains(
        "`sh` ran without a shim and was stopped on a best-effort basis, by its process group and its environment"
    ));
    assert!(said.contains("call andon_runtime::init() first in main"));
    token.assert_none_lives(&[]);
}

fn without_a_shim_a_daemon_escapes_and_the_note_warns_about_it() {
    let token = Token::new();
    let host = roles::host("bare daemon", token).output().unwrap();
    let said = String::from_utf8_lossy(&host.stdout).into_owned();
    let escaped = token.processes();
    escaped.iter().for_each(|one| signal(one.pid, Signal::KILL));
    assert!(said.contains("a process that left it may still be running"), "{said}");
    // If this ever fails, best effort has become better than its note says.
    assert_eq!(escaped.len(), 2, "{escaped:?}");
}
