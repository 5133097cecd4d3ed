-- A database as Vexa 0.6 makes it, with the rows that such an installation has: meetings in every
-- state, with and without sessions, and with columns that its older releases left empty.

CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY);
INSERT INTO alembic_version VALUES ('5befe308fa8b');

CREATE TABLE users (
    id                  serial PRIMARY KEY,
    email               varchar(255) NOT NULL,
    name                varchar(100),
    image_url           text,
    created_at          timestamp without time zone DEFAULT now(),
    max_concurrent_bots integer NOT NULL DEFAULT 1,
    data                jsonb NOT NULL DEFAULT '{}'::jsonb
);
CREATE INDEX ix_users_id ON users (id);
CREATE UNIQUE INDEX ix_users_email ON users (email);

CREATE TABLE api_tokens (
    id         serial PRIMARY KEY,
    token      varchar(255) NOT NULL,
    user_id    integer NOT NULL REFERENCES users (id),
    created_at timestamp without time zone DEFAULT now()
);
CREATE INDEX ix_api_tokens_id ON api_tokens (id);
CREATE UNIQUE INDEX ix_api_tokens_token ON api_tokens (token);
CREATE INDEX ix_api_tokens_user_id ON api_tokens (user_id);

CREATE TABLE meetings (
    id                   serial PRIMARY KEY,
    user_id              integer NOT NULL REFERENCES users (id),
    platform             varchar(100) NOT NULL,
    platform_specific_id varchar(255),
    status               varchar(50) NOT NULL DEFAULT 'requested',
    bot_container_id     varchar(255),
    start_time           timestamp without time zone,
    end_time             timestamp without time zone,
    data                 jsonb NOT NULL DEFAULT '{}'::jsonb,
    created_at           timestamp without time zone DEFAULT now(),
    updated_at           timestamp without time zone DEFAULT now()
);
CREATE INDEX ix_meetings_id ON meetings (id);
CREATE INDEX ix_meetings_user_id ON meetings (user_id);
CREATE INDEX ix_meetings_platform_specific_id ON meetings (platform_specific_id);
CREATE INDEX ix_meetings_status ON meetings (status);
CREATE INDEX ix_meetings_created_at ON meetings (created_at);
CREATE INDEX ix_meeting_user_platform_native_id_created_at
    ON meetings (user_id, platform, platform_specific_id, created_at);
CREATE INDEX ix_meeting_data_gin ON meetings USING gin (data);

CREATE TABLE meeting_sessions (
    id                 serial PRIMARY KEY,
    meeting_id         integer NOT NULL REFERENCES meetings (id),
    session_uid        varchar NOT NULL,
    session_start_time timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT _meeting_session_uc UNIQUE (meeting_id, session_uid)
);
CREATE INDEX ix_meeting_sessions_id ON meeting_sessions (id);
CREATE INDEX ix_meeting_sessions_meeting_id ON meeting_sessions (meeting_id);
CREATE INDEX ix_meeting_sessions_session_uid ON meeting_sessions (session_uid);

CREATE TABLE transcriptions (
    id          serial PRIMARY KEY,
    meeting_id  integer NOT NULL REFERENCES meetings (id),
    start_time  double precision NOT NULL,
    end_time    double precision NOT NULL,
    text        text NOT NULL,
    speaker     varchar(255),
    language    varchar(10),
    created_at  timestamp without time zone DEFAULT now(),
    session_uid varchar
);
CREATE INDEX ix_transcriptions_id ON transcriptions (id);
CREATE INDEX ix_transcriptions_meeting_id ON transcriptions (meeting_id);
CREATE INDEX ix_transcriptions_session_uid ON transcriptions (session_uid);
CREATE INDEX ix_transcription_meeting_start ON transcriptions (meeting_id, start_time);

INSERT INTO users (email, name, created_at, max_concurrent_bots, data) VALUES
    ('ada@example.org', 'Ada', '2025-06-01 08:00:00.5', 1,
     '{"webhook_url": "https://hooks.example.org/ada", "plan": {"seats": 3}}'),
    ('Bob@Example.org', NULL, NULL, 3, '{}');

INSERT INTO api_tokens (token, user_id) VALUES
    ('aTokenOfAdaWithFortyLettersAndDigits0001', 1),
    ('aTokenOfBobWithFortyLettersAndDigits0002', 2),
    ('aTokenOfBobWithFortyLettersAndDigits0003', 2);

INSERT INTO meetings (user_id, platform, platform_specific_id, status, bot_container_id, start_time,
                      end_time, data, created_at, updated_at) VALUES
    -- 1 to 4 are over, in all the words for that.
    (1, 'google_meet', 'abc-defg-hij', 'completed', 'vexa-bot-1', '2025-12-01 09:00:00.123456',
     '2025-12-01 10:00:00', '{"name": "Weekly", "completion_reason": "stopped",
     "status_transition": [{"from": "active", "to": "completed"}]}', '2025-12-01 08:59:00',
     '2025-12-01 10:00:01'),
    (1, 'google_meet', 'abc-defg-hij', 'error', NULL, NULL, NULL, '{"error": "launch failed"}',
     '2025-12-02 08:59:00', NULL),
    (2, 'teams', '1234567890', 'failed', 'vexa-bot-3', '2025-12-03 09:00:00', NULL,
     '{"passcode": "abcdefgh"}', NULL, NULL),
    (2, 'google_meet', NULL, 'completed', 'vexa-bot-4', '2025-12-04 09:00:00',
     '2025-12-04 09:30:00', '{"redacted": true}', '2025-12-04 08:59:00', '2025-12-05 00:00:00'),
    -- 5 to 7 are live.
    (1, 'google_meet', 'klm-nopq-rst', 'requested', NULL, NULL, NULL, '{}', '2025-12-31 23:50:00',
     NULL),
    (2, 'google_meet', 'uvw-xyza-bcd', 'active', 'vexa-bot-6', '2025-12-31 23:00:00', NULL,
     '{"name": "Night shift", "bot": {"n": 1.50}}', '2025-12-31 22:59:00', '2025-12-31 23:01:00'),
    (2, 'teams', '9876543210', 'awaiting_admission', 'vexa-bot-7', NULL, NULL,
     '{"passcode": "ijklmnop"}', '2025-12-31 23:55:00', '2025-12-31 23:56:00');

INSERT INTO meeting_sessions (meeting_id, session_uid, session_start_time) VALUES
    (1, 'session-1', '2025-12-01 09:00:00+00'),
    (6, 'session-6-early', '2025-12-31 23:00:00+00'),
    (6, 'session-6-late', '2025-12-31 23:20:00+00'),
    -- The same name as another meeting's: only within a meeting they differ.
    (7, 'session-6-late', '2025-12-31 23:56:00+00');

INSERT INTO transcriptions (meeting_id, start_time, end_time, text, speaker, language, session_uid)
VALUES
    (1, 0, 2.5, 'Good morning', 'Ada', 'en', 'session-1'),
    (6, 0, 2.5, 'Guten Abend', 'Bob', 'de', 'session-6-early'),
    (6, 3, 4, 'hello', 'Ada', 'en', 'session-6-late'),
    (6, 5, 6, 'noise', NULL, NULL, NULL);
