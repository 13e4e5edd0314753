//! What is deleted is gone, and nothing else is.

use andon_runtime::core::event::AddendumKind;
use andon_runtime::core::time::Wall;
use andon_runtime::core::usage::Used;
use andon_runtime::{JournalError, RequestFate, RunFilter, SessionFilter, StateMap};
use serde_json::json;

use super::state::{set, state};
use super::story::{Story, key, parts, request, session, stamp};
use super::subject::Subject;

fn learned() -> AddendumKind {
    AddendumKind::UsageCorrected { call: 1, used: Box::new(Used::UNKNOWN) }
}

/// A session with a settled run, a request, an addendum and some state.
async fn settled_run(subject: &Subject) -> Story {
    let mut story = Story::new("r");
    let entries = story.whole("Secret.");
    let (end, before) = entries.split_last().unwrap();
    story.write(subject, before).await;
    subject.journal().request_cancel(story.run(), request("please")).await.unwrap();
    story.write(subject, [end.clone()]).await;
    subject.journal().append_addendum(story.run(), stamp(1), learned()).await.unwrap();
    set(subject, story.key(), json!({"own": 1, "user:mine": 2, "app:ours": 3})).await;
    story
}

pub(super) async fn a_session_is_not_deleted_while_a_run_of_it_has_not_settled(subject: Subject) {
    let told = settled_run(&subject).await;
    let mut open = Story::new("open");
    open.tell(&subject, |run| [run.accepted()]).await;
    let before = subject.journal().sessions().copy_whole(told.key()).await.unwrap().unwrap();
    let refused = subject.journal().sessions().delete(told.key()).await;
    let in_the_way = JournalError::SessionBusy { session: Box::new(told.key().clone()), run: open.run().clone() };
    assert_eq!(refused, Err(in_the_way), "it says which run is in the way");
    let after = subject.journal().sessions().copy_whole(told.key()).await.unwrap().unwrap();
    assert_eq!(before.state, after.state);
    assert_eq!(before.runs.len(), after.runs.len());
    for ((_, before), (_, after)) in before.runs.into_iter().zip(after.runs) {
        assert_eq!(parts(before), parts(after));
    }
    open.tell(&subject, |run| [run.started(), run.settled()]).await;
    assert_eq!(subject.journal().sessions().delete(told.key()).await, Ok(true));
}

async fn assert_gone(subject: &Subject, story: &Story) {
    let (journal, key) = (subject.journal(), story.key());
    assert!(!subject.knows(story).await, "the run is there");
    assert_eq!(journal.history(key).await, Ok(vec![]), "its history is there");
    assert_eq!(state(subject, key).await, None, "its state is there");
    assert!(journal.sessions().copy_whole(key).await.unwrap().is_none(), "it can be copied");
    let sessions = journal.sessions().list(SessionFilter::default()).await.unwrap();
    assert!(sessions.iter().all(|info| info.key != *key), "it is listed");
    let runs = journal.sessions().runs(RunFilter::default()).await.unwrap();
    assert!(runs.iter().all(|info| info.run != *story.run()), "its run is listed");
    assert_eq!(journal.unsettled().await, Ok(vec![]));
}

pub(super) async fn nothing_remains_of_a_deleted_session(subject: Subject) {
    let story = settled_run(&subject).await;
    assert_eq!(subject.journal().sessions().delete(story.key()).await, Ok(true));
    assert_gone(&subject, &story).await;
    assert_eq!(subject.journal().sessions().delete(story.key()).await, Ok(false), "it is gone");
    let subject = subject.opened_again();
    assert_gone(&subject, &story).await;
}

pub(super) async fn deleting_leaves_what_is_shared_and_other_sessions(subject: Subject) {
    let story = settled_run(&subject).await;
    // Neighbours: another session of the user, and sessions of the same id of another user and another app.
    let neighbours = [session("t"), key("local", "shop", "bob", "s"), key("local", "zoo", "ada", "s")];
    let mut runs = Vec::new();
    for (number, neighbour) in neighbours.iter().enumerate() {
        let run = Story::within(&format!("n{number}"), neighbour).whole_in(&subject, "Stays.").await;
        set(&subject, neighbour, json!({"own": number})).await;
        runs.push((parts(subject.stored(&run).await), run));
    }
    assert_eq!(subject.journal().sessions().delete(story.key()).await, Ok(true));
    let shared =
        [json!({"own": 0, "user:mine": 2, "app:ours": 3}), json!({"own": 1, "app:ours": 3}), json!({"own": 2})];
    for ((before, run), expected) in runs.into_iter().zip(shared) {
        assert_eq!(parts(subject.stored(&run).await), before);
        assert_eq!(state(&subject, run.key()).await, Some(expected));
        assert_eq!(subject.journal().history(run.key()).await.unwrap().len(), 2);
    }
    subject.journal().sessions().create(story.key(), Wall(1), StateMap::new()).await.unwrap();
    let kept = json!({"user:mine": 2, "app:ours": 3});
    assert_eq!(state(&subject, story.key()).await, Some(kept), "what is shared outlives its sessions");
}

pub(super) async fn nothing_brings_a_deleted_run_back(subject: Subject) {
    let mut story = settled_run(&subject).await;
    assert_eq!(subject.journal().sessions().delete(story.key()).await, Ok(true));
    let added = subject.journal().append_addendum(story.run(), stamp(2), learned()).await;
    assert!(added.is_err(), "an addendum to a deleted run was taken");
    let asked = subject.journal().request_cancel(story.run(), request("late")).await;
    assert_eq!(asked, Ok(RequestFate::Unknown));
    assert_eq!(subject.journal().claim(story.run(), story.epoch).await, Ok(None));
    story.cannot_go_on(&subject, "an event of a deleted run").await;
    assert_gone(&subject, &story).await;
}

pub(super) async fn a_deleted_session_can_be_begun_anew(subject: Subject) {
    let old = settled_run(&subject).await;
    let mut neighbour = Story::within("n", &session("t"));
    neighbour.tell(&subject, Story::begun).await;
    assert_eq!(subject.journal().sessions().delete(old.key()).await, Ok(true));
    // The same names again, while a run of another session goes on.
    let mut new = Story::new("r").asking("Anew?");
    let entries = new.whole("Anew.");
    new.write(&subject, entries.clone()).await;
    neighbour.go_on(&subject).await;
    assert_eq!(parts(subject.stored(&new).await), (1, entries, vec![], vec![], None));
    assert_eq!(subject.texts(new.key()).await, ["Anew?", "Anew."]);
    assert_eq!(subject.stored(&neighbour).await.facts().count(), 3);
}
