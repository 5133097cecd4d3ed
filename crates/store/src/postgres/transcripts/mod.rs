//! What is said: one file per group of operations, and what several of them share.
//!
//! Invariants:
//! - whoever changes what is said in a meeting holds its lock ([`lock_meeting`]), so that changes
//!   of one meeting happen one after the other, on whatever node; several locks are taken in
//!   ascending order, before any row is;
//! - a lease that guards a change is held before the lock;
//! - frames are written before the rows they tell of, because rows carry their number.

mod begin;
mod columns;
mod forget;
mod frames;
mod ingest;
mod keep;
mod known;
mod letters;
mod prune;
mod read;
mod recorded;
mod rewrite;
mod search;
mod sessions;
mod settle;
mod shares;
mod speakers;
mod work;
mod write;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::Frame;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    BotTarget, DeadLetter, LiveMeeting, MeetingRow, MessageAnswer, NewDeadLetter, NewMessage,
    NewShare, Rename, Rewritten, SearchHit, SearchPage, SettleRequest, SettledSegments, Share,
    StoreError, Transcript, TranscriptPrune, TranscriptStore,
};
use roundsman_core::transcripts::{Line, SearchQuery, SeqRange, SpeakerEvent};
use roundsman_core::users::UserId;

pub(super) use self::begin::begin_sessions;
pub(super) use self::forget::forget_said;
pub(super) use self::prune::prune_old;
pub(super) use self::recorded::{keep_whole, names_in};
#[cfg(test)]
pub(super) use self::search::{FINAL_WITH_WORDS, SETTINGS as SEARCH_SETTINGS};
use super::PostgresStore;
use super::bots::find_target;
use super::error::Failure;
use super::session::Session;

#[async_trait]
impl TranscriptStore for PostgresStore {
    async fn take_messages(
        &self,
        messages: Vec<NewMessage>,
        now: Timestamp,
    ) -> Result<Vec<MessageAnswer>, StoreError> {
        let take = ingest::TakeMessages { messages: &messages, now };
        self.change("store.take_messages", &take).await
    }

    async fn keep_speaker_events(
        &self,
        events: Vec<(Option<MeetingId>, SpeakerEvent)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let keep = speakers::KeepEvents { events: &events, now };
        self.change("store.keep_speaker_events", &keep).await
    }

    async fn live_meetings(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<LiveMeeting>, StoreError> {
        self.pool.run(&read::LiveMeetings { after, rows_max }).await
    }

    async fn live_lines(&self, meeting: MeetingId) -> Result<Vec<Line>, StoreError> {
        self.pool.run(&read::LiveLines { meeting }).await
    }

    async fn settle_segments(
        &self,
        meeting: MeetingId,
        request: SettleRequest,
        guard: Option<LeaseRef>,
        now: Timestamp,
    ) -> Result<SettledSegments, StoreError> {
        let settle = settle::SettleSegments { meeting, request, guard, now };
        self.change("store.settle_segments", &settle).await
    }

    async fn transcript(
        &self,
        user: UserId,
        target: BotTarget,
        since: Option<i64>,
    ) -> Result<Option<Transcript>, StoreError> {
        self.pool.run(&read::WholeTranscript { user, target, since }).await
    }

    async fn stream_ends(&self, meetings: Vec<MeetingId>) -> Result<Vec<i64>, StoreError> {
        self.pool.run(&frames::StreamEnds { meetings: &meetings }).await
    }

    async fn search_transcripts(
        &self,
        user: UserId,
        query: SearchQuery,
        page: SearchPage,
    ) -> Result<Vec<SearchHit>, StoreError> {
        self.pool.run(&search::Search { user, query, page }).await
    }

    async fn index_transcriptions(&self, rows_max: u32) -> Result<u32, StoreError> {
        self.change("store.index_transcriptions", &search::Index { rows_max }).await
    }

    async fn rename_speaker(
        &self,
        user: UserId,
        target: BotTarget,
        rename: Rename,
        now: Timestamp,
    ) -> Result<Option<Rewritten>, StoreError> {
        let rename = rewrite::RenameSpeaker { user, target, rename, now };
        self.change("store.rename_speaker", &rename).await
    }

    async fn delete_transcript(
        &self,
        user: UserId,
        target: BotTarget,
        now: Timestamp,
    ) -> Result<Option<Rewritten>, StoreError> {
        let delete = rewrite::DeleteTranscript { user, target, now };
        self.change("store.delete_transcript", &delete).await
    }

    async fn share_transcript(
        &self,
        user: UserId,
        target: BotTarget,
        share: NewShare,
        now: Timestamp,
    ) -> Result<Option<Share>, StoreError> {
        let share = shares::ShareTranscript { user, target, share, now };
        self.change("store.share_transcript", &share).await
    }

    async fn share(
        &self,
        secret_hash: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Share>, StoreError> {
        self.pool.run(&shares::ShareBySecret { secret_hash, now }).await
    }

    async fn shares(
        &self,
        user: UserId,
        meeting: MeetingId,
        now: Timestamp,
    ) -> Result<Vec<Share>, StoreError> {
        self.pool.run(&shares::SharesOf { user, meeting, now }).await
    }

    async fn end_share(&self, user: UserId, share: i64) -> Result<bool, StoreError> {
        self.change("store.end_share", &shares::EndShare { user, share }).await
    }

    async fn frames_published(&self, ranges: Vec<(MeetingId, SeqRange)>) -> Result<(), StoreError> {
        self.change("store.frames_published", &frames::NotePublished { ranges: &ranges }).await
    }

    async fn unpublished_frames(
        &self,
        from: Timestamp,
        until: Timestamp,
        rows_max: u32,
    ) -> Result<Vec<Frame>, StoreError> {
        self.pool.run(&frames::Unpublished { from, until, rows_max }).await
    }

    async fn put_dead_letters(
        &self,
        letters: Vec<NewDeadLetter>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.change("store.put_dead_letters", &letters::PutLetters { letters: &letters, now }).await
    }

    async fn dead_letters(
        &self,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.pool.run(&letters::Letters { before, rows_max }).await
    }

    async fn dead_letter(&self, id: i64) -> Result<Option<DeadLetter>, StoreError> {
        self.pool.run(&letters::OneLetter { id }).await
    }

    async fn delete_dead_letter(&self, id: i64) -> Result<bool, StoreError> {
        self.change("store.delete_dead_letter", &letters::DeleteLetter { id }).await
    }

    async fn prune_transcripts(&self, request: TranscriptPrune) -> Result<u64, StoreError> {
        self.change("store.prune_transcripts", &prune::Prune { request }).await
    }

    async fn live_segment_count(&self) -> Result<u64, StoreError> {
        self.pool.run(&read::LiveCount).await
    }
}

/// Tells these locks from others that are named by two numbers ("rtra" in ASCII).
const LOCK_CLASS: i32 = 0x7274_7261;

/// One at a time in the order given: the inner look is not merged into the outer one, whose rows are
/// therefore locked as they come.
///
/// Whoever waits here for another change of the meeting sees it afterwards: every later statement of
/// a transaction that is `READ COMMITTED` reads what is committed when it begins. So no row needs a
/// lock of its own.
const LOCK_MEETINGS: &str = "-- lock_meetings
SELECT pg_advisory_xact_lock($1, held.key)
  FROM (SELECT key FROM unnest($2::integer[]) AS given(key) ORDER BY key OFFSET 0) held";

/// The keys of the locks of these meetings, each once, in ascending order. Numbers beyond what a key
/// holds share keys with others, which only makes somebody wait.
fn lock_keys(meetings: impl IntoIterator<Item = MeetingId>) -> Vec<i32> {
    let mut keys: Vec<i32> = meetings.into_iter().map(lock_key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn lock_key(meeting: MeetingId) -> i32 {
    let folded = (meeting.get() ^ (meeting.get() >> 32)) & i64::from(i32::MAX);
    i32::try_from(folded).unwrap_or(i32::MAX)
}

/// From here on nobody else changes what is said in the meeting, until the transaction ends.
pub(super) async fn lock_meeting(session: &mut Session, meeting: MeetingId) -> Result<(), Failure> {
    session.query(LOCK_MEETINGS, &[&LOCK_CLASS, &lock_keys([meeting])]).await?;
    Ok(())
}

/// Finds the meeting that a user means and locks what is said in it.
async fn lock_target(
    session: &mut Session,
    user: UserId,
    target: &BotTarget,
) -> Result<Option<MeetingRow>, Failure> {
    let Some(found) = find_target(session, user, target).await? else {
        return Ok(None);
    };
    lock_meeting(session, found.meeting.id).await?;
    // It may have lost its address while we waited, and then another one is meant.
    let meant = find_target(session, user, target).await?;
    match meant {
        Some(row) if row.meeting.id == found.meeting.id => Ok(Some(row)),
        _ => Err(Failure::Raced),
    }
}

/// The statements whose plans are tested.
#[cfg(test)]
pub(super) fn hot_statements() -> Vec<&'static str> {
    vec![
        known::LIVE_NEAR,
        known::KEPT_NEAR,
        sessions::MEETINGS_HEARD,
        sessions::STARTS,
        sessions::SESSIONS_OF,
        sessions::SESSION_FACTS,
        speakers::NAMES,
        speakers::EVENTS_NEAR,
        speakers::KEEP_EVENTS,
        write::PUT_LIVE,
        write::REVISE_KEPT,
        write::REVISE_FINAL,
        settle::STABLE,
        settle::KEPT_BESIDE,
        settle::REMOVE_LIVE,
        settle::MARK_DROPPED,
        read::LIVE_MEETINGS,
        read::LIVE_OF_MEETING,
        read::FINAL_OF_MEETING,
        read::KEPT_SINCE,
        frames::STREAM_ENDS,
        frames::PUBLISHED,
        frames::NOTE_PUBLISHED,
        frames::UNPUBLISHED,
        frames::NEWEST,
        shares::SHARE_BY_SECRET,
        shares::SHARES_OF,
        letters::LETTERS,
        prune::PRUNE_DROPPED,
        prune::PRUNE_EVENTS,
        forget::FORGET_HEARD,
        search::LIVE_OF_USER_SAID,
        search::UNINDEXED,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_once_and_in_order() {
        let ids = [7, 3, 7, 1 << 40, i64::from(i32::MAX)].map(MeetingId::new);
        assert_eq!(lock_keys(ids), [3, 7, 1 << 8, i32::MAX]);
    }
}
