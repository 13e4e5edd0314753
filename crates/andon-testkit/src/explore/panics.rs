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
pub(super) fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload_as_str().unwrap_or("no message");
            if [PLANTED, ON_PURPOSE].contains(&text) {
                return;
            }
            let seen_by_explorer = UNPLANNED.try_with(|unplanned| unplanned.borrow_mut().push(text.to_owned()));
            if seen_by_explorer.is_err() || !EXPLORING.get() {
                loud(info);
            }
        }));
    });
    EXPLORING.set(true);
}

/// Ends the exploring on this thread.
pub(super) fn unwatch_panics() {
    EXPLORING.set(false);
}
