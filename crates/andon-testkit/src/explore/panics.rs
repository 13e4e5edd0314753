//! Panics on this thread: the planted ones are kept quiet, the others are violations.

use std::cell::{Cell, RefCell};
use std::sync::Once;

use crate::tools::ON_PURPOSE;

/// The message of a panic that the explorer planted.
pub(super) const PLANTED: &str = "a panic that the explorer planted";

std::thread_local! {
    static UNPLANNED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// Whether this thread explores: then its panics are reported as violations and not on the terminal.
    static EXPLORING: Cell<bool> = const { Cell::new(false) };
}

/// Panics on this thread that nobody planted, since the last call.
pub(super) fn unplanned_panics() -> Vec<String> {
    UNPLANNED.with_borrow_mut(std::mem::take)
}

/// Keeps planted panics from filling the terminal, and remembers the others: a runtime that heals itself after a panic
/// would hide them.
pub(super) fn watch_panics() -> Exploring {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload_as_str().unwrap_or("no message");
            if [PLANTED, ON_PURPOSE].contains(&text) {
                return;
            }
            let place = info.location().map(|place| format!(" ({place})")).unwrap_or_default();
            let note = |unplanned: &RefCell<Vec<String>>| unplanned.borrow_mut().push(format!("{text}{place}"));
            if !EXPLORING.get() || UNPLANNED.try_with(note).is_err() {
                loud(info);
            }
        }));
    });
    EXPLORING.set(true);
    Exploring
}

/// This thread explores until this is dropped.
pub(super) struct Exploring;

impl Drop for Exploring {
    fn drop(&mut self) {
        EXPLORING.set(false);
    }
}
