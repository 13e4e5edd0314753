use andon_runtime::MemoryJournal;

use super::*;
use crate::access::scopes::Scope;

fn new(name: &str, scopes: &[&str]) -> NewKey {
    NewKey {
        name: name.to_owned(),
        scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
        ..NewKey::default()
    }
}

fn made(keys: &Keys, new: NewKey, shelf: &dyn Shelf) -> NewlyMade {
    keys.create(new, Wall(100), shelf).unwrap()
}

#[tokio::test]
async fn a_key_opens_what_it_was_made_for_also_after_a_restart_until_it_is_revoked() {
    let (keys, shelf) = (Keys::default(), MemoryJournal::new());
    let NewlyMade { info, key, recorded } = made(&keys, new("ada", &["run:read"]), &shelf);
    recorded.await.unwrap();
    let again = Keys::read(&shelf).await.unwrap();
    for keys in [&keys, &again] {
        let principal = keys.open(key.show(), Wall(101)).unwrap();
        assert_eq!((&*principal.tenant, &*principal.name, principal.user.as_deref()), ("local", "ada", Some("ada")));
        assert!(principal.allows(Scope::RunRead) && !principal.allows(Scope::RunCancel));
    }
    let open = again.open(key.show(), Wall(101)).unwrap();
    let (revoked, recorded) = again.revoke(&info.id, Wall(102), &shelf).unwrap();
    recorded.await.unwrap();
    assert_eq!(revoked.revoked_at, Some(Wall(102)));
    assert!(!open.pass.is_valid(Wall(102)) && again.open(key.show(), Wall(102)).is_none());
    let (again_revoked, _) = again.revoke(&info.id, Wall(999), &shelf).unwrap();
    assert_eq!(again_revoked.revoked_at, Some(Wall(102)), "the first time stands");
    let third = Keys::read(&shelf).await.unwrap();
    assert!(third.open(key.show(), Wall(103)).is_none());
    assert_eq!(third.list(), [revoked]);
}

#[tokio::test]
async fn nothing_but_the_whole_key_opens() {
    let (keys, shelf) = (Keys::default(), MemoryJournal::new());
    let one = made(&keys, new("ada", &["admin"]), &shelf);
    let other = made(&keys, new("bob", &["admin"]), &shelf);
    let whole = one.key.show();
    let word = whole.rsplit_once(&format!("{}_", one.info.id)).unwrap().1;
    let wrong = [
        String::new(),
        PREFIX.to_owned(),
        one.info.id.clone(),
        word.to_owned(),
        format!("{PREFIX}{}", one.info.id),
        format!("{PREFIX}{}_", one.info.id),
        format!("{PREFIX}{}_{word}", other.info.id),
        format!("{PREFIX}_{word}"),
        whole.to_uppercase(),
        whole[..whole.len() - 1].to_owned(),
        format!("{whole}="),
        format!(" {whole}"),
    ];
    for wrong in wrong {
        assert!(keys.open(&wrong, Wall(101)).is_none(), "{wrong:?}");
    }
    assert!(keys.open(whole, Wall(101)).is_some());
    let kept = shelf.kept(KIND).await.unwrap();
    let kept = serde_json::to_string(&kept).unwrap() + &format!("{keys:?} {one:?}");
    assert!(!kept.contains(word), "a secret is on record");
}

#[test]
fn a_key_ends_when_it_was_to_end() {
    let (keys, shelf) = (Keys::default(), MemoryJournal::new());
    let key = made(&keys, NewKey { expires_at: Some(Wall(200)), ..new("ada", &["run:read"]) }, &shelf).key;
    let open = keys.open(key.show(), Wall(199)).unwrap();
    assert!(open.pass.is_valid(Wall(199)) && !open.pass.is_valid(Wall(200)));
    assert!(keys.open(key.show(), Wall(200)).is_none());
}

#[test]
fn an_invalid_key_is_not_created_and_the_error_says_why() {
    let (keys, shelf) = (Keys::default(), MemoryJournal::new());
    let wrong = [
        (new("", &["admin"]), "name"),
        (new("a/b", &["admin"]), "name"),
        (NewKey { user: Some(String::new()), ..new("a", &["admin"]) }, "user"),
        (NewKey { tenant: Some("..".to_owned()), ..new("a", &["admin"]) }, "tenant"),
        (new("a", &[]), "at least one"),
        (new("a", &["run:read", "everything"]), "everything"),
        (NewKey { expires_at: Some(Wall(100)), ..new("a", &["admin"]) }, "in the past"),
    ];
    for (new, why) in wrong {
        let error = keys.create(new, Wall(100), &shelf).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(keys.list().is_empty());
}

#[tokio::test]
async fn the_number_of_keys_is_limited_and_expired_ones_make_room() {
    let (keys, shelf) = (Keys::default(), MemoryJournal::new());
    for _ in 0..MOST {
        drop(made(&keys, new("a", &["run:read"]), &shelf));
    }
    assert!(matches!(keys.create(new("a", &["run:read"]), Wall(100), &shelf), Err(KeyError::TooMany)));
    let some = keys.list().remove(7).id;
    keys.revoke(&some, Wall(101), &shelf).unwrap().1.await.unwrap();
    made(&keys, new("a", &["run:read"]), &shelf).recorded.await.unwrap();
    assert_eq!(keys.list().len(), MOST);
    assert_eq!(shelf.kept(KIND).await.unwrap().len(), MOST);
}

#[tokio::test]
async fn an_unreadable_key_on_record_opens_nothing_and_is_reported() {
    let (keys, shelf) = (Keys::default(), MemoryJournal::new());
    let NewlyMade { info, key, recorded } = made(&keys, new("ada", &["run:read"]), &shelf);
    recorded.await.unwrap();
    let (_, mut value) = shelf.kept(KIND).await.unwrap().remove(0);
    value["scopes"] = serde_json::json!(["run:read", "fly"]);
    shelf.keep(KIND, &info.id, value).await.unwrap();
    let again = Keys::read(&shelf).await.unwrap();
    assert!(again.open(key.show(), Wall(101)).is_none());
    assert!(again.warnings()[0].contains("fly"));
}
