-- Schedules. What they enqueue is JSON in spec, which nothing here looks into.
CREATE TABLE schedules (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id    INTEGER NOT NULL,
    spec       TEXT NOT NULL,
    paused     INTEGER NOT NULL,
    next_at    INTEGER,
    last_at    INTEGER,
    fired      INTEGER NOT NULL,
    missed     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX schedules_user ON schedules (user_id, id);
