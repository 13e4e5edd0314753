//! The messages of a session, as a list that is shared and not copied: each model call holds all messages before it.
//!
//! Clones share the messages in blocks, so a clone costs a few bytes per block and not per message, and adding a message
//! copies at most the last block.

mod valid;

use std::fmt;
use std::sync::Arc;

use crate::message::Message;

pub use valid::{BadHistory, HistoryFault, check, check_sendable};

/// The number of messages in a full block.
const BLOCK: usize = 128;

/// The messages of a session, in order. Cheap to clone.
#[derive(Clone, Default)]
pub struct History {
    /// All but the last are full.
    blocks: Vec<Arc<Vec<Arc<Message>>>>,
}

impl History {
    /// A history without messages.
    pub const fn new() -> Self {
        Self { blocks: Vec::new() }
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The message at this index.
    pub fn get(&self, index: usize) -> Option<&Arc<Message>> {
        self.blocks.get(index / BLOCK)?.get(index % BLOCK)
    }

    /// The last message.
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.blocks.last()?.last()
    }

    /// The messages, first to last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + Clone {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    /// Adds a message.
    pub fn push(&mut self, message: Arc<Message>) {
        match self.blocks.last_mut().filter(|last| last.len() < BLOCK) {
            Some(last) => Arc::make_mut(last).push(message),
            None => self.blocks.push(Arc::new(vec![message])),
        }
    }

    /// The messages as a `Vec`.
    pub fn to_vec(&self) -> Vec<Arc<Message>> {
        self.iter().cloned().collect()
    }
}

impl Extend<Arc<Message>> for History {
    fn extend<T: IntoIterator<Item = Arc<Message>>>(&mut self, messages: T) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl FromIterator<Arc<Message>> for History {
    fn from_iter<T: IntoIterator<Item = Arc<Message>>>(messages: T) -> Self {
        let mut history = Self::new();
        history.extend(messages);
        history
    }
}

impl From<Vec<Arc<Message>>> for History {
    fn from(messages: Vec<Arc<Message>>) -> Self {
        messages.into_iter().collect()
    }
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for History {}

impl<T: AsRef<[Arc<Message>]>> PartialEq<T> for History {
    fn eq(&self, other: &T) -> bool {
        let other = other.as_ref();
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(from: usize, to: usize) -> Vec<Arc<Message>> {
        (from..to).map(|number| Arc::new(Message::user(number.to_string()))).collect()
    }

    #[test]
    fn a_history_is_the_list_of_what_was_added_at_every_length() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let (list, history) = (messages(0, length), History::from(messages(0, length)));
            assert_eq!((history.len(), history.is_empty()), (length, length == 0));
            assert_eq!(history, list);
            assert_eq!(history.last(), list.last());
            assert!(history.iter().rev().eq(list.iter().rev()));
            assert!((0..=length).all(|index| history.get(index) == list.get(index)));
        }
    }

    #[test]
    fn what_is_added_to_a_clone_is_not_in_the_original() {
        let before = History::from(messages(0, BLOCK + 3));
        let mut after = before.clone();
        after.extend(messages(BLOCK + 3, 2 * BLOCK + 1));
        assert_eq!((before.len(), after.len()), (BLOCK + 3, 2 * BLOCK + 1));
        assert_eq!(before, messages(0, BLOCK + 3));
        assert_eq!(after, messages(0, 2 * BLOCK + 1));
        // They share all blocks but the last.
        assert!(Arc::ptr_eq(&before.blocks[0], &after.blocks[0]));
    }

    #[test]
    fn histories_are_equal_if_their_messages_are() {
        let history = History::from(messages(0, BLOCK + 1));
        assert_eq!(history, History::from(messages(0, BLOCK + 1)));
        for other in [messages(0, BLOCK), messages(1, BLOCK + 2), messages(0, BLOCK + 2), vec![]] {
            assert_ne!(history, other);
            assert_ne!(history, History::from(other));
        }
        assert_eq!(history.to_vec(), messages(0, BLOCK + 1));
        assert_eq!(format!("{history:?}"), format!("{:?}", messages(0, BLOCK + 1)));
    }
}
