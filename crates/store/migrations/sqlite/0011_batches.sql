-- Jobs that wait for others, and batches. A job that somebody waits for, or that is in a batch, is
-- marked: only such jobs are looked up here when they end.

ALTER TABLE job_queue ADD COLUMN linked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job_running ADD COLUMN linked INTEGER NOT NULL DEFAULT 0;
-- Always 0: a job that is over has told everybody.
ALTER TABLE job_finished ADD COLUMN linked INTEGER NOT NULL DEFAULT 0;

CREATE TABLE job_links (
    parent INTEGER NOT NULL,
    child  INTEGER NOT NULL,
    -- 0 cancel, 1 run, 2 hold.
    policy INTEGER NOT NULL CHECK (policy IN (0, 1, 2)),
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_links_child ON job_links (child);

CREATE TABLE job_batches (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id      INTEGER NOT NULL,
    name         TEXT NOT NULL,
    -- What to enqueue at the end, as JSON.
    callback     TEXT,
    callback_job INTEGER,
    total        INTEGER NOT NULL,
    -- Jobs that have not ended.
    remaining    INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    finished_at  INTEGER
) STRICT;
CREATE INDEX job_batches_finished ON job_batches (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE job_batch_members (
    batch_id INTEGER NOT NULL REFERENCES job_batches ON DELETE CASCADE,
    job_id   INTEGER NOT NULL,
    -- As in job_finished; NULL while it is not over.
    state    INTEGER,
    PRIMARY KEY (batch_id, job_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_batch_members_job ON job_batch_members (job_id);
