//! Jobs at run time: the service that callers use, and the worker, sweeper and housekeeping loops.

mod batch;
mod batches;
mod bulk;
mod gates;
mod handler;
mod housekeeping;
mod import;
mod limits;
mod outside;
mod periodic;
mod schedules;
mod service;
mod sweeper;
mod wish;
mod worker;

pub(crate) use batch::Batcher;
pub use batches::{AfterWish, BatchReport, BatchWish};
pub use bulk::{BulkAction, BulkReport, BulkWish};
pub use gates::GateTarget;
pub use handler::{Handler, HandlerRegistry, HandlerResult, JobContext};
pub use housekeeping::{Housekeeping, PRUNE_KIND, prune_spec};
pub use import::{ImportLine, ImportReport};
pub use limits::JobLimits;
pub use outside::ClaimWish;
pub use periodic::{next_round, periodic_spec, periodic_wish};
pub use schedules::{MOMENTS_SHOWN, ScheduleKeeper, ScheduleWish, schedule_spec};
pub use service::{EnqueueReport, IdempotencyWish, Jobs, JobsDeps};
pub use sweeper::Sweeper;
pub use wish::JobWish;
pub use worker::{Worker, WorkerDeps, WorkerOptions};
