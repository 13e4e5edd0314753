//! This process's lease: a thread and a connection that do nothing else, so that no load ever costs it.

mod alive;
mod beat;
mod keeper;

pub(super) use keeper::{Heard, Keeper, Terms};
