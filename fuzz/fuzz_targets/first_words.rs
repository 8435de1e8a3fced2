#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandshell_fuzz::run("first_words", data));
