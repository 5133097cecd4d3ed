-- Gates: what kinds ask for beyond being run. A kind without a row here is claimed without a look at
-- any of this, but for the look that finds no row.

CREATE TABLE roundsman.job_gates (
    -- A kind, or a user's lane of a kind.
    name        text COLLATE "C" PRIMARY KEY,
    paused_at   timestamptz,
    -- JSON.
    limits      text NOT NULL,
    has_tenants boolean NOT NULL,
    -- The lane where the next claim begins to look.
    turn_lane   text COLLATE "C"
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

-- What is left of each rate, in microseconds times its count: a bucket without a row is full. And what
-- each tenant was given, and the most that any was.
CREATE TABLE roundsman.job_buckets (
    gate   text COLLATE "C" NOT NULL,
    -- Empty: the gate's rate. =tenant: a tenant's rate. ~tenant: what it was given. ^: the most.
    tenant text COLLATE "C" NOT NULL,
    level  bigint NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (gate, tenant)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_buckets_at ON roundsman.job_buckets (at);

-- Set for jobs that came through a gate, which are counted by it, and kept for those that name a
-- tenant. Others have NULL here and no entry in the index.
ALTER TABLE roundsman.job_running ADD COLUMN lane text COLLATE "C";
ALTER TABLE roundsman.job_finished ADD COLUMN lane text COLLATE "C";
CREATE INDEX job_running_lane ON roundsman.job_running (kind, lane) WHERE lane IS NOT NULL;
