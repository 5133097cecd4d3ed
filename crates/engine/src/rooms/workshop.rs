//! Where documents are worked on: blocking threads, so many at once. A document that takes seconds
//! keeps one of them busy and nobody else waiting.

use std::sync::Arc;

use tokio::sync::Semaphore;

#[derive(Debug, Clone)]
pub(super) struct Workshop {
    places: Arc<Semaphore>,
}

impl Workshop {
    pub(super) fn new(places: usize) -> Self {
        Workshop { places: Arc::new(Semaphore::new(places.max(1))) }
    }

    /// Does the work when there is a place. Once begun it is done, whoever waits for it or not. `None`
    /// if it panicked, which is a bug of the work and must not be that of the caller.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        // Nobody closes the semaphore.
        let place = self.places.clone().acquire_owned().await.ok()?;
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_panics_is_nobody_elses_problem() {
        let workshop = Workshop::new(1);
        assert_eq!(workshop.run(|| 7).await, Some(7));
        assert_eq!(workshop.run(|| panic!("a bug")).await, None::<()>);
        assert_eq!(workshop.run(|| 8).await, Some(8), "its place is free again");
    }

    /// Loro takes seconds to merge some texts: who waits for another document does not wait for that.
    #[tokio::test]
    async fn work_that_takes_long_leaves_places_for_others() {
        let workshop = Arc::new(Workshop::new(2));
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let long = workshop.run(move || wait.recv().is_ok());
        let short = async {
            for number in 0..10 {
                assert_eq!(workshop.run(move || number).await, Some(number));
            }
            done.send(()).unwrap();
        };
        let (long, ()) = tokio::join!(long, short);
        assert_eq!(long, Some(true));
    }
}
