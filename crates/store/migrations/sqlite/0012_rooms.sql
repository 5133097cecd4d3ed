-- The shared documents of projects: a snapshot and the updates after it. Times are microseconds since
-- 1970.

CREATE TABLE rooms (
    project_id     TEXT PRIMARY KEY,
    -- Whoever named the project first.
    user_id        INTEGER NOT NULL,
    head_seq       INTEGER NOT NULL,
    snapshot_seq   INTEGER NOT NULL,
    snapshot_bytes INTEGER NOT NULL,
    -- What the updates after the snapshot weigh.
    log_bytes      INTEGER NOT NULL,
    dirty_since    INTEGER,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    CHECK (snapshot_seq <= head_seq),
    CHECK ((dirty_since IS NULL) = (snapshot_seq = head_seq))
) STRICT, WITHOUT ROWID;
CREATE INDEX rooms_user ON rooms (user_id, project_id);
-- Those whose log is to be merged.
CREATE INDEX rooms_dirty ON rooms (dirty_since) WHERE dirty_since IS NOT NULL;

-- Apart from the row that every update writes.
CREATE TABLE room_snapshots (
    project_id TEXT PRIMARY KEY,
    bytes      BLOB NOT NULL
) STRICT;

-- The updates after the snapshot, numbered without a gap.
CREATE TABLE room_updates (
    project_id TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    payload    BLOB NOT NULL,
    origin     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, seq)
) STRICT, WITHOUT ROWID;

-- Places in the history of documents.
CREATE TABLE room_versions (
    project_id TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    frontiers  BLOB NOT NULL,
    name       TEXT,
    at         INTEGER NOT NULL,
    PRIMARY KEY (project_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX room_versions_unnamed ON room_versions (project_id, seq) WHERE name IS NULL;

CREATE TABLE room_tokens (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id  TEXT NOT NULL,
    permission  TEXT NOT NULL,
    name        TEXT,
    secret_hash BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    revoked_at  INTEGER
) STRICT;
CREATE INDEX room_tokens_project ON room_tokens (project_id, id);
CREATE INDEX room_tokens_expires ON room_tokens (expires_at);
