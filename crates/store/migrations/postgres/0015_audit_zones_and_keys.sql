-- The place by whose clock a recurring audit goes. An interval goes by none; a calendar without one goes by
-- UTC, as all of them did before.
ALTER TABLE roundsman.recurring_audits ADD COLUMN time_zone text;

-- A week used to begin on Monday here. It begins on Sunday now, as it does for schedules of jobs; those that
-- exist keep their day.
UPDATE roundsman.recurring_audits SET schedule = '0 0 * * 1' WHERE schedule = '@weekly';

-- Of indexes that cost the same, as all do while a table is empty, the planner takes the one that was made last:
-- keys come after indexes that only end with them.
ALTER TABLE roundsman.audit_records DROP CONSTRAINT audit_records_pkey, ADD PRIMARY KEY (id);
ALTER TABLE roundsman.recurring_audits DROP CONSTRAINT recurring_audits_pkey, ADD PRIMARY KEY (id);

-- The same columns as before. The job of each audit is looked for by its number: joined, a plan that was made while
-- the tables of jobs were empty would go through all of them for each audit.
CREATE OR REPLACE VIEW roundsman.audits AS
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
      LEFT JOIN LATERAL (
        SELECT id, attempt, due_at, runs FROM roundsman.job_queue
         WHERE id BETWEEN a.job_id AND a.job_id ORDER BY id LIMIT 1) AS q ON true
      LEFT JOIN LATERAL (
        SELECT id, attempt, claimed_at, worker, heartbeat_at, runs, progress FROM roundsman.job_running
         WHERE id BETWEEN a.job_id AND a.job_id ORDER BY id LIMIT 1) AS r ON true;
