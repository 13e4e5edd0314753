//! The person at the terminal: what they type, and Ctrl-C.

pub(crate) mod input;
pub(crate) mod interrupt;
mod modes;

pub(crate) use modes::{Hushed, hush, restore};
