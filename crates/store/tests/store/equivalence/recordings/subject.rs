//! One store under comparison, and what is done to it.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{JobId, Lane, LeaseNo, LeaseOwner, LeaseRef, NewJob, WorkerName};
use roundsman_core::ports::{
    AnonymiseAnswer, BeginAnswer, BotTarget, ClaimRequest, EnqueueRequest, FinishAnswer,
    LaneDemand, NewMessage, OpenAnswer, Rename, Scope, Store, StoreError,
};
use roundsman_core::presence::{
    Look, LookReport, NewPresenceMeeting, Participant, PresenceRules, RoomName,
};
use roundsman_core::recordings::{
    Announcement, Consent, Media, RecordingId, RecordingKind, SpokenSegment, Track, TrackMedium,
    Via,
};
use roundsman_core::transcripts::{MessageBody, ToldSegment};
use roundsman_core::users::{NewUser, UserId};
use roundsman_store::conformance::{ADA, RENDER, json, kind};

use super::super::START;
use super::ops::{Lease, Op, Pick, Spoken, Told};

const ROOMS: [&str; 3] = ["one", "two", "Two"];
const RECORDINGS: [&str; 5] = ["a", "b", "c", "d", "ä 😀 '\""];
const NAMES: [&str; 4] = ["Ann", "Bob", "\u{202e}אדה", "A\0b"];
const TEXTS: [&str; 5] = ["alpha", "alpha bravo", "it's 😀 \"odd\" \\", "a\0b", ""];
const LANGUAGES: [&str; 3] = ["en", "de", "haitian creole"];

pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) store: Arc<dyn Store>,
    pub(super) users: Vec<UserId>,
    /// Every meeting that was made, by its place, and whose it is.
    pub(super) meetings: Vec<(MeetingId, UserId)>,
    _keep: Box<dyn Any>,
}

impl Subject {
    pub(super) async fn new(name: &'static str, store: Arc<dyn Store>, keep: impl Any) -> Self {
        let mut users = Vec::new();
        for email in ["ada@example.org", "bob@example.org"] {
            let person = NewUser {
                email: email.to_owned(),
                name: None,
                image_url: None,
                max_concurrent_bots: 1,
            };
            let (user, _) = store.find_or_create_user(person, START).await.expect("a user");
            users.push(user.id);
        }
        Subject { name, store, users, meetings: Vec::new(), _keep: Box::new(keep) }
    }

    /// Does what `op` says and tells what was answered.
    pub(super) async fn perform(&mut self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        match op {
            Op::Advance { .. } => Ok(String::new()),
            Op::Open { by, room } => self.open(*by, *room, now).await,
            Op::Announce { told } => {
                let told = told.iter().map(|told| announcement(told, now)).collect();
                let answers = self.store.announce_recordings(told, now).await?;
                let answers = answers.into_iter().map(|mut answer| {
                    answer.recording = self.placed(answer.recording);
                    answer
                });
                Ok(format!("{:?}", answers.collect::<Vec<_>>()))
            }
            Op::Retry { by, recording, rows_max } => {
                let (scope, id) = (self.scope(*by), recording.map(recording_id));
                let retried = self.store.retry_recordings(scope, id, *rows_max, now).await?;
                Ok(format!("retried {retried}"))
            }
            Op::Consent { by, meeting, person, given, ago_secs } => {
                let at = now - Duration::from_secs(*ago_secs);
                let consent = Consent { person: name(*person), given: *given, at };
                let meeting = self.meeting(*meeting).0;
                let said = self.store.set_consent(self.scope(*by), meeting, consent).await?;
                Ok(format!("said {said}"))
            }
            Op::ReadUpTo { recording } => {
                self.store.set_recording_cursor(recording_id(*recording), now).await?;
                Ok(String::new())
            }
            Op::Begin { .. }
            | Op::Keep { .. }
            | Op::Finish { .. }
            | Op::Fail { .. }
            | Op::Erased { .. } => self.work(op, now).await,
            _ => self.perform_around(op, now).await,
        }
    }

    /// What is written under the lease of a job.
    async fn work(&self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        let store = &self.store;
        match op {
            Op::Begin { recording, lease } => {
                let guard = self.lease(*lease, now).await?;
                let answer = store.begin_recording(recording_id(*recording), guard, now).await?;
                Ok(match answer {
                    BeginAnswer::Begun(begun) => format!("Begun {:?}", self.placed(*begun)),
                    other => format!("begin {other:?}"),
                })
            }
            Op::Keep { recording, tracks, lease } => {
                let guard = self.lease(*lease, now).await?;
                let media = tracks.iter().map(|track| media(*track, now)).collect();
                let kept = store.keep_media(recording_id(*recording), media, guard, now).await?;
                Ok(format!("kept {kept}"))
            }
            Op::Finish { recording, spoken, lease } => {
                let guard = self.lease(*lease, now).await?;
                let (id, spoken) = (recording_id(*recording), spoken.iter().map(said).collect());
                Ok(match store.finish_recording(id, spoken, guard, now).await? {
                    FinishAnswer::Saved { meeting, frames } => {
                        let frames: Vec<_> = frames.iter().map(|one| self.told(one)).collect();
                        format!("Saved {} {frames:?}", self.place(meeting))
                    }
                    other => format!("finish {other:?}"),
                })
            }
            Op::Fail { recording, lease } => {
                let guard = self.lease(*lease, now).await?;
                let (id, error) = (recording_id(*recording), format!("bro\0ken at {now}"));
                Ok(format!("failed {}", store.fail_recording(id, error, guard, now).await?))
            }
            Op::Erased { recording, is_done, lease } => {
                let guard = self.lease(*lease, now).await?;
                let error = (!is_done).then(|| "not \0yet".to_owned());
                let id = recording_id(*recording);
                Ok(format!("erased {}", store.media_erased(id, error, guard, now).await?))
            }
            other => panic!("{other:?} needs no lease"),
        }
    }

    /// What happens to the meetings.
    async fn perform_around(&self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        match op {
            Op::Enter { meeting } => {
                let guard = self.lease(Lease::Held, now).await?;
                let (no, id) = (guard.lease_no.get(), self.meeting(*meeting).0);
                let person = Participant {
                    session_id: "s".to_owned(),
                    user_id: None,
                    user_name: None,
                    joined_at: now,
                };
                let look = Look::Seen(vec![person]);
                let report = LookReport { no, began_at: now, look, hints: vec![] };
                let rules = PresenceRules::default();
                self.store.commit_look(id, report, rules, guard, now).await?;
            }
            Op::End { meeting } => {
                self.store.end_presence(Scope::All, self.meeting(*meeting).0, now).await?;
            }
            Op::Say { meeting, spoken } => {
                let message = self.message(*meeting, spoken);
                self.store.take_messages(vec![message], now).await?;
            }
            Op::Rename { meeting, from, to } => {
                let (id, owner) = self.meeting(*meeting);
                // What is told is told without NUL; nobody is called by it.
                let rename = Rename { from: plain(*from), to: plain(*to) };
                let target = BotTarget::Meeting(id);
                self.store.rename_speaker(owner, target, rename, now).await?;
            }
            Op::Delete { meeting } => {
                let (id, owner) = self.meeting(*meeting);
                let target = BotTarget::Meeting(id);
                let deleted = self.store.delete_transcript(owner, target, now).await?;
                return Ok(format!("{:?}", deleted.map(|deleted| deleted.changed)));
            }
            Op::Anonymise { meeting } => {
                let (id, owner) = self.meeting(*meeting);
                let target = BotTarget::Meeting(id);
                let answer = self.store.anonymise_meeting(owner, target, now).await?;
                let is_done = answer == AnonymiseAnswer::Done;
                return Ok(if is_done { "anonymised" } else { "" }.to_owned());
            }
            other => panic!("{other:?} is about a recording"),
        }
        Ok(String::new())
    }

    async fn open(&mut self, by: Pick, room: Pick, now: Timestamp) -> Result<String, StoreError> {
        let owner = *pick(&self.users, by);
        let wish = NewPresenceMeeting {
            user_id: owner,
            room: room_name(room),
            room_url: None,
            schedule: None,
        };
        let answer = self.store.open_presence(wish, now).await?;
        if let OpenAnswer::Opened(meeting) = &answer {
            self.meetings.push((meeting.id, owner));
        }
        Ok(matches!(answer, OpenAnswer::Opened(_)).to_string())
    }

    /// A lease of its own, or none.
    async fn lease(&self, lease: Lease, now: Timestamp) -> Result<LeaseRef, StoreError> {
        if lease == Lease::Lost {
            return Ok(LeaseRef { id: JobId::new(1), lease_no: LeaseNo::new(i64::MAX) });
        }
        let wish = NewJob {
            user_id: ADA,
            kind: kind(RENDER),
            key: None,
            payload: json("null"),
            priority: 0,
            run_at: now,
            max_attempts: None,
            tenant: None,
        };
        let lane = Lane::of(ADA, &wish.kind);
        self.store.enqueue(EnqueueRequest { jobs: vec![wish], idempotency: None }, now).await?;
        let ttl = Duration::from_secs(60);
        let request = ClaimRequest {
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            demands: vec![LaneDemand { lane, max: 1, lease_ttl: ttl, deadline: None }],
            total_max: 1,
        };
        Ok(self.store.claim(request, now).await?.jobs.remove(0).lease_ref())
    }

    fn message(&self, meeting: Pick, spoken: &Spoken) -> NewMessage {
        let (meeting_id, user_id) = self.meeting(meeting);
        let start_ms = spoken.start_ms.clamp(0, 80_000_000);
        let segment = ToldSegment {
            start_ms,
            end_ms: start_ms + 500,
            text: "told live".to_owned(),
            language: None,
            speaker: None,
            completed: None,
            segment_id: None,
        };
        let uid = Some("live".to_owned());
        let body = MessageBody::Transcription { uid, segments: vec![segment], refused: vec![] };
        let token_issued_at = START;
        NewMessage { meeting_id, user_id, token_issued_at, version: 1, start_hint: None, body }
    }

    fn scope(&self, by: Option<Pick>) -> Scope {
        by.map_or(Scope::All, |by| Scope::User(*pick(&self.users, by)))
    }

    /// Mostly one of the last few.
    fn meeting(&self, pick: Pick) -> (MeetingId, UserId) {
        let none = (MeetingId::new(1_000_000), self.users[0]);
        let back = usize::from(pick).checked_rem(self.meetings.len().min(3));
        back.map_or(none, |back| self.meetings[self.meetings.len() - 1 - back])
    }
}

fn announcement(told: &Told, now: Timestamp) -> Announcement {
    let by = Duration::from_secs(told.started_secs_ago.unsigned_abs());
    let tracks = (0..told.tracks).map(|number| Track {
        medium: if number == 0 { TrackMedium::Audio } else { TrackMedium::Video },
        key: format!("{}/\0{number}", ROOMS[usize::from(told.room) % ROOMS.len()]),
        bytes: (number > 0).then_some(7),
    });
    Announcement {
        id: recording_id(told.recording),
        room: room_name(told.room),
        kind: *pick(&RecordingKind::ALL, told.kind),
        started_at: if told.started_secs_ago < 0 { now + by } else { now - by },
        duration_ms: told.started_secs_ago,
        tracks: tracks.collect(),
        via: if told.by_poll { Via::Poll } else { Via::Event },
    }
}

fn said(spoken: &Spoken) -> SpokenSegment {
    SpokenSegment {
        start_ms: spoken.start_ms,
        end_ms: spoken.start_ms + spoken.length_ms,
        text: (*pick(&TEXTS, spoken.text)).to_owned(),
        speaker: spoken.speaker.map(name),
        language: spoken.language.map(|code| (*pick(&LANGUAGES, code)).to_owned()),
    }
}

fn media(track: Pick, now: Timestamp) -> Media {
    Media {
        track: (track % 3).to_string(),
        blob: now.to_string(),
        bytes: u64::from(track),
        sha256: "0".repeat(64),
    }
}

fn recording_id(pick: Pick) -> RecordingId {
    RecordingId::new(self::pick::<&str>(&RECORDINGS, pick)).expect("a recording's id")
}

fn room_name(pick: Pick) -> RoomName {
    RoomName::new(self::pick::<&str>(&ROOMS, pick)).expect("a room's name")
}

fn name(pick: Pick) -> String {
    (*self::pick(&NAMES, pick)).to_owned()
}

fn plain(pick: Pick) -> String {
    name(pick).replace('\0', "")
}

fn pick<T>(list: &[T], pick: Pick) -> &T {
    &list[usize::from(pick) % list.len()]
}
