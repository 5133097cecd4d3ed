//! Moves committed pages from the write-ahead log into the database, beside the writer.
//!
//! A checkpoint costs two synchronisations of the disk and a write per page: on the write thread it
//! would be felt by whoever waits for a commit. So a thread of its own runs passive checkpoints,
//! which take no lock that a writer needs. They never finish under steady writing, because there is
//! always a newer page, and a log that is never finished is never begun anew. When the log has
//! become large, the writer itself therefore copies the last few pages, once, between two groups.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use roundsman_core::failpoint;
use roundsman_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::connection;
use super::error::{Failure, Result};
use super::file::FileLock;

/// A passive checkpoint begins when this much of the log is new: 4 MiB.
const PASSIVE_PAGES_MIN: u32 = 1024;
/// From here on the log is worth finishing: 32 MiB.
const LARGE_PAGES_MIN: u32 = 8192;
/// The writer finishes only what takes it a few milliseconds: 8 MiB.
const FINISH_PAGES_MAX: u32 = 2048;
/// From here on the writer waits for the disk, or the log would grow without end: 128 MiB.
const HUGE_PAGES_MIN: u32 = 32_768;

/// What the writer and the checkpointer know of the log, in pages.
#[derive(Debug)]
pub(super) struct WalGauge {
    /// In the log after the latest commit.
    written: AtomicU32,
    /// Of those, in the database already.
    copied: AtomicU32,
    /// Where the writer last tried to finish, so that a long read does not make it try every time.
    tried_at: AtomicU32,
    /// Held during a checkpoint: SQLite refuses a second one instead of letting it wait.
    busy: Mutex<()>,
    wake: mpsc::SyncSender<()>,
}

impl WalGauge {
    /// Has SQLite report the size of the log after every commit of the write connection.
    pub(super) fn watch(self: &Arc<Self>, conn: &mut Connection) -> Result<()> {
        let gauge = Arc::clone(self);
        conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            gauge.grown(u32::try_from(pages).unwrap_or(0));
            Ok(())
        }))?;
        Ok(())
    }

    /// Called by the writer between groups, outside any transaction.
    pub(super) fn after_commit(&self, conn: &Connection) {
        let written = self.written.load(Ordering::Relaxed);
        let left = written.saturating_sub(self.copied.load(Ordering::Relaxed));
        if left >= PASSIVE_PAGES_MIN {
            // A full channel means that it is awake already.
            let _ = self.wake.try_send(());
        }
        let since_tried = written.saturating_sub(self.tried_at.load(Ordering::Relaxed));
        if written < LARGE_PAGES_MIN || since_tried < PASSIVE_PAGES_MIN {
            return;
        }
        if written >= HUGE_PAGES_MIN {
            let _guard = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            self.tried_at.store(written, Ordering::Relaxed);
            self.checkpoint(conn);
        } else if left <= FINISH_PAGES_MAX
            && let Ok(_guard) = self.busy.try_lock()
        {
            self.tried_at.store(written, Ordering::Relaxed);
            self.checkpoint(conn);
        }
    }

    fn grown(&self, written: u32) {
        if written < self.written.swap(written, Ordering::Relaxed) {
            // The log was begun anew.
            self.copied.store(0, Ordering::Relaxed);
            self.tried_at.store(0, Ordering::Relaxed);
        }
    }

    fn checkpoint(&self, conn: &Connection) {
        failpoint::hit("sqlite.checkpointing");
        let copied = conn
            .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")
            .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(2)));
        failpoint::hit("sqlite.checkpointed");
        match copied {
            Ok(copied) => {
                // More than was written: the log has been begun anew in between.
                let copied = u32::try_from(copied).unwrap_or(0);
                let stale = copied > self.written.load(Ordering::Relaxed);
                self.copied.store(if stale { 0 } else { copied }, Ordering::Relaxed);
            }
            // The log only grows meanwhile; the next commit tries again.
            Err(error) => {
                let error = StoreError::from(Failure::from(error));
                tracing::warn!(%error, "a checkpoint failed");
            }
        }
    }
}

/// The thread that checkpoints.
#[derive(Debug)]
pub(super) struct Checkpointer {
    gauge: Mutex<Option<Arc<WalGauge>>>,
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Checkpointer {
    pub(super) fn start(path: &Path, lock: Arc<FileLock>) -> Result<Self> {
        let conn = connection::open_checkpointer(path)?;
        let (wake, woken) = mpsc::sync_channel(1);
        let (end, ended) = oneshot::channel();
        let gauge = Arc::new(WalGauge {
            written: AtomicU32::new(0),
            copied: AtomicU32::new(0),
            tried_at: AtomicU32::new(0),
            busy: Mutex::new(()),
            wake,
        });
        let weak = Arc::downgrade(&gauge);
        std::thread::Builder::new()
            .name("sqlite-checkpoint".to_owned())
            .spawn(move || {
                while let Ok(()) = woken.recv() {
                    let Some(gauge) = weak.upgrade() else { break };
                    let _guard = gauge.busy.lock().unwrap_or_else(PoisonError::into_inner);
                    gauge.checkpoint(&conn);
                }
                drop(conn);
                drop(lock);
                let _ = end.send(());
            })
            .map_err(|error| {
                Failure::failed(format!("cannot start the checkpoint thread: {error}"))
            })?;
        Ok(Checkpointer { gauge: Mutex::new(Some(gauge)), ended: Mutex::new(Some(ended)) })
    }

    /// For the writer. The thread ends when everybody has dropped theirs.
    pub(super) fn gauge(&self) -> Arc<WalGauge> {
        let gauge = self.gauge.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(gauge.as_ref().expect("the gauge is only given up by close"))
    }

    /// Ends the thread; the writer must have ended before.
    pub(super) async fn close(&self) {
        drop(self.gauge.lock().unwrap_or_else(PoisonError::into_inner).take());
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ended) = ended {
            let _ = ended.await;
        }
    }
}
