//! Tools for Andon: processes whose whole tree is stopped, files, and remote tools.

mod files;
mod http_get;
pub mod mcp;
pub mod process;
mod shell;

pub use files::{ReadFile, WriteFile};
pub use http_get::HttpGet;
pub use shell::Shell;
