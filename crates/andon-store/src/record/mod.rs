//! What every store does alike: a batch as rows, the values in them, and what is known beside the tables.

mod encode;
mod entries;
mod instants;
mod job;
pub(crate) mod said;
mod trouble;
mod values;

pub(crate) use encode::{Begins, Encoded, Ends, NewState, Row};
pub(crate) use entries::interleaved;
pub(crate) use instants::{Instants, Pending, SOME};
pub(crate) use job::{Answered, Job, RefuseOnExit};
pub(crate) use trouble::Trouble;
pub(crate) use values::{int, json, numbered_state, state_number, unreadable, user_and_session};

/// A map with a fast hash. Nothing depends on its order.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
