//! Reading and writing files within a folder.

mod read;
mod root;
mod write;

pub use read::ReadFile;
pub use write::WriteFile;
