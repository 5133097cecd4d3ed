//! The thread that owns the write connection and commits in groups.
//!
//! Invariants: requests run one after the other in the order they came, each so that it can be
//! undone by itself: a failing one leaves no trace and disturbs nobody; nobody is answered before
//! the commit that contains their work. There is no linger: a group is what queued up during the
//! last commit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use roundsman_core::failpoint;
use roundsman_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::SqliteOptions;
use super::checkpoint::WalGauge;
use super::error::{Failure, GroupLost, Result, closed};
use super::file::FileLock;
use super::request::{Ran, Request, request};

/// The way to the write thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Box<dyn Request>>>>,
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Writer {
    pub(super) fn start(
        mut conn: Connection,
        options: &SqliteOptions,
        gauge: Arc<WalGauge>,
        lock: Arc<FileLock>,
    ) -> Result<Self> {
        let (queue, requests) = mpsc::channel(options.write_queue_requests_max.max(1));
        let (end, ended) = oneshot::channel();
        let group_max = options.group_requests_max.max(1);
        gauge.watch(&mut conn)?;
        std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || {
                serve(&conn, requests, group_max, &gauge);
                drop(conn);
                drop(lock);
                let _ = end.send(());
            })
            .map_err(|error| Failure::failed(format!("cannot start the write thread: {error}")))?;
        Ok(Writer { queue: Mutex::new(Some(queue)), ended: Mutex::new(Some(ended)) })
    }

    /// Runs `work` and waits until it is committed. While the queue is full this waits for room.
    pub(super) async fn run<T, F>(&self, work: F) -> std::result::Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let queue = locked(&self.queue).clone().ok_or_else(closed)?;
        let (request, answer) = request(work);
        queue.send(request).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Takes no more requests, finishes those that were taken, and closes the connection.
    pub(super) async fn close(&self) {
        drop(locked(&self.queue).take());
        let ended = locked(&self.ended).take();
        if let Some(ended) = ended {
            let _ = ended.await;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(
    conn: &Connection,
    mut requests: mpsc::Receiver<Box<dyn Request>>,
    group_max: usize,
    gauge: &WalGauge,
) {
    let mut group = VecDeque::with_capacity(group_max);
    while let Some(first) = requests.blocking_recv() {
        group.push_back(first);
        while group.len() < group_max {
            let Ok(next) = requests.try_recv() else { break };
            group.push_back(next);
        }
        while !group.is_empty() {
            commit_group(conn, &mut group);
        }
        gauge.after_commit(conn);
    }
}

/// Runs requests from the front of `group` in one transaction and answers them. Takes all of them,
/// unless the transaction ends half way: then the rest is left for another one.
fn commit_group(conn: &Connection, group: &mut VecDeque<Box<dyn Request>>) {
    if let Err(error) = execute(conn, "BEGIN IMMEDIATE") {
        let lost = GroupLost::rolled_back(&error);
        let (error, requests) = (lost.to_error(), group.len());
        tracing::warn!(%error, requests, "a write transaction cannot begin");
        group.drain(..).for_each(|request| request.answer(Some(&lost)));
        return;
    }
    failpoint::hit("sqlite.begun");
    let mut ran = Vec::with_capacity(group.len());
    let mut lost = None;
    while let Some(mut request) = group.pop_front() {
        // The first one needs no savepoint, which would copy every page it changes: while nobody
        // else has written, undoing it is undoing the transaction.
        let ended = if ran.is_empty() {
            (request.run(conn) == Ran::Undo).then(|| roll_back(conn))
        } else {
            in_savepoint(conn, request.as_mut()).err().map(Err)
        };
        ran.push(request);
        if let Some(ended) = ended {
            lost = ended.err().map(|error| {
                let lost = GroupLost::rolled_back(&error);
                let error = lost.to_error();
                tracing::warn!(%error, requests = ran.len(), "a write transaction was lost");
                lost
            });
            break;
        }
    }
    if lost.is_none() && !conn.is_autocommit() {
        failpoint::hit("sqlite.committing");
        lost = execute(conn, "COMMIT").err().map(|error| {
            let lost = GroupLost::commit_failed(&error);
            tracing::warn!(error = %lost.to_error(), requests = ran.len(), "a commit failed");
            lost
        });
        failpoint::hit("sqlite.committed");
    }
    // If even this fails there is nothing more to tell: every request hears that it was lost.
    let _ = roll_back(conn);
    for request in ran {
        request.answer(lost.as_ref());
    }
    failpoint::hit("sqlite.answered");
}

/// Ends the transaction, unless it has ended already.
fn roll_back(conn: &Connection) -> rusqlite::Result<()> {
    if conn.is_autocommit() { Ok(()) } else { execute(conn, "ROLLBACK") }
}

/// An error means that the transaction is gone, and the work of the requests before this one too.
fn in_savepoint(conn: &Connection, request: &mut dyn Request) -> rusqlite::Result<()> {
    execute(conn, "SAVEPOINT request")?;
    failpoint::hit("sqlite.savepoint");
    if request.run(conn) == Ran::Undo {
        // Fails if SQLite has rolled back by itself, as it does when the disk is full.
        execute(conn, "ROLLBACK TO request")?;
    }
    execute(conn, "RELEASE request")
}

fn execute(conn: &Connection, statement: &'static str) -> rusqlite::Result<()> {
    conn.prepare_cached(statement)?.execute([]).map(|_| ())
}
