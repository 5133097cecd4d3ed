-- Jobs wait in job_queue, are worked on in job_running and end in job_finished. A job moves from
-- table to table with its number: the delete is the fence, the hot tables stay small, and history
-- never slows a claim. The view jobs shows all three as one. Times are microseconds since 1970.

-- Numbers that only ever grow, also across deletes and restarts.
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('job_id', 0), ('lease_no', 0), ('process_no', 0);

CREATE TABLE job_queue (
    id            INTEGER PRIMARY KEY,
    user_id       INTEGER NOT NULL,
    -- 0 scheduled (its time is yet to come), 1 pending (may be claimed).
    state         INTEGER NOT NULL CHECK (state IN (0, 1)),
    priority      INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    max_attempts  INTEGER,
    rank          INTEGER NOT NULL,
    due_at        INTEGER NOT NULL,
    run_at        INTEGER NOT NULL,
    not_before    INTEGER,
    triggered_at  INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    lane          TEXT NOT NULL,
    kind          TEXT NOT NULL,
    key           TEXT,
    payload       TEXT NOT NULL,
    runs          TEXT
) STRICT;
CREATE INDEX job_queue_ready ON job_queue (lane, rank, id) WHERE state = 1;
CREATE INDEX job_queue_due ON job_queue (due_at) WHERE state = 0;
-- Counts the scheduled jobs of a kind without looking at those of the others.
CREATE INDEX job_queue_scheduled ON job_queue (kind, due_at) WHERE state = 0;
CREATE UNIQUE INDEX job_queue_key ON job_queue (user_id, kind, key) WHERE key IS NOT NULL;
CREATE INDEX job_queue_user ON job_queue (user_id, id);

CREATE TABLE job_running (
    id            INTEGER PRIMARY KEY,
    user_id       INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    max_attempts  INTEGER,
    run_at        INTEGER NOT NULL,
    triggered_at  INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    lease_no      INTEGER NOT NULL,
    lease_until   INTEGER NOT NULL,
    lease_ttl_us  INTEGER NOT NULL,
    -- NULL: the holder is outside; otherwise the number of the server process that holds it.
    owner_process INTEGER,
    claimed_at    INTEGER NOT NULL,
    heartbeat_at  INTEGER NOT NULL,
    deadline_at   INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    kind          TEXT NOT NULL,
    key           TEXT,
    worker        TEXT NOT NULL,
    payload       TEXT NOT NULL,
    runs          TEXT,
    progress      TEXT
) STRICT;
CREATE UNIQUE INDEX job_running_key ON job_running (user_id, kind, key) WHERE key IS NOT NULL;

CREATE TABLE job_finished (
    id            INTEGER PRIMARY KEY,
    user_id       INTEGER NOT NULL,
    -- 3 completed, 4 failed, 5 cancelled.
    state         INTEGER NOT NULL CHECK (state IN (3, 4, 5)),
    priority      INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    max_attempts  INTEGER,
    run_at        INTEGER NOT NULL,
    triggered_at  INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    finished_at   INTEGER NOT NULL,
    -- The last run of a job that completed at its first attempt is kept in columns, because writing
    -- it as a log entry would cost as much as the rest of the row.
    lease_no      INTEGER,
    claimed_at    INTEGER,
    worker        TEXT,
    kind          TEXT NOT NULL,
    key           TEXT,
    error_code    TEXT,
    folded_into   INTEGER,
    payload       TEXT NOT NULL,
    result        TEXT,
    error_message TEXT,
    runs          TEXT,
    progress      TEXT,
    CHECK ((state = 3) = (result IS NOT NULL)),
    CHECK ((state = 4) = (error_code IS NOT NULL))
) STRICT;
CREATE INDEX job_finished_user ON job_finished (user_id, id);
-- Retention differs by state: pruning one must not walk past what another keeps longer.
CREATE INDEX job_finished_at ON job_finished (state, finished_at);

CREATE TABLE idempotency (
    user_id    INTEGER NOT NULL,
    route      TEXT NOT NULL,
    key        TEXT NOT NULL,
    body_hash  BLOB NOT NULL,
    -- What the request was answered, as [[job id, coalesced], …].
    answer     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, route, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_created ON idempotency (created_at);

CREATE TABLE users (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    email               TEXT NOT NULL UNIQUE,
    name                TEXT,
    image_url           TEXT,
    created_at          INTEGER NOT NULL,
    max_concurrent_bots INTEGER NOT NULL DEFAULT 1,
    data                TEXT NOT NULL DEFAULT '{}'
) STRICT;

CREATE TABLE api_tokens (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id      INTEGER NOT NULL,
    name         TEXT,
    -- Words joined by commas; empty for all.
    scopes       TEXT NOT NULL,
    secret_hash  BLOB NOT NULL CHECK (length(secret_hash) = 32),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT;
CREATE INDEX api_tokens_user ON api_tokens (user_id, id);

CREATE TABLE transitions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    entity     TEXT NOT NULL,
    entity_id  INTEGER NOT NULL,
    from_state TEXT,
    to_state   TEXT NOT NULL,
    cause      TEXT NOT NULL,
    detail     TEXT,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX transitions_entity ON transitions (entity, entity_id, id);

CREATE TABLE frames (
    stream TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    body   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (stream, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX frames_at ON frames (at);

-- The last number given in each stream; it outlives the frames themselves.
CREATE TABLE frame_streams (
    stream   TEXT PRIMARY KEY,
    last_seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE webhook_events (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id    INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- One row that `ping` writes, so that "ready" means that writing works.
CREATE TABLE pulse (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    beat_at INTEGER NOT NULL
) STRICT;

CREATE VIEW jobs AS
    SELECT id, user_id, kind, key, CASE state WHEN 0 THEN 'scheduled' ELSE 'pending' END AS state,
           priority, attempt, max_attempts, run_at, not_before, triggered_at, created_at,
           NULL AS lease_no, NULL AS lease_until, NULL AS worker, NULL AS heartbeat_at,
           NULL AS finished_at, payload, NULL AS result, NULL AS error_code, NULL AS error_message,
           runs
      FROM job_queue
    UNION ALL
    SELECT id, user_id, kind, key, 'processing', priority, attempt, max_attempts, run_at, NULL,
           triggered_at, created_at, lease_no, lease_until, worker, heartbeat_at, NULL, payload,
           NULL, NULL, NULL, runs
      FROM job_running
    UNION ALL
    SELECT id, user_id, kind, key,
           CASE state WHEN 3 THEN 'completed' WHEN 4 THEN 'failed' ELSE 'cancelled' END,
           priority, attempt, max_attempts, run_at, NULL, triggered_at, created_at, lease_no, NULL,
           worker, NULL, finished_at, payload, result, error_code, error_message, runs
      FROM job_finished;
