//! Whatever a client of rooms sends.
#![no_main]

#[path = "../src/room_frame.rs"]
mod room_frame;

libfuzzer_sys::fuzz_target!(|data: &[u8]| room_frame::check(data));
