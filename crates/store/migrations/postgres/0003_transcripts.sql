-- What is said and may still change; what is final is in public.transcriptions, with what those
-- columns have no place for in kept_segments. Times within a session are milliseconds. An empty
-- session_uid is a producer that did not say.

CREATE TABLE roundsman.live_segments (
    meeting_id     bigint NOT NULL,
    session_uid    text COLLATE "C" NOT NULL,
    field          text COLLATE "C" NOT NULL,
    segment_id     text COLLATE "C",
    start_ms       bigint NOT NULL,
    end_ms         bigint NOT NULL,
    text           text NOT NULL,
    speaker        text,
    language       text,
    speaker_status text NOT NULL,
    completed      boolean,
    version        bigint NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    seq            bigint NOT NULL,
    -- The filter refused it. It is remembered for a while, so that it does not come back unchanged.
    dropped        boolean NOT NULL DEFAULT false,
    PRIMARY KEY (meeting_id, session_uid, field)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
-- Without the session: with it the planner would think the key as good, because it takes a meeting
-- and a session for two things, of which few agree by chance.
CREATE INDEX live_segments_start ON roundsman.live_segments (meeting_id, start_ms);
CREATE INDEX live_segments_id ON roundsman.live_segments (meeting_id, segment_id)
 WHERE segment_id IS NOT NULL;
-- Not by the time: a column of an index cannot change without touching it, and this one always does.
CREATE INDEX live_segments_dropped ON roundsman.live_segments (meeting_id) WHERE dropped;

-- Meetings with live segments: an index that is written when a meeting gets its first one.
CREATE TABLE roundsman.active_transcripts (
    meeting_id bigint PRIMARY KEY
);

CREATE TABLE roundsman.kept_segments (
    transcription_id bigint PRIMARY KEY,
    meeting_id       bigint NOT NULL,
    session_uid      text COLLATE "C" NOT NULL,
    field            text COLLATE "C" NOT NULL,
    segment_id       text COLLATE "C",
    start_ms         bigint NOT NULL,
    end_ms           bigint NOT NULL,
    speaker_status   text NOT NULL,
    completed        boolean,
    version          bigint NOT NULL,
    updated_at       timestamptz NOT NULL,
    seq              bigint NOT NULL
);
CREATE UNIQUE INDEX kept_segments_key ON roundsman.kept_segments (meeting_id, session_uid, field);
CREATE INDEX kept_segments_start ON roundsman.kept_segments (meeting_id, start_ms, end_ms);
CREATE INDEX kept_segments_id ON roundsman.kept_segments (meeting_id, segment_id)
 WHERE segment_id IS NOT NULL;
CREATE INDEX kept_segments_seq ON roundsman.kept_segments (meeting_id, seq);

-- Who declared the start that is in public.meeting_sessions, and when the session ended.
CREATE TABLE roundsman.transcript_sessions (
    meeting_id  bigint NOT NULL,
    session_uid text COLLATE "C" NOT NULL,
    declared_by timestamptz,
    ended_at    timestamptz,
    PRIMARY KEY (meeting_id, session_uid)
);

-- meeting_id is 0 for events that came without one.
CREATE TABLE roundsman.speaker_events (
    session_uid text COLLATE "C" NOT NULL,
    meeting_id  bigint NOT NULL,
    at_ms       bigint NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    participant text COLLATE "C" NOT NULL,
    name        text NOT NULL,
    heard_at    timestamptz NOT NULL,
    PRIMARY KEY (session_uid, meeting_id, at_ms, kind, participant)
);
CREATE INDEX speaker_events_heard ON roundsman.speaker_events (heard_at);
CREATE INDEX speaker_events_meeting ON roundsman.speaker_events (meeting_id) WHERE meeting_id <> 0;

CREATE TABLE roundsman.speaker_names (
    meeting_id bigint NOT NULL,
    name       text COLLATE "C" NOT NULL,
    shown_as   text NOT NULL,
    PRIMARY KEY (meeting_id, name)
);

CREATE TABLE roundsman.transcript_shares (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id     bigint NOT NULL,
    meeting_id  bigint NOT NULL,
    secret_hash bytea NOT NULL UNIQUE CHECK (length(secret_hash) = 32),
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
);
CREATE INDEX transcript_shares_meeting ON roundsman.transcript_shares (user_id, meeting_id, id);
CREATE INDEX transcript_shares_expires ON roundsman.transcript_shares (expires_at);

CREATE TABLE roundsman.dead_letters (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source     text COLLATE "C" NOT NULL,
    entry      text COLLATE "C" NOT NULL,
    reason     text NOT NULL,
    deliveries integer NOT NULL,
    payload    text NOT NULL,
    at         timestamptz NOT NULL,
    UNIQUE (source, entry)
);
CREATE INDEX dead_letters_at ON roundsman.dead_letters (at);

-- Words of final segments, by the number of their row. The words are cut by the program, so that
-- both databases find the same.
CREATE TABLE roundsman.transcript_words (
    transcription_id bigint PRIMARY KEY,
    words            tsvector NOT NULL
);
CREATE INDEX transcript_words_words ON roundsman.transcript_words USING gin (words);
-- Rows up to here were looked at, whoever wrote them.
CREATE TABLE roundsman.transcript_index (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    upto bigint NOT NULL
);
INSERT INTO roundsman.transcript_index (upto) VALUES (0);

-- Up to where frames were handed to the bus, and which ones were ahead of a frame that is missing
-- there: ranges such as 7-9,12-12.
ALTER TABLE roundsman.frame_streams ADD COLUMN published_seq bigint NOT NULL DEFAULT 0;
ALTER TABLE roundsman.frame_streams ADD COLUMN published_ahead text NOT NULL DEFAULT '';
UPDATE roundsman.frame_streams SET published_seq = last_seq;
