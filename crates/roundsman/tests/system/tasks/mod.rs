//! Tasks and alarms as their users have them: a real server, its databases, and generators that take
//! submissions, are asked and are paid.
//!
//! What must be true at every end: every task is over, what was sent was taken once, its end is in the
//! document of its project once, and nothing is polled any more.

mod kill;
mod nodes;
mod place;
mod providers;
mod whole;
