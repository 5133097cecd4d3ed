//! Whatever Daily sends or answers.
#![no_main]

#[path = "../src/daily.rs"]
mod daily;

libfuzzer_sys::fuzz_target!(|data: &[u8]| daily::check(data));
