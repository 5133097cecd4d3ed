//! Alarms of rooms at run time: the service that users call, and the job that fires those they have
//! set.
//!
//! Invariant: an alarm is a job, so all that is promised of jobs is promised of alarms: it is durable
//! when it is set, it is never early, it is tried until it has fired, and setting it while it fires
//! leaves it set.

mod fire;
mod service;

pub use fire::{AlarmWork, alarm_spec};
pub use service::{ALARM_PAYLOAD_BYTES_MAX, AlarmRequest, Alarms, ShownAlarms};
