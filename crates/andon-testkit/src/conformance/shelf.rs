//! Values that belong to no session.

use serde_json::{Value, json};

use super::subject::Subject;

async fn keep(subject: &Subject, kind: &str, name: &str, value: Value) {
    subject.journal().shelf().keep(kind, name, value).await.unwrap();
}

async fn kept(subject: &Subject, kind: &str) -> Vec<(String, Value)> {
    subject.journal().shelf().kept(kind).await.unwrap()
}

pub(super) async fn a_value_is_kept_in_place_of_the_one_before(subject: Subject) {
    assert_eq!(kept(&subject, "a").await, []);
    keep(&subject, "a", "y", json!(1)).await;
    keep(&subject, "a", "x", json!({"n": null})).await;
    keep(&subject, "a", "y", json!([2])).await;
    let expected = [("x".to_owned(), json!({"n": null})), ("y".to_owned(), json!([2]))];
    assert_eq!(kept(&subject, "a").await, expected);
    let subject = subject.opened_again();
    assert_eq!(kept(&subject, "a").await, expected, "and it outlives its process");
}

pub(super) async fn kinds_do_not_see_each_other(subject: Subject) {
    keep(&subject, "a", "x", json!("a's")).await;
    keep(&subject, "b", "x", json!("b's")).await;
    keep(&subject, "", "", json!("nobody's")).await;
    assert_eq!(kept(&subject, "a").await, [("x".to_owned(), json!("a's"))]);
    assert_eq!(kept(&subject, "b").await, [("x".to_owned(), json!("b's"))]);
    assert_eq!(kept(&subject, "").await, [(String::new(), json!("nobody's"))]);
}

pub(super) async fn what_is_discarded_is_gone_forever(subject: Subject) {
    keep(&subject, "a", "x", json!(1)).await;
    keep(&subject, "a", "y", json!(2)).await;
    keep(&subject, "b", "x", json!(3)).await;
    let shelf = |subject: &Subject| subject.journal().shelf().discard("a", "x");
    shelf(&subject).await.unwrap();
    shelf(&subject).await.unwrap();
    let subject = subject.opened_again();
    assert_eq!(kept(&subject, "a").await, [("y".to_owned(), json!(2))]);
    assert_eq!(kept(&subject, "b").await, [("x".to_owned(), json!(3))]);
}
