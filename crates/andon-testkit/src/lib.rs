//! Test your own agents, tools and models against every way in which they can be stopped.
//!
//! - [`explore()`]: plays what you do with your agent, counts every point where it can be stopped, and then stops it at each, in each
//!   mode. [`World::check`](explore::World::check) adds what you promise yourself. Begin here.
//! - [`ScriptedModel`]: a model that does what a script says: streams, stays silent, floods, fails, breaks off.
//! - [`assert_nothing_lost`]: the promises, checked on one run.
//! - [`until`], [`until_shown`]: waiting until a run is at a place.
//! - [`tools`]: tools that are quick, slow, cooperative, stubborn, or panic.
//! - [`wire`]: whether a conversation can be sent as the next request; with the feature `providers`, to each provider by its own rules.
//! - `provider`, with the feature `providers`: a real server that speaks each provider's format and misbehaves on command.
//! - [`conformance`]: what every journal promises, for authors of journals.

#[doc(hidden)]
pub mod bench;
#[doc(hidden)]
pub mod check;
pub mod conformance;
pub mod explore;
#[doc(hidden)]
pub mod figures;
pub mod journal;
pub mod model;
#[cfg(feature = "providers")]
pub mod provider;
#[doc(hidden)]
pub mod scripts;
pub mod tools;
pub mod wait;
pub mod wire;

pub use check::assert_nothing_lost;
pub use explore::explore;
#[doc(hidden)]
pub use figures::{After, ScriptedMeter};
pub use journal::TestJournal;
pub use model::{Act, ScriptedModel};
pub use wait::{until, until_shown};
