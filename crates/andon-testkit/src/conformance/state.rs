//! The state of sessions, and how far each key of it reaches.

use std::sync::Arc;

use andon_runtime::core::time::Wall;
use andon_runtime::{SessionFilter, SessionKey, StateChange, StateMap};
use serde_json::{Value, json};

use super::story::{key, session};
use super::subject::Subject;

pub(super) fn map(state: Value) -> StateMap {
    serde_json::from_value(state).unwrap()
}

pub(super) async fn state(subject: &Subject, session: &SessionKey) -> Option<Value> {
    subject.journal().sessions().state(session).await.unwrap().map(Value::Object)
}

/// Sets every key of an object.
pub(super) async fn set(subject: &Subject, session: &SessionKey, values: Value) {
    let change: StateChange = map(values).into_iter().map(|(key, value)| (key, Some(value))).collect();
    subject.journal().sessions().change_state(session, Wall(9), change).await.unwrap();
}

async fn create(subject: &Subject, session: &SessionKey, values: Value) -> bool {
    subject.journal().sessions().create(session, Wall(5), map(values)).await.unwrap()
}

pub(super) async fn a_session_is_begun_once(subject: Subject) {
    let s = session("s");
    assert_eq!(state(&subject, &s).await, None);
    assert!(create(&subject, &s, json!({"a": 1, "user:b": 2, "app:c": 3, "temp:d": 4})).await);
    let begun = json!({"a": 1, "user:b": 2, "app:c": 3});
    assert_eq!(state(&subject, &s).await, Some(begun.clone()));
    let listed = subject.journal().sessions().list(SessionFilter::default()).await.unwrap();
    let subject = subject.opened_again();
    assert!(!create(&subject, &s, json!({"a": 9, "e": 9, "user:b": 9, "app:f": 9})).await, "it is there already");
    assert_eq!(state(&subject, &s).await, Some(begun), "a session that was there has changed");
    assert_eq!(subject.journal().sessions().list(SessionFilter::default()).await, Ok(listed));
}

pub(super) async fn a_key_reaches_as_far_as_its_beginning_says(subject: Subject) {
    let here = key("local", "shop", "ada", "s1");
    let (same_user, same_app) = (key("local", "shop", "ada", "s2"), key("local", "shop", "bob", "s1"));
    let (other_app, other_tenant) = (key("local", "zoo", "ada", "s1"), key("acme", "shop", "ada", "s1"));
    for session in [&here, &same_user, &same_app, &other_app, &other_tenant] {
        assert!(create(&subject, session, json!({})).await);
    }
    let keys = json!({"own": 1, "other:own": 2, "user:all mine": [3], "app:everybody": {"4": 4}, "temp:gone": 5});
    set(&subject, &here, keys).await;
    let subject = subject.opened_again();
    let expected = json!({"own": 1, "other:own": 2, "user:all mine": [3], "app:everybody": {"4": 4}});
    assert_eq!(state(&subject, &here).await, Some(expected));
    assert_eq!(state(&subject, &same_user).await, Some(json!({"user:all mine": [3], "app:everybody": {"4": 4}})));
    assert_eq!(state(&subject, &same_app).await, Some(json!({"app:everybody": {"4": 4}})));
    assert_eq!(state(&subject, &other_app).await, Some(json!({})));
    assert_eq!(state(&subject, &other_tenant).await, Some(json!({})));
    // What is shared can be changed from any of them, and a session that comes later has it, too.
    set(&subject, &same_app, json!({"app:everybody": "bob"})).await;
    let new = key("local", "shop", "eve", "new");
    assert!(create(&subject, &new, json!({})).await);
    assert_eq!(state(&subject, &new).await, Some(json!({"app:everybody": "bob"})));
}

pub(super) async fn null_is_a_value_and_a_key_without_one_is_removed(subject: Subject) {
    let s = session("s");
    set(&subject, &s, json!({"a": 1, "b": 2, "user:c": 3, "app:d": 4})).await;
    let mut change = StateChange::new();
    for key in ["a", "user:c"] {
        change.insert(key.to_owned(), Some(Value::Null));
    }
    for key in ["b", "app:d", "never there", "temp:x"] {
        change.insert(key.to_owned(), None);
    }
    subject.journal().sessions().change_state(&s, Wall(10), change).await.unwrap();
    let subject = subject.opened_again();
    assert_eq!(state(&subject, &s).await, Some(json!({"a": null, "user:c": null})));
}

pub(super) async fn a_change_is_seen_whole_or_not_at_all(subject: Subject) {
    let s = session("s");
    set(&subject, &s, json!({"a": 0, "user:a": 0, "app:a": 0})).await;
    let (journal, reads) = (Arc::clone(subject.journal()), s.clone());
    let (over, is_over) = tokio::sync::oneshot::channel::<()>();
    let reader = async move {
        let mut is_over = is_over;
        let mut seen = Vec::new();
        while is_over.try_recv().is_err() {
            seen.push(journal.sessions().state(&reads).await.unwrap().unwrap());
            tokio::task::yield_now().await;
        }
        seen
    };
    let writer = async {
        for n in 1..=100 {
            set(&subject, &s, json!({"a": n, "user:a": n, "app:a": n})).await;
        }
        over.send(()).unwrap();
    };
    let ((), seen) = tokio::join!(writer, reader);
    for state in seen {
        assert!(state["a"] == state["user:a"] && state["a"] == state["app:a"], "half a change was seen: {state:?}");
    }
    assert_eq!(state(&subject, &s).await, Some(json!({"a": 100, "user:a": 100, "app:a": 100})));
}

pub(super) async fn a_change_begins_a_session_that_is_not_there(subject: Subject) {
    let s = session("s");
    subject.journal().sessions().change_state(&s, Wall(12), StateChange::new()).await.unwrap();
    assert_eq!(state(&subject, &s).await, Some(json!({})));
    let listed = subject.journal().sessions().list(SessionFilter::default()).await.unwrap();
    let times: Vec<_> = listed.iter().map(|info| (&info.key, info.created_at, info.updated_at, info.runs)).collect();
    assert_eq!(times, [(&s, Wall(12), Wall(12), 0)]);
    assert!(!create(&subject, &s, json!({"a": 1})).await);
}

pub(super) async fn tenants_see_nothing_of_each_other(subject: Subject) {
    let (ours, theirs) = (key("acme", "shop", "ada", "s"), key("initech", "shop", "ada", "s"));
    let mut story = super::story::Story::within("r", &ours);
    story.write_whole(&subject, "secret").await;
    set(&subject, &ours, json!({"a": 1, "user:b": 2, "app:c": 3})).await;
    let sessions = subject.journal().sessions();
    assert_eq!(state(&subject, &theirs).await, None);
    assert_eq!(subject.journal().history(&theirs).await, Ok(vec![]));
    assert!(sessions.copy_whole(&theirs).await.unwrap().is_none());
    let filter = SessionFilter::new().tenant("initech");
    assert_eq!(sessions.list(filter).await, Ok(vec![]));
    let filter = andon_runtime::RunFilter::new().tenant("initech");
    assert_eq!(sessions.runs(filter).await, Ok(vec![]));
    assert_eq!(sessions.delete(&theirs).await, Ok(false), "there is nothing of theirs to delete");
    // The same names, and nothing in common.
    set(&subject, &theirs, json!({"a": 7})).await;
    assert_eq!(sessions.delete(&theirs).await, Ok(true));
    assert_eq!(state(&subject, &ours).await, Some(json!({"a": 1, "user:b": 2, "app:c": 3})));
    assert_eq!(subject.journal().history(&ours).await.unwrap().len(), 2);
}
