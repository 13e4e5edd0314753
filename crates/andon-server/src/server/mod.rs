//! A server's life: it accepts connections, and ends.

pub(crate) mod files;
pub(crate) mod serve;
pub(crate) mod shutdown;
