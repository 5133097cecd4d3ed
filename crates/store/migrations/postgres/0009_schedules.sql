-- Schedules. What they enqueue is JSON in spec, which nothing here looks into.
CREATE TABLE roundsman.schedules (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    bigint NOT NULL,
    spec       text NOT NULL,
    paused     boolean NOT NULL,
    next_at    timestamptz,
    last_at    timestamptz,
    fired      bigint NOT NULL,
    missed     bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX schedules_user ON roundsman.schedules (user_id, id);
