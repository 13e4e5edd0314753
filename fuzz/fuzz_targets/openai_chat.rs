#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| andon_fuzz::sse_stream::<andon_models::decode::openai_chat::OpenAiChat>(
    data
));
