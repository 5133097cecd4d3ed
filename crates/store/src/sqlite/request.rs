//! A piece of work on its way to a thread, and its answer on the way back.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use roundsman_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::error::{Failure, GroupLost, Result};

/// Work that a thread does with its connection.
pub(super) trait Request: Send {
    /// Does the work. Answers nobody yet: what it wrote is not committed.
    fn run(&mut self, conn: &Connection) -> Ran;

    /// Tells the caller. If the work succeeded but the transaction around it was `lost`, that.
    fn answer(self: Box<Self>, lost: Option<&GroupLost>);
}

/// What is to become of what a request wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    Keep,
    Undo,
}

/// Packs work into a request; the receiver gets its answer.
pub(super) fn request<T, F>(
    work: F,
) -> (Box<dyn Request>, oneshot::Receiver<std::result::Result<T, StoreError>>)
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Typed { work: Some(work), outcome: None, reply }), answer)
}

/// Runs work in a transaction of its own on a connection that nobody shares.
pub(super) fn isolated<T>(
    conn: &Connection,
    begin: &'static str,
    work: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    conn.prepare_cached(begin)?.execute([])?;
    let outcome = caught(conn, work).and_then(|value| {
        conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(value)
    });
    if outcome.is_err() && !conn.is_autocommit() {
        conn.prepare_cached("ROLLBACK")?.execute([])?;
    }
    outcome
}

struct Typed<T, F> {
    work: Option<F>,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<std::result::Result<T, StoreError>>,
}

impl<T, F> Request for Typed<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T> + Send + 'static,
{
    fn run(&mut self, conn: &Connection) -> Ran {
        let Some(work) = self.work.take() else { return Ran::Undo };
        let outcome = caught(conn, work);
        let ran = if outcome.is_ok() { Ran::Keep } else { Ran::Undo };
        self.outcome = Some(outcome);
        ran
    }

    fn answer(self: Box<Self>, lost: Option<&GroupLost>) {
        let answer = match (self.outcome, lost) {
            (Some(Err(failure)), _) => Err(failure.into()),
            (_, Some(lost)) => Err(lost.to_error()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(StoreError::Failed("a request was answered without a run".into())),
        };
        // Nobody waits any more if the caller gave up; the work is done all the same.
        let _ = self.reply.send(answer);
    }
}

/// A panic is a bug of one request and must not take the thread, and with it the server, along.
fn caught<T>(conn: &Connection, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(|| work(conn))).unwrap_or_else(|panic| {
        let message = panic_message(panic.as_ref());
        tracing::error!(message, "a database request panicked");
        Err(Failure::failed(format!("the request panicked: {message}")))
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}
