//! Texts that PostgreSQL cannot store as they are.

use std::sync::Arc;

use andon_runtime::core::event::Event;
use andon_runtime::core::time::Wall;
use andon_runtime::{Attachment, Batch, Journal, RunFilter, RunId, SessionFilter, SessionKey, StateChange, StateMap};
use serde_json::{Value, json};

use crate::server::{journal, new_schema, shared};
use crate::traffic::{accepted, fact};

/// Checks P3: what was said is stored byte for byte.
#[tokio::test]
async fn every_character_is_stored_also_the_one_that_ends_strings() {
    let _server = shared();
    let journal: Arc<dyn Journal> = Arc::new(journal(&new_schema()));
    let odd = "a\0b\u{1}\u{1}0\u{7f}\u{fffe}🙂'\"\\";
    let (run, session) = (RunId::new("r").unwrap(), SessionKey::new("shop", "ada", "s").unwrap());
    let entries = vec![accepted(&run, &session, odd), fact(2, Event::RunStarted)];
    journal.append(Batch::new(run.clone(), 1, entries.clone())).await.unwrap();
    assert_eq!(journal.read(&run).await.unwrap().unwrap().entries, entries);
    let sessions = journal.sessions();
    let listed = sessions.runs(RunFilter::new().text("A\0B")).await.unwrap();
    let sqlite_would_list = andon_runtime::title(&andon_runtime::Message::user(odd));
    assert_eq!(listed.iter().map(|info| info.title.as_str()).collect::<Vec<_>>(), [sqlite_would_list.as_str()]);
    assert_eq!(
        sessions.list(SessionFilter::new()).await.unwrap()[0].title.as_deref(),
        Some(sqlite_would_list.as_str())
    );

    // Numbers and the order of keys stay, too.
    let value: Value = serde_json::from_str(r#"{"b": 1.0, "a": 12345678901234567890, "\u0000": "\u0000"}"#).unwrap();
    let change: StateChange = [(odd.to_owned(), Some(value.clone()))].into();
    sessions.change_state(&session, Wall(1), change).await.unwrap();
    let expected: StateMap = [(odd.to_owned(), value.clone())].into_iter().collect();
    assert_eq!(sessions.state(&session).await, Ok(Some(expected)));
    let thing = Attachment::new(odd, odd, Wall(1), value.clone());
    assert_eq!(sessions.attach(&session, Wall(1), vec![thing.clone()], StateChange::new()).await, Ok(true));
    assert_eq!(sessions.attachments(&session, odd).await, Ok(vec![thing]));
    journal.shelf().keep(odd, odd, json!(odd)).await.unwrap();
    assert_eq!(journal.shelf().kept(odd).await, Ok(vec![(odd.to_owned(), json!(odd))]));
    sessions.change_state(&session, Wall(1), [(odd.to_owned(), None)].into()).await.unwrap();
    assert_eq!(sessions.state(&session).await, Ok(Some(StateMap::new())));
}
