#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| andon_fuzz::bedrock::stream(data));
