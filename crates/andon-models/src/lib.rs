//! Models for [Andon](andon): the providers, closed the moment a run is stopped, and honest figures for a stream that
//! was cut.

#[cfg(feature = "bedrock")]
pub mod bedrock;
pub mod decode;
pub mod meter;
pub mod render;
pub mod settings;
