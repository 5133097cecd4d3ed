//! Randomness for bots: only to keep many of them from acting in step.

/// Where a bot gets random numbers from.
pub trait Random: Send + Sync {
    fn next_u64(&self) -> u64;

    /// A number below `bound`; zero if there is none. The bias is of no concern to a pause.
    fn below(&self, bound: u64) -> u64 {
        self.next_u64().checked_rem(bound).unwrap_or(0)
    }
}

/// Draws from the operating system's generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that draws randomness")]
    fn next_u64(&self) -> u64 {
        // A bot without jitter is still a bot.
        getrandom::u64().unwrap_or_default()
    }
}
