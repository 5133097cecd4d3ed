//! Messages that could not be taken, for operators: to look at, to try again, to throw away.

use roundsman_core::Timestamp;
use roundsman_core::ports::{DeadLetter, NewDeadLetter, StoreError, StreamEntry};
use roundsman_core::transcripts::{
    DEAD_LETTER_BYTES_MAX, DEAD_LETTER_REASON_BYTES_MAX, SpeakerEvent,
};

use super::Transcripts;
use super::ingest::{IngestError, Ingested};

/// Letters in one list end where they are more than this together; one alone may be.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Letters read or written with one statement: each may be as large as a message.
pub(super) const LETTERS_PER_STEP_MAX: u32 = 16;

/// Some letters, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetterPage {
    pub letters: Vec<DeadLetter>,
    /// Where to go on; `None` if these are the last.
    pub next_before: Option<i64>,
}

impl Transcripts {
    /// The newest first, those with a lower number than `before`: so many, or fewer large ones.
    pub async fn dead_letters(
        &self,
        before: Option<i64>,
        rows_max: u32,
    ) -> Result<DeadLetterPage, StoreError> {
        let rows_max = rows_max.clamp(1, self.limits().page_rows_max);
        let mut page = DeadLetterPage { letters: Vec::new(), next_before: before };
        let (mut rows_left, mut bytes) = (rows_max, 0);
        while rows_left > 0 {
            let step = rows_left.min(LETTERS_PER_STEP_MAX);
            let found = self.store().dead_letters(page.next_before, step).await?;
            let is_last = found.len() < step as usize;
            for letter in found {
                bytes += letter.letter.payload.len();
                if bytes > PAGE_BYTES_MAX && !page.letters.is_empty() {
                    return Ok(page);
                }
                page.next_before = Some(letter.id);
                page.letters.push(letter);
            }
            if is_last {
                page.next_before = None;
                break;
            }
            rows_left -= step;
        }
        Ok(page)
    }

    /// Tries a message again that was put away, as if it had just come; if it is taken, the letter
    /// goes. `None` if there is no such letter.
    pub async fn replay_dead_letter(&self, id: i64) -> Result<Option<Ingested>, IngestError> {
        let Some(letter) = self.store().dead_letter(id).await? else { return Ok(None) };
        let ingested = self.replay(&letter).await?;
        self.store().delete_dead_letter(id).await?;
        Ok(Some(ingested))
    }

    /// `false` if there is no such letter.
    pub async fn delete_dead_letter(&self, id: i64) -> Result<bool, StoreError> {
        self.store().delete_dead_letter(id).await
    }

    async fn replay(&self, letter: &DeadLetter) -> Result<Ingested, IngestError> {
        let NewDeadLetter { entry, payload, .. } = &letter.letter;
        if let Some(event) = speaker_event(payload) {
            self.collector().hear(vec![(None, event)]).await?;
            return Ok(Ingested { accepted: 1, ..Ingested::default() });
        }
        // The token was good when the message came, or never.
        let admitted = self.admit(payload, &[self.clock().now(), letter.at])?;
        // What was told since then is newer, if it is known when this was told.
        let version = version_of(entry).unwrap_or(letter.at.as_micros());
        self.take_one(admitted, version).await
    }
}

/// A letter about an entry of a stream.
pub(super) fn letter(
    source: &str,
    entry: &StreamEntry,
    reason: &str,
    payload: String,
) -> NewDeadLetter {
    NewDeadLetter {
        source: source.to_owned(),
        entry: entry.id.clone(),
        reason: storable(reason.to_owned(), DEAD_LETTER_REASON_BYTES_MAX),
        deliveries: entry.deliveries,
        payload: storable(payload, DEAD_LETTER_BYTES_MAX),
    }
}

/// When an entry was written, by its name.
pub(super) fn written_at(entry: &StreamEntry) -> Option<Timestamp> {
    version_of(&entry.id).map(Timestamp::from_micros)
}

fn version_of(id: &str) -> Option<i64> {
    let entry = StreamEntry { id: id.to_owned(), fields: Vec::new(), deliveries: 0 };
    Some(entry.version()).filter(|version| *version > 0)
}

/// Entries of the stream of speakers are kept as objects; nobody's token is in them.
fn speaker_event(payload: &str) -> Option<SpeakerEvent> {
    let object = serde_json::from_str::<serde_json::Map<_, _>>(payload).ok()?;
    let is_message = object.contains_key("type") || object.contains_key("segments");
    if is_message { None } else { SpeakerEvent::from_object(&object).ok() }
}

/// Not all databases can store all characters, and what is larger than a message may be could
/// never have been taken.
fn storable(text: String, bytes_max: usize) -> String {
    let mut text = if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text };
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_cut_to_what_can_be_stored() {
        assert_eq!(storable("a\0b".to_owned(), 10), "a\u{fffd}b");
        assert_eq!(storable("ü".repeat(10), 10), "ü".repeat(5));
        assert_eq!(storable(format!("x{}", "ü".repeat(10)), 10), "xüüüü");
    }
}
