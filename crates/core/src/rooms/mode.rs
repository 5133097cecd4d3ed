//! What a room is waiting for, in the words of the seed.

/// The mode of a room's alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AlarmType {
    /// Tasks are pending: they are looked at every ten seconds.
    TaskPolling,
    /// Nothing is pending, and the document has changed since its snapshot.
    Snapshot,
    /// There is nothing to do, and nothing is done.
    Idle,
}

impl AlarmType {
    pub const ALL: [AlarmType; 3] = [AlarmType::TaskPolling, AlarmType::Snapshot, AlarmType::Idle];

    pub fn as_str(self) -> &'static str {
        match self {
            AlarmType::TaskPolling => "task_polling",
            AlarmType::Snapshot => "snapshot",
            AlarmType::Idle => "idle",
        }
    }
}

/// The mode is computed and never stored, so it cannot be misspelt into one that nobody serves.
pub fn alarm_type(tasks_pending: u64, is_dirty: bool) -> AlarmType {
    match (tasks_pending, is_dirty) {
        (1.., _) => AlarmType::TaskPolling,
        (0, true) => AlarmType::Snapshot,
        (0, false) => AlarmType::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_goes_before_the_snapshot_and_both_before_idleness() {
        assert_eq!(alarm_type(2, true), AlarmType::TaskPolling);
        assert_eq!(alarm_type(1, false), AlarmType::TaskPolling);
        assert_eq!(alarm_type(0, true), AlarmType::Snapshot);
        assert_eq!(alarm_type(0, false), AlarmType::Idle);
    }
}
