//! Bodies that are whole, and bodies that never are.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::Answering;
use crate::real_time;

/// What is sent, and how.
pub(super) struct SiteBody {
    sending: Sending,
    /// Until the last of it is sent.
    answering: Option<Answering>,
}

/// How a body is sent.
pub(super) enum Sending {
    Whole(Bytes),
    /// The same piece again and again, so many times.
    Again {
        piece: Bytes,
        times_left: u64,
        every: Duration,
        pause: Option<Pause>,
    },
    /// The head and nothing more.
    Never,
}

type Pause = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Sending {
    pub(super) fn again(piece: impl Into<Bytes>, times: u64, every: Duration) -> Self {
        Sending::Again { piece: piece.into(), times_left: times, every, pause: None }
    }
}

impl SiteBody {
    pub(super) fn new(sending: Sending, answering: Answering) -> Self {
        SiteBody { sending, answering: Some(answering) }
    }
}

impl Body for SiteBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        match &mut this.sending {
            Sending::Never => Poll::Pending,
            Sending::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Sending::Whole(bytes) => {
                // Before whoever asked can ask again.
                this.answering = None;
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
            Sending::Again { times_left: 0, .. } => Poll::Ready(None),
            Sending::Again { piece, times_left, every, pause } => {
                if let Some(waiting) = pause {
                    ready!(waiting.as_mut().poll(cx));
                }
                *times_left -= 1;
                *pause = (!every.is_zero()).then(|| {
                    let waiting: Pause = Box::pin(real_time::pause(*every));
                    waiting
                });
                Poll::Ready(Some(Ok(Frame::data(piece.clone()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.sending, Sending::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.sending {
            Sending::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
