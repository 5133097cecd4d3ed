-- Recordings of rooms, by the provider's number; what was heard in them is in transcriptions. Times
-- are microseconds since 1970.

CREATE TABLE recordings (
    no           INTEGER PRIMARY KEY AUTOINCREMENT,
    recording_id TEXT NOT NULL UNIQUE,
    -- NULL until its meeting is found.
    meeting_id   INTEGER,
    user_id      INTEGER,
    -- Empty if its meeting was anonymised.
    room         TEXT NOT NULL,
    kind         TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    duration_ms  INTEGER NOT NULL,
    -- What the provider calls its files, as JSON.
    tracks       TEXT NOT NULL,
    -- What was downloaded of it, as JSON.
    media        TEXT NOT NULL,
    status       TEXT NOT NULL,
    error        TEXT,
    -- How often it was announced beyond the first time.
    repeats      INTEGER NOT NULL,
    segments     INTEGER NOT NULL,
    announced_at INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    completed_at INTEGER,
    erased_at    INTEGER,
    erase_error  TEXT
) STRICT;
CREATE INDEX recordings_meeting ON recordings (meeting_id, no) WHERE meeting_id IS NOT NULL;
CREATE INDEX recordings_user ON recordings (user_id, no) WHERE user_id IS NOT NULL;
-- Those that somebody waits for.
CREATE INDEX recordings_unfinished ON recordings (status, no) WHERE status <> 'completed';
-- Those whose meeting is not known yet.
CREATE INDEX recordings_unmatched ON recordings (room, recording_id) WHERE meeting_id IS NULL;

-- Whether people agree to being recorded.
CREATE TABLE consents (
    meeting_id INTEGER NOT NULL,
    -- Who: the user's name for the person, or one drawn for somebody without.
    person     TEXT NOT NULL,
    given      INTEGER NOT NULL CHECK (given IN (0, 1)),
    at         INTEGER NOT NULL,
    PRIMARY KEY (meeting_id, person)
) STRICT, WITHOUT ROWID;

-- How far the list of recordings was read.
CREATE TABLE recording_cursor (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    recording_id TEXT NOT NULL,
    read_at      INTEGER NOT NULL
) STRICT;
