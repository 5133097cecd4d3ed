-- What clients have said of themselves and want to be kept (`%EPS`): all of a room in one value, which
-- Loro merges.

CREATE TABLE room_presence (
    project_id TEXT PRIMARY KEY,
    -- Grows by one with every change: whoever made theirs from an older one is late.
    version    INTEGER NOT NULL,
    bytes      BLOB NOT NULL
) STRICT;
