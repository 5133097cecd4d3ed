-- Recordings of rooms, by the provider's number; what was heard in them is in public.transcriptions.

CREATE TABLE roundsman.recordings (
    no           bigint GENERATED ALWAYS AS IDENTITY,
    recording_id text COLLATE "C" NOT NULL,
    -- NULL until its meeting is found.
    meeting_id   bigint,
    user_id      bigint,
    -- Empty if its meeting was anonymised.
    room         text COLLATE "C" NOT NULL,
    kind         text NOT NULL,
    started_at   timestamptz NOT NULL,
    duration_ms  bigint NOT NULL,
    -- What the provider calls its files, as JSON.
    tracks       text NOT NULL,
    -- What was downloaded of it, as JSON.
    media        text NOT NULL,
    status       text COLLATE "C" NOT NULL,
    error        text,
    -- How often it was announced beyond the first time.
    repeats      bigint NOT NULL,
    segments     bigint NOT NULL,
    announced_at timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    completed_at timestamptz,
    erased_at    timestamptz,
    erase_error  text
) WITH (fillfactor = 80);
CREATE INDEX recordings_meeting ON roundsman.recordings (meeting_id, no)
 WHERE meeting_id IS NOT NULL;
CREATE INDEX recordings_user ON roundsman.recordings (user_id, no) WHERE user_id IS NOT NULL;
-- Those that somebody waits for.
CREATE INDEX recordings_unfinished ON roundsman.recordings (status, no)
 WHERE status <> 'completed';
-- Those whose meeting is not known yet.
CREATE INDEX recordings_unmatched ON roundsman.recordings (room, recording_id)
 WHERE meeting_id IS NULL;
ALTER TABLE roundsman.recordings ADD UNIQUE (recording_id), ADD PRIMARY KEY (no);

-- Whether people agree to being recorded.
CREATE TABLE roundsman.consents (
    meeting_id bigint NOT NULL,
    -- Who: the user's name for the person, or one drawn for somebody without.
    person     text COLLATE "C" NOT NULL,
    given      boolean NOT NULL,
    at         timestamptz NOT NULL,
    PRIMARY KEY (meeting_id, person)
);

-- How far the list of recordings was read.
CREATE TABLE roundsman.recording_cursor (
    one          boolean PRIMARY KEY DEFAULT true CHECK (one),
    recording_id text NOT NULL,
    read_at      timestamptz NOT NULL
);
