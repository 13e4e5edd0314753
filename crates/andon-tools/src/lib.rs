//! Tools for Andon: processes whose whole tree is stopped, files, and remote tools.

mod files;
pub mod mcp;
pub mod process;
mod shell;

pub use files::{ReadFile, WriteFile};
pub use shell::Shell;
