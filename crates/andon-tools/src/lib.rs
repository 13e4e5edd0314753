//! Tools for Andon: processes whose whole tree is stopped, files, and remote tools.

mod files;
pub mod process;
mod shell;
