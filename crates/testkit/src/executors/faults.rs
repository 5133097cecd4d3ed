//! What goes wrong when a test says so.

use crate::daily::http::{Reply, Sent};

/// Something that goes wrong, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The service says no, in its own words; nothing is taken.
    Wrong(Wrong),
    /// A gateway answers in the service's place; nothing is taken.
    Gateway(u16),
    /// The request is carried out, and its answer is lost on the way.
    AnswerLost,
    /// The request is carried out, and nothing ever comes.
    Hangs,
    /// The request is carried out, and the answer is no JSON.
    Garbage,
    /// The request is carried out, and the answer breaks off.
    Truncated,
    /// The request is carried out, and the answer has this many blanks at its end.
    Padded(usize),
    /// The request leads elsewhere; nothing is taken.
    Redirect(String),
    /// Too many requests, with how long to wait.
    RetryAfter(u64),
}

/// What a service says no to, each in its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// The key.
    Key,
    /// The account has no money.
    Billing,
    /// The account has no free slot, or too many requests.
    Busy,
    Params,
    Content,
    /// Something broke, by its own word.
    Server,
    /// A poll is forbidden although the submission was not.
    Forbidden,
    /// There is no such task.
    Missing,
}

impl Fault {
    /// What is answered in the place of anything else.
    pub(super) fn instead(&self, wrong: impl FnOnce(Wrong) -> Reply) -> Option<Reply> {
        match self {
            Fault::Wrong(what) => Some(wrong(*what)),
            Fault::Gateway(status) => {
                let mut reply = Reply::new(*status, "<html><body>Bad gateway</body></html>");
                reply.headers = vec![("content-type", "text/html".to_owned())];
                Some(reply)
            }
            Fault::Redirect(to) => {
                let mut reply = Reply::new(302, "");
                reply.headers.push(("location", to.clone()));
                Some(reply)
            }
            Fault::RetryAfter(secs) => {
                let mut reply = Reply::new(429, "{}");
                reply.headers.push(("retry-after", secs.to_string()));
                Some(reply)
            }
            _ => None,
        }
    }

    /// What becomes of the right answer.
    pub(super) fn spoil(&self, reply: Reply) -> Reply {
        match self {
            Fault::AnswerLost => Reply { sent: Sent::Reset, ..reply },
            Fault::Hangs => Reply { sent: Sent::Never, ..reply },
            Fault::Truncated => Reply { sent: Sent::CutAfter(5), ..reply },
            Fault::Garbage => Reply::new(200, "{\"id\": "),
            Fault::Padded(bytes) => match &reply.body {
                crate::daily::http::Body::Text(text) => {
                    Reply::new(reply.status, format!("{text}{}", " ".repeat(*bytes)))
                }
                crate::daily::http::Body::File { .. } => reply,
            },
            _ => reply,
        }
    }
}
