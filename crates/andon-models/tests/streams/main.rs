//! Streams as the providers' documentation describes them, fed frame by frame and byte by byte, and cut everywhere.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod anthropic;
mod bedrock;
mod gemini;
mod odd;
mod openai_chat;
mod openai_responses;
mod play;
mod usage;
