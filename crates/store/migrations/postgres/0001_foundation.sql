-- Jobs wait in job_queue, are worked on in job_running and end in job_finished. A job moves from
-- table to table with its number: the delete is the fence, the hot tables stay small, and history
-- never slows a claim. The view jobs shows all three as one.

CREATE SEQUENCE roundsman.job_id_seq CACHE 1;
CREATE SEQUENCE roundsman.lease_no_seq CACHE 1;
CREATE SEQUENCE roundsman.process_no_seq CACHE 1;

CREATE TABLE roundsman.job_queue (
    id            bigint PRIMARY KEY,
    user_id       bigint NOT NULL,
    -- 0 scheduled (its time is yet to come), 1 pending (may be claimed).
    state         smallint NOT NULL CHECK (state IN (0, 1)),
    priority      smallint NOT NULL,
    attempt       integer NOT NULL,
    max_attempts  integer,
    rank          timestamptz NOT NULL,
    due_at        timestamptz NOT NULL,
    run_at        timestamptz NOT NULL,
    not_before    timestamptz,
    triggered_at  timestamptz NOT NULL,
    created_at    timestamptz NOT NULL,
    lane          text COLLATE "C" NOT NULL,
    kind          text COLLATE "C" NOT NULL,
    key           text COLLATE "C",
    payload       text NOT NULL,
    runs          text
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_queue_ready ON roundsman.job_queue (lane, rank, id) WHERE state = 1;
CREATE INDEX job_queue_due ON roundsman.job_queue (due_at) WHERE state = 0;
-- Counts the scheduled jobs of a kind without looking at those of the others.
CREATE INDEX job_queue_scheduled ON roundsman.job_queue (kind, due_at) WHERE state = 0;
CREATE UNIQUE INDEX job_queue_key ON roundsman.job_queue (user_id, kind, key) WHERE key IS NOT NULL;
CREATE INDEX job_queue_user ON roundsman.job_queue (user_id, id);

CREATE TABLE roundsman.job_running (
    id            bigint PRIMARY KEY,
    user_id       bigint NOT NULL,
    priority      smallint NOT NULL,
    attempt       integer NOT NULL,
    max_attempts  integer,
    run_at        timestamptz NOT NULL,
    triggered_at  timestamptz NOT NULL,
    created_at    timestamptz NOT NULL,
    lease_no      bigint NOT NULL,
    lease_until   timestamptz NOT NULL,
    lease_ttl_us  bigint NOT NULL,
    -- NULL: the holder is outside; otherwise the number of the server process that holds it.
    owner_process bigint,
    claimed_at    timestamptz NOT NULL,
    heartbeat_at  timestamptz NOT NULL,
    deadline_at   timestamptz,
    cancel_requested boolean NOT NULL DEFAULT false,
    kind          text COLLATE "C" NOT NULL,
    key           text COLLATE "C",
    worker        text NOT NULL,
    payload       text NOT NULL,
    runs          text,
    progress      text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX job_running_key ON roundsman.job_running (user_id, kind, key)
    WHERE key IS NOT NULL;
CREATE INDEX job_running_until ON roundsman.job_running (lease_until);
CREATE INDEX job_running_deadline ON roundsman.job_running (deadline_at)
    WHERE deadline_at IS NOT NULL;

CREATE TABLE roundsman.job_finished (
    id            bigint PRIMARY KEY,
    user_id       bigint NOT NULL,
    -- 3 completed, 4 failed, 5 cancelled.
    state         smallint NOT NULL CHECK (state IN (3, 4, 5)),
    priority      smallint NOT NULL,
    attempt       integer NOT NULL,
    max_attempts  integer,
    run_at        timestamptz NOT NULL,
    triggered_at  timestamptz NOT NULL,
    created_at    timestamptz NOT NULL,
    finished_at   timestamptz NOT NULL,
    -- The last run of a job that completed at its first attempt is kept in columns, because writing
    -- it as a log entry would cost as much as the rest of the row.
    lease_no      bigint,
    claimed_at    timestamptz,
    worker        text,
    kind          text COLLATE "C" NOT NULL,
    key           text COLLATE "C",
    error_code    text,
    folded_into   bigint,
    payload       text NOT NULL,
    result        text,
    error_message text,
    runs          text,
    progress      text,
    CHECK ((state = 3) = (result IS NOT NULL)),
    CHECK ((state = 4) = (error_code IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX job_finished_user ON roundsman.job_finished (user_id, id);
-- Retention differs by state: pruning one must not walk past what another keeps longer.
CREATE INDEX job_finished_at ON roundsman.job_finished (state, finished_at);

CREATE TABLE roundsman.idempotency (
    user_id    bigint NOT NULL,
    route      text NOT NULL,
    key        text NOT NULL,
    body_hash  bytea NOT NULL,
    -- What the request was answered, as [[job id, coalesced], …].
    answer     text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, route, key)
);
CREATE INDEX idempotency_created ON roundsman.idempotency (created_at);

CREATE TABLE roundsman.api_tokens (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id      bigint NOT NULL,
    name         text,
    -- Words joined by commas; empty for all.
    scopes       text NOT NULL,
    secret_hash  bytea NOT NULL CHECK (length(secret_hash) = 32),
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
);
CREATE INDEX api_tokens_user ON roundsman.api_tokens (user_id, id);

CREATE TABLE roundsman.transitions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    entity     text NOT NULL,
    entity_id  bigint NOT NULL,
    from_state text,
    to_state   text NOT NULL,
    cause      text NOT NULL,
    detail     text,
    at         timestamptz NOT NULL
);
CREATE INDEX transitions_entity ON roundsman.transitions (entity, entity_id, id);

CREATE TABLE roundsman.frames (
    stream text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    body   text NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (stream, seq)
);
CREATE INDEX frames_at ON roundsman.frames (at);

-- The last number given in each stream; it outlives the frames themselves.
CREATE TABLE roundsman.frame_streams (
    stream   text COLLATE "C" PRIMARY KEY,
    last_seq bigint NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE roundsman.webhook_events (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    bigint NOT NULL,
    event_type text NOT NULL,
    body       text NOT NULL,
    created_at timestamptz NOT NULL
);

-- One row that `ping` writes, so that "ready" means that writing works.
CREATE TABLE roundsman.pulse (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    beat_at timestamptz NOT NULL
);

CREATE VIEW roundsman.jobs AS
    SELECT id, user_id, kind, key, CASE state WHEN 0 THEN 'scheduled' ELSE 'pending' END AS state,
           priority, attempt, max_attempts, run_at, not_before, triggered_at, created_at,
           NULL::bigint AS lease_no, NULL::timestamptz AS lease_until, NULL::text AS worker,
           NULL::timestamptz AS heartbeat_at, NULL::timestamptz AS finished_at, payload,
           NULL::text AS result, NULL::text AS error_code, NULL::text AS error_message, runs
      FROM roundsman.job_queue
    UNION ALL
    SELECT id, user_id, kind, key, 'processing', priority, attempt, max_attempts, run_at, NULL,
           triggered_at, created_at, lease_no, lease_until, worker, heartbeat_at, NULL, payload,
           NULL, NULL, NULL, runs
      FROM roundsman.job_running
    UNION ALL
    SELECT id, user_id, kind, key,
           CASE state WHEN 3 THEN 'completed' WHEN 4 THEN 'failed' ELSE 'cancelled' END,
           priority, attempt, max_attempts, run_at, NULL, triggered_at, created_at, lease_no, NULL,
           worker, NULL, finished_at, payload, result, error_code, error_message, runs
      FROM roundsman.job_finished;

-- The users of an existing Vexa database are used as they are; only an empty database gets the
-- table from here. The column types are the ones such a database has.
DO $$
BEGIN
    IF to_regclass('public.users') IS NULL THEN
        CREATE TABLE public.users (
            id                  serial PRIMARY KEY,
            email               varchar(255) NOT NULL,
            name                varchar(100),
            image_url           text,
            created_at          timestamp without time zone DEFAULT now(),
            max_concurrent_bots integer NOT NULL DEFAULT 1,
            data                jsonb NOT NULL DEFAULT '{}'::jsonb
        );
        CREATE UNIQUE INDEX ix_users_email ON public.users (email);
    END IF;
END
$$;
