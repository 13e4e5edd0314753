//! What an agent is made of.

pub(crate) mod hook;
