//! What operators see of runs: figures, spans and logs.
//!
//! All of it is told by the runs' own events, by an [observer](andon::Observer) of what is shown. Nothing here can hold a run up, and
//! nothing is known here that is not on record.

pub mod names;
pub mod span;
mod words;
