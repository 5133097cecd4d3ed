//! Bounded waiting for what happens in another process, or for a turn to ask it: the only place of
//! this crate where time passes on purpose.

use std::time::Duration;

/// The first pause between two looks; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Looks again and again until `probe` answers `Some`, at most for `limit`.
///
/// Not an `AsyncFnMut`: the compiler cannot yet see that the future of one can change threads.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    limit: Duration,
    mut probe: impl FnMut() -> F,
) -> Option<T> {
    let looks = async {
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            rest(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    };
    tokio::time::timeout(limit, looks).await.ok()
}

/// Lets time pass.
#[expect(clippy::disallowed_methods, reason = "another process sends no signal when it is gone")]
pub(crate) async fn rest(pause: Duration) {
    tokio::time::sleep(pause).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_returns_the_first_answer_and_gives_up_at_the_limit() {
        let mut looks = 0;
        let found = until(Duration::from_mins(1), || {
            looks += 1;
            std::future::ready((looks == 3).then_some("here"))
        });
        assert_eq!(found.await, Some("here"));
        assert_eq!(looks, 3);
        assert_eq!(until(Duration::from_millis(20), || std::future::ready(None::<()>)).await, None);
        let hangs = until(Duration::from_millis(20), std::future::pending::<Option<()>>);
        assert_eq!(hangs.await, None);
    }
}
