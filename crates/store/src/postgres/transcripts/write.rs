//! Writing segments back.

use roundsman_core::bots::MeetingId;
use roundsman_core::transcripts::{Segment, TEXT_BYTES_MAX, to_tsvector};
use roundsman_core::users::UserId;

use crate::postgres::error::Failure;
use crate::postgres::session::Session;
use crate::postgres::types::Time;
use crate::rows::transcripts::session_to_column;

/// What is set when a segment is there already is in no index, so that its row is rewritten in its
/// page and nothing else is touched.
pub(super) const PUT_LIVE: &str = "-- put_live
INSERT INTO roundsman.live_segments
    (meeting_id, session_uid, field, segment_id, start_ms, end_ms, text, speaker, language,
     speaker_status, completed, version, created_at, updated_at, seq, dropped)
SELECT *, false
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
              $7::text[], $8::text[], $9::text[], $10::text[], $11::boolean[], $12::bigint[],
              $13::timestamptz[], $14::timestamptz[], $15::bigint[])
ON CONFLICT (meeting_id, session_uid, field) DO UPDATE
   SET end_ms = excluded.end_ms, text = excluded.text, speaker = excluded.speaker,
       language = excluded.language, speaker_status = excluded.speaker_status,
       completed = excluded.completed, version = excluded.version,
       updated_at = excluded.updated_at, seq = excluded.seq, dropped = false";

/// Writes segments that may still change.
pub(super) async fn put_live(
    session: &mut Session,
    segments: &[(MeetingId, &Segment)],
) -> Result<(), Failure> {
    if segments.is_empty() {
        return Ok(());
    }
    let column = SegmentColumns::of(segments.iter().map(|(_, segment)| *segment));
    let meetings: Vec<i64> = segments.iter().map(|(meeting, _)| meeting.get()).collect();
    let created: Vec<Time> = segments.iter().map(|(_, new)| Time(new.created_at)).collect();
    session
        .execute(
            PUT_LIVE,
            &[
                &meetings,
                &column.sessions,
                &column.fields,
                &column.segment_ids,
                &column.start_ms,
                &column.end_ms,
                &column.texts,
                &column.speakers,
                &column.languages,
                &column.statuses,
                &column.completed,
                &column.versions,
                &created,
                &column.updated,
                &column.seqs,
            ],
        )
        .await?;
    Ok(())
}

const ACTIVATE: &str = "-- activate
INSERT INTO roundsman.active_transcripts (meeting_id)
SELECT * FROM unnest($1::bigint[])
ON CONFLICT DO NOTHING";

/// Notes that these meetings have live segments.
pub(super) async fn activate(session: &mut Session, meetings: &[i64]) -> Result<(), Failure> {
    if !meetings.is_empty() {
        session.execute(ACTIVATE, &[&meetings]).await?;
    }
    Ok(())
}

/// A final segment that has changed, with the number of its row.
pub(super) struct Revised<'s> {
    pub(super) id: i64,
    pub(super) user: UserId,
    pub(super) segment: &'s Segment,
    /// Not only its place in the stream.
    pub(super) content: bool,
}

pub(super) const REVISE_KEPT: &str = "-- revise_kept
UPDATE roundsman.kept_segments k
   SET end_ms = x.end_ms, speaker_status = x.speaker_status, completed = x.completed,
       version = x.version, updated_at = x.updated_at, seq = x.seq
  FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[], $5::bigint[],
              $6::timestamptz[], $7::bigint[])
       AS x(id, end_ms, speaker_status, completed, version, updated_at, seq)
 WHERE k.transcription_id = x.id";

pub(super) const REVISE_FINAL: &str = "-- revise_final
UPDATE public.transcriptions t
   SET text = x.text, speaker = x.speaker, language = x.language,
       end_time = x.end_ms / 1000.0::double precision
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[])
       AS x(id, text, speaker, language, end_ms)
 WHERE t.id = x.id";

/// Writes final segments that were told of once more.
pub(super) async fn revise(session: &mut Session, revised: &[Revised<'_>]) -> Result<(), Failure> {
    if revised.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = revised.iter().map(|revised| revised.id).collect();
    let column = SegmentColumns::of(revised.iter().map(|revised| revised.segment));
    session
        .execute(
            REVISE_KEPT,
            &[
                &ids,
                &column.end_ms,
                &column.statuses,
                &column.completed,
                &column.versions,
                &column.updated,
                &column.seqs,
            ],
        )
        .await?;
    let revised: Vec<&Revised<'_>> = revised.iter().filter(|revised| revised.content).collect();
    if revised.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = revised.iter().map(|revised| revised.id).collect();
    let column = SegmentColumns::of(revised.iter().map(|revised| revised.segment));
    session
        .execute(
            REVISE_FINAL,
            &[&ids, &column.texts, &column.speakers, &column.languages, &column.end_ms],
        )
        .await?;
    let words = revised.iter().map(|one| (one.id, one.user, one.segment.content.text.as_str()));
    put_words(session, words).await
}

/// The words are cut by the program, so the cast only reads them.
const PUT_WORDS: &str = "-- put_words
INSERT INTO roundsman.transcript_words (transcription_id, words)
SELECT id, words::tsvector FROM unnest($1::bigint[], $2::text[]) AS x(id, words)
ON CONFLICT (transcription_id) DO UPDATE SET words = excluded.words";

/// Makes final segments searchable: number of the row, whose it is, its text.
pub(super) async fn put_words<'t>(
    session: &mut Session,
    texts: impl Iterator<Item = (i64, UserId, &'t str)>,
) -> Result<(), Failure> {
    let words = |(id, user, text)| (id, words_of(user, text));
    let (ids, words): (Vec<i64>, Vec<String>) = texts.map(words).unzip();
    if !ids.is_empty() {
        session.execute(PUT_WORDS, &[&ids, &words]).await?;
    }
    Ok(())
}

/// The words of a text and whose it is, to be cast to `tsvector`. No text that we take is longer than
/// what is read of it here, but rows of others may have any length and a vector may not.
fn words_of(user: UserId, text: &str) -> String {
    let read = text.floor_char_boundary(TEXT_BYTES_MAX);
    format!("{} {}", owner_word(user), to_tsvector(&text[..read]))
}

/// A word that stands for a user, so that the index of words leads to the texts of one user. No word
/// of a text has such a sign in it.
pub(super) fn owner_word(user: UserId) -> String {
    format!("'@{}'", user.get())
}

/// Segments, one vector per column, as `unnest` takes them.
#[derive(Debug, Default)]
pub(super) struct SegmentColumns<'s> {
    pub(super) sessions: Vec<&'s str>,
    pub(super) fields: Vec<&'s str>,
    pub(super) segment_ids: Vec<Option<&'s str>>,
    pub(super) start_ms: Vec<i64>,
    pub(super) end_ms: Vec<i64>,
    pub(super) texts: Vec<&'s str>,
    pub(super) speakers: Vec<Option<&'s str>>,
    pub(super) languages: Vec<Option<&'s str>>,
    pub(super) statuses: Vec<&'s str>,
    pub(super) completed: Vec<Option<bool>>,
    pub(super) versions: Vec<i64>,
    pub(super) updated: Vec<Time>,
    pub(super) seqs: Vec<i64>,
}

impl<'s> SegmentColumns<'s> {
    pub(super) fn of(segments: impl IntoIterator<Item = &'s Segment>) -> Self {
        let mut columns = SegmentColumns::default();
        for segment in segments {
            columns.sessions.push(session_to_column(segment.key.session_uid.as_deref()));
            columns.fields.push(&segment.key.field);
            columns.segment_ids.push(segment.segment_id.as_deref());
            columns.start_ms.push(segment.start_ms);
            columns.end_ms.push(segment.content.end_ms);
            columns.texts.push(&segment.content.text);
            columns.speakers.push(segment.content.speaker.as_deref());
            columns.languages.push(segment.content.language.as_deref());
            columns.statuses.push(segment.speaker_status.as_str());
            columns.completed.push(segment.completed);
            columns.versions.push(segment.version);
            columns.updated.push(Time(segment.updated_at));
            columns.seqs.push(segment.seq);
        }
        columns
    }
}
