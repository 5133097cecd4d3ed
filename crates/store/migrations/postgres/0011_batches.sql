-- Jobs that wait for others, and batches. A job that somebody waits for, or that is in a batch, is
-- marked: only such jobs are looked up here when they end.

ALTER TABLE roundsman.job_queue ADD COLUMN linked boolean NOT NULL DEFAULT false;
ALTER TABLE roundsman.job_running ADD COLUMN linked boolean NOT NULL DEFAULT false;
-- Always false: a job that is over has told everybody.
ALTER TABLE roundsman.job_finished ADD COLUMN linked boolean NOT NULL DEFAULT false;

CREATE TABLE roundsman.job_links (
    parent bigint NOT NULL,
    child  bigint NOT NULL,
    -- 0 cancel, 1 run, 2 hold.
    policy smallint NOT NULL CHECK (policy IN (0, 1, 2)),
    PRIMARY KEY (parent, child)
);
CREATE INDEX job_links_child ON roundsman.job_links (child);

CREATE TABLE roundsman.job_batches (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id      bigint NOT NULL,
    name         text NOT NULL,
    -- What to enqueue at the end, as JSON.
    callback     text,
    callback_job bigint,
    total        bigint NOT NULL,
    -- Jobs that have not ended; the row's lock decides who was the last.
    remaining    bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    finished_at  timestamptz
) WITH (fillfactor = 50);
CREATE INDEX job_batches_finished ON roundsman.job_batches (finished_at)
    WHERE finished_at IS NOT NULL;

CREATE TABLE roundsman.job_batch_members (
    batch_id bigint NOT NULL REFERENCES roundsman.job_batches ON DELETE CASCADE,
    job_id   bigint NOT NULL,
    -- As in job_finished; NULL while it is not over.
    state    smallint,
    PRIMARY KEY (batch_id, job_id)
);
CREATE INDEX job_batch_members_job ON roundsman.job_batch_members (job_id);
