//! The adapters over real HTTP, against a provider that misbehaves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod answerer;
mod answers;
mod broken;
mod closing;
mod common;
mod cut;
mod endings;
mod many;
mod proxies;
mod refusals;
mod secrets;
mod shown;
