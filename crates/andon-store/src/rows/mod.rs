//! What stands in rows: values as columns hold them, and what a run has said as one text.

pub(crate) mod said;
mod values;

pub(crate) use values::{
    Read, ReadError, durable, int, json, parse, run_id, session_key, state_number, text, unreadable, wall,
};
