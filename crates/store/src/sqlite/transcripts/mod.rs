//! What is said in meetings: every method of the port is one closure over one transaction, and the
//! statements of each are in the module of its name.
//!
//! Invariants: a segment is in `live_segments` or, with its row of `transcriptions`, in
//! `kept_segments`; a frame is stored before the rows that it tells of, because they have its place.
//! There is one writer, so nothing that is read in a write changes before it is written.

mod batch;
mod columns;
mod frames;
mod ingest;
mod letters;
#[cfg(test)]
mod plans;
mod prune;
mod read;
pub(super) mod recorded;
pub(super) mod rewrite;
mod search;
mod segments;
pub(super) mod sessions;
mod settle;
mod shares;
mod speakers;
mod stream;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::effects::Frame;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    BotTarget, DeadLetter, LiveMeeting, MessageAnswer, NewDeadLetter, NewMessage, NewShare, Rename,
    Rewritten, SearchHit, SearchPage, SettleRequest, SettledSegments, Share, StoreError,
    Transcript, TranscriptPrune, TranscriptStore,
};
use roundsman_core::transcripts::{Line, SearchQuery, SeqRange, SpeakerEvent};
use roundsman_core::users::UserId;

use super::SqliteStore;

#[async_trait]
impl TranscriptStore for SqliteStore {
    async fn take_messages(
        &self,
        messages: Vec<NewMessage>,
        now: Timestamp,
    ) -> Result<Vec<MessageAnswer>, StoreError> {
        self.write("store.take_messages", move |conn, _| ingest::take(conn, &messages, now)).await
    }

    async fn keep_speaker_events(
        &self,
        events: Vec<(Option<MeetingId>, SpeakerEvent)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.write("store.keep_speaker_events", move |conn, _| speakers::keep(conn, &events, now))
            .await
    }

    async fn live_meetings(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<LiveMeeting>, StoreError> {
        self.read(move |conn| read::live_meetings(conn, after, rows_max)).await
    }

    async fn live_lines(&self, meeting: MeetingId) -> Result<Vec<Line>, StoreError> {
        self.read(move |conn| read::live_lines(conn, meeting)).await
    }

    async fn settle_segments(
        &self,
        meeting: MeetingId,
        request: SettleRequest,
        guard: Option<LeaseRef>,
        now: Timestamp,
    ) -> Result<SettledSegments, StoreError> {
        self.write("store.settle_segments", move |conn, _| {
            settle::settle_segments(conn, meeting, &request, guard, now)
        })
        .await
    }

    async fn transcript(
        &self,
        user: UserId,
        target: BotTarget,
        since: Option<i64>,
    ) -> Result<Option<Transcript>, StoreError> {
        self.read(move |conn| read::transcript(conn, user, &target, since)).await
    }

    async fn stream_ends(&self, meetings: Vec<MeetingId>) -> Result<Vec<i64>, StoreError> {
        self.read(move |conn| meetings.into_iter().map(|id| frames::stream_end(conn, id)).collect())
            .await
    }

    async fn search_transcripts(
        &self,
        user: UserId,
        query: SearchQuery,
        page: SearchPage,
    ) -> Result<Vec<SearchHit>, StoreError> {
        self.read(move |conn| search::search(conn, user, &query, page)).await
    }

    async fn index_transcriptions(&self, rows_max: u32) -> Result<u32, StoreError> {
        // Looked at by a reader first: nearly always there is nothing to write.
        if !self.read(search::is_behind).await? {
            return Ok(0);
        }
        self.write("store.index_transcriptions", move |conn, _| search::index(conn, rows_max)).await
    }

    async fn rename_speaker(
        &self,
        user: UserId,
        target: BotTarget,
        rename: Rename,
        now: Timestamp,
    ) -> Result<Option<Rewritten>, StoreError> {
        self.write("store.rename_speaker", move |conn, _| {
            rewrite::rename(conn, user, &target, &rename, now)
        })
        .await
    }

    async fn delete_transcript(
        &self,
        user: UserId,
        target: BotTarget,
        now: Timestamp,
    ) -> Result<Option<Rewritten>, StoreError> {
        self.write("store.delete_transcript", move |conn, _| {
            rewrite::delete(conn, user, &target, now)
        })
        .await
    }

    async fn share_transcript(
        &self,
        user: UserId,
        target: BotTarget,
        share: NewShare,
        now: Timestamp,
    ) -> Result<Option<Share>, StoreError> {
        self.write("store.share_transcript", move |conn, _| {
            shares::share_transcript(conn, user, &target, share, now)
        })
        .await
    }

    async fn share(
        &self,
        secret_hash: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Share>, StoreError> {
        self.read(move |conn| shares::share(conn, secret_hash, now)).await
    }

    async fn shares(
        &self,
        user: UserId,
        meeting: MeetingId,
        now: Timestamp,
    ) -> Result<Vec<Share>, StoreError> {
        self.read(move |conn| shares::shares(conn, user, meeting, now)).await
    }

    async fn end_share(&self, user: UserId, share: i64) -> Result<bool, StoreError> {
        self.write("store.end_share", move |conn, _| shares::end(conn, user, share)).await
    }

    async fn frames_published(&self, ranges: Vec<(MeetingId, SeqRange)>) -> Result<(), StoreError> {
        self.write("store.frames_published", move |conn, _| frames::note(conn, &ranges)).await
    }

    async fn unpublished_frames(
        &self,
        from: Timestamp,
        until: Timestamp,
        rows_max: u32,
    ) -> Result<Vec<Frame>, StoreError> {
        self.read(move |conn| frames::unpublished(conn, from, until, rows_max)).await
    }

    async fn put_dead_letters(
        &self,
        letters: Vec<NewDeadLetter>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.write("store.put_dead_letters", move |conn, _| letters::put(conn, &letters, now)).await
    }

    async fn dead_letters(
        &self,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.read(move |conn| letters::list(conn, before, rows_max)).await
    }

    async fn dead_letter(&self, id: i64) -> Result<Option<DeadLetter>, StoreError> {
        self.read(move |conn| letters::one(conn, id)).await
    }

    async fn delete_dead_letter(&self, id: i64) -> Result<bool, StoreError> {
        self.write("store.delete_dead_letter", move |conn, _| letters::delete(conn, id)).await
    }

    async fn prune_transcripts(&self, request: TranscriptPrune) -> Result<u64, StoreError> {
        self.write("store.prune_transcripts", move |conn, _| prune::prune(conn, request)).await
    }

    async fn live_segment_count(&self) -> Result<u64, StoreError> {
        self.read(read::live_segment_count).await
    }
}
