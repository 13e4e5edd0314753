//! A tiny supervisor for one tool process.
