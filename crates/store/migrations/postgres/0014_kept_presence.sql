-- What clients have said of themselves and want to be kept (`%EPS`): all of a room in one value, which
-- Loro merges.

CREATE TABLE roundsman.room_presence (
    project_id text COLLATE "C" PRIMARY KEY,
    -- Grows by one with every change: whoever made theirs from an older one is late.
    version    bigint NOT NULL,
    bytes      bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
