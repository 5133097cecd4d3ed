//! What happens to every request before and after its handler.

mod cors;
mod crowd;
mod edge;
mod pace;
mod refusals;
mod request_id;
mod shown_path;
mod time_limit;

pub(crate) use cors::cors;
pub(crate) use crowd::{Crowd, crowd};
pub(crate) use edge::edge;
pub(crate) use pace::{Pace, pace};
pub(crate) use refusals::{Refusals, count_refusals};
pub(crate) use shown_path::{PUBLIC_TRANSCRIPTS, shown_path};
pub(crate) use time_limit::time_limit;
