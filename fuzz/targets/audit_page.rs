//! Whatever a page is and says of itself.
#![no_main]

#[path = "../src/audit_page.rs"]
mod audit_page;

libfuzzer_sys::fuzz_target!(|data: &[u8]| audit_page::check(data));
