//! Models for [Andon](andon_runtime): the providers, closed the moment a run is stopped, and honest figures for a stream that
//! was cut.

#[cfg(feature = "bedrock")]
pub mod bedrock;
pub mod by_name;
pub mod cut;
pub mod decode;
mod dialect;
mod gauge;
mod http;
pub mod lines;
pub mod meter;
pub mod names;
pub mod provider;
pub mod refusal;
pub mod render;
pub mod secret;
pub mod settings;
pub mod sse;

pub use by_name::by_name;
pub use cut::{CutPolicy, Drain};
pub use gauge::book;
pub use provider::{Anthropic, Builder, Compatible, Gemini, HttpModel, Ollama, OpenAi, OpenAiResponses, SetupError};
pub use secret::Secret;
pub use settings::{Settings, Thinking};
