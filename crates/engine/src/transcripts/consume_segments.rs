//! Entries of the stream of messages: the same messages as by HTTP, in one field.

use std::collections::BTreeSet;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{MessageAnswer, NewMessage, StoreError, StreamEntry};
use roundsman_core::transcripts::{MessageBody, SpeakerEvent};

use super::Transcripts;
use super::consume::{EntryTaker, Fate};
use super::ingest::{Admitted, IngestError};
use super::letters::written_at;

/// The field that holds the message.
const PAYLOAD: &str = "payload";

pub(super) struct SegmentTaker {
    transcripts: Transcripts,
}

/// What a round consists of, each part with the places of its entries.
#[derive(Default)]
struct Round {
    messages: Vec<NewMessage>,
    message_places: Vec<usize>,
    events: Vec<(Option<MeetingId>, SpeakerEvent)>,
}

impl SegmentTaker {
    pub(super) fn new(transcripts: Transcripts) -> Self {
        SegmentTaker { transcripts }
    }

    fn admit(&self, entry: &StreamEntry) -> Result<Admitted, IngestError> {
        let payload = entry.field(PAYLOAD).unwrap_or_default();
        let now = self.transcripts.clock().now();
        // A token may run out while its message waits for us.
        let written = written_at(entry).filter(|written| *written < now);
        let times: Vec<Timestamp> = [Some(now), written].into_iter().flatten().collect();
        self.transcripts.admit(payload, &times)
    }

    /// Sets the starts of sessions that the cache knows: read from there first, as the database is
    /// the slower of the two.
    async fn hint(&self, messages: &mut [NewMessage]) {
        let sessions: BTreeSet<&String> = messages.iter().filter_map(session_of).collect();
        if sessions.is_empty() || !self.transcripts.mirror().exists() {
            return;
        }
        let sessions: Vec<String> = sessions.into_iter().cloned().collect();
        let starts = self.transcripts.mirror().starts(&sessions).await;
        for message in messages {
            message.start_hint = session_of(message).and_then(|uid| starts.get(uid).copied());
        }
    }
}

#[async_trait]
impl EntryTaker for SegmentTaker {
    async fn take(&self, entries: &[StreamEntry]) -> Result<Vec<Fate>, StoreError> {
        let mut fates = vec![Fate::Taken; entries.len()];
        let mut round = Round::default();
        for (place, entry) in entries.iter().enumerate() {
            match self.admit(entry) {
                Ok(admitted) => round.add(place, admitted, entry.version()),
                Err(IngestError::Refused(refused)) if refused.is_left() => {
                    fates[place] = Fate::Left(refused.to_string());
                }
                Err(error) => fates[place] = Fate::Refused(error.to_string()),
            }
        }
        let Round { mut messages, message_places, events } = round;
        // Before the messages: whoever spoke is known when the first segments are taken.
        if !events.is_empty() {
            self.transcripts.collector().hear(events).await?;
        }
        if !messages.is_empty() {
            self.hint(&mut messages).await;
            let answers = self.transcripts.collector().take(messages).await?;
            for (place, answer) in message_places.into_iter().zip(answers) {
                if answer == MessageAnswer::NoSuchMeeting {
                    fates[place] = Fate::Refused(IngestError::NoSuchMeeting.to_string());
                }
            }
        }
        Ok(fates)
    }

    fn payload(&self, entry: &StreamEntry) -> String {
        match entry.field(PAYLOAD) {
            Some(payload) => payload.to_owned(),
            None => super::consume_speakers::object_of(entry),
        }
    }
}

impl Round {
    fn add(&mut self, place: usize, admitted: Admitted, version: i64) {
        if let MessageBody::Speaker(event) = admitted.body {
            self.events.push((Some(admitted.grant.meeting_id), event));
            return;
        }
        self.messages.push(admitted.into_message(version, None));
        self.message_places.push(place);
    }
}

fn session_of(message: &NewMessage) -> Option<&String> {
    match &message.body {
        MessageBody::Transcription { uid, .. } => uid.as_ref(),
        _ => None,
    }
}
