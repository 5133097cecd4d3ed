//! The worker inside the process.

mod cancelling;
mod clock_jumps;
mod faults;
mod keys;
mod leases;
mod outcomes;
mod sharing;
mod shutdown;
