//! The edge as clients see it: the real router over a real SQLite, driven without a network except
//! where the connection itself is the subject.

#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

mod admin;
mod app;
mod app_audits;
mod app_bots;
mod app_live;
mod app_parts;
mod app_presence;
mod app_recordings;
mod app_tasks;
mod app_transcripts;
mod audits;
mod auth_matrix;
mod bad_input;
mod bots;
mod by_hand;
mod callbacks;
mod connections;
mod crowd;
mod daily;
mod daily_transcripts;
mod documents;
mod events;
mod ingest;
mod ingest_socket;
mod ingest_tokens;
mod jobs;
mod live;
mod live_limits;
mod live_resume;
mod live_rights;
mod live_slow;
mod live_storm;
mod logs;
mod orders;
mod presence;
mod presence_attendance;
mod presence_operator;
mod recordings;
mod rooms;
mod rooms_limits;
mod server;
mod tasks;
mod transcripts;
mod transcripts_change;
mod transcripts_files;
mod transcripts_search;
mod transcripts_share;
mod vexa_bots;
mod vexa_callbacks;
mod vexa_meetings;
mod webhooks;
mod worker;
