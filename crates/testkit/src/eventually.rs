//! Bounded polling, for what happens in another process and cannot send a signal.

use std::time::Duration;

use crate::real_time;

/// The first pause between two looks; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Looks again and again until `probe` answers `Some`, at most for `limit`.
///
/// A probe that hangs is cut off at the limit. The last look is at the limit or after it, so that a
/// machine that stood still meanwhile does not fail what is true.
pub async fn eventually<T>(
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> Result<T, NotInTime> {
    let deadline = real_time::now() + limit;
    let mut pause = PAUSE_MIN;
    let mut looks = 0;
    loop {
        looks += 1;
        match tokio::time::timeout_at(deadline, probe()).await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) if real_time::now() < deadline => real_time::pause(pause).await,
            Ok(None) | Err(_) => return Err(NotInTime { limit, looks }),
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What was waited for did not come true within the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not true within {limit:?} ({looks} looks)")]
pub struct NotInTime {
    pub limit: Duration,
    pub looks: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(150);

    #[tokio::test]
    async fn the_first_answer_is_returned() {
        let mut looks = 0;
        let answer = eventually(Duration::from_mins(1), async || {
            looks += 1;
            (looks == 4).then_some("here")
        });
        assert_eq!(answer.await, Ok("here"));
        assert_eq!(looks, 4);
    }

    #[tokio::test]
    async fn it_gives_up_at_the_limit_and_not_before() {
        let began = real_time::now();
        let error = eventually(SHORT, async || None::<()>).await.unwrap_err();
        assert!(error.looks > 1, "{error}");
        assert!(began.elapsed() >= SHORT);
    }

    #[tokio::test]
    async fn a_hanging_probe_is_cut_off() {
        let error = eventually(SHORT, std::future::pending::<Option<()>>).await;
        assert_eq!(error, Err(NotInTime { limit: SHORT, looks: 1 }));
    }
}
