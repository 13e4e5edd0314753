//! A journal in front of another.

pub(crate) use andon_runtime::core::cancel::CancelRequest;
pub(crate) use andon_runtime::core::event::{AddendumKind, Epoch};
pub(crate) use andon_runtime::core::time::Stamp;
pub(crate) use andon_runtime::{
    Append, Batch, BoxFuture, HistoryBefore, Journal, JournalError, JournaledRun, RequestFate, RunId, Sessions, Shelf,
};

pub(crate) type Reading<T> = BoxFuture<Result<T, JournalError>>;

/// What it passes on: all but appends, histories and claims.
macro_rules! passes_on {
    ($to:tt) => {
        fn append_addendum(&self, run: &RunId, at: Stamp, what: AddendumKind) -> Append {
            self.$to.append_addendum(run, at, what)
        }

        fn keep_settled(&self, run: &RunId, at: Stamp) {
            self.$to.keep_settled(run, at);
        }

        fn read(&self, run: &RunId) -> Reading<Option<JournaledRun>> {
            self.$to.read(run)
        }

        fn history_before(&self, run: &RunId, most: usize) -> Reading<Option<HistoryBefore>> {
            self.$to.history_before(run, most)
        }

        fn unsettled(&self) -> Reading<Vec<RunId>> {
            self.$to.unsettled()
        }

        fn request_cancel(&self, run: &RunId, request: CancelRequest) -> Reading<RequestFate> {
            self.$to.request_cancel(run, request)
        }

        fn sessions(&self) -> &dyn Sessions {
            self.$to.sessions()
        }

        fn shelf(&self) -> &dyn Shelf {
            self.$to.shelf()
        }
    };
}
pub(crate) use passes_on;
