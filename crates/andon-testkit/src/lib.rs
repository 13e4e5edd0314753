//! Test your own agents, tools and models against every way in which they can be stopped.
//!
//! - [`ScriptedModel`]: a model that does what a script says: streams, stays silent, floods, fails, breaks off.
//! - [`tools`]: tools that are quick, slow, cooperative, stubborn, or panic.
//! - [`figures`]: what can be learned about a scripted model's usage after a cut.
//! - [`wire`]: whether a conversation can be sent as the next request; with the feature `providers`, to each provider by its own rules.
//! - `provider`, with the feature `providers`: a real server that speaks each provider's format and misbehaves on command.
//! - [`mod@bench`]: benchmarks as a table.
//! - [`conformance`]: what every journal promises, for authors of journals.
//! - [`until`], [`until_shown`]: waiting until a run is at a place.
//! - [`assert_nothing_lost`]: the promises, checked on one run.
//! - [`explore`]: runs a script once, counts every poll and every seam, and then stops it at each, in each mode.

pub mod bench;
pub mod check;
pub mod conformance;
pub mod explore;
pub mod figures;
pub mod journal;
pub mod model;
#[cfg(feature = "providers")]
pub mod provider;
pub mod scripts;
pub mod tools;
pub mod wait;
pub mod wire;

pub use check::assert_nothing_lost;
pub use figures::{After, ScriptedMeter};
pub use journal::TestJournal;
pub use model::{Act, ScriptedModel};
pub use wait::{until, until_shown};
