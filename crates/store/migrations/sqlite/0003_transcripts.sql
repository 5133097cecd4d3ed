-- What is said and may still change; what is final is in transcriptions, with what those columns
-- have no place for in kept_segments. Times within a session are milliseconds, instants are
-- microseconds since 1970. An empty session_uid is a producer that did not say.

CREATE TABLE live_segments (
    meeting_id     INTEGER NOT NULL,
    session_uid    TEXT NOT NULL,
    field          TEXT NOT NULL,
    segment_id     TEXT,
    start_ms       INTEGER NOT NULL,
    end_ms         INTEGER NOT NULL,
    text           TEXT NOT NULL,
    speaker        TEXT,
    language       TEXT,
    speaker_status TEXT NOT NULL,
    completed      INTEGER CHECK (completed IN (0, 1)),
    version        INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    seq            INTEGER NOT NULL,
    -- The filter refused it. It is remembered for a while, so that it does not come back unchanged.
    dropped        INTEGER NOT NULL DEFAULT 0 CHECK (dropped IN (0, 1)),
    PRIMARY KEY (meeting_id, session_uid, field)
) STRICT, WITHOUT ROWID;
CREATE INDEX live_segments_start ON live_segments (meeting_id, session_uid, start_ms);
CREATE INDEX live_segments_id ON live_segments (meeting_id, session_uid, segment_id)
 WHERE segment_id IS NOT NULL;
CREATE INDEX live_segments_dropped ON live_segments (updated_at) WHERE dropped = 1;

-- Meetings with live segments: an index that is written when a meeting gets its first one.
CREATE TABLE active_transcripts (
    meeting_id INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE kept_segments (
    transcription_id INTEGER PRIMARY KEY,
    meeting_id       INTEGER NOT NULL,
    session_uid      TEXT NOT NULL,
    field            TEXT NOT NULL,
    segment_id       TEXT,
    start_ms         INTEGER NOT NULL,
    end_ms           INTEGER NOT NULL,
    speaker_status   TEXT NOT NULL,
    completed        INTEGER CHECK (completed IN (0, 1)),
    version          INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    seq              INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX kept_segments_key ON kept_segments (meeting_id, session_uid, field);
CREATE INDEX kept_segments_start ON kept_segments (meeting_id, session_uid, start_ms, end_ms);
CREATE INDEX kept_segments_id ON kept_segments (meeting_id, session_uid, segment_id)
 WHERE segment_id IS NOT NULL;
CREATE INDEX kept_segments_seq ON kept_segments (meeting_id, seq);

-- Who declared the start that is in meeting_sessions, and when the session ended.
CREATE TABLE transcript_sessions (
    meeting_id  INTEGER NOT NULL,
    session_uid TEXT NOT NULL,
    declared_by INTEGER,
    ended_at    INTEGER,
    PRIMARY KEY (meeting_id, session_uid)
) STRICT, WITHOUT ROWID;

-- meeting_id is 0 for events that came without one.
CREATE TABLE speaker_events (
    session_uid TEXT NOT NULL,
    meeting_id  INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    participant TEXT NOT NULL,
    name        TEXT NOT NULL,
    heard_at    INTEGER NOT NULL,
    PRIMARY KEY (session_uid, meeting_id, at_ms, kind, participant)
) STRICT, WITHOUT ROWID;
CREATE INDEX speaker_events_heard ON speaker_events (heard_at);
CREATE INDEX speaker_events_meeting ON speaker_events (meeting_id) WHERE meeting_id <> 0;

CREATE TABLE speaker_names (
    meeting_id INTEGER NOT NULL,
    name       TEXT NOT NULL,
    shown_as   TEXT NOT NULL,
    PRIMARY KEY (meeting_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE transcript_shares (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id     INTEGER NOT NULL,
    meeting_id  INTEGER NOT NULL,
    secret_hash BLOB NOT NULL UNIQUE CHECK (length(secret_hash) = 32),
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX transcript_shares_meeting ON transcript_shares (user_id, meeting_id, id);
CREATE INDEX transcript_shares_expires ON transcript_shares (expires_at);

CREATE TABLE dead_letters (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    source     TEXT NOT NULL,
    entry      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    deliveries INTEGER NOT NULL,
    payload    TEXT NOT NULL,
    at         INTEGER NOT NULL,
    UNIQUE (source, entry)
) STRICT;
CREATE INDEX dead_letters_at ON dead_letters (at);

-- Words of final segments, by the number of their row. The words are cut by the program, so that
-- both databases find the same. The owner is the number of the meeting's user, as a word of its own
-- column, so that a search never walks past what others have said.
CREATE VIRTUAL TABLE transcript_words USING fts5 (
    words, owner, content = '', contentless_delete = 1, tokenize = 'ascii'
);
-- Rows up to here were looked at, whoever wrote them.
CREATE TABLE transcript_index (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    upto INTEGER NOT NULL
) STRICT;
INSERT INTO transcript_index (one, upto) VALUES (1, 0);

-- Up to where frames were handed to the bus, and which ones were ahead of a frame that is missing
-- there: ranges such as 7-9,12-12.
ALTER TABLE frame_streams ADD COLUMN published_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE frame_streams ADD COLUMN published_ahead TEXT NOT NULL DEFAULT '';
UPDATE frame_streams SET published_seq = last_seq;
-- Streams with frames that were not, so that looking for them walks past nothing else.
CREATE INDEX frame_streams_behind ON frame_streams (stream) WHERE published_seq < last_seq;
