//! What cannot be true of rooms.

/// The log holds exactly what is after the snapshot, and weighs what is noted; there is a snapshot if
/// one was made.
pub(in crate::sqlite) const LOGS_WITH_HOLES: &str = "-- logs_with_holes
    SELECT 'rooms ' || r.project_id,
           'has ' || count(u.seq) || ' updates of ' || coalesce(sum(length(u.payload)), 0)
           || ' bytes between ' || r.snapshot_seq || ' and ' || r.head_seq
      FROM rooms AS r
      LEFT JOIN room_updates AS u ON u.project_id = r.project_id
     GROUP BY r.project_id
    HAVING count(u.seq) <> r.head_seq - r.snapshot_seq
        OR coalesce(min(u.seq), r.snapshot_seq + 1) <> r.snapshot_seq + 1
        OR coalesce(max(u.seq), r.head_seq) <> r.head_seq
        OR coalesce(sum(length(u.payload)), 0) <> r.log_bytes
        OR (r.snapshot_seq > 0) <> EXISTS (
               SELECT 1 FROM room_snapshots AS s WHERE s.project_id = r.project_id)";
