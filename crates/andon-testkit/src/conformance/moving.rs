//! A session on its way from one store to another.

use std::sync::Arc;

use andon_runtime::core::event::AddendumKind;
use andon_runtime::core::time::Wall;
use andon_runtime::core::usage::Used;
use andon_runtime::{
    Journal, JournalError, MemoryJournal, RunFilter, RunId, SessionCopy, SessionFilter, SessionKey, StateMap,
};
use serde_json::json;

use super::state::{map, set, state};
use super::story::{Parts, Story, parts, request, session, stamp};
use super::subject::Subject;

/// A session with runs in several states, in a journal of its own.
async fn elsewhere() -> SessionCopy {
    let away = Subject::in_memory(Arc::new(MemoryJournal::new()));
    let s = session("s");
    away.journal().sessions().create(&s, Wall(77), map(json!({"own": [1, null]}))).await.unwrap();
    set(&away, &s, json!({"user:mine": "theirs", "app:ours": {"a": "theirs"}})).await;
    let (mut waits, mut said) = (Story::new("waits"), Story::new("said"));
    waits.tell(&away, |run| [run.accepted()]).await;
    away.journal().request_cancel(waits.run(), request("stop")).await.unwrap();
    said.write_whole(&away, "Gut — 好").await;
    let learned = AddendumKind::UsageCorrected { call: 1, used: Box::new(Used::UNKNOWN) };
    away.journal().append_addendum(said.run(), stamp(3), learned).await.unwrap();
    away.journal().keep_settled(said.run(), stamp(said.wall + 6));
    let mut runs = Story::new("runs");
    let mut entries = runs.begun();
    entries.extend([runs.model_started(), runs.streamed(&andon_runtime::Kind::Text, "so f"), runs.quieted()]);
    runs.write(&away, entries).await;
    runs.epoch = away.journal().claim(runs.run(), runs.epoch).await.unwrap().unwrap();
    runs.tell(&away, |run| [run.quieted()]).await;
    away.journal().sessions().copy_whole(&s).await.unwrap().unwrap()
}

type Same = (SessionKey, Wall, StateMap, Vec<(RunId, Parts)>);

fn same(moved: SessionCopy) -> Same {
    let runs = moved.runs.into_iter().map(|(run, stored)| (run, parts(stored)));
    (moved.session, moved.created_at, moved.state, runs.collect())
}

/// Everything that can be seen of a journal.
async fn everything(journal: &Arc<dyn Journal>) -> (Vec<Same>, Vec<String>) {
    let mut sessions = Vec::new();
    let listed = journal.sessions().list(SessionFilter::default()).await.unwrap();
    for info in &listed {
        sessions.push(same(journal.sessions().copy_whole(&info.key).await.unwrap().unwrap()));
    }
    let runs = journal.sessions().runs(RunFilter::default()).await.unwrap();
    let lists = listed.iter().map(|info| format!("{info:?}")).chain(runs.iter().map(|info| format!("{info:?}")));
    (sessions, lists.collect())
}

async fn put(subject: &Subject, moved: SessionCopy) -> Result<(), JournalError> {
    subject.journal().sessions().put(moved).await
}

pub(super) async fn a_session_that_was_moved_is_the_same_session(subject: Subject) {
    let moved = elsewhere().await;
    let ids: Vec<_> = moved.runs.iter().map(|(run, _)| run.as_str()).collect();
    assert_eq!(ids, ["said", "runs", "waits"], "those that started, in that order, then the others");
    put(&subject, moved.clone()).await.unwrap();
    let subject = subject.opened_again();
    let copy = subject.journal().sessions().copy_whole(&moved.session).await.unwrap().unwrap();
    assert_eq!(same(copy), same(moved.clone()));
    for (run, stored) in &moved.runs {
        let read = subject.journal().read(run).await.unwrap().unwrap();
        assert_eq!(parts(read), parts(stored.clone()));
    }
    let kept = |(_, stored): &(RunId, andon_runtime::JournaledRun)| stored.settled_at.is_some();
    assert_eq!(moved.runs.iter().map(kept).collect::<Vec<_>>(), [true, false, false], "when it settled moves with it");
    assert_eq!(subject.texts(&moved.session).await, ["What about said?", "Gut — 好"]);
    let unsettled = subject.journal().unsettled().await.unwrap();
    assert_eq!(unsettled.len(), 2, "{unsettled:?}");
}

pub(super) async fn a_session_that_is_here_is_not_replaced(subject: Subject) {
    set(&subject, &session("s"), json!({"here": 1})).await;
    let refused = is_not_taken(&subject, elsewhere().await, "a session that is here").await;
    assert!(matches!(refused, JournalError::SessionExists(_)), "{refused:?}");
    assert_eq!(subject.journal().unsettled().await, Ok(vec![]));
}

pub(super) async fn a_run_that_is_here_keeps_the_session_out(subject: Subject) {
    // This run is moved last: what came before it must not stay.
    let here = Story::within("waits", &session("other")).whole_in(&subject, "I am here.").await;
    let refused = is_not_taken(&subject, elsewhere().await, "a session with a run that is here").await;
    assert_eq!(refused, JournalError::RunExists(here.run().clone()));
    assert_eq!(state(&subject, here.key()).await, Some(json!({})), "what is shared has come in all the same");
}

/// Puts a session into a journal that must refuse it and stay as it was.
async fn is_not_taken(subject: &Subject, moved: SessionCopy, what: &str) -> JournalError {
    let before = everything(subject.journal()).await;
    let refused = put(subject, moved).await.expect_err(&format!("{what} was taken"));
    assert!(everything(subject.journal()).await == before, "{what} was refused, and half of it was taken");
    refused
}

pub(super) async fn a_session_with_one_run_twice_is_not_taken_at_all(subject: Subject) {
    let mut moved = elsewhere().await;
    moved.runs.push(moved.runs[0].clone());
    is_not_taken(&subject, moved, "a session with one run twice").await;
}

pub(super) async fn a_session_with_a_run_that_begins_in_the_middle_is_not_taken_at_all(subject: Subject) {
    let mut moved = elsewhere().await;
    moved.runs[1].1.entries.remove(0);
    is_not_taken(&subject, moved, "a session with a run without its first event").await;
}

pub(super) async fn a_session_that_was_not_taken_can_be_begun_here(subject: Subject) {
    let here = Story::within("waits", &session("other")).whole_in(&subject, "I am here.").await;
    let moved = elsewhere().await;
    let refused = put(&subject, moved.clone()).await;
    assert_eq!(refused, Err(JournalError::RunExists(here.run().clone())));
    // Another session comes in between, so that nothing fits by chance.
    set(&subject, &session("between"), json!({"own": "between"})).await;
    // The same session, and a run that came before the one that was refused.
    let mut story = Story::within("said", &moved.session);
    let begun = story.begun();
    story.write(&subject, begun.clone()).await;
    set(&subject, &moved.session, json!({"own": "here"})).await;
    let last = story.settled();
    story.write(&subject, [last.clone()]).await;
    assert_eq!(subject.stored(&story).await.entries, [begun, vec![last]].concat());
    let listed = subject.journal().sessions().list(SessionFilter::default()).await.unwrap();
    let mut listed: Vec<_> = listed.iter().map(|info| (info.key.session.as_str(), info.runs)).collect();
    listed.sort_unstable();
    assert_eq!(listed, [("between", 0), ("other", 1), ("s", 1)], "what was refused is remembered");
    assert_eq!(state(&subject, &moved.session).await, Some(json!({"own": "here"})));
    assert_eq!(subject.texts(&moved.session).await, ["What about said?"]);
}

pub(super) async fn what_is_shared_is_taken_only_where_there_is_nothing(subject: Subject) {
    let neighbour = session("neighbour");
    set(&subject, &neighbour, json!({"user:mine": "ours", "own": "ours"})).await;
    put(&subject, elsewhere().await).await.unwrap();
    let shared = json!({"own": "ours", "user:mine": "ours", "app:ours": {"a": "theirs"}});
    assert_eq!(state(&subject, &neighbour).await, Some(shared));
    let own = json!({"own": [1, null], "user:mine": "ours", "app:ours": {"a": "theirs"}});
    assert_eq!(state(&subject, &session("s")).await, Some(own));
}

pub(super) async fn a_run_that_was_moved_goes_on(subject: Subject) {
    put(&subject, elsewhere().await).await.unwrap();
    let mut story = Story::new("runs");
    story.seq = 5;
    story.cannot_go_on(&subject, "a batch of an epoch that was over before the move").await;
    story.seq = 5;
    story.epoch = 2;
    story.go_on(&subject).await;
    story.epoch = subject.journal().claim(story.run(), story.epoch).await.unwrap().unwrap();
    assert_eq!(story.epoch, 3);
    story.go_on(&subject).await;
}
