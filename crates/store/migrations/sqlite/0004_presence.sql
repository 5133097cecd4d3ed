-- Who is in which room. The meeting itself is a row of meetings with the platform 'daily' and the
-- status 'open' or 'completed'; what its columns have no place for is here. Times are microseconds
-- since 1970.

CREATE TABLE presence (
    meeting_id    INTEGER PRIMARY KEY,
    user_id       INTEGER NOT NULL,
    room          TEXT NOT NULL,
    room_url      TEXT,
    -- Whether its meeting's status is 'open'; changed only together with it.
    open          INTEGER NOT NULL CHECK (open IN (0, 1)),
    starts_at     INTEGER,
    ends_at       INTEGER,
    created_at    INTEGER NOT NULL,
    end_reason    TEXT,
    -- How many of its sessions are open: written with them.
    num_clients   INTEGER NOT NULL,
    last_left_at  INTEGER,
    -- The lease under which the last look was written, and what looks have come to.
    look_no       INTEGER NOT NULL,
    looked_at     INTEGER,
    failures      INTEGER NOT NULL,
    failing_since INTEGER,
    failure       TEXT,
    empty_since   INTEGER,
    gone_since    INTEGER
) STRICT;
CREATE UNIQUE INDEX presence_open_room ON presence (room) WHERE open = 1;
CREATE INDEX presence_room ON presence (room, meeting_id);
CREATE INDEX presence_user ON presence (user_id, meeting_id);
CREATE INDEX presence_open ON presence (meeting_id) WHERE open = 1;
-- Those that may be over.
CREATE INDEX presence_empty ON presence (meeting_id) WHERE open = 1 AND num_clients = 0;

CREATE TABLE presence_sessions (
    meeting_id INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    -- The provider's, not ours.
    user_id    TEXT,
    user_name  TEXT,
    joined_at  INTEGER NOT NULL,
    left_at    INTEGER,
    closed_by  TEXT,
    CHECK ((left_at IS NULL) = (closed_by IS NULL)),
    CHECK (left_at >= joined_at),
    PRIMARY KEY (meeting_id, session_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX presence_sessions_open ON presence_sessions (meeting_id, session_id)
 WHERE left_at IS NULL;
CREATE INDEX presence_sessions_joined ON presence_sessions (meeting_id, joined_at, session_id);

-- People who have said that they are on their way.
CREATE TABLE presence_joining (
    meeting_id INTEGER NOT NULL,
    connection TEXT NOT NULL,
    until      INTEGER NOT NULL,
    PRIMARY KEY (meeting_id, connection)
) STRICT, WITHOUT ROWID;
CREATE INDEX presence_joining_until ON presence_joining (until);

-- When all rooms were last compared with what is recorded.
CREATE TABLE presence_domain (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    looked_at INTEGER NOT NULL
) STRICT;

-- Events of providers, as they came.
CREATE TABLE inbox (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    service TEXT NOT NULL,
    event   TEXT NOT NULL,
    kind    TEXT NOT NULL,
    room    TEXT,
    outcome TEXT NOT NULL,
    reason  TEXT,
    payload TEXT NOT NULL,
    at      INTEGER NOT NULL,
    UNIQUE (service, event)
) STRICT;
CREATE INDEX inbox_at ON inbox (at);
CREATE INDEX inbox_room ON inbox (room, id) WHERE room IS NOT NULL;
CREATE INDEX inbox_outcome ON inbox (outcome, id);
