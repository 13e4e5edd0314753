//! What was open in an old file goes on or is settled, and its sessions take the next prompt.

use std::path::Path;

use andon_runtime::core::cancel::Reason;
use andon_runtime::{CallId, Cancel, Ending, Fate, FeedItem, ModelStop, Run, RunId, RunState};
use andon_testkit::model::Act;
use andon_testkit::tools::Deed;
use andon_testkit::{check, wire};
use rusqlite::Connection;

use crate::{Life, all, key, lines};

const SESSIONS: [(&str, &str); 5] =
    [("ada", "monday"), ("ada", "tuesday"), ("bob", "friday"), ("bob", "monday"), ("bob", "tuesday")];

const RUNS: [&str; 10] = [
    "called",
    "answered",
    "stopped",
    "failed-tool",
    "waiting",
    "queued",
    "answering",
    "calling",
    "asked-to-stop",
    "next",
];

/// Checks P1, P2, P3 and P10: a process was killed with runs open, and another opens its file, whatever its format.
#[tokio::test]
async fn everything_in_a_file_of_every_format_goes_on() {
    for old in all() {
        let before = go_on(&old.path(), &old.name).await;
        assert_sound(&old.path());
        let life = Life::open(&old.path(), []);
        assert_eq!(life.runtime.recover().await.unwrap(), [], "{}: everything has settled", old.name);
        assert_eq!(histories(&life).await, before, "{}: the same when it is opened once more", old.name);
    }
}

/// Recovers, approves, and stops a run. Returns all histories.
async fn go_on(path: &Path, name: &str) -> Vec<Vec<String>> {
    let plain = |text| vec![Act::text(text), Act::usage(1, 1), Act::end()];
    let unfinished = vec![Act::text("So far"), Act::Silence];
    let life = Life::open(path, [plain("Deleted."), plain("Nothing."), unfinished]);
    recover(&life, name).await;
    approve(&life, name).await;
    stop(&life, name).await;
    for run in RUNS {
        let broken = check::check_stored(&life.stored(run).await);
        assert!(broken.is_empty(), "{name}: {run}: {broken:#?}");
    }
    for (user, session) in SESSIONS {
        let broken = wire::check_history(&life.history(user, session).await);
        assert!(broken.is_empty(), "{name}: {user}/{session}: {broken:#?}");
    }
    let histories = histories(&life).await;
    life.runtime.idle().await;
    histories
}

async fn recover(life: &Life, name: &str) {
    let recovered = life.runtime.recover().await.unwrap();
    let mut fates: Vec<(String, Fate)> = recovered.into_iter().map(|one| (one.run.to_string(), one.fate)).collect();
    fates.sort_by(|(one, _), (other, _)| one.cmp(other));
    let settled = |run: &str, session, ending: Ending| {
        (run.to_owned(), Fate::Settled { session: key("bob", session), ending: ending.into() })
    };
    let lives_on = |run: &str, state| (run.to_owned(), Fate::LivesOn { session: key("ada", "tuesday"), state });
    let expected = [
        settled("answering", "monday", Ending::Lost),
        settled("asked-to-stop", "friday", Ending::Cancelled { reason: Reason::Requested }),
        settled("calling", "tuesday", Ending::Lost),
        lives_on("queued", RunState::Queued),
        lives_on("waiting", RunState::Waiting),
    ];
    assert_eq!(fates, expected, "{name}");
    assert_eq!(lines(&life.history("bob", "monday").await), ["User: Count.", "Assistant: One, two,  [Lost]"], "{name}");
    let expected = ["User: Go on.", "Assistant: Stop me if you can. [Lost]"];
    assert_eq!(lines(&life.history("bob", "friday").await), expected, "{name}");
    let expected = ["User: Work.", "Assistant: Working on it.", "Tool: Unknown"];
    assert_eq!(lines(&life.history("bob", "tuesday").await), expected, "{name}");
}

async fn approve(life: &Life, name: &str) {
    let [waiting, queued] = [find(life, "waiting").await, find(life, "queued").await];
    waiting.decide(&CallId::new("danger-1").unwrap()).approve().by("ada").send().unwrap();
    for run in [waiting, queued] {
        assert_eq!(*run.outcome().await.ending, Ending::Completed { stop: ModelStop::EndTurn }, "{name}");
    }
    let expected = [
        "User: Delete it.",
        "Assistant: I have to ask.",
        "Tool: Ok",
        "Assistant: Deleted.",
        "User: And then?",
        "Assistant: Nothing.",
    ];
    assert_eq!(lines(&life.history("ada", "tuesday").await), expected, "{name}");
    let calls = life.tools.deeds().into_iter().filter_map(|deed| match deed {
        Deed::Started { call, .. } => Some(call.to_string()),
        _ => None,
    });
    assert_eq!(calls.collect::<Vec<_>>(), ["danger-1"], "{name}: no other tool runs, and none again");
}

async fn stop(life: &Life, name: &str) {
    let monday = life.agent.session("ada", "monday").unwrap();
    let run = monday.prompt("Once more.").run_id(RunId::new("next").unwrap()).start().unwrap();
    let mut feed = run.feed();
    while !matches!(feed.next().await.unwrap(), FeedItem::Delta(_)) {}
    run.cancel(Cancel::graceful());
    let outcome = run.outcome().await;
    assert_eq!(*outcome.ending, Ending::Cancelled { reason: Reason::Requested }, "{name}");
    let history = lines(&life.history("ada", "monday").await);
    let expected = ["User: Once more.", "Assistant: So far [Cancelled(Requested)]"];
    assert_eq!(history[history.len() - 2..], expected, "{name}");
}

async fn find(life: &Life, run: &str) -> Run {
    life.runtime.find(&RunId::new(run).unwrap()).await.unwrap().unwrap()
}

async fn histories(life: &Life) -> Vec<Vec<String>> {
    let mut histories = Vec::new();
    for (user, session) in SESSIONS {
        histories.push(lines(&life.history(user, session).await));
    }
    histories
}

/// What SQLite itself says of a file.
fn assert_sound(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let told: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(told, "ok", "{}", path.display());
}
