-- Gates: what kinds ask for beyond being run. A kind without a row here is claimed without a look at
-- any of this, but for the look that finds no row.

CREATE TABLE job_gates (
    -- A kind, or a user's lane of a kind.
    name        TEXT PRIMARY KEY,
    paused_at   INTEGER,
    -- JSON.
    limits      TEXT NOT NULL,
    has_tenants INTEGER NOT NULL,
    -- The lane where the next claim begins to look.
    turn_lane   TEXT
) STRICT, WITHOUT ROWID;

-- What is left of each rate, in microseconds times its count: a bucket without a row is full. And what
-- each tenant was given, and the most that any was.
CREATE TABLE job_buckets (
    gate   TEXT NOT NULL,
    -- Empty: the gate's rate. =tenant: a tenant's rate. ~tenant: what it was given. ^: the most.
    tenant TEXT NOT NULL,
    level  INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (gate, tenant)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_buckets_at ON job_buckets (at);

-- Set for jobs that came through a gate, which are counted by it, and kept for those that name a
-- tenant. Others have NULL here and no entry in the index.
ALTER TABLE job_running ADD COLUMN lane TEXT;
ALTER TABLE job_finished ADD COLUMN lane TEXT;
CREATE INDEX job_running_lane ON job_running (kind, lane) WHERE lane IS NOT NULL;
