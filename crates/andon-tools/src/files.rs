//! Reading and writing files within a folder.
