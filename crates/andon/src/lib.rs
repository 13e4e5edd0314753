//! An agent runtime in which any run can be stopped at any moment, from anywhere, and nothing is lost.
//!
//! ```
//! use andon::{Agent, Cancel, Practice};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder().model(Practice::instant()).build()?;
//!
//! let run = agent.start("Tell me a long story")?;              // a handle: id, feed, cancel, outcome
//! let reply = run.cancel(Cancel::graceful().note("stop button")); // any thread, never blocks, cannot fail
//! let outcome = run.outcome().await;
//! assert_eq!(outcome.stop_reason(), "cancelled");
//! assert!(reply.is_stopping());
//!
//! let outcome = agent.run("And now a short one").await?;       // the agent can be used again at once
//! assert_eq!(outcome.stop_reason(), "end_turn");
//! # Ok(())
//! # }
//! ```
//!
//! Cancelled is an outcome, never an error. What a stop keeps, and what it cannot promise, is in `docs/stopping.md`.
//!
//! This crate has no code of its own: it is the one to depend on, and names what is in [`andon_runtime`] and
//! [`andon_practice`].

pub use andon_practice::{self as practice, Practice};
pub use andon_runtime::*;

/// What the code that `#[tool]` writes stands on. Not for anybody else.
#[doc(hidden)]
pub use andon_runtime::__private;
