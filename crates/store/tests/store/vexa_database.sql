-- The rows of a Vexa 0.6 installation: meetings in every state, with and without sessions, and with
-- columns that its older releases left empty.

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
    (6, 5, 6, 'noise', NULL, NULL, NULL),
    -- Sessions that are known by a name without the platform, or not at all; times that are none.
    (1, 3.0004, 4.25, 'Guten Morgen zusammen', 'Bob', 'de', 'google_meet_session-1'),
    (1, 5, 6, 'Nobody knows when', NULL, NULL, 'session-lost'),
    (1, 7, 8, 'Nor where', 'Ada', 'en', NULL),
    (1, 'NaN', 'Infinity', 'Not a time', 'Ada', 'en', 'session-1');
UPDATE transcriptions SET created_at = NULL WHERE text = 'Nor where';
