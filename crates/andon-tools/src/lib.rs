//! Tools for Andon: processes that are stopped with their whole tree, files, and remote tools.

mod files;
mod http_get;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod process;
mod shell;

pub use files::{ReadFile, WriteFile};
pub use http_get::HttpGet;
pub use shell::Shell;
