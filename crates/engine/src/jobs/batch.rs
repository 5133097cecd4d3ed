//! Puts the small writes of many callers into few transactions.
//!
//! There is no waiting for company: a batch is whatever came in while the one before it was being
//! written. An idle system writes one at a time at once, a busy one a thousand with one commit.

use std::future::Future;
use std::sync::Arc;

use roundsman_core::failpoint;
use roundsman_core::jobs::{NewJob, Settle, Settled};
use roundsman_core::ports::{
    Clock, EnqueueAnswer, EnqueueRequest, Enqueued, Heartbeat, HeartbeatAnswer, JobStore, Random,
    StoreError,
};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::JobsDeps;

/// Requests waiting for the batch before them; more callers than this wait to be queued.
const REQUESTS_QUEUED_MAX: usize = 4096;
/// Items in one transaction.
const BATCH_ITEMS_MAX: usize = 5_000;

/// The batched writes of the job service.
#[derive(Clone)]
pub(super) struct Batchers {
    enqueue: Batcher<NewJob, Enqueued>,
    heartbeat: Batcher<Heartbeat, HeartbeatAnswer>,
    settle: Batcher<Settle, Settled>,
}

impl Batchers {
    /// Starts a task per sort of write. They end when the last clone is dropped.
    pub(super) fn start(deps: &JobsDeps) -> Self {
        let JobsDeps { store, clock, random, .. } = deps;
        // Not the process's tracker: these tasks live as long as somebody can still call.
        let tasks = &TaskTracker::new();
        let (enqueue, heartbeat, settle) = (
            (store.clone(), clock.clone()),
            (store.clone(), clock.clone()),
            (store.clone(), clock.clone(), random.clone()),
        );
        Batchers {
            enqueue: Batcher::start(tasks, move |jobs| {
                let (store, clock) = enqueue.clone();
                async move { enqueue_all(store, clock, jobs).await }
            }),
            heartbeat: Batcher::start(tasks, move |beats| {
                let (store, clock) = heartbeat.clone();
                async move { store.heartbeat(beats, clock.now()).await }
            }),
            settle: Batcher::start(tasks, move |settles| {
                let (store, clock, random) = settle.clone();
                async move { settle_all(store, clock, random, settles).await }
            }),
        }
    }

    pub(super) async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        self.enqueue.submit(jobs).await
    }

    pub(super) async fn heartbeat(&self, beat: Heartbeat) -> Result<HeartbeatAnswer, StoreError> {
        only(self.heartbeat.submit(vec![beat]).await?)
    }

    pub(super) async fn settle(&self, settle: Settle) -> Result<Settled, StoreError> {
        only(self.settle.submit(vec![settle]).await?)
    }
}

async fn enqueue_all(
    store: Arc<dyn roundsman_core::ports::Store>,
    clock: Arc<dyn Clock>,
    jobs: Vec<NewJob>,
) -> Result<Vec<Enqueued>, StoreError> {
    let request = EnqueueRequest { jobs, idempotency: None };
    match JobStore::enqueue(store.as_ref(), request, clock.now()).await? {
        EnqueueAnswer::Stored(jobs) | EnqueueAnswer::Replayed(jobs) => Ok(jobs),
        EnqueueAnswer::KeyReused => Ok(Vec::new()),
    }
}

async fn settle_all(
    store: Arc<dyn roundsman_core::ports::Store>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    settles: Vec<Settle>,
) -> Result<Vec<Settled>, StoreError> {
    store.settle(settles, random.below(u64::MAX), clock.now()).await
}

/// Answers come in the order of requests; a request of one item has one answer.
fn only<T>(answers: Vec<T>) -> Result<T, StoreError> {
    let missing = || StoreError::Failed("the store gave no answer".into());
    answers.into_iter().next().ok_or_else(missing)
}

struct Request<I, O> {
    items: Vec<I>,
    answer: oneshot::Sender<Result<Vec<O>, StoreError>>,
}

/// One sort of write.
pub(crate) struct Batcher<I, O> {
    requests: mpsc::Sender<Request<I, O>>,
}

impl<I, O> Clone for Batcher<I, O> {
    fn clone(&self) -> Self {
        Batcher { requests: self.requests.clone() }
    }
}

impl<I: Clone + Send + 'static, O: Send + 'static> Batcher<I, O> {
    pub(crate) fn start<W, F>(tasks: &TaskTracker, write: W) -> Self
    where
        W: Fn(Vec<I>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<O>, StoreError>> + Send + 'static,
    {
        Self::start_up_to(BATCH_ITEMS_MAX, tasks, write)
    }

    /// With at most so many items in one transaction.
    pub(crate) fn start_up_to<W, F>(items_max: usize, tasks: &TaskTracker, write: W) -> Self
    where
        W: Fn(Vec<I>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<O>, StoreError>> + Send + 'static,
    {
        let (requests, queue) = mpsc::channel(REQUESTS_QUEUED_MAX);
        tasks.spawn(run(queue, items_max, write));
        Batcher { requests }
    }

    pub(crate) async fn submit(&self, items: Vec<I>) -> Result<Vec<O>, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request { items, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Writes one item, unless too many wait already: for what is repeated anyway and is worth
    /// nothing when it comes late.
    pub(crate) async fn try_submit(&self, item: I) -> Result<O, StoreError> {
        let (answer, answered) = oneshot::channel();
        let request = Request { items: vec![item], answer };
        self.requests.try_send(request).map_err(|refused| match refused {
            TrySendError::Full(_) => StoreError::Unavailable("too many writes are waiting".into()),
            TrySendError::Closed(_) => gone(),
        })?;
        only(answered.await.map_err(|_| gone())??)
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the server is shutting down".into())
}

async fn run<I, O, W, F>(mut queue: mpsc::Receiver<Request<I, O>>, items_max: usize, write: W)
where
    I: Clone,
    W: Fn(Vec<I>) -> F,
    F: Future<Output = Result<Vec<O>, StoreError>>,
{
    while let Some(first) = queue.recv().await {
        let mut items_count = first.items.len();
        let mut batch = vec![first];
        while items_count < items_max {
            let Ok(next) = queue.try_recv() else { break };
            items_count += next.items.len();
            batch.push(next);
        }
        write_batch(batch, &write).await;
    }
}

async fn write_batch<I, O, W, F>(batch: Vec<Request<I, O>>, write: &W)
where
    I: Clone,
    W: Fn(Vec<I>) -> F,
    F: Future<Output = Result<Vec<O>, StoreError>>,
{
    let items = batch.iter().flat_map(|request| request.items.iter().cloned()).collect();
    failpoint::hit("batch.collected");
    let written = write(items).await;
    failpoint::hit("batch.written");
    match written {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for request in batch {
                let own = answers.by_ref().take(request.items.len()).collect();
                // A caller that went away needs no answer.
                let _ = request.answer.send(Ok(own));
                failpoint::hit("batch.answered");
            }
        }
        // One request may be what the database cannot digest: the others must not suffer for it.
        Err(error) if !error.is_transient() && batch.len() > 1 => {
            for request in batch {
                let answer = write(request.items).await;
                let _ = request.answer.send(answer);
            }
        }
        Err(error) => {
            for request in batch {
                let _ = request.answer.send(Err(error.repeat()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn what_queues_up_during_one_write_goes_into_the_next() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let begun = Arc::new(tokio::sync::Notify::new());
        let (seen, open, begins) = (sizes.clone(), gate.clone(), begun.clone());
        let tasks = TaskTracker::new();
        let batcher: Batcher<u32, u32> = Batcher::start(&tasks, move |items: Vec<u32>| {
            let (seen, open, begins) = (seen.clone(), open.clone(), begins.clone());
            async move {
                begins.notify_one();
                open.acquire().await.unwrap().forget();
                seen.lock().unwrap().push(items.len());
                Ok(items.into_iter().map(|item| item * 10).collect())
            }
        });
        let early = batcher.clone();
        let first = tasks.spawn(async move { early.submit(vec![1]).await });
        begun.notified().await;
        let rest = futures_util::future::join_all((2..=5).map(|n| batcher.submit(vec![n, n])));
        let open = async {
            tokio::task::yield_now().await;
            gate.add_permits(2);
        };
        let (rest, ()) = tokio::join!(rest, open);
        assert_eq!(first.await.unwrap().unwrap(), [10]);
        assert_eq!(rest.into_iter().map(|r| r.unwrap()[0]).collect::<Vec<_>>(), [20, 30, 40, 50]);
        assert_eq!(*sizes.lock().unwrap(), [1, 8]);
    }

    #[tokio::test]
    async fn a_request_that_cannot_be_written_does_not_fail_its_neighbours() {
        let tasks = TaskTracker::new();
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let open = gate.clone();
        let batcher: Batcher<i32, i32> = Batcher::start(&tasks, move |items: Vec<i32>| {
            let open = open.clone();
            async move {
                let _open = open.acquire().await.unwrap();
                if items.contains(&13) {
                    return Err(StoreError::Failed("thirteen".into()));
                }
                Ok(items)
            }
        });
        let all = futures_util::future::join_all([1, 13, 3].map(|n| batcher.submit(vec![n])));
        let open = async {
            tokio::task::yield_now().await;
            gate.add_permits(10);
        };
        let (answers, ()) = tokio::join!(all, open);
        let fine: Vec<bool> = answers.iter().map(Result::is_ok).collect();
        assert_eq!(fine, [true, false, true]);
    }

    #[tokio::test]
    async fn what_may_be_refused_is_refused_when_too_many_wait() {
        let tasks = TaskTracker::new();
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let open = gate.clone();
        let batcher: Batcher<usize, usize> = Batcher::start(&tasks, move |items: Vec<usize>| {
            let open = open.clone();
            async move {
                let _open = open.acquire().await.unwrap();
                Ok(items)
            }
        });
        let count = REQUESTS_QUEUED_MAX + 10;
        let all = futures_util::future::join_all((0..count).map(|n| batcher.try_submit(n)));
        let open = async {
            tokio::task::yield_now().await;
            gate.add_permits(1);
        };
        let (answers, ()) = tokio::join!(all, open);
        let refused = answers.iter().filter(|answer| answer.is_err()).count();
        assert_eq!(refused, 10, "the queue was full before anybody could be served");
        assert!(answers.iter().flatten().zip(0..).all(|(answer, number)| *answer == number));
        assert!(batcher.try_submit(7).await.is_ok());
    }
}
