//! Where work runs: threads, locks, time, and the seam at which tests intervene.

pub(crate) mod blocking;
pub(crate) mod clock;
pub(crate) mod door;
pub(crate) mod probe;
pub(crate) mod sync;
