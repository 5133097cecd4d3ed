-- Meetings and what is said in them, with the columns of a Vexa database. Whatever else is known
-- about a bot is in bots, so that both databases are alike. Times are microseconds since 1970.

CREATE TABLE meetings (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id              INTEGER NOT NULL REFERENCES users (id),
    platform             TEXT NOT NULL,
    platform_specific_id TEXT,
    status               TEXT NOT NULL DEFAULT 'requested',
    bot_container_id     TEXT,
    start_time           INTEGER,
    end_time             INTEGER,
    data                 TEXT NOT NULL DEFAULT '{}',
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL
) STRICT;
CREATE INDEX ix_meetings_user_id ON meetings (user_id);
-- The live ones, so that a user's slots are counted without walking past what is over. The words
-- are those of the statements, in their order: only then is the index used.
CREATE INDEX meetings_live ON meetings (user_id, id, status)
 WHERE status IN ('reserved', 'starting', 'active', 'stopping', 'requested', 'joining',
                  'awaiting_admission');
CREATE INDEX ix_meeting_user_platform_native_id_created_at
    ON meetings (user_id, platform, platform_specific_id, created_at);

CREATE TABLE meeting_sessions (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    meeting_id         INTEGER NOT NULL REFERENCES meetings (id),
    session_uid        TEXT NOT NULL,
    session_start_time INTEGER NOT NULL,
    UNIQUE (meeting_id, session_uid)
) STRICT;
CREATE INDEX ix_meeting_sessions_session_uid ON meeting_sessions (session_uid);

CREATE TABLE transcriptions (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    meeting_id  INTEGER NOT NULL REFERENCES meetings (id),
    start_time  REAL NOT NULL,
    end_time    REAL NOT NULL,
    text        TEXT NOT NULL,
    speaker     TEXT,
    language    TEXT,
    created_at  INTEGER NOT NULL,
    session_uid TEXT
) STRICT;
CREATE INDEX ix_transcription_meeting_start ON transcriptions (meeting_id, start_time);
CREATE INDEX ix_transcriptions_session_uid ON transcriptions (session_uid);

CREATE TABLE bots (
    meeting_id        INTEGER PRIMARY KEY,
    user_id           INTEGER NOT NULL,
    connection_id     TEXT NOT NULL,
    attempt           INTEGER NOT NULL,
    -- Whether its meeting's status is one of those that end. Kept so that the look for live bots
    -- never walks past the many that are over; changed only together with the status.
    live              INTEGER NOT NULL CHECK (live IN (0, 1)),
    stage             TEXT,
    was_active        INTEGER NOT NULL,
    beats             INTEGER NOT NULL,
    reserved_at       INTEGER NOT NULL,
    entered_at        INTEGER NOT NULL,
    heartbeat_at      INTEGER,
    seen_at           INTEGER,
    missed            INTEGER NOT NULL,
    media_progress    INTEGER,
    media_at          INTEGER,
    stop_wanted_at    INTEGER,
    stop_wanted_by    TEXT,
    config_version    INTEGER NOT NULL,
    config_applied    INTEGER NOT NULL,
    language          TEXT,
    task              TEXT,
    -- What the bot was asked to be, as JSON.
    wish              TEXT NOT NULL,
    completion_reason TEXT,
    failure_stage     TEXT,
    exit_code         INTEGER,
    end_reason        TEXT,
    finished_at       INTEGER
) STRICT;
CREATE UNIQUE INDEX bots_connection ON bots (connection_id);
CREATE INDEX bots_live ON bots (meeting_id) WHERE live = 1;

-- Secrets that were made at the first start.
CREATE TABLE server_keys (
    name       TEXT PRIMARY KEY,
    secret     BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is known of a user's endpoint beside its address, which is in the user's data.
CREATE TABLE webhook_endpoints (
    user_id     INTEGER PRIMARY KEY,
    secret      BLOB,
    -- Types of events that are switched on or off, as JSON.
    events      TEXT NOT NULL,
    disabled_at INTEGER
) STRICT;

ALTER TABLE webhook_events ADD COLUMN event_id TEXT;
ALTER TABLE webhook_events ADD COLUMN state TEXT NOT NULL DEFAULT 'pending';
ALTER TABLE webhook_events ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_events ADD COLUMN since INTEGER;
CREATE UNIQUE INDEX webhook_events_event ON webhook_events (event_id);
CREATE INDEX webhook_events_user ON webhook_events (user_id, id);
CREATE INDEX webhook_events_created ON webhook_events (created_at);

CREATE TABLE webhook_deliveries (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    event       INTEGER NOT NULL REFERENCES webhook_events (id) ON DELETE CASCADE,
    at          INTEGER NOT NULL,
    url         TEXT NOT NULL,
    status      INTEGER,
    error       TEXT,
    duration_us INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_deliveries_event ON webhook_deliveries (event, id);
