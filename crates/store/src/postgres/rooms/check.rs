//! What cannot be true of rooms.

/// The log holds exactly what is after the snapshot, and weighs what is noted; there is a snapshot if
/// one was made.
pub(in crate::postgres) const LOGS_WITH_HOLES: &str = "-- logs_with_holes
SELECT 'rooms ' || r.project_id,
       format('has %s updates of %s bytes between %s and %s', count(u.seq),
              coalesce(sum(length(u.payload)), 0), r.snapshot_seq, r.head_seq)
  FROM roundsman.rooms r
  LEFT JOIN roundsman.room_updates u ON u.project_id = r.project_id
 GROUP BY r.project_id
HAVING count(u.seq) <> r.head_seq - r.snapshot_seq
    OR coalesce(min(u.seq), r.snapshot_seq + 1) <> r.snapshot_seq + 1
    OR coalesce(max(u.seq), r.head_seq) <> r.head_seq
    OR coalesce(sum(length(u.payload)), 0) <> r.log_bytes
    OR (r.snapshot_seq > 0) <> EXISTS (
           SELECT FROM roundsman.room_snapshots s WHERE s.project_id = r.project_id)";
