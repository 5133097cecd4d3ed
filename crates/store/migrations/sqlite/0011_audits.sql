-- Audits of websites. What an audit is at this moment is said by the job that runs it: the view audits
-- reads it from there, and nobody writes it a second time. What has ended is copied from the job in the
-- transaction that ends it, so that it survives the pruning of jobs. Times are microseconds since 1970.

CREATE TABLE audit_records (
    id                    INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id               INTEGER NOT NULL,
    -- The job that runs it; given in the transaction that makes the row.
    job_id                INTEGER UNIQUE,
    recurring_id          INTEGER,
    website_url           TEXT NOT NULL,
    options               TEXT NOT NULL,
    priority              INTEGER NOT NULL,
    created_at            INTEGER NOT NULL,
    -- A client's promise that repeating a request means the same request.
    request_key           TEXT,
    request_hash          BLOB,
    -- Of the latest run that is over.
    processing_started_at INTEGER,
    processing_worker_id  TEXT,
    last_heartbeat        INTEGER,
    -- Of the job, when it ended.
    ended_as              TEXT CHECK (ended_as IN ('completed', 'failed')),
    attempts              INTEGER,
    finished_at           INTEGER,
    error_code            TEXT,
    error_message         TEXT,
    runs                  TEXT,
    -- What was found, if it is completed.
    final_url             TEXT,
    overall_score         INTEGER,
    performance_score     INTEGER,
    seo_score             INTEGER,
    search_score          INTEGER,
    conversion_score      INTEGER,
    branding_score        INTEGER,
    presence_score        INTEGER,
    security_score        INTEGER,
    security_grade        TEXT,
    accessibility_score   INTEGER,
    best_practices_score  INTEGER,
    mobile_score          INTEGER,
    ttfb_ms               INTEGER,
    fcp_est_ms            INTEGER,
    lcp_est_ms            INTEGER,
    total_bytes           INTEGER,
    request_count         INTEGER,
    http_version          TEXT,
    tls_version           TEXT,
    cert_expires_at       INTEGER,
    redirects             TEXT,
    headers               TEXT,
    engine_version        TEXT,
    attempt               INTEGER,
    duration_ms           INTEGER,
    previous_id           INTEGER,
    has_screenshot        INTEGER NOT NULL DEFAULT 0,
    raw_data              TEXT,
    -- All that was found, as it is rendered.
    report                TEXT
) STRICT;
CREATE INDEX audit_records_user ON audit_records (user_id, id);
CREATE INDEX audit_records_url ON audit_records (user_id, website_url, id);
CREATE INDEX audit_records_recurring ON audit_records (recurring_id, id)
 WHERE recurring_id IS NOT NULL;
CREATE UNIQUE INDEX audit_records_request ON audit_records (user_id, request_key)
 WHERE request_key IS NOT NULL;
-- Those that somebody waits for.
CREATE INDEX audit_records_unfinished ON audit_records (user_id) WHERE ended_as IS NULL;
CREATE INDEX audit_records_finished ON audit_records (finished_at) WHERE ended_as IS NOT NULL;

CREATE TABLE audit_screenshots (
    audit_id INTEGER PRIMARY KEY,
    png      BLOB NOT NULL
) STRICT;

CREATE TABLE recurring_audits (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id       INTEGER NOT NULL,
    website_url   TEXT NOT NULL,
    schedule      TEXT NOT NULL,
    options       TEXT NOT NULL,
    priority      INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    -- NULL while it is paused.
    next_at       INTEGER,
    last_audit_id INTEGER,
    started       INTEGER NOT NULL,
    skipped       INTEGER NOT NULL
) STRICT;
CREATE INDEX recurring_audits_user ON recurring_audits (user_id, id);

-- A run that is over leaves its holder, whatever becomes of the job.
CREATE TRIGGER audit_run_ended AFTER DELETE ON job_running WHEN old.kind = 'audits.run'
BEGIN
    UPDATE audit_records
       SET processing_started_at = old.claimed_at, processing_worker_id = old.worker,
           last_heartbeat = old.heartbeat_at
     WHERE job_id = old.id;
END;

-- Every way in which a job can end leads through this table.
CREATE TRIGGER audit_ended AFTER INSERT ON job_finished WHEN new.kind = 'audits.run'
BEGIN
    UPDATE audit_records
       SET ended_as = CASE new.state WHEN 3 THEN 'completed' ELSE 'failed' END,
           error_code = CASE new.state WHEN 5 THEN 'cancelled' ELSE new.error_code END,
           error_message = CASE new.state WHEN 5 THEN 'it was cancelled' ELSE new.error_message END,
           attempts = new.attempt, finished_at = new.finished_at, runs = new.runs
     WHERE job_id = new.id;
END;

CREATE VIEW audits AS
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
                ELSE max(coalesce(r.attempt, a.attempts, 0) - 1, 0) END AS retry_count,
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
      FROM audit_records AS a
      LEFT JOIN job_queue AS q ON q.id = a.job_id
      LEFT JOIN job_running AS r ON r.id = a.job_id;
