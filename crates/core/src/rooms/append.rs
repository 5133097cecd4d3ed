//! What a new update does to its room, and when the log is to be merged into a snapshot.

use std::time::Duration;

use super::{Room, snapshot_wish};
use crate::Timestamp;
use crate::effects::Effects;

/// The limits of a document, and when its log is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendRules {
    /// Snapshot and log together.
    pub document_bytes_max: u64,
    /// The log is merged at the latest this long after its first update.
    pub snapshot_after: Duration,
    /// Or when it holds this many updates,
    pub snapshot_updates: u32,
    /// or this many bytes.
    pub snapshot_log_bytes: u64,
}

impl Default for AppendRules {
    fn default() -> Self {
        AppendRules {
            document_bytes_max: 50 * 1024 * 1024,
            snapshot_after: Duration::from_secs(300),
            snapshot_updates: 200,
            snapshot_log_bytes: 256 * 1024,
        }
    }
}

impl AppendRules {
    /// The same for what must not be refused: results that were waited for.
    #[must_use]
    pub fn without_limit(self) -> Self {
        AppendRules { document_bytes_max: u64::MAX, ..self }
    }

    fn log_is_long(&self, updates: i64, bytes: u64) -> bool {
        updates >= i64::from(self.snapshot_updates) || bytes >= self.snapshot_log_bytes
    }
}

/// The document may not grow by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the document would have {bytes} bytes, and {bytes_max} are allowed")]
pub struct DocumentFull {
    pub bytes: u64,
    pub bytes_max: u64,
}

/// The room after one more update, which gets its `head_seq`, and what that brings: the alarm
/// `snapshot` is set by the first update after a snapshot and brought forward by the one that makes
/// the log long. All others find it set.
pub fn append(
    room: &Room,
    update_bytes: u64,
    rules: &AppendRules,
    now: Timestamp,
) -> Result<(Room, Effects), DocumentFull> {
    let bytes = room.document_bytes().saturating_add(update_bytes);
    if bytes > rules.document_bytes_max {
        return Err(DocumentFull { bytes, bytes_max: rules.document_bytes_max });
    }
    let after = Room {
        head_seq: room.head_seq + 1,
        log_bytes: room.log_bytes.saturating_add(update_bytes),
        dirty_since: room.dirty_since.or(Some(now)),
        updated_at: room.updated_at.max(now),
        ..room.clone()
    };
    let was_long = rules.log_is_long(room.head_seq - room.snapshot_seq, room.log_bytes);
    let is_long = rules.log_is_long(after.head_seq - after.snapshot_seq, after.log_bytes);
    let jobs = if is_long && !was_long {
        vec![snapshot_wish(&room.project, now)]
    } else if room.is_dirty() {
        Vec::new()
    } else {
        vec![snapshot_wish(&room.project, now + rules.snapshot_after)]
    };
    Ok((after, Effects { jobs, ..Effects::default() }))
}

/// When the log of a room is to be merged; `None` while there is nothing to merge.
pub fn snapshot_due(room: &Room, rules: &AppendRules) -> Option<Timestamp> {
    let since = room.dirty_since?;
    let is_long = rules.log_is_long(room.head_seq - room.snapshot_seq, room.log_bytes);
    Some(if is_long { since } else { since + rules.snapshot_after })
}

/// The room after everything up to `through_seq` went into a snapshot. `log_bytes_left` is what the
/// updates after it weigh. What came in meanwhile is as old as this snapshot.
pub fn compacted(
    room: &Room,
    through_seq: i64,
    snapshot_bytes: u64,
    log_bytes_left: u64,
    now: Timestamp,
) -> Room {
    let is_dirty = room.head_seq > through_seq;
    Room {
        snapshot_seq: through_seq,
        snapshot_bytes,
        log_bytes: log_bytes_left,
        dirty_since: is_dirty.then_some(now),
        ..room.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rooms::ProjectId;
    use crate::users::UserId;

    fn room() -> Room {
        Room::new(ProjectId::new("p").unwrap(), UserId::new(1), Timestamp::EPOCH)
    }

    fn at(secs: u64) -> Timestamp {
        Timestamp::EPOCH + Duration::from_secs(secs)
    }

    #[test]
    fn the_alarm_is_set_once_and_brought_forward_once() {
        let rules = AppendRules { snapshot_updates: 3, ..AppendRules::default() };
        let mut room = room();
        let mut wishes = Vec::new();
        for secs in 1..=5 {
            let (after, effects) = append(&room, 10, &rules, at(secs)).unwrap();
            wishes.push(effects.jobs.iter().map(|job| job.run_at).collect::<Vec<_>>());
            room = after;
        }
        assert_eq!(wishes, [vec![at(301)], vec![], vec![at(3)], vec![], vec![]]);
        assert_eq!((room.head_seq, room.log_bytes, room.dirty_since), (5, 50, Some(at(1))));
    }

    #[test]
    fn a_heavy_log_brings_the_alarm_forward_too() {
        let rules = AppendRules { snapshot_log_bytes: 100, ..AppendRules::default() };
        let (room, _) = append(&room(), 99, &rules, at(1)).unwrap();
        let (_, effects) = append(&room, 1, &rules, at(2)).unwrap();
        assert_eq!(effects.jobs[0].run_at, at(2));
    }

    #[test]
    fn a_document_has_a_limit_which_results_may_pass() {
        let rules = AppendRules { document_bytes_max: 100, ..AppendRules::default() };
        let full = Room { snapshot_bytes: 60, log_bytes: 40, ..room() };
        assert_eq!(
            append(&full, 1, &rules, at(1)),
            Err(DocumentFull { bytes: 101, bytes_max: 100 })
        );
        assert!(append(&full, 1, &rules.without_limit(), at(1)).is_ok());
    }

    #[test]
    fn a_snapshot_leaves_dirty_what_came_in_meanwhile() {
        let mut room = room();
        for secs in 1..=3 {
            room = append(&room, 10, &AppendRules::default(), at(secs)).unwrap().0;
        }
        let clean = compacted(&room, 3, 500, 0, at(9));
        assert_eq!(
            (clean.is_dirty(), clean.dirty_since, clean.document_bytes()),
            (false, None, 500)
        );
        let rest = compacted(&room, 2, 500, 10, at(9));
        assert_eq!((rest.is_dirty(), rest.dirty_since, rest.log_bytes), (true, Some(at(9)), 10));
        let rules = AppendRules::default();
        assert_eq!(snapshot_due(&clean, &rules), None);
        assert_eq!(snapshot_due(&rest, &rules), Some(at(309)));
        let one = AppendRules { snapshot_updates: 1, ..rules };
        assert_eq!(snapshot_due(&rest, &one), Some(at(9)), "what is long is merged at once");
    }
}
