//! Holds the statements that run often, or over tables that grow, to the index they are made for.

use rusqlite::Connection;

use super::{
    batch, frames, prune, read, rewrite, search, segments, sessions, settle, shares, speakers,
    stream,
};
use crate::sqlite::schema;

/// Statements and what their plan must say.
const EXPECTED: &[(&str, &str)] = &[
    (batch::OPEN_MEETING, "SEARCH meetings USING INTEGER PRIMARY KEY"),
    (sessions::START, "(meeting_id=? AND session_uid=?)"),
    (sessions::NAMES, "SEARCH live_segments USING COVERING INDEX"),
    (segments::LIVE_WITHIN, "live_segments_start (meeting_id=? AND session_uid=? AND start_ms>?"),
    (segments::LIVE_NAMED, "live_segments_id (meeting_id=? AND session_uid=? AND segment_id=?)"),
    (segments::LIVE_OF, "SEARCH l USING PRIMARY KEY (meeting_id=?)"),
    (segments::KEPT_WITHIN, "kept_segments_start (meeting_id=? AND session_uid=? AND start_ms>?"),
    (segments::KEPT_WITHIN, "SEARCH t USING INTEGER PRIMARY KEY"),
    (segments::KEPT_NAMED, "kept_segments_id (meeting_id=? AND session_uid=? AND segment_id=?)"),
    (segments::KEPT_AROUND, "kept_segments_start (meeting_id=? AND session_uid=? AND start_ms<?"),
    (segments::UPDATE_KEPT, "kept_segments_key (meeting_id=? AND session_uid=? AND field=?)"),
    (segments::PLACE_LIVE, "PRIMARY KEY (meeting_id=? AND session_uid=? AND field=?)"),
    (segments::PLACE_KEPT, "kept_segments_key (meeting_id=? AND session_uid=? AND field=?)"),
    (speakers::COUNT, "PRIMARY KEY (session_uid=? AND meeting_id=?)"),
    (speakers::LATEST, "PRIMARY KEY (session_uid=? AND meeting_id=? AND at_ms<?)"),
    (speakers::BETWEEN, "PRIMARY KEY (session_uid=? AND meeting_id=? AND at_ms>? AND at_ms<?)"),
    (speakers::NAMES, "PRIMARY KEY (meeting_id=?)"),
    (speakers::DELETE_HEARD, "speaker_events_meeting (meeting_id=?)"),
    (speakers::DELETE_HEARD_IN, "PRIMARY KEY (session_uid=? AND meeting_id=?)"),
    (settle::STABLE, "live_segments_start (meeting_id=?)"),
    (settle::COUNT_LEFT, "(meeting_id=?)"),
    (read::LIVE_MEETINGS, "SEARCH a USING INTEGER PRIMARY KEY (rowid>?)"),
    (read::LIVE_MEETINGS, "SEARCH l USING PRIMARY KEY (meeting_id=?)"),
    (read::LIVE_OF, "SEARCH l USING PRIMARY KEY (meeting_id=?)"),
    (read::FINAL_OF, "ix_transcription_meeting_start (meeting_id=?)"),
    (read::FINAL_OF, "SEARCH k USING INTEGER PRIMARY KEY"),
    (read::KEPT_SINCE, "kept_segments_seq (meeting_id=? AND seq>?)"),
    (read::KEPT_SINCE, "SEARCH t USING INTEGER PRIMARY KEY"),
    (read::COUNT_LIVE, "COVERING INDEX live_segments_dropped"),
    (search::LIVE_OF_USER, "SEARCH m USING INTEGER PRIMARY KEY"),
    (search::LIVE_OF_USER, "live_segments_start (meeting_id=?)"),
    (search::FINAL_WITH, "SCAN w VIRTUAL TABLE INDEX"),
    (search::FINAL_WITH, "SEARCH t USING INTEGER PRIMARY KEY"),
    (search::NOT_LOOKED_AT, "SEARCH t USING INTEGER PRIMARY KEY (rowid>?)"),
    (search::DELETE_WORDS, "ix_transcription_meeting_start (meeting_id=?)"),
    (shares::BY_SECRET, "(secret_hash=?)"),
    (shares::OF_MEETING, "transcript_shares_meeting (user_id=? AND meeting_id=?)"),
    (shares::DELETE_OF_MEETING, "transcript_shares_meeting (user_id=? AND meeting_id=?)"),
    (frames::PUBLISHED, "SEARCH frame_streams USING"),
    (frames::BEHIND, "SEARCH frame_streams USING INDEX frame_streams_behind"),
    (frames::FRAMES_WITHIN, "SEARCH frames USING PRIMARY KEY (stream=? AND seq>? AND seq<?)"),
    (frames::NEWEST, "SEARCH frames USING PRIMARY KEY (stream=?)"),
    (stream::END, "SEARCH s USING PRIMARY KEY (stream=?)"),
    (stream::END, "SEARCH f USING PRIMARY KEY (stream=? AND seq=?)"),
    (rewrite::RENAME_LIVE, "(meeting_id=?)"),
    (rewrite::RENAME_DROPPED, "(meeting_id=?)"),
    (rewrite::TELL_KEPT, "SEARCH kept_segments USING INTEGER PRIMARY KEY"),
    (rewrite::TELL_KEPT, "ix_transcription_meeting_start (meeting_id=?)"),
    (rewrite::RENAME_FINAL, "ix_transcription_meeting_start (meeting_id=?)"),
    (prune::PRUNE_EVENTS, "COVERING INDEX speaker_events_heard (heard_at<?)"),
    (prune::PRUNE_LETTERS, "COVERING INDEX dead_letters_at (at<?)"),
    (prune::PRUNE_SHARES, "COVERING INDEX transcript_shares_expires (expires_at<?)"),
    (prune::PRUNE_DROPPED, "COVERING INDEX live_segments_dropped (updated_at<?)"),
];

#[test]
fn statements_use_their_index() {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn).unwrap();
    for (statement, part) in EXPECTED {
        let plan = plan_of(&conn, statement);
        assert!(plan.contains(part), "expected {part} in the plan of {statement}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE FOR ORDER"), "{statement} sorts:\n{plan}");
        for table in ["live_segments", "transcriptions", "kept_segments", "l", "t", "k"] {
            let scans = plan.lines().any(|line| line.ends_with(&format!("SCAN {table}")));
            assert!(!scans, "{statement} walks all of {table}:\n{plan}");
        }
    }
}

fn plan_of(conn: &Connection, statement: &str) -> String {
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let unbound = vec![None::<i64>; explain.parameter_count()];
    let lines = explain
        .query_map(rusqlite::params_from_iter(unbound), |row| row.get::<_, String>(3))
        .unwrap();
    lines.map(Result::unwrap).collect::<Vec<_>>().join("\n")
}
