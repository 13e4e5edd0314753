//! Streams as the providers' documentation describes them, fed frame by frame and byte by byte, and cut everywhere.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod anthropic;
mod bedrock;
mod gemini;
mod openai_responses;
mod play;
