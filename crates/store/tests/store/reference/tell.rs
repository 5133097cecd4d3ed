//! What becomes of what the reference is told.

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::KindCatalog;
use roundsman_core::ports::{
    MessageAnswer, NewMessage, Rename, Rewritten, SettleRequest, SettledSegments, Taken,
};
use roundsman_core::transcripts::{
    Known, KnownStart, Line, MessageBody, Place, Segment, ToldSegment, collect, declare_start,
    mutable_frames, retracted_frames, settle,
};
use roundsman_store::conformance::Said;

use super::State;
use super::speech::Row;

impl State {
    pub(super) fn take(
        &mut self,
        rules: &KindCatalog,
        message: &NewMessage,
        now: Timestamp,
    ) -> MessageAnswer {
        let id = message.meeting_id;
        let is_theirs = self.meetings.get(&id).is_some_and(|meeting| {
            meeting.user_id == message.user_id && meeting.native_id.is_some()
        });
        if !is_theirs {
            return MessageAnswer::NoSuchMeeting;
        }
        MessageAnswer::Taken(match &message.body {
            MessageBody::Transcription { uid, segments, .. } => {
                self.tell(rules, message, uid.as_deref(), segments, now)
            }
            MessageBody::SessionStart { uid, start } => {
                let taken = self.declare(rules, message, uid, *start, now);
                Taken { session_start: self.session_start(id, uid), ..taken }
            }
            MessageBody::SessionEnd { uid } => {
                self.speech.ended.insert((id, uid.clone()));
                Taken { session_start: self.start_of(id, Some(uid)), ..Taken::default() }
            }
            MessageBody::Speaker(_) => Taken::default(),
        })
    }

    fn tell(
        &mut self,
        rules: &KindCatalog,
        message: &NewMessage,
        uid: Option<&str>,
        told: &[ToldSegment],
        now: Timestamp,
    ) -> Taken {
        let id = message.meeting_id;
        let mut known = self.known(id);
        known.retain(|known| known.segment.key.session_uid.as_deref() == uid);
        let end_ms = told.iter().map(|segment| segment.end_ms).max().unwrap_or(0);
        let speakers = self.speakers(id, uid, end_ms);
        let mut changed = collect(uid, told, known, &speakers, message.version, now);
        let mut session_start = self.start_of(id, uid);
        if let (Some(uid), None, Some(hint)) = (uid, session_start, message.start_hint) {
            session_start = Some(hint);
            let others = self.moved_by(id, uid, hint);
            let is_told = |other: &Known| {
                changed.iter().any(|changed| changed.segment.key == other.segment.key)
            };
            let others: Vec<Known> = others.into_iter().filter(|other| !is_told(other)).collect();
            changed.extend(others);
            if !changed.is_empty() {
                self.set_start(id, uid, hint);
            }
        }
        let count = count(changed.len());
        let (frames, live) = self.publish(rules, id, changed, now);
        Taken { changed: count, frames, live, session_start }
    }

    fn declare(
        &mut self,
        rules: &KindCatalog,
        message: &NewMessage,
        uid: &str,
        start: Timestamp,
        now: Timestamp,
    ) -> Taken {
        let id = message.meeting_id;
        let declared_by = self.speech.declared_by.get(&(id, uid.to_owned())).copied();
        let known = self.session_start(id, uid).map(|start| KnownStart { start, declared_by });
        let Some(declared) = declare_start(known, start, message.token_issued_at) else {
            return Taken::default();
        };
        let changed = self.moved_by(id, uid, declared.start);
        self.set_start(id, uid, declared.start);
        if let Some(by) = declared.declared_by {
            self.speech.declared_by.insert((id, uid.to_owned()), by);
        }
        let count = count(changed.len());
        let (frames, live) = self.publish(rules, id, changed, now);
        Taken { changed: count, frames, live, session_start: None }
    }

    /// Those whose times are others once a session has this start.
    pub(super) fn moved_by(&mut self, id: MeetingId, uid: &str, start: Timestamp) -> Vec<Known> {
        let mut known = self.known(id);
        known.retain(|known| known.place != Place::Dropped);
        let starts = |state: &State| -> Vec<Option<Timestamp>> {
            let uids = known.iter().map(|known| known.segment.key.session_uid.as_deref());
            uids.map(|uid| state.start_of(id, uid)).collect()
        };
        let (before, sessions) = (starts(self), self.sessions.clone());
        self.set_start(id, uid, start);
        let after = starts(self);
        self.sessions = sessions;
        let moved = before.iter().zip(&after).map(|(before, after)| before != after);
        known.into_iter().zip(moved).filter(|(_, moved)| *moved).map(|(known, _)| known).collect()
    }

    pub(super) fn settle_speech(
        &mut self,
        rules: &KindCatalog,
        id: MeetingId,
        request: &SettleRequest,
        now: Timestamp,
    ) -> SettledSegments {
        let limit = request.stable_before.unwrap_or(Timestamp::MAX);
        let mut stable: Vec<Segment> =
            self.live_lines(id).into_iter().map(|line| line.segment).collect();
        stable.retain(|segment| segment.updated_at <= limit);
        stable.sort_by(|a, b| {
            let place = |segment: &Segment| (segment.key.session_uid.clone(), segment.start_ms);
            place(a).cmp(&place(b)).then_with(|| a.key.field.cmp(&b.key.field))
        });
        stable.truncate(request.rows_max as usize);
        let kept: Vec<Segment> = self
            .known(id)
            .into_iter()
            .filter(|known| known.place == Place::Kept)
            .map(|known| known.segment)
            .collect();
        let mut ends: BTreeMap<Option<String>, i64> = BTreeMap::new();
        for segment in &stable {
            let end_ms = ends.entry(segment.key.session_uid.clone()).or_default();
            *end_ms = segment.content.end_ms.max(*end_ms);
        }
        let speakers = ends.into_iter().map(|(uid, end_ms)| {
            let speakers = self.speakers(id, uid.as_deref(), end_ms);
            (uid, speakers)
        });
        let mut settled = settle(stable, &kept, &speakers.collect(), &request.filter);
        let mut answer = SettledSegments { kept: count(settled.keep.len()), ..Default::default() };

        for index in &settled.remapped {
            settled.keep[*index].updated_at = now;
        }
        let remapped = settled.remapped.iter().map(|index| settled.keep[*index].clone());
        let remapped: Vec<Line> = remapped.map(|segment| self.line(id, segment, true)).collect();
        answer.frames = self.append(rules, mutable_frames(id, &remapped, now), now);
        let told_at = answer.frames.last().map_or(0, |frame| frame.seq);
        let dropped = settled.drop.iter().map(|(segment, _)| segment.clone());
        let dropped: Vec<Line> = dropped.map(|segment| self.line(id, segment, false)).collect();
        answer.frames.extend(self.append(rules, retracted_frames(id, &dropped, now), now));
        let retracted_at = answer.frames.last().map_or(0, |frame| frame.seq);

        for (index, mut segment) in settled.keep.into_iter().enumerate() {
            answer.gone.push(segment.key.clone());
            self.speech.live.remove(&(id, segment.key.clone()));
            segment.created_at = now;
            if settled.remapped.contains(&index) {
                segment.seq = told_at;
            }
            self.add_row(id, segment, now);
        }
        for (mut segment, reason) in settled.drop {
            answer.gone.push(segment.key.clone());
            *answer.dropped.entry(reason).or_default() += 1;
            segment.updated_at = now;
            segment.seq = retracted_at;
            self.store(id, Known { segment, place: Place::Dropped });
        }
        answer.left = self.live_lines(id).len() as u64;
        if answer.left == 0 {
            answer.sessions = self.session_uids(id);
        }
        answer
    }

    pub(super) fn add_row(&mut self, meeting_id: MeetingId, segment: Segment, now: Timestamp) {
        self.speech.last_row += 1;
        let mut row = Row {
            id: self.speech.last_row,
            meeting_id,
            said: Said::default(),
            created_at: now,
            kept: None,
            is_searchable: true,
        };
        row.keep(segment);
        self.speech.rows.push(row);
    }

    pub(super) fn rename(
        &mut self,
        rules: &KindCatalog,
        id: MeetingId,
        rename: &Rename,
        now: Timestamp,
    ) -> Rewritten {
        let Rename { from, to } = rename;
        let mut answer = Rewritten {
            meeting_id: id,
            changed: 0,
            frames: vec![],
            live: vec![],
            sessions: vec![],
        };
        if from == to {
            return answer;
        }
        // Whoever was called so already is now called otherwise.
        for ((meeting, _), shown) in &mut self.speech.names {
            if *meeting == id && shown == from {
                shown.clone_from(to);
            }
        }
        self.speech.names.insert((id, from.clone()), to.clone());
        let is_theirs = |segment: &Segment| segment.content.speaker.as_ref() == Some(from);
        let mut changed = self.known(id);
        changed.retain(|known| is_theirs(&known.segment));
        for known in &mut changed {
            known.segment.content.speaker = Some(to.clone());
            known.segment.updated_at = now;
        }
        // Nobody sees those that were dropped; they are renamed so that they stay unchanged.
        let (dropped, changed): (Vec<Known>, Vec<Known>) =
            changed.into_iter().partition(|known| known.place == Place::Dropped);
        for known in dropped {
            self.store(id, known);
        }
        let mut lines: Vec<Line> = changed
            .iter()
            .map(|known| self.line(id, known.segment.clone(), known.place == Place::Kept))
            .collect();
        lines.extend(self.rename_foreign(id, from, to));
        answer.changed = lines.len() as u64;
        answer.frames = self.append(rules, mutable_frames(id, &lines, now), now);
        let seq = answer.frames.last().map_or(0, |frame| frame.seq);
        for mut known in changed {
            known.segment.seq = seq;
            if known.place == Place::Live {
                answer.live.push(self.line(id, known.segment.clone(), false));
            }
            self.store(id, known);
        }
        answer
    }

    /// Rows that somebody else has written have no place, but the name is theirs too.
    fn rename_foreign(&mut self, id: MeetingId, from: &str, to: &str) -> Vec<Line> {
        let mut lines = Vec::new();
        for index in 0..self.speech.rows.len() {
            let row = &mut self.speech.rows[index];
            let is_foreign = row.meeting_id == id && row.kept.is_none();
            if is_foreign && row.said.speaker.as_deref() == Some(from) {
                row.said.speaker = Some(to.to_owned());
                let segment = row.segment();
                lines.push(self.line(id, segment, true));
            }
        }
        lines
    }
}

fn count(many: usize) -> u32 {
    u32::try_from(many).expect("a test writes few rows")
}
