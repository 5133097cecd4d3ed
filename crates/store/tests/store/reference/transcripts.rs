//! What was said.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, stream_of};
use roundsman_core::effects::Frame;
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{
    BotTarget, DeadLetter, LiveMeeting, MessageAnswer, NewDeadLetter, NewMessage, NewShare, Rename,
    Rewritten, SearchHit, SearchPage, SettleRequest, SettledSegments, Share, StoreError,
    Transcript, TranscriptPrune, TranscriptStore,
};
use roundsman_core::transcripts::{
    Line, Place, SPEAKER_EVENTS_PER_SESSION_MAX, SearchQuery, SeqRange, SpeakerEvent, matches,
    retracted_frames,
};
use roundsman_core::users::UserId;

use super::Reference;

#[async_trait]
impl TranscriptStore for Reference {
    async fn take_messages(
        &self,
        messages: Vec<NewMessage>,
        now: Timestamp,
    ) -> Result<Vec<MessageAnswer>, StoreError> {
        let mut state = self.lock();
        Ok(messages.iter().map(|message| state.take(&self.rules, message, now)).collect())
    }

    async fn keep_speaker_events(
        &self,
        events: Vec<(Option<MeetingId>, SpeakerEvent)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let kept = &mut self.lock().speech.events;
        let mut counts: BTreeMap<(String, Option<MeetingId>), u32> = BTreeMap::new();
        for (session, meeting, ..) in kept.keys() {
            *counts.entry((session.clone(), *meeting)).or_default() += 1;
        }
        for (meeting, event) in events {
            let count = counts.entry((event.session_uid.clone(), meeting)).or_default();
            let key = (event.session_uid, meeting, event.at_ms, event.kind, event.participant);
            if *count < SPEAKER_EVENTS_PER_SESSION_MAX && !kept.contains_key(&key) {
                kept.insert(key, (event.name, now));
                *count += 1;
            }
        }
        Ok(())
    }

    async fn live_meetings(
        &self,
        after: Option<MeetingId>,
        rows_max: u32,
    ) -> Result<Vec<LiveMeeting>, StoreError> {
        let state = self.lock();
        let later = state.meetings.keys().filter(|id| Some(**id) > after);
        let live = later.filter_map(|id| {
            let lines = state.live_lines(*id);
            let unchanged_since = lines.iter().map(|line| line.segment.updated_at).min()?;
            Some(LiveMeeting { meeting_id: *id, segments: lines.len() as u64, unchanged_since })
        });
        Ok(live.take(rows_max as usize).collect())
    }

    async fn live_lines(&self, meeting: MeetingId) -> Result<Vec<Line>, StoreError> {
        Ok(self.lock().live_lines(meeting))
    }

    async fn settle_segments(
        &self,
        meeting: MeetingId,
        request: SettleRequest,
        guard: Option<LeaseRef>,
        now: Timestamp,
    ) -> Result<SettledSegments, StoreError> {
        let mut state = self.lock();
        if guard.is_some_and(|lease| !state.holds(lease)) {
            return Ok(SettledSegments::default());
        }
        Ok(state.settle_speech(&self.rules, meeting, &request, now))
    }

    async fn transcript(
        &self,
        user: UserId,
        target: BotTarget,
        since: Option<i64>,
    ) -> Result<Option<Transcript>, StoreError> {
        let state = self.lock();
        let Some(row) = state.target(user, &target) else { return Ok(None) };
        let id = row.meeting.id;
        let seq = state.last_seq.get(&stream_of(id)).copied().unwrap_or(0);
        let mut lines = state.lines(id);
        lines.retain(|line| since.is_none_or(|since| line.segment.seq > since));
        let retracted = state.known(id).into_iter().filter(|known| {
            known.place == Place::Dropped && since.is_some_and(|since| known.segment.seq > since)
        });
        let retracted = retracted.map(|known| state.line(id, known.segment, false)).collect();
        Ok(Some(Transcript { row, seq, lines, retracted }))
    }

    async fn stream_ends(&self, meetings: Vec<MeetingId>) -> Result<Vec<i64>, StoreError> {
        let state = self.lock();
        let end = |id: &MeetingId| state.last_seq.get(&stream_of(*id)).copied().unwrap_or(0);
        Ok(meetings.iter().map(end).collect())
    }

    async fn search_transcripts(
        &self,
        user: UserId,
        query: SearchQuery,
        page: SearchPage,
    ) -> Result<Vec<SearchHit>, StoreError> {
        let state = self.lock();
        let hit = |id: Option<i64>, meeting: MeetingId, line: Line| {
            let meeting = &state.meetings[&meeting];
            let found = meeting.user_id == user && matches(&line.segment.content.text, &query);
            found.then(|| SearchHit {
                id,
                meeting_id: meeting.id,
                platform: meeting.platform.clone(),
                native_id: meeting.native_id.clone(),
                line,
            })
        };
        let live = state.meetings.keys().filter(|_| page.before.is_none());
        let live = live.flat_map(|id| state.live_lines(*id).into_iter().map(|line| (*id, line)));
        let live = live.filter_map(|(id, line)| hit(None, id, line));
        let rows =
            state.speech.rows.iter().rev().filter(|row| {
                row.is_searchable && page.before.is_none_or(|before| row.id < before)
            });
        let kept = rows.filter_map(|row| {
            let line = state.line(row.meeting_id, row.segment(), true);
            hit(Some(row.id), row.meeting_id, line)
        });
        Ok(live.chain(kept).take(page.rows_max as usize).collect())
    }

    async fn index_transcriptions(&self, rows_max: u32) -> Result<u32, StoreError> {
        let speech = &mut self.lock().speech;
        let upto = speech.indexed_upto;
        let fresh = speech.rows.iter_mut().filter(|row| row.id > upto);
        let mut looked_at = 0;
        for row in fresh.take(rows_max as usize) {
            row.is_searchable = true;
            speech.indexed_upto = row.id;
            looked_at += 1;
        }
        Ok(looked_at)
    }

    async fn rename_speaker(
        &self,
        user: UserId,
        target: BotTarget,
        rename: Rename,
        now: Timestamp,
    ) -> Result<Option<Rewritten>, StoreError> {
        let mut state = self.lock();
        let Some(row) = state.target(user, &target) else { return Ok(None) };
        Ok(Some(state.rename(&self.rules, row.meeting.id, &rename, now)))
    }

    async fn delete_transcript(
        &self,
        user: UserId,
        target: BotTarget,
        now: Timestamp,
    ) -> Result<Option<Rewritten>, StoreError> {
        let mut state = self.lock();
        let Some(row) = state.target(user, &target) else { return Ok(None) };
        let meeting_id = row.meeting.id;
        let (lines, sessions) = (state.lines(meeting_id), state.session_uids(meeting_id));
        state.forget(meeting_id);
        let told = retracted_frames(meeting_id, &lines, now);
        let frames = state.append(&self.rules, told, now);
        let changed = lines.len() as u64;
        Ok(Some(Rewritten { meeting_id, changed, frames, live: vec![], sessions }))
    }

    async fn share_transcript(
        &self,
        user: UserId,
        target: BotTarget,
        share: NewShare,
        now: Timestamp,
    ) -> Result<Option<Share>, StoreError> {
        let mut state = self.lock();
        let Some(row) = state.target(user, &target) else { return Ok(None) };
        state.speech.last_share += 1;
        let made = Share {
            id: state.speech.last_share,
            user_id: user,
            meeting_id: row.meeting.id,
            created_at: now,
            expires_at: share.expires_at,
        };
        state.speech.shares.push((made, share.secret_hash));
        Ok(Some(made))
    }

    async fn share(
        &self,
        secret_hash: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Share>, StoreError> {
        let state = self.lock();
        let holds =
            |(share, hash): &&(Share, [u8; 32])| *hash == secret_hash && share.expires_at > now;
        Ok(state.speech.shares.iter().find(holds).map(|(share, _)| *share))
    }

    async fn shares(
        &self,
        user: UserId,
        meeting: MeetingId,
        now: Timestamp,
    ) -> Result<Vec<Share>, StoreError> {
        let state = self.lock();
        let shares = state.speech.shares.iter().rev().map(|(share, _)| *share);
        let wanted = |share: &Share| {
            share.user_id == user && share.meeting_id == meeting && share.expires_at > now
        };
        Ok(shares.filter(wanted).collect())
    }

    async fn end_share(&self, user: UserId, share: i64) -> Result<bool, StoreError> {
        let shares = &mut self.lock().speech.shares;
        let count = shares.len();
        shares.retain(|(known, _)| known.id != share || known.user_id != user);
        Ok(shares.len() < count)
    }

    async fn frames_published(&self, ranges: Vec<(MeetingId, SeqRange)>) -> Result<(), StoreError> {
        let mut state = self.lock();
        let mut ranges = ranges;
        ranges.sort_unstable();
        for (meeting, range) in ranges {
            state.speech.published.entry(stream_of(meeting)).or_default().note(range);
        }
        Ok(())
    }

    async fn unpublished_frames(
        &self,
        from: Timestamp,
        until: Timestamp,
        rows_max: u32,
    ) -> Result<Vec<Frame>, StoreError> {
        let state = self.lock();
        let wanted = |frame: &&Frame| {
            let published = state.speech.published.get(&frame.stream);
            frame.stream.starts_with("meeting:")
                && !published.is_some_and(|published| published.contains(frame.seq))
                && (from..=until).contains(&frame.at)
        };
        let mut frames: Vec<Frame> = state.frames.iter().filter(wanted).cloned().collect();
        frames.sort_by(|a, b| (&a.stream, a.seq).cmp(&(&b.stream, b.seq)));
        frames.truncate(rows_max as usize);
        Ok(frames)
    }

    async fn put_dead_letters(
        &self,
        letters: Vec<NewDeadLetter>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let speech = &mut self.lock().speech;
        for letter in letters {
            let same = |known: &DeadLetter| {
                known.letter.source == letter.source && known.letter.entry == letter.entry
            };
            if !speech.letters.iter().any(same) {
                speech.last_letter += 1;
                speech.letters.push(DeadLetter { id: speech.last_letter, letter, at: now });
            }
        }
        Ok(())
    }

    async fn dead_letters(
        &self,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let state = self.lock();
        let letters = state.speech.letters.iter().rev();
        let letters = letters.filter(|letter| before.is_none_or(|before| letter.id < before));
        Ok(letters.take(rows_max as usize).cloned().collect())
    }

    async fn dead_letter(&self, id: i64) -> Result<Option<DeadLetter>, StoreError> {
        Ok(self.lock().speech.letters.iter().find(|letter| letter.id == id).cloned())
    }

    async fn delete_dead_letter(&self, id: i64) -> Result<bool, StoreError> {
        let letters = &mut self.lock().speech.letters;
        let count = letters.len();
        letters.retain(|letter| letter.id != id);
        Ok(letters.len() < count)
    }

    async fn prune_transcripts(&self, request: TranscriptPrune) -> Result<u64, StoreError> {
        let speech = &mut self.lock().speech;
        let mut count = 0;
        // A limit for each sort.
        let (mut events, mut letters, mut shares, mut dropped) = ([request.rows_max; 4]).into();
        let mut goes = |left: &mut u32, is_old: bool| {
            let goes = is_old && *left > 0;
            *left -= u32::from(goes);
            count += u64::from(goes);
            goes
        };
        speech.events.retain(|_, (_, heard_at)| {
            !goes(&mut events, *heard_at < request.speaker_events_before)
        });
        speech
            .letters
            .retain(|letter| !goes(&mut letters, letter.at < request.dead_letters_before));
        speech
            .shares
            .retain(|(share, _)| !goes(&mut shares, share.expires_at < request.shares_before));
        speech.live.retain(|_, known| {
            let is_dropped = known.place == Place::Dropped;
            let is_old = known.segment.updated_at < request.dropped_before;
            !goes(&mut dropped, is_dropped && is_old)
        });
        Ok(count)
    }

    async fn live_segment_count(&self) -> Result<u64, StoreError> {
        let state = self.lock();
        let live = state.speech.live.values().filter(|known| known.place == Place::Live);
        Ok(live.count() as u64)
    }
}
