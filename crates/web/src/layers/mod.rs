//! What happens to every request before and after its handler.

mod edge;
mod request_id;
mod time_limit;

pub(crate) use edge::edge;
pub(crate) use time_limit::time_limit;
