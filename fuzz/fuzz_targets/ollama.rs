#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| andon_fuzz::line_stream::<andon_models::decode::ollama::Ollama>(data));
