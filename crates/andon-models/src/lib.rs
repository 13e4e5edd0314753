//! Models for [Andon](andon): the providers, closed the moment a run is stopped, and honest figures for a stream that
//! was cut.

pub mod decode;
pub mod lines;
pub mod meter;
pub mod refusal;
pub mod render;
pub mod secret;
pub mod settings;
pub mod sse;
