-- Meetings and what is said in them live in tables that an existing Vexa database has already; only
-- a database without them gets them from here, with that database's columns and types. Whatever
-- else is known about a bot is in roundsman.bots.
DO $$
BEGIN
    IF to_regclass('public.meetings') IS NULL THEN
        CREATE TABLE public.meetings (
            id                   serial PRIMARY KEY,
            user_id              integer NOT NULL REFERENCES public.users (id),
            platform             varchar(100) NOT NULL,
            platform_specific_id varchar(255),
            status               varchar(50) NOT NULL DEFAULT 'requested',
            bot_container_id     varchar(255),
            start_time           timestamp without time zone,
            end_time             timestamp without time zone,
            data                 jsonb NOT NULL DEFAULT '{}'::jsonb,
            created_at           timestamp without time zone DEFAULT now(),
            updated_at           timestamp without time zone DEFAULT now()
        -- Room in every page: a heartbeat touches updated_at and must not touch the indexes.
        ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01,
                autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
        CREATE INDEX ix_meetings_user_id ON public.meetings (user_id);
        CREATE INDEX ix_meetings_platform_specific_id ON public.meetings (platform_specific_id);
        CREATE INDEX ix_meetings_status ON public.meetings (status);
        CREATE INDEX ix_meetings_created_at ON public.meetings (created_at);
        CREATE INDEX ix_meeting_user_platform_native_id_created_at
            ON public.meetings (user_id, platform, platform_specific_id, created_at);
        CREATE INDEX ix_meeting_data_gin ON public.meetings USING gin (data);
    END IF;

    IF to_regclass('public.meeting_sessions') IS NULL THEN
        CREATE TABLE public.meeting_sessions (
            id                 serial PRIMARY KEY,
            meeting_id         integer NOT NULL REFERENCES public.meetings (id),
            session_uid        varchar NOT NULL,
            session_start_time timestamp with time zone NOT NULL DEFAULT now(),
            CONSTRAINT _meeting_session_uc UNIQUE (meeting_id, session_uid)
        );
        CREATE INDEX ix_meeting_sessions_meeting_id ON public.meeting_sessions (meeting_id);
        CREATE INDEX ix_meeting_sessions_session_uid ON public.meeting_sessions (session_uid);
    END IF;

    IF to_regclass('public.transcriptions') IS NULL THEN
        CREATE TABLE public.transcriptions (
            id          serial PRIMARY KEY,
            meeting_id  integer NOT NULL REFERENCES public.meetings (id),
            start_time  double precision NOT NULL,
            end_time    double precision NOT NULL,
            text        text NOT NULL,
            speaker     varchar(255),
            language    varchar(10),
            created_at  timestamp without time zone DEFAULT now(),
            session_uid varchar
        );
        CREATE INDEX ix_transcriptions_meeting_id ON public.transcriptions (meeting_id);
        CREATE INDEX ix_transcriptions_session_uid ON public.transcriptions (session_uid);
        CREATE INDEX ix_transcription_meeting_start
            ON public.transcriptions (meeting_id, start_time);
    END IF;
END
$$;

CREATE TABLE roundsman.bots (
    meeting_id        bigint PRIMARY KEY,
    user_id           bigint NOT NULL,
    connection_id     text COLLATE "C" NOT NULL,
    attempt           integer NOT NULL,
    -- Whether its meeting's status is one of those that end. Kept so that the look for live bots
    -- never walks past the many that are over; changed only together with the status.
    live              boolean NOT NULL,
    stage             text,
    was_active        boolean NOT NULL,
    beats             boolean NOT NULL,
    reserved_at       timestamptz NOT NULL,
    entered_at        timestamptz NOT NULL,
    heartbeat_at      timestamptz,
    seen_at           timestamptz,
    missed            integer NOT NULL,
    media_progress    bigint,
    media_at          timestamptz,
    stop_wanted_at    timestamptz,
    stop_wanted_by    text,
    config_version    integer NOT NULL,
    config_applied    integer NOT NULL,
    language          text,
    task              text,
    -- What the bot was asked to be, as JSON.
    wish              text NOT NULL,
    completion_reason text,
    failure_stage     text,
    exit_code         integer,
    end_reason        text,
    finished_at       timestamptz
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX bots_connection ON roundsman.bots (connection_id);
-- No time of a heartbeat is in an index, so that one rewrites a row and nothing else.
CREATE INDEX bots_live ON roundsman.bots (meeting_id) WHERE live;

-- Secrets that were made at the first start and are shared by all nodes.
CREATE TABLE roundsman.server_keys (
    name       text PRIMARY KEY,
    secret     bytea NOT NULL,
    created_at timestamptz NOT NULL
);

-- What is known of a user's endpoint beside its address, which is in the user's data.
CREATE TABLE roundsman.webhook_endpoints (
    user_id     bigint PRIMARY KEY,
    secret      bytea,
    -- Types of events that are switched on or off, as JSON.
    events      text NOT NULL,
    disabled_at timestamptz
);

ALTER TABLE roundsman.webhook_events
    ADD COLUMN event_id text COLLATE "C",
    ADD COLUMN state text NOT NULL DEFAULT 'pending',
    ADD COLUMN attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN since timestamptz;
CREATE UNIQUE INDEX webhook_events_event ON roundsman.webhook_events (event_id);
CREATE INDEX webhook_events_user ON roundsman.webhook_events (user_id, id);
CREATE INDEX webhook_events_created ON roundsman.webhook_events (created_at);

CREATE TABLE roundsman.webhook_deliveries (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event       bigint NOT NULL REFERENCES roundsman.webhook_events (id) ON DELETE CASCADE,
    at          timestamptz NOT NULL,
    url         text NOT NULL,
    status      integer,
    error       text,
    duration_us bigint NOT NULL
);
CREATE INDEX webhook_deliveries_event ON roundsman.webhook_deliveries (event, id);
