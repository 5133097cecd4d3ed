//! Entries of the stream of speakers: who began or ended to speak, in flat fields, without a token.

use async_trait::async_trait;
use roundsman_core::ports::{StoreError, StreamEntry};
use roundsman_core::transcripts::SpeakerEvent;
use serde_json::{Map, Value};

use super::Transcripts;
use super::consume::{EntryTaker, Fate};

pub(super) struct SpeakerTaker {
    transcripts: Transcripts,
}

impl SpeakerTaker {
    pub(super) fn new(transcripts: Transcripts) -> Self {
        SpeakerTaker { transcripts }
    }
}

#[async_trait]
impl EntryTaker for SpeakerTaker {
    async fn take(&self, entries: &[StreamEntry]) -> Result<Vec<Fate>, StoreError> {
        let mut fates = Vec::with_capacity(entries.len());
        let mut events = Vec::new();
        for entry in entries {
            fates.push(match SpeakerEvent::from_fields(|field| entry.field(field)) {
                // Events name a session; whose meeting that is, the segments say.
                Ok(event) => {
                    events.push((None, event));
                    Fate::Taken
                }
                Err(error) => Fate::Refused(error.to_string()),
            });
        }
        if !events.is_empty() {
            self.transcripts.collector().hear(events).await?;
        }
        Ok(fates)
    }

    fn payload(&self, entry: &StreamEntry) -> String {
        object_of(entry)
    }
}

/// The fields as an object, without the token that some producers send along.
pub(super) fn object_of(entry: &StreamEntry) -> String {
    let fields = entry.fields.iter().filter(|(name, _)| name != "token");
    let object: Map<String, Value> =
        fields.map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect();
    Value::Object(object).to_string()
}
