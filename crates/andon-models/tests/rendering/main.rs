//! Whatever is stored, each provider accepts what is rendered from it: the same bytes each time, with an unchanged beginning.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod bodies;
mod properties;
mod round_trip;
mod servers;
