//! The person at the terminal: what they type, and Ctrl-C.

pub(crate) mod input;
pub(crate) mod interrupt;
mod modes;

use crate::exit::Exit;

pub(crate) use modes::{Hushed, hush, restore};

/// Restores the terminal and exits.
pub(crate) fn leave(exit: Exit) -> ! {
    restore();
    std::process::exit(i32::from(exit as u8));
}
