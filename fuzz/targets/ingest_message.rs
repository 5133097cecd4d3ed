//! Whatever a producer sends.
#![no_main]

#[path = "../src/ingest_message.rs"]
mod ingest_message;

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest_message::check(data));
