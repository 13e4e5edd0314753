//! Values that are kept with a session, and state that a run brings.

use std::sync::Arc;

use andon_runtime::core::event::{Accepted, Entry, Event};
use andon_runtime::core::time::Wall;
use andon_runtime::{Attachment, Message, SessionKey, StateChange};
use serde_json::{Value, json};

use super::state::{map, set, state};
use super::story::{Story, session};
use super::subject::Subject;

fn thing(kind: &str, name: &str, value: Value) -> Attachment {
    Attachment::new(kind.to_owned(), name.to_owned(), Wall(7), value)
}

async fn keep(subject: &Subject, session: &SessionKey, things: Vec<Attachment>, change: Value) -> bool {
    let change: StateChange = map(change).into_iter().map(|(key, value)| (key, Some(value))).collect();
    subject.journal().sessions().attach(session, Wall(8), things, change).await.unwrap()
}

async fn kept(subject: &Subject, session: &SessionKey, kind: &str) -> Vec<Attachment> {
    subject.journal().sessions().attachments(session, kind).await.unwrap()
}

pub(super) async fn what_is_kept_with_a_session_is_its_own(subject: Subject) {
    let (here, there) = (session("here"), session("there"));
    assert!(!keep(&subject, &here, vec![thing("a", "x", json!(1))], json!({"k": 1})).await, "there is no such session");
    assert_eq!((kept(&subject, &here, "a").await, state(&subject, &here).await), (vec![], None));
    set(&subject, &here, json!({})).await;
    set(&subject, &there, json!({})).await;
    let things = vec![thing("a", "y", json!(1)), thing("a", "x", json!(null)), thing("b", "x", json!("b's"))];
    assert!(keep(&subject, &here, things, json!({"k": 1, "user:u": 2})).await);
    assert!(keep(&subject, &here, vec![thing("a", "y", json!([2]))], json!({})).await);
    let subject = subject.opened_again();
    let expected = [thing("a", "x", json!(null)), thing("a", "y", json!([2]))];
    assert_eq!(kept(&subject, &here, "a").await, expected);
    assert_eq!(kept(&subject, &there, "a").await, []);
    assert_eq!(state(&subject, &here).await, Some(json!({"k": 1, "user:u": 2})));
    let discard = |name: &'static str| subject.journal().sessions().discard_attachment(&here, "a", name);
    assert_eq!((discard("x").await, discard("x").await, discard("z").await), (Ok(true), Ok(false), Ok(false)));
    assert_eq!(kept(&subject, &here, "a").await, [thing("a", "y", json!([2]))]);
    assert_eq!(kept(&subject, &here, "b").await, [thing("b", "x", json!("b's"))]);
}

pub(super) async fn what_is_kept_moves_and_goes_with_its_session(subject: Subject) {
    let s = session("s");
    set(&subject, &s, json!({})).await;
    let things = vec![thing("a", "x", json!({"n": 1})), thing("b", "y", json!(2))];
    assert!(keep(&subject, &s, things.clone(), json!({})).await);
    let sessions = subject.journal().sessions();
    let moved = sessions.copy_whole(&s).await.unwrap().unwrap();
    assert_eq!(moved.kept, things);
    let read = sessions.copy_with_attachments(&s, "b").await.unwrap().unwrap();
    assert_eq!(read.kept, [thing("b", "y", json!(2))]);
    assert_eq!((read.state, read.runs.len()), (moved.state.clone(), moved.runs.len()));
    assert_eq!(sessions.delete(&s).await, Ok(true));
    assert_eq!(kept(&subject, &s, "a").await, []);
    set(&subject, &s, json!({})).await;
    assert_eq!(kept(&subject, &s, "a").await, [], "a session that begins anew has nothing");
    assert_eq!(sessions.delete(&s).await, Ok(true));
    sessions.put(moved).await.unwrap();
    assert_eq!(kept(&subject, &s, "b").await, [thing("b", "y", json!(2))]);
}

/// The first event of a run that brings this state for its session.
fn bringing(story: &mut Story, brought: Value) -> Entry {
    let accepted = Accepted::new(story.run().clone(), story.key().clone(), Arc::new(Message::user("Go.")));
    let accepted = accepted.state(Some(Box::new(map(brought))));
    story.fact(Event::RunAccepted { accepted: Arc::new(accepted) })
}

pub(super) async fn what_comes_with_a_run_that_waits_is_in_the_state_when_its_turn_comes(subject: Subject) {
    let s = session("s");
    set(&subject, &s, json!({"a": 1})).await;
    let (mut waits, mut never) = (Story::new("waits"), Story::new("never"));
    waits.tell(&subject, |run| [bringing(run, json!({"a": 2, "b": 2}))]).await;
    never.tell(&subject, |run| [bringing(run, json!({"a": 3}))]).await;
    never.settle(&subject).await;
    assert_eq!(state(&subject, &s).await, Some(json!({"a": 1})), "nothing has started");
    let subject = subject.opened_again();
    waits.tell(&subject, |run| [run.started()]).await;
    assert_eq!(state(&subject, &s).await, Some(json!({"a": 2, "b": 2})));
    set(&subject, &s, json!({"a": 4})).await;
    waits.tell(&subject, |run| [run.quieted(), run.settled()]).await;
    assert_eq!(state(&subject, &s).await, Some(json!({"a": 4, "b": 2})), "it is brought once");
}

pub(super) async fn what_comes_with_a_run_is_in_the_state_when_the_run_starts(subject: Subject) {
    let s = session("s");
    set(&subject, &s, json!({"a": 1, "b": 1})).await;
    let mut story = Story::new("r");
    let entry = bringing(&mut story, json!({"a": 2, "user:c": 3, "temp:d": 4}));
    let started = story.started();
    story.write(&subject, [entry.clone(), started]).await;
    assert_eq!(state(&subject, &s).await, Some(json!({"a": 2, "b": 1, "user:c": 3})));
    // A run that is refused changes nothing.
    set(&subject, &s, json!({"a": 5})).await;
    let again = andon_runtime::Batch::new(story.run().clone(), 1, vec![entry]);
    assert!(subject.journal().append(again).await.is_err());
    assert_eq!(state(&subject, &s).await, Some(json!({"a": 5, "b": 1, "user:c": 3})));
    // A session that moves in brings its current state, not the state when the run came.
    let sessions = subject.journal().sessions();
    story.settle(&subject).await;
    let moved = sessions.copy_whole(&s).await.unwrap().unwrap();
    assert_eq!(sessions.delete(&s).await, Ok(true));
    sessions.put(moved).await.unwrap();
    assert_eq!(state(&subject, &s).await, Some(json!({"a": 5, "b": 1, "user:c": 3})));
}
