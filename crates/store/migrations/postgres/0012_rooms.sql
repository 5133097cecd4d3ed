-- The shared documents of projects: a snapshot and the updates after it.
--
-- Of indexes that cost the same, as all do while a table is empty, the planner takes the one that was
-- made last: keys come after the indexes that only end with them.

CREATE TABLE roundsman.rooms (
    project_id     text COLLATE "C" NOT NULL,
    -- Whoever named the project first.
    user_id        bigint NOT NULL,
    head_seq       bigint NOT NULL,
    snapshot_seq   bigint NOT NULL,
    snapshot_bytes bigint NOT NULL,
    -- What the updates after the snapshot weigh.
    log_bytes      bigint NOT NULL,
    dirty_since    timestamptz,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    CHECK (snapshot_seq <= head_seq),
    CHECK ((dirty_since IS NULL) = (snapshot_seq = head_seq))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX rooms_user ON roundsman.rooms (user_id, project_id);
-- Those whose log is to be merged.
CREATE INDEX rooms_dirty ON roundsman.rooms (dirty_since) WHERE dirty_since IS NOT NULL;
ALTER TABLE roundsman.rooms ADD PRIMARY KEY (project_id);

-- Apart from the row that every update writes. Loro has compressed it already.
CREATE TABLE roundsman.room_snapshots (
    project_id text COLLATE "C" PRIMARY KEY,
    bytes      bytea NOT NULL
);
ALTER TABLE roundsman.room_snapshots ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- The updates after the snapshot, numbered without a gap.
CREATE TABLE roundsman.room_updates (
    project_id text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    payload    bytea NOT NULL,
    origin     text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
ALTER TABLE roundsman.room_updates ALTER COLUMN payload SET STORAGE EXTERNAL;

-- Places in the history of documents.
CREATE TABLE roundsman.room_versions (
    project_id text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    frontiers  bytea NOT NULL,
    name       text,
    at         timestamptz NOT NULL,
    PRIMARY KEY (project_id, seq)
);
CREATE INDEX room_versions_unnamed ON roundsman.room_versions (project_id, seq) WHERE name IS NULL;

CREATE TABLE roundsman.room_tokens (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    project_id  text COLLATE "C" NOT NULL,
    permission  text NOT NULL,
    name        text,
    secret_hash bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    revoked_at  timestamptz
);
CREATE INDEX room_tokens_project ON roundsman.room_tokens (project_id, id);
CREATE INDEX room_tokens_expires ON roundsman.room_tokens (expires_at);
ALTER TABLE roundsman.room_tokens ADD PRIMARY KEY (id);
