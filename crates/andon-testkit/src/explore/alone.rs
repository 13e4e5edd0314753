//! Which runs must not go on after a crash, because their readers are gone.

use andon_runtime::core::progress::{RunProgress, RunState};
use andon_runtime::{Journal, MemoryJournal, RunId};

/// The runs that were waiting, had a reader, and must not go on without one, not even for a moment.
pub(super) async fn left_alone(journal: &MemoryJournal) -> Vec<RunId> {
    let mut left = Vec::new();
    for run in journal.run_ids() {
        let Some(stored) = journal.stored(&run).filter(|stored| stored.requests.is_empty()) else { continue };
        let Ok(progress) = RunProgress::fold(&stored.entries) else { continue };
        let accepted = progress.accepted();
        let minds = accepted.on_disconnect.patience().is_some_and(|patience| patience.is_zero());
        if !minds || !matches!(progress.state(), RunState::Queued | RunState::Waiting) {
            continue;
        }
        let notes = journal.sessions().attachments(&accepted.session, "reader").await.unwrap_or_default();
        let note = notes.iter().find(|note| note.name == run.as_str());
        if note.map_or(accepted.has_reader, |note| note.value == true) {
            left.push(run);
        }
    }
    left
}
