//! A run on disk, end to end.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use andon_practice::Practice;
use andon_runtime::{Agent, Runtime};
use andon_store::SqliteJournal;

#[tokio::test]
async fn a_conversation_is_there_when_the_database_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("andon.db");
    for turn in 1..=3 {
        let journal = SqliteJournal::open(&path).unwrap();
        let runtime = Runtime::builder().journal(Arc::new(journal)).build();
        let agent = Agent::builder().model(Practice::instant()).runtime(&runtime).build().unwrap();
        assert_eq!(runtime.recover().await.unwrap(), []);
        let agent = agent.session("s").unwrap();
        agent.run("Hello").await.unwrap();
        assert_eq!(agent.history().await.unwrap().len(), 2 * turn);
        runtime.idle().await;
    }
}
