INSERT INTO roundsman.job_queue
    (id, user_id, state, priority, attempt, rank, due_at, run_at, triggered_at, created_at, lane,
     kind, key, payload)
SELECT n, n % 3, n % 2, 0, 0, t, t, t, t, t, (n % 3) || '/render', 'render',
       CASE WHEN n % 2 = 0 THEN n::text END, 'null'
  FROM generate_series(1, 100000) n, LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO roundsman.job_running
    (id, user_id, priority, attempt, run_at, triggered_at, created_at, lease_no, lease_until,
     lease_ttl_us, claimed_at, heartbeat_at, deadline_at, kind, key, worker, payload)
SELECT n, n % 3, 0, 1, t, t, t, n, t, 1, t, t, t, 'render', n::text, 'w', 'null'
  FROM generate_series(100001, 120000) n, LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO roundsman.job_finished
    (id, user_id, state, priority, attempt, run_at, triggered_at, created_at, finished_at, kind,
     payload, result, error_code, error_message)
SELECT n, n % 3, CASE WHEN failed THEN 4 ELSE 3 END, 0, 1, t, t, t, t, 'render', 'null',
       CASE WHEN NOT failed THEN 'null' END, CASE WHEN failed THEN 'timeout' END,
       CASE WHEN failed THEN 'no answer' END
  FROM generate_series(120001, 170000) n,
       LATERAL (SELECT to_timestamp(n) AS t, n % 10 = 0 AS failed) x;
INSERT INTO public.users (email, max_concurrent_bots, data)
SELECT n || '@example.org', 1, '{}' FROM generate_series(1, 100) n;
INSERT INTO public.meetings (user_id, platform, platform_specific_id, status, data)
SELECT 1 + n % 100, 'google_meet', 'm-' || n,
       CASE WHEN n % 20 = 0 THEN 'active' ELSE 'completed' END, '{}'
  FROM generate_series(1, 50000) n;
INSERT INTO roundsman.bots
    (meeting_id, user_id, connection_id, attempt, live, was_active, beats, reserved_at, entered_at,
     missed, config_version, config_applied, wish)
SELECT id, user_id, 'c-' || id, 1, status = 'active', true, true, t, t, 0, 0, 0, '{}'
  FROM public.meetings, LATERAL (SELECT to_timestamp(id) AS t) x;
INSERT INTO roundsman.webhook_events
    (user_id, event_id, event_type, body, created_at, state, since)
SELECT n % 100, 'e-' || n, 'meeting.completed', '{}', t, 'delivered', t
  FROM generate_series(1, 50000) n, LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO roundsman.webhook_deliveries (event, at, url, duration_us)
SELECT id, created_at, 'https://example.org', 1 FROM roundsman.webhook_events;
INSERT INTO roundsman.frame_streams (stream, last_seq, published_seq)
SELECT 'meeting:' || n, 10, 10 FROM generate_series(1, 5000) n;
INSERT INTO roundsman.frames (stream, seq, body, at)
SELECT 'meeting:' || n, seq, '{}', to_timestamp(n * 10 + seq)
  FROM generate_series(1, 5000) n, generate_series(1, 10) seq;
INSERT INTO roundsman.active_transcripts SELECT n FROM generate_series(1, 500) n;
INSERT INTO roundsman.live_segments
    (meeting_id, session_uid, field, segment_id, start_ms, end_ms, text, speaker_status, version,
     created_at, updated_at, seq, dropped)
SELECT m, 'u-' || m, n::text, 's-' || n, n, n + 1, 'said', 'MAPPED', 1, t, t, 1, n % 20 = 0
  FROM generate_series(1, 500) m, generate_series(1, 100) n,
       LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO public.meeting_sessions (meeting_id, session_uid)
SELECT id, 'u-' || id FROM public.meetings;
INSERT INTO roundsman.transcript_sessions (meeting_id, session_uid)
SELECT id, 'u-' || id FROM public.meetings;
INSERT INTO public.transcriptions (meeting_id, session_uid, start_time, end_time, text)
SELECT m, 'u-' || m, n, n + 1, 'said' FROM generate_series(1, 1000) m, generate_series(1, 50) n;
INSERT INTO roundsman.kept_segments
    (transcription_id, meeting_id, session_uid, field, segment_id, start_ms, end_ms,
     speaker_status, version, updated_at, seq)
SELECT id, meeting_id, session_uid, id, 's-' || id, start_time * 1000, end_time * 1000, 'MAPPED', 1,
       to_timestamp(id), 1
  FROM public.transcriptions;
INSERT INTO roundsman.transcript_words (transcription_id, words)
SELECT id, ('@' || meeting_id % 100 || ' said:1')::tsvector FROM public.transcriptions;
INSERT INTO roundsman.speaker_events
    (session_uid, meeting_id, at_ms, kind, participant, name, heard_at)
SELECT 'u-' || m, m, n, 'SPEAKER_START', 'p', 'p', to_timestamp(n)
  FROM generate_series(1, 500) m, generate_series(1, 100) n;
INSERT INTO roundsman.speaker_names (meeting_id, name, shown_as)
SELECT n, 'a', 'b' FROM generate_series(1, 10000) n;
INSERT INTO roundsman.presence
    (meeting_id, user_id, room, open, created_at, end_reason, num_clients, look_no, failures)
SELECT n, n % 100, 'r-' || n % 2000, n > 49000, to_timestamp(n),
       CASE WHEN n > 49000 THEN NULL ELSE 'everyone_left' END, n % 2, 1, 0
  FROM generate_series(1, 50000) n;
INSERT INTO roundsman.presence_sessions (meeting_id, session_id, joined_at, left_at, closed_by)
SELECT m, 's-' || n, t, CASE WHEN n > 2 THEN t END, CASE WHEN n > 2 THEN 'poll' END
  FROM generate_series(49001, 50000) m, generate_series(1, 100) n,
       LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO roundsman.presence_joining (meeting_id, connection, until)
SELECT m, n, to_timestamp(m) FROM generate_series(49001, 50000) m, generate_series(1, 10) n;
INSERT INTO roundsman.inbox (service, event, kind, room, outcome, payload, at)
SELECT 'daily', n, 'participant.joined', 'r-' || n % 2000,
       CASE WHEN n % 100 = 0 THEN 'odd' ELSE 'taken' END, '{}', to_timestamp(n)
  FROM generate_series(1, 50000) n;
INSERT INTO roundsman.recordings
    (recording_id, meeting_id, user_id, room, kind, started_at, duration_ms, tracks, media, status,
     repeats, segments, announced_at, updated_at)
SELECT 'rec-' || n, CASE WHEN n % 50 > 0 THEN n % 5000 END, CASE WHEN n % 50 > 0 THEN n % 100 END,
       'r-' || n % 2000, 'cloud', t, 1, '[]', '[]',
       CASE n % 200 WHEN 0 THEN 'pending' WHEN 1 THEN 'failed' ELSE 'completed' END, 0, 0, t, t
  FROM generate_series(1, 50000) n, LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO roundsman.consents (meeting_id, person, given, at)
SELECT m, n, n > 1, to_timestamp(m) FROM generate_series(1, 5000) m, generate_series(1, 5) n;
INSERT INTO roundsman.tasks
    (user_id, project_id, task_type, status, stage, params, external_service, external_task_id,
     submit_key, files, result_key, retry_count, max_retries, polls, created_at, updated_at,
     completed_at, deadline_at, next_poll_at, applied_at, version)
SELECT n % 100, 'p-' || n % 2000, 'kling', CASE WHEN n % 100 > 0 THEN 'completed' ELSE 'processing' END,
       CASE WHEN n % 100 > 0 THEN 'over' ELSE 'polling' END, '{}', 's-' || n % 5, 'x-' || n, 'k-' || n,
       '[]', 'r-' || n, 0, 3, 0, t, t, CASE WHEN n % 100 > 0 THEN t END, t,
       CASE WHEN n % 100 = 0 THEN t END, CASE WHEN n % 100 > 1 THEN t END, 1
  FROM generate_series(1, 50000) n, LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO roundsman.audit_records
    (user_id, job_id, recurring_id, website_url, options, priority, created_at, request_key, ended_as,
     finished_at)
SELECT n % 100, n + 50000, CASE WHEN n % 5 = 0 THEN n % 2000 END, 'https://example.org/' || n % 500, '{}', 0,
       t, CASE WHEN n % 3 = 0 THEN 'k-' || n END, CASE WHEN n % 100 > 0 THEN 'completed' END,
       CASE WHEN n % 100 > 0 THEN t END
  FROM generate_series(1, 50000) n, LATERAL (SELECT to_timestamp(n) AS t) x;
INSERT INTO roundsman.audit_screenshots (audit_id, png)
SELECT n, '\x00' FROM generate_series(1, 50000, 7) n;
INSERT INTO roundsman.recurring_audits
    (user_id, website_url, schedule, options, priority, created_at, started, skipped)
SELECT n % 100, 'https://example.org/', '@daily', '{}', 0, to_timestamp(n), 0, 0
  FROM generate_series(1, 20000) n;
