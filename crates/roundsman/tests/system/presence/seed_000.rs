//! Seed 000, scenario by scenario and as a whole, with a real server: 4 to 7 are about events and the
//! timer, 8 to 10 about workers, of which PostgreSQL has those of two nodes. Those about recordings
//! are with the tests of recordings.

mod events_and_timer;
mod master_diagram;
mod workers;

/// How long a held answer takes: longer than anything that is done meanwhile.
const HELD: std::time::Duration = std::time::Duration::from_secs(2);
const ROOM: &str = "mtg-123";
const OTHER_ROOM: &str = "mtg-456";
const POLL: &str = "presence.poll";
