//! Andon over HTTP: start runs, watch them, and pull the cord from anywhere.

mod apps;

pub use apps::{App, Apps};
