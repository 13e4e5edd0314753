//! Reading and writing files in a folder.

mod read;
mod root;
mod write;

pub use read::ReadFile;
pub use write::WriteFile;
