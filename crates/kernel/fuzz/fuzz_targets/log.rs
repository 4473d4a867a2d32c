//! Bytes that claim to be a run's log.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::log(data));
