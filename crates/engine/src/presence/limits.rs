//! The limits of presence that an operator may move.

/// Each has its unit in its name.
#[derive(Debug, Clone, Copy)]
pub struct PresenceLimits {
    /// Rooms that one process asks about at once; the provider's limits hold for all together.
    pub looks_at_once_max: usize,
    /// Looks that one process asks for in a second because of events, on average: more than can be
    /// made, so that they are never late for this.
    pub looks_asked_per_sec_max: u32,
    /// Events of which it is remembered that they came.
    pub events_remembered_max: usize,
    /// Rooms whose events wait to be sent on.
    pub rooms_buffered_max: usize,
    /// Events of one room that wait; of more only the wish to look is kept.
    pub hints_per_room_max: usize,
    /// The same for all rooms together.
    pub hints_buffered_max: usize,
    /// Events that wait to be kept for whoever wants to see them, and their bytes.
    pub inbox_queued_rows_max: usize,
    pub inbox_queued_bytes_max: usize,
    /// Of those that were understood, so many are kept in a second.
    pub inbox_taken_per_sec_max: u32,
    /// Rooms, or events, that are written with one statement.
    pub rows_per_step_max: usize,
    /// Rows in one page of a list.
    pub page_rows_max: u32,
    /// Sessions in one export or timeline.
    pub export_sessions_max: usize,
}

impl Default for PresenceLimits {
    fn default() -> Self {
        PresenceLimits {
            looks_at_once_max: 32,
            looks_asked_per_sec_max: 50,
            events_remembered_max: 100_000,
            rooms_buffered_max: 10_000,
            hints_per_room_max: 500,
            hints_buffered_max: 100_000,
            inbox_queued_rows_max: 20_000,
            inbox_queued_bytes_max: 32 * 1024 * 1024,
            inbox_taken_per_sec_max: 100,
            rows_per_step_max: 500,
            page_rows_max: 200,
            export_sessions_max: 50_000,
        }
    }
}
