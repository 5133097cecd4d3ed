-- Audits of websites. What an audit is at this moment is said by the job that runs it: the view audits
-- reads it from there, and nobody writes it a second time. What has ended is copied from the job in the
-- transaction that ends it, so that it survives the pruning of jobs.

CREATE TABLE roundsman.audit_records (
    id                    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id               bigint NOT NULL,
    -- The job that runs it; given in the transaction that makes the row.
    job_id                bigint UNIQUE,
    recurring_id          bigint,
    website_url           text COLLATE "C" NOT NULL,
    options               text NOT NULL,
    priority              smallint NOT NULL,
    created_at            timestamptz NOT NULL,
    -- A client's promise that repeating a request means the same request.
    request_key           text COLLATE "C",
    request_hash          bytea,
    -- Of the latest run that is over.
    processing_started_at timestamptz,
    processing_worker_id  text,
    last_heartbeat        timestamptz,
    -- Of the job, when it ended.
    ended_as              text CHECK (ended_as IN ('completed', 'failed')),
    attempts              integer,
    finished_at           timestamptz,
    error_code            text,
    error_message         text,
    runs                  text,
    -- What was found, if it is completed.
    final_url             text,
    overall_score         smallint,
    performance_score     smallint,
    seo_score             smallint,
    search_score          smallint,
    conversion_score      smallint,
    branding_score        smallint,
    presence_score        smallint,
    security_score        smallint,
    security_grade        text,
    accessibility_score   smallint,
    best_practices_score  smallint,
    mobile_score          smallint,
    ttfb_ms               bigint,
    fcp_est_ms            bigint,
    lcp_est_ms            bigint,
    total_bytes           bigint,
    request_count         bigint,
    http_version          text,
    tls_version           text,
    cert_expires_at       timestamptz,
    redirects             text,
    headers               text,
    engine_version        text,
    attempt               integer,
    duration_ms           bigint,
    previous_id           bigint,
    has_screenshot        boolean NOT NULL DEFAULT false,
    raw_data              text,
    -- All that was found, as it is rendered.
    report                text
);
CREATE INDEX audit_records_user ON roundsman.audit_records (user_id, id);
CREATE INDEX audit_records_url ON roundsman.audit_records (user_id, website_url, id);
CREATE INDEX audit_records_recurring ON roundsman.audit_records (recurring_id, id)
 WHERE recurring_id IS NOT NULL;
CREATE UNIQUE INDEX audit_records_request ON roundsman.audit_records (user_id, request_key)
 WHERE request_key IS NOT NULL;
-- Those that somebody waits for.
CREATE INDEX audit_records_unfinished ON roundsman.audit_records (user_id) WHERE ended_as IS NULL;
CREATE INDEX audit_records_finished ON roundsman.audit_records (finished_at) WHERE ended_as IS NOT NULL;

CREATE TABLE roundsman.audit_screenshots (
    audit_id bigint PRIMARY KEY,
    png      bytea NOT NULL
);

CREATE TABLE roundsman.recurring_audits (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id       bigint NOT NULL,
    website_url   text NOT NULL,
    schedule      text NOT NULL,
    options       text NOT NULL,
    priority      smallint NOT NULL,
    created_at    timestamptz NOT NULL,
    -- NULL while it is paused.
    next_at       timestamptz,
    last_audit_id bigint,
    started       integer NOT NULL,
    skipped       integer NOT NULL
);
CREATE INDEX recurring_audits_user ON roundsman.recurring_audits (user_id, id);

-- A run that is over leaves its holder, whatever becomes of the job.
CREATE FUNCTION roundsman.audit_run_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE roundsman.audit_records
       SET processing_started_at = old.claimed_at, processing_worker_id = old.worker,
           last_heartbeat = old.heartbeat_at
     WHERE job_id = old.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER audit_run_ended AFTER DELETE ON roundsman.job_running
   FOR EACH ROW WHEN (old.kind = 'audits.run') EXECUTE FUNCTION roundsman.audit_run_ended();

-- Every way in which a job can end leads through this table.
CREATE FUNCTION roundsman.audit_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE roundsman.audit_records
       SET ended_as = CASE new.state WHEN 3 THEN 'completed' ELSE 'failed' END,
           error_code = CASE new.state WHEN 5 THEN 'cancelled' ELSE new.error_code END,
           error_message = CASE new.state WHEN 5 THEN 'it was cancelled' ELSE new.error_message END,
           attempts = new.attempt, finished_at = new.finished_at, runs = new.runs
     WHERE job_id = new.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER audit_ended AFTER INSERT ON roundsman.job_finished
   FOR EACH ROW WHEN (new.kind = 'audits.run') EXECUTE FUNCTION roundsman.audit_ended();

CREATE VIEW roundsman.audits AS
    SELECT a.id, a.user_id, a.job_id, a.recurring_id, a.website_url, a.options, a.priority,
           a.created_at,
           CASE WHEN q.id IS NOT NULL THEN 'pending' WHEN r.id IS NOT NULL THEN 'processing'
                ELSE coalesce(a.ended_as, 'failed') END AS status,
           CASE WHEN q.id IS NOT NULL THEN NULL WHEN r.id IS NOT NULL THEN r.claimed_at
                ELSE a.processing_started_at END AS processing_started_at,
           CASE WHEN q.id IS NOT NULL THEN NULL WHEN r.id IS NOT NULL THEN r.worker
                ELSE a.processing_worker_id END AS processing_worker_id,
           CASE WHEN q.id IS NOT NULL THEN NULL WHEN r.id IS NOT NULL THEN r.heartbeat_at
                ELSE a.last_heartbeat END AS last_heartbeat,
           -- Raised when an attempt that has failed is put back; what is handed back is not counted.
           CASE WHEN q.id IS NOT NULL THEN q.attempt
                ELSE greatest(coalesce(r.attempt, a.attempts, 0) - 1, 0) END AS retry_count,
           q.due_at AS next_attempt_at,
           CASE WHEN q.id IS NULL AND r.id IS NULL THEN a.finished_at END AS finished_at,
           CASE WHEN q.id IS NULL AND r.id IS NULL THEN a.error_code END AS error_code,
           CASE WHEN q.id IS NULL AND r.id IS NULL THEN a.error_message END AS error_message,
           CASE WHEN q.id IS NOT NULL THEN q.runs WHEN r.id IS NOT NULL THEN r.runs
                ELSE a.runs END AS runs,
           r.progress AS progress,
           a.final_url, a.overall_score, a.performance_score, a.seo_score, a.search_score,
           a.conversion_score, a.branding_score, a.presence_score, a.security_score, a.security_grade,
           a.accessibility_score, a.best_practices_score, a.mobile_score, a.ttfb_ms, a.fcp_est_ms,
           a.lcp_est_ms, a.total_bytes, a.request_count, a.http_version, a.tls_version,
           a.cert_expires_at, a.redirects, a.headers, a.engine_version, a.attempt, a.duration_ms,
           a.previous_id, a.has_screenshot, a.raw_data, a.report
      FROM roundsman.audit_records AS a
      LEFT JOIN roundsman.job_queue AS q ON q.id = a.job_id
      LEFT JOIN roundsman.job_running AS r ON r.id = a.job_id;
