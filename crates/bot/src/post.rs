//! Sends reports: one try, or one after the other until each is accepted.
//!
//! Invariants: reports that are queued arrive in order, and a later one waits for an earlier one;
//! what an answer says is known before the sender of the report goes on; after the server said
//! that nobody is listening, nothing is sent.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::backoff::Backoff;
use crate::callback::{Callback, Verdict};
use crate::random::Random;
use crate::time::Clock;
use crate::transport::Transport;
use crate::wishes::{Gone, LeaveCause, Wishes};

const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LONGEST: Duration = Duration::from_secs(15);
/// A life has six reports; a bot that made so many more is not heard anyway.
const REPORTS_QUEUED_MAX: usize = 64;

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivered {
    Accepted,
    /// The server answered, but did not want this one.
    Rejected(u16),
    Gone(Gone),
    /// The bot ended, or too many were waiting.
    Undelivered,
}

/// Tells what becomes of a report. May be ignored: the report is on its way.
#[derive(Debug)]
pub struct Receipt(oneshot::Receiver<Delivered>);

/// What every report needs.
pub(crate) struct Post {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) wishes: Wishes,
    pub(crate) connection_id: String,
    pub(crate) meeting_id: i64,
}

/// What one try came to, if it is worth another.
pub(crate) struct TryAgain {
    pub(crate) reason: String,
    pub(crate) retry_after: Option<Duration>,
}

/// The way into the queue.
#[derive(Debug, Clone)]
pub(crate) struct Outbox(mpsc::Sender<Parcel>);

struct Parcel {
    callback: Callback,
    receipt: oneshot::Sender<Delivered>,
}

impl Receipt {
    /// Waits as long as it takes.
    pub async fn delivered(self) -> Delivered {
        self.0.await.unwrap_or(Delivered::Undelivered)
    }
}

impl Post {
    /// Sends once and takes note of what the answer says.
    pub(crate) async fn attempt(&self, callback: &Callback) -> Result<Delivered, TryAgain> {
        if let Some(gone) = self.wishes.is_gone() {
            return Ok(Delivered::Gone(gone));
        }
        let request = callback.request(&self.connection_id, self.meeting_id);
        let response = self.transport.send(&request).await;
        let response =
            response.map_err(|error| TryAgain { reason: error.to_string(), retry_after: None })?;
        match Verdict::of(&response) {
            Verdict::Accepted(answer) => {
                if answer.wants_leave() {
                    self.wishes.leave(LeaveCause::Asked);
                }
                answer.reconfigure().into_iter().for_each(|wanted| self.wishes.reconfigure(wanted));
                Ok(Delivered::Accepted)
            }
            Verdict::Gone => Ok(self.over(Gone::Over)),
            Verdict::Refused(status) => Ok(self.over(Gone::Refused(status))),
            Verdict::Rejected(status) => {
                tracing::warn!(path = request.path, status, "the server did not want a report");
                Ok(Delivered::Rejected(status))
            }
            Verdict::TryAgain(status) => Err(TryAgain {
                reason: format!("status {status}"),
                retry_after: response.retry_after,
            }),
        }
    }

    /// Sends until the server decides. Only the end of the bot ends it otherwise.
    async fn deliver(&self, callback: &Callback) -> Delivered {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            let failure = match self.attempt(callback).await {
                Ok(delivered) => return delivered,
                Err(failure) => failure,
            };
            // One warning per outage.
            if backoff.failures() == 0 {
                tracing::warn!(reason = failure.reason, "a report did not arrive; trying again");
            } else {
                tracing::debug!(reason = failure.reason, "a report still does not arrive");
            }
            let own = backoff.next(self.random.as_ref());
            let asked = failure.retry_after.unwrap_or_default().min(RETRY_LONGEST);
            tokio::select! {
                biased;
                gone = self.wishes.until_gone() => return Delivered::Gone(gone),
                () = self.clock.pause(own.max(asked)) => {}
            }
        }
    }

    fn over(&self, gone: Gone) -> Delivered {
        tracing::info!(%gone, "nobody listens to this bot any more");
        self.wishes.gone(gone);
        Delivered::Gone(gone)
    }
}

impl Outbox {
    /// A queue, and the work of delivering what is put into it.
    pub(crate) fn new(post: Arc<Post>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, mut parcels) = mpsc::channel::<Parcel>(REPORTS_QUEUED_MAX);
        let delivering = async move {
            while let Some(Parcel { callback, receipt }) = parcels.recv().await {
                let delivered = post.deliver(&callback).await;
                // Nobody has to wait for a receipt.
                let _ = receipt.send(delivered);
            }
        };
        (Outbox(sender), delivering)
    }

    pub(crate) fn send(&self, callback: Callback) -> Receipt {
        let (receipt, delivered) = oneshot::channel();
        if self.0.try_send(Parcel { callback, receipt }).is_err() {
            tracing::warn!("too many reports are waiting; one was dropped");
        }
        Receipt(delivered)
    }
}
