//! Randomness, from outside.

/// Draws random bytes. Secrets and jitter both come from here; tests seed it.
pub trait Random: Send + Sync {
    /// Fills `buffer` with bytes that nobody can predict.
    fn fill(&self, buffer: &mut [u8]);

    /// A number in `0..bound`, or 0 for a bound of 0. The tiny bias of the remainder is irrelevant
    /// for jitter, which is its only use.
    fn below(&self, bound: u64) -> u64 {
        let mut bytes = [0u8; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes).checked_rem(bound).unwrap_or(0)
    }
}
