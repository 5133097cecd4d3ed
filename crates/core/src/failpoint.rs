//! Named places where a test may end the process, as a crash would.
//!
//! A place is marked with [`hit`]; what happens there is decided by whoever installed a hook, and
//! without one nothing happens. Marking places is the only thing that tests ask of this code.

use std::sync::OnceLock;

static HOOK: OnceLock<fn(&'static str)> = OnceLock::new();

/// Every place there is. A test kills the server at each of them under load.
pub const ALL: &[&str] = &[
    "batch.answered",
    "batch.collected",
    "batch.written",
    "bots.event",
    "bots.launched",
    "bots.launching",
    "bots.removed",
    "bots.reserved",
    "bots.stop_wished",
    "bots.swept",
    "jobs.cancel_requested",
    "jobs.enqueued",
    "outside.claimed",
    "outside.extended",
    "outside.settled",
    "postgres.committed",
    "postgres.committing",
    "recordings.announced",
    "recordings.downloaded",
    "recordings.erased",
    "recordings.heard",
    "recordings.kept",
    "recordings.saved",
    "serve.closing",
    "serve.starting",
    "serve.stopping",
    "sqlite.answered",
    "sqlite.begun",
    "sqlite.checkpointed",
    "sqlite.checkpointing",
    "sqlite.committed",
    "sqlite.committing",
    "sqlite.savepoint",
    "store.begin_process",
    "store.bot_adopt",
    "store.bot_anonymise",
    "store.bot_config",
    "store.bot_data",
    "store.bot_event",
    "store.bot_finish",
    "store.bot_heartbeats",
    "store.bot_launched",
    "store.bot_next_attempt",
    "store.bot_reserve",
    "store.bot_runtime",
    "store.bot_stop",
    "store.bot_sweep",
    "store.cancel",
    "store.claim",
    "store.commit_effects",
    "store.create_token",
    "store.create_user",
    "store.delete_dead_letter",
    "store.delete_transcript",
    "store.end_share",
    "store.enqueue",
    "store.frames_published",
    "store.heartbeat",
    "store.index_transcriptions",
    "store.keep_speaker_events",
    "store.key",
    "store.ping",
    "store.presence_domain",
    "store.presence_end",
    "store.presence_inbox",
    "store.presence_joining",
    "store.presence_judge",
    "store.presence_look",
    "store.presence_open",
    "store.presence_prune",
    "store.prune",
    "store.prune_transcripts",
    "store.put_dead_letters",
    "store.recording_announce",
    "store.recording_begin",
    "store.recording_consent",
    "store.recording_cursor",
    "store.recording_erased",
    "store.recording_fail",
    "store.recording_finish",
    "store.recording_media",
    "store.recording_retry",
    "store.rename_speaker",
    "store.retry",
    "store.revoke_token",
    "store.settle",
    "store.settle_segments",
    "store.share_transcript",
    "store.sweep",
    "store.take_messages",
    "store.touch_tokens",
    "store.update_user",
    "store.webhook_endpoint",
    "store.webhook_log",
    "store.webhook_prune",
    "store.webhook_replay",
    "sweeper.sweeping",
    "sweeper.swept",
    "transcripts.published",
    "transcripts.settled",
    "transcripts.taken",
    "users.token_issued",
    "webhooks.sent",
    "worker.claimed",
    "worker.ended",
    "worker.settled",
    "worker.settling",
    "worker.starting",
];

/// Calls `hook` at every place from now on; the first one installed stays.
pub fn install(hook: fn(&'static str)) {
    // A second hook would come from a second test in one process; the first one goes on.
    let _ = HOOK.set(hook);
}

/// Execution has reached a place.
#[inline]
pub fn hit(name: &'static str) {
    if let Some(hook) = HOOK.get() {
        debug_assert!(ALL.contains(&name), "{name} is not listed in ALL");
        hook(name);
    }
}
