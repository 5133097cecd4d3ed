//! One direction of one connection: reads, holds back as the switches say, writes.

use std::io;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};

use super::{Faults, Switches};
use crate::real_time::{self, Instant};

const CHUNK_BYTES_MAX: usize = 16 * 1024;
/// Chunks under way in one direction. When they are used up the sender feels it, as over TCP.
const CHUNKS_HELD_MAX: usize = 64;
/// A slow line passes on what it carries in this time at once.
const SLICES_PER_SEC: u32 = 50;

/// The faults of one direction and the count of what went through.
pub(super) struct Lane<'a> {
    switches: watch::Receiver<Switches>,
    select: fn(&Switches) -> Faults,
    bytes: &'a AtomicU64,
}

/// What happened on the reading side, and when.
struct Event {
    at: Instant,
    /// Nothing in it means the orderly end of the stream.
    read: io::Result<Vec<u8>>,
}

impl<'a> Lane<'a> {
    pub(super) fn of(
        switches: &watch::Receiver<Switches>,
        select: fn(&Switches) -> Faults,
        bytes: &'a AtomicU64,
    ) -> Self {
        Lane { switches: switches.clone(), select, bytes }
    }

    /// Runs until the end of the stream was passed on. The end and an error travel like data: a
    /// black hole swallows them too.
    pub(super) async fn pump(self, from: ReadHalf<'_>, to: WriteHalf<'_>) -> io::Result<()> {
        let (held, release) = mpsc::channel(CHUNKS_HELD_MAX);
        let reading = async {
            read_all(from, held).await;
            // What was read last is still on its way.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            written = self.write_all(to, release) => written,
            () = reading => Ok(()),
        }
    }

    async fn write_all(
        mut self,
        mut to: WriteHalf<'_>,
        mut release: mpsc::Receiver<Event>,
    ) -> io::Result<()> {
        let mut line_free_at = real_time::now();
        while let Some(event) = release.recv().await {
            let data = match event.read {
                Ok(data) if !data.is_empty() => data,
                end => {
                    self.hold_until_due(event.at, line_free_at).await?;
                    end?;
                    return to.shutdown().await;
                }
            };
            let mut rest = data.as_slice();
            while !rest.is_empty() {
                let faults = self.hold_until_due(event.at, line_free_at).await?;
                let (slice, later) = rest.split_at(slice_bytes(faults, rest.len()));
                to.write_all(slice).await?;
                self.bytes.fetch_add(slice.len() as u64, Ordering::Relaxed);
                line_free_at = real_time::now() + time_on_line(faults, slice.len());
                rest = later;
            }
        }
        Ok(())
    }

    /// Waits until something that was read at `read_at` may go out, by the switches as they are
    /// then: a healed network releases what a slower one held.
    async fn hold_until_due(
        &mut self,
        read_at: Instant,
        line_free_at: Instant,
    ) -> io::Result<Faults> {
        loop {
            let faults = (self.select)(&self.switches.borrow_and_update());
            let mut due = read_at + faults.latency;
            if faults.bytes_per_sec.is_some() {
                due = due.max(line_free_at);
            }
            if !faults.blackhole && real_time::now() >= due {
                return Ok(faults);
            }
            tokio::select! {
                changed = self.switches.changed() => changed.map_err(io::Error::other)?,
                () = real_time::pause_until(due), if !faults.blackhole => {}
            }
        }
    }
}

async fn read_all(mut from: ReadHalf<'_>, held: mpsc::Sender<Event>) {
    let mut buffer = vec![0; CHUNK_BYTES_MAX];
    loop {
        let read = from.read(&mut buffer).await.map(|bytes| buffer[..bytes].to_vec());
        let last = !read.as_ref().is_ok_and(|data| !data.is_empty());
        let sent = held.send(Event { at: real_time::now(), read }).await;
        if last || sent.is_err() {
            return;
        }
    }
}

fn slice_bytes(faults: Faults, available: usize) -> usize {
    let Some(rate) = faults.bytes_per_sec else {
        return available;
    };
    let slice = rate.get().div_ceil(SLICES_PER_SEC);
    usize::try_from(slice).unwrap_or(usize::MAX).min(available)
}

fn time_on_line(faults: Faults, bytes: usize) -> Duration {
    let per_byte = |rate: NonZeroU32| Duration::from_secs(1) / rate.get();
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    faults.bytes_per_sec.map_or(Duration::ZERO, |rate| per_byte(rate) * bytes)
}
