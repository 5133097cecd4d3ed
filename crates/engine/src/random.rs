//! Randomness from the operating system.

use roundsman_core::ports::Random;

/// Draws from the operating system's generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that draws randomness")]
    fn fill(&self, buffer: &mut [u8]) {
        // Without randomness no secret can be made; going on would be worse than stopping.
        getrandom::fill(buffer).expect("the operating system provides randomness");
    }
}
