//! Bulk insertion of waiting jobs by binary COPY: about twice as fast as INSERT.
//!
//! The format is encoded here rather than by the driver's writer, which sends a message for every
//! four kilobytes and looks up every value's type again.

use bytes::{BufMut, BytesMut};
use futures_util::SinkExt;

use crate::postgres::columns::WaitingRows;
use crate::postgres::error::Failure;
use crate::postgres::session::Session;

/// The format's signature, no flags, no header extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Ends the data: a row of -1 columns.
const TRAILER: i16 = -1;
/// Sent together; large enough that the cost per message disappears.
const CHUNK_BYTES: usize = 128 * 1024;

const COPY_WAITING: &str = "-- copy_waiting
COPY roundsman.job_queue
    (id, user_id, state, priority, attempt, max_attempts, rank, due_at, run_at, not_before,
     triggered_at, created_at, lane, kind, key, payload, runs)
FROM STDIN BINARY";

/// Inserts jobs without keys. Commits by itself unless a transaction is open.
pub(super) async fn copy_waiting(
    session: &mut Session,
    rows: &WaitingRows<'_>,
) -> Result<(), Failure> {
    let mut sink = Box::pin(session.copy_in(COPY_WAITING).await?);
    let mut buffer = BytesMut::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4);
    buffer.put_slice(HEADER);
    for index in 0..rows.len() {
        put_row(&mut buffer, rows, index);
        if buffer.len() >= CHUNK_BYTES {
            sink.send(buffer.split().freeze()).await?;
        }
    }
    buffer.put_i16(TRAILER);
    sink.send(buffer.freeze()).await?;
    sink.as_mut().finish().await.map_err(Failure::Commit)?;
    Ok::<(), Failure>(())
}

fn put_row(out: &mut BytesMut, rows: &WaitingRows<'_>, index: usize) {
    out.put_i16(17);
    put_i64(out, rows.ids[index]);
    put_i64(out, rows.users[index]);
    put_i16(out, rows.states[index]);
    put_i16(out, rows.priorities[index]);
    put_i32(out, rows.attempts[index]);
    put_opt(out, rows.max_attempts[index], put_i32);
    put_i64(out, rows.ranks[index].to_wire());
    put_i64(out, rows.due[index].to_wire());
    put_i64(out, rows.run[index].to_wire());
    put_opt(out, rows.not_before[index], |out, time| put_i64(out, time.to_wire()));
    put_i64(out, rows.triggered[index].to_wire());
    put_i64(out, rows.created[index].to_wire());
    put_text(out, &rows.lanes[index]);
    put_text(out, rows.kinds[index]);
    put_opt(out, rows.keys[index], put_text);
    put_text(out, rows.payloads[index]);
    put_opt(out, rows.runs[index].as_deref(), put_text);
}

fn put_i16(out: &mut BytesMut, value: i16) {
    out.put_i32(2);
    out.put_i16(value);
}

fn put_i32(out: &mut BytesMut, value: i32) {
    out.put_i32(4);
    out.put_i32(value);
}

fn put_i64(out: &mut BytesMut, value: i64) {
    out.put_i32(8);
    out.put_i64(value);
}

fn put_text(out: &mut BytesMut, text: &str) {
    // A text of two gigabytes cannot get here: payloads are limited at the edge, and the server
    // would refuse the row for its length.
    out.put_i32(i32::try_from(text.len()).unwrap_or(i32::MAX));
    out.put_slice(text.as_bytes());
}

fn put_opt<T>(out: &mut BytesMut, value: Option<T>, put: impl FnOnce(&mut BytesMut, T)) {
    match value {
        Some(value) => put(out, value),
        None => out.put_i32(-1),
    }
}
