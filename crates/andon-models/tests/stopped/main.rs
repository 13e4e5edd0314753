//! A whole run over real HTTP is stopped in every phase, by every dialect, over both protocols: the upstream connection is closed
//! (P5), what was shown is kept (P3), the figures are honest (P4), and the provider accepts the session's next request (P2, P8).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod figures;
mod phases;
mod world;
