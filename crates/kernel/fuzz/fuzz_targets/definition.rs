//! Bytes that claim to be a workflow definition.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::definition(data));
