//! Whatever is judged, with whatever settings.
#![no_main]

#[path = "../src/transcription_filter.rs"]
mod transcription_filter;

libfuzzer_sys::fuzz_target!(|data: &[u8]| transcription_filter::check(data));
