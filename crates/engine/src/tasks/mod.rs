//! Tasks at run time: the service that callers use, the job that sends each task to its generator, the
//! rounds of rooms over their tasks, the job that fetches what a task brought, the one that tells a
//! generator that nobody wants a task any more, and the sweep that looks after what was lost.
//!
//! Invariants: a task is in the database, with its jobs, before anybody outside hears of it; it is sent
//! under the lease of its job, and that it is being sent is written before; what was sent and not
//! clearly answered is asked after or ends as `submit_unknown`, never sent again on a guess; the end of
//! a task, the update of its project's document and everything that is told of it commit together.

mod cancel;
mod change;
mod collect;
mod files;
mod poll;
mod prune;
mod service;
mod submit;
mod sweep;
mod work;

pub use poll::polling_spec;
pub use service::{BroadcastWish, HintError, TaskWish, Tasks};
pub use work::{TaskNews, TaskOptions, TaskWork, task_specs, task_wishes};
