-- The tables of Vexa 0.6, as its own migrations leave them.

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
