//! Models for [Andon](andon): the providers, closed the moment a run is stopped, and honest figures for a stream that
//! was cut.

pub mod decode;
pub mod gauge;
pub mod meter;
pub mod render;
pub mod settings;
