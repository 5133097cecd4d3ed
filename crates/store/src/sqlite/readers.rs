//! The threads that read. Each request sees one snapshot, whatever is written meanwhile.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use roundsman_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::mpsc;

use super::connection;
use super::error::{Failure, Result, closed};
use super::file::FileLock;
use super::request::{Request, isolated, request};

/// How many reads may wait before callers wait to hand theirs in.
const READ_QUEUE_REQUESTS_MAX: usize = 1024;

/// The way to the read threads.
#[derive(Debug)]
pub(super) struct Readers {
    queue: Mutex<Option<mpsc::Sender<Box<dyn Request>>>>,
    /// Yields nothing; it ends when the last thread has dropped its sender.
    ended: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

impl Readers {
    pub(super) fn start(path: &Path, count: usize, lock: &Arc<FileLock>) -> Result<Self> {
        let (queue, requests) = mpsc::channel(READ_QUEUE_REQUESTS_MAX);
        let (alive, ended) = mpsc::channel(1);
        let requests = Arc::new(Mutex::new(requests));
        for number in 0..count.max(1) {
            let conn = connection::open_reader(path)?;
            let (requests, alive, lock) = (Arc::clone(&requests), alive.clone(), Arc::clone(lock));
            std::thread::Builder::new()
                .name(format!("sqlite-reader-{number}"))
                .spawn(move || {
                    serve(&conn, &requests);
                    drop(conn);
                    drop((lock, alive));
                })
                .map_err(|error| Failure::failed(format!("cannot start a read thread: {error}")))?;
        }
        Ok(Readers { queue: Mutex::new(Some(queue)), ended: tokio::sync::Mutex::new(ended) })
    }

    /// Runs `work` over one snapshot. While the queue is full this waits for room.
    pub(super) async fn run<T, F>(&self, work: F) -> std::result::Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (request, answer) = request(move |conn| isolated(conn, "BEGIN", work));
        queue.ok_or_else(closed)?.send(request).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Takes no more requests, finishes those that were taken, and closes the connections.
    pub(super) async fn close(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        while self.ended.lock().await.recv().await.is_some() {}
    }
}

fn serve(conn: &Connection, requests: &Mutex<mpsc::Receiver<Box<dyn Request>>>) {
    loop {
        // Only one idle thread waits in the channel, the others wait for its place.
        let next = requests.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(mut request) = next else { return };
        request.run(conn);
        request.answer(None);
    }
}
