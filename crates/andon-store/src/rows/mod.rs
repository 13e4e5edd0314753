//! How values are read from columns.

mod values;

pub(crate) use values::{ReadError, RowResult, durable, parse, run_id, session_key, text, wall};
