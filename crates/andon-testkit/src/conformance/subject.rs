//! A journal under test.

use std::fmt;
use std::sync::Arc;

use andon_runtime::{Journal, JournaledRun, SessionKey};

use super::story::Story;

/// Opens a journal where it was before.
type Open = Box<dyn Fn() -> Arc<dyn Journal> + Send + Sync>;

/// A journal under test: empty at first, and one that can be opened again if it outlives its process.
pub struct Subject {
    journal: Arc<dyn Journal>,
    open: Option<Open>,
}

impl Subject {
    /// A journal that is gone with its process.
    pub fn in_memory(journal: impl Journal) -> Self {
        Self { journal: Arc::new(journal), open: None }
    }

    /// A journal that can be opened again. `open` is called now, and whenever a case closes the journal; it keeps whatever
    /// must not go away before the case is over, such as a folder.
    pub fn on_disk(open: impl Fn() -> Arc<dyn Journal> + Send + Sync + 'static) -> Self {
        Self { journal: open(), open: Some(Box::new(open)) }
    }

    /// The journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// Closes the journal and opens it again, if it can be.
    ///
    /// # Panics
    ///
    /// If the case still holds the journal: then it would not be closed.
    pub(super) fn opened_again(self) -> Self {
        let Self { journal, open } = self;
        let Some(open) = open else { return Self { journal, open } };
        assert_eq!(Arc::strong_count(&journal), 1, "the journal cannot be closed: something still holds it");
        drop(journal);
        Self { journal: open(), open: Some(open) }
    }

    /// All that is stored of a story's run.
    pub(super) async fn stored(&self, story: &Story) -> JournaledRun {
        let stored = self.journal.read(story.run()).await.expect("a run can be read");
        stored.unwrap_or_else(|| panic!("run {} is unknown", story.run()))
    }

    /// The texts of a session's history.
    pub(super) async fn texts(&self, session: &SessionKey) -> Vec<String> {
        let history = self.journal.history(session).await.expect("a history can be read");
        history.iter().map(|message| message.text()).collect()
    }

    /// Whether anything is stored of a story's run.
    pub(super) async fn knows(&self, story: &Story) -> bool {
        self.journal.read(story.run()).await.expect("a run can be read").is_some()
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("can_be_opened_again", &self.open.is_some()).finish_non_exhaustive()
    }
}
