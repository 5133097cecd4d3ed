//! Limits that are part of the meaning of the data, not of the configuration.
//!
//! Each has its unit in its name. Limits that an operator may move are in the configuration.

/// A kind is at most this long; it is part of index keys and metric labels.
pub const KIND_BYTES_MAX: usize = 64;
/// A key is at most this long; it is part of a unique index.
pub const KEY_BYTES_MAX: usize = 200;
/// A tenant is at most this long; it is part of a lane.
pub const TENANT_BYTES_MAX: usize = 100;
/// One gate lists at most this many weights.
pub const TENANT_WEIGHTS_MAX: usize = 1_000;
/// A tenant gets at most this many jobs in a row.
pub const WEIGHT_MAX: u32 = 100;
/// A cron expression is at most this long.
pub const CRON_BYTES_MAX: usize = 256;
/// A schedule's name is at most this long.
pub const SCHEDULE_NAME_BYTES_MAX: usize = 100;
/// One user has at most this many schedules.
pub const SCHEDULES_PER_USER_MAX: u32 = 1_000;
/// A schedule that missed moments enqueues jobs for at most this many of them.
pub const MISSED_FIRED_MAX: usize = 100;
/// A moment that is acted on within this time was not missed.
pub const SCHEDULE_LATE_SECS_MAX: u64 = 60;
/// One bulk call goes over at most this many jobs.
pub const BULK_JOBS_MAX: u32 = 10_000;
/// A job waits for at most this many others.
pub const AFTER_JOBS_MAX: usize = 1_000;
/// A batch's name is at most this long.
pub const BATCH_NAME_BYTES_MAX: usize = 100;
/// A worker's name is at most this long.
pub const WORKER_BYTES_MAX: usize = 128;
/// An error's code is at most this long; it is a metric label.
pub const ERROR_CODE_BYTES_MAX: usize = 64;
/// An error's message is cut to this length.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 4096;
/// A job remembers this many of its latest runs; older ones are only counted.
pub const RUNS_KEPT_MAX: usize = 20;
/// Priorities reach from `-PRIORITY_MAX` to `PRIORITY_MAX`; a step is worth a minute of waiting.
pub const PRIORITY_MAX: i16 = 100;
/// What one step of priority is worth, in seconds of age.
pub const PRIORITY_STEP_SECS: u64 = 60;
/// A merged payload keeps at most this many appended items; the oldest go first.
pub const MERGED_ITEMS_MAX: usize = 500;
/// JSON from outside may be nested at most this deep.
pub const JSON_DEPTH_MAX: usize = 64;
/// One page of a list holds at most this many rows.
pub const PAGE_ROWS_MAX: u32 = 200;
/// One store call takes at most this many rows; callers split larger batches.
pub const STORE_BATCH_ROWS_MAX: usize = 10_000;
/// A lease lasts at least this long, so that a heartbeat can arrive.
pub const LEASE_SECS_MIN: u64 = 5;
/// An outside worker may ask for a lease of at most this long.
pub const LEASE_SECS_MAX: u64 = 3600;
