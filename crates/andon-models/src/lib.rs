//! Models for [Andon](andon_runtime): the providers, closed the moment a run is stopped, and honest figures for a stream that
//! was cut.

#[cfg(feature = "bedrock")]
pub mod bedrock;
pub mod by_name;
mod cut;
mod dialect;
mod gauge;
mod http;
pub mod meter;
pub mod names;
pub mod provider;
mod refusal;
mod secret;
pub mod settings;

// How requests are written and answers are read. Programs need none of it; the fuzzer, the benchmarks and the test kit reach it here, and
// it may change in any version.
#[doc(hidden)]
pub mod decode;
#[doc(hidden)]
pub mod lines;
#[doc(hidden)]
pub mod render;
#[doc(hidden)]
pub mod sse;

pub use by_name::by_name;
pub use cut::{CutPolicy, Drain};
pub use gauge::book;
pub use provider::{Anthropic, Builder, Compatible, Gemini, HttpModel, Ollama, OpenAi, OpenAiResponses, SetupError};
pub use secret::Secret;
pub use settings::{Settings, Thinking};
