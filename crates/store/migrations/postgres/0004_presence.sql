-- Who is in which room. The meeting itself is a row of public.meetings with the platform 'daily' and
-- the status 'open' or 'completed', which no bot's meeting can be confused with; what its columns
-- have no place for is here.
--
-- Of indexes that cost the same, as all do while a table is empty, the planner takes the one that was
-- made last. So the more specific come later here, and keys after indexes that only end with them.

CREATE TABLE roundsman.presence (
    meeting_id    bigint NOT NULL,
    user_id       bigint NOT NULL,
    room          text COLLATE "C" NOT NULL,
    room_url      text,
    -- Whether its meeting's status is 'open'; changed only together with it.
    open          boolean NOT NULL,
    starts_at     timestamptz,
    ends_at       timestamptz,
    created_at    timestamptz NOT NULL,
    end_reason    text,
    -- How many of its sessions are open: written with them.
    num_clients   integer NOT NULL,
    last_left_at  timestamptz,
    -- The lease under which the last look was written, and what looks have come to.
    look_no       bigint NOT NULL,
    looked_at     timestamptz,
    failures      integer NOT NULL,
    failing_since timestamptz,
    failure       text,
    empty_since   timestamptz,
    gone_since    timestamptz
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
-- What a look that sees no change writes is in no index, so that it rewrites a row and nothing else.
CREATE INDEX presence_room ON roundsman.presence (room, meeting_id);
CREATE INDEX presence_user ON roundsman.presence (user_id, meeting_id);
ALTER TABLE roundsman.presence ADD PRIMARY KEY (meeting_id);
CREATE INDEX presence_open ON roundsman.presence (meeting_id) WHERE open;
-- Those that may be over.
CREATE INDEX presence_empty ON roundsman.presence (meeting_id) WHERE open AND num_clients = 0;
CREATE UNIQUE INDEX presence_open_room ON roundsman.presence (room) WHERE open;

CREATE TABLE roundsman.presence_sessions (
    meeting_id bigint NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    -- The provider's, not ours.
    user_id    text,
    user_name  text,
    joined_at  timestamptz NOT NULL,
    left_at    timestamptz,
    closed_by  text,
    CHECK ((left_at IS NULL) = (closed_by IS NULL)),
    CHECK (left_at >= joined_at)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX presence_sessions_joined
    ON roundsman.presence_sessions (meeting_id, joined_at, session_id);
ALTER TABLE roundsman.presence_sessions ADD PRIMARY KEY (meeting_id, session_id);
CREATE INDEX presence_sessions_open ON roundsman.presence_sessions (meeting_id, session_id)
 WHERE left_at IS NULL;

-- People who have said that they are on their way.
CREATE TABLE roundsman.presence_joining (
    meeting_id bigint NOT NULL,
    connection text COLLATE "C" NOT NULL,
    until      timestamptz NOT NULL,
    PRIMARY KEY (meeting_id, connection)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX presence_joining_until ON roundsman.presence_joining (until);

-- When all rooms were last compared with what is recorded.
CREATE TABLE roundsman.presence_domain (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    looked_at timestamptz NOT NULL
);

-- Events of providers, as they came.
CREATE TABLE roundsman.inbox (
    id      bigint GENERATED ALWAYS AS IDENTITY,
    service text COLLATE "C" NOT NULL,
    event   text COLLATE "C" NOT NULL,
    kind    text NOT NULL,
    room    text COLLATE "C",
    outcome text COLLATE "C" NOT NULL,
    reason  text,
    payload text NOT NULL,
    at      timestamptz NOT NULL,
    UNIQUE (service, event)
);
CREATE INDEX inbox_at ON roundsman.inbox (at);
CREATE INDEX inbox_room ON roundsman.inbox (room, id) WHERE room IS NOT NULL;
CREATE INDEX inbox_outcome ON roundsman.inbox (outcome, id);
ALTER TABLE roundsman.inbox ADD PRIMARY KEY (id);
