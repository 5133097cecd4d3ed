//! Randomness that repeats: the same seed draws the same numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use roundsman_core::ports::Random;

/// The increment of the splitmix64 generator (the golden ratio in 64 bits).
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Splitmix64. Every draw takes a new state atomically, so that threads never see the same number;
/// which thread sees which is up to them.
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    pub fn new(seed: u64) -> Self {
        SeededRandom { state: AtomicU64::new(seed) }
    }

    pub fn next_u64(&self) -> u64 {
        let mut mixed = self.state.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

impl Random for SeededRandom {
    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let draw = |seed| {
            let mut bytes = [0u8; 19];
            SeededRandom::new(seed).fill(&mut bytes);
            bytes
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // The first numbers for seed 0, as every implementation of the generator draws them.
        let random = SeededRandom::new(0);
        assert_eq!(random.next_u64(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(random.next_u64(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_it() {
        let random = SeededRandom::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[usize::try_from(random.below(5)).unwrap()] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(random.below(0), 0);
    }
}
