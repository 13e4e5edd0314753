//! Whatever is stored, each provider takes what is made from it: the same bytes each time, and never others before.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod bodies;
mod properties;
mod round_trip;
mod servers;
