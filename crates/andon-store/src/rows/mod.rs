//! How values are stored in columns, and the messages of a run as one text.

pub(crate) mod said;
mod values;

pub(crate) use values::{
    ReadError, RowResult, durable, int, json, parse, run_id, session_key, state_number, text, unreadable, wall,
};
