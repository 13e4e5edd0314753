//! Where work runs: threads, locks, time, and the seam at which tests intervene.

pub(crate) mod block;
pub(crate) mod blocking;
pub(crate) mod caught;
pub(crate) mod clock;
pub(crate) mod door;
pub(crate) mod probe;
pub(crate) mod signal;
pub(crate) mod sync;
pub(crate) mod threads;
mod tracker;

use std::future::Future;
use std::pin::Pin;

/// A future on the heap that any thread may poll.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
