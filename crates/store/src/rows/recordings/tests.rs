//! Rows that make no sense are named, announcements of one batch know of each other, and what was
//! heard fits into its columns.

use roundsman_core::recordings::{TrackMedium, Via};

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

fn id(text: &str) -> RecordingId {
    RecordingId::new(text).unwrap()
}

fn announcement(name: &str) -> Announcement {
    Announcement {
        id: id(name),
        room: RoomName::new("room").unwrap(),
        kind: RecordingKind::RawTracks,
        started_at: NOW,
        duration_ms: 5000,
        tracks: Vec::new(),
        via: Via::Event,
    }
}

fn recording(name: &str, no: i64) -> Recording {
    Recording { no, ..announce(None, announcement(name), NOW).recording }
}

fn columns() -> RecordingColumns {
    RecordingColumns {
        no: 5,
        recording_id: "a".to_owned(),
        meeting_id: Some(7),
        user_id: Some(3),
        room: "room".to_owned(),
        kind: "cloud".to_owned(),
        started_at: NOW,
        duration_ms: 5000,
        tracks: r#"[{"medium":"audio","key":"k","bytes":7}]"#.to_owned(),
        media: "[]".to_owned(),
        status: "pending".to_owned(),
        error: None,
        repeats: 0,
        segments: 0,
        announced_at: NOW,
        updated_at: NOW,
        completed_at: None,
        erased_at: None,
        erase_error: None,
    }
}

/// A column, and what is done to it.
type Damage = (&'static str, fn(&mut RecordingColumns));

#[test]
fn a_row_is_read_or_named() {
    let read = columns().into_recording().unwrap();
    assert_eq!(read.tracks[0].medium, TrackMedium::Audio);
    assert_eq!(tracks_to_text(&read.tracks), columns().tracks);
    let damages: [Damage; 7] = [
        ("recording_id", |row| row.recording_id.clear()),
        ("kind", |row| row.kind.push('x')),
        ("status", |row| row.status.push('x')),
        ("tracks", |row| row.tracks.push('x')),
        ("media", |row| "[7]".clone_into(&mut row.media)),
        ("repeats", |row| row.repeats = -1),
        ("segments", |row| row.segments = i64::MAX),
    ];
    for (expected, damage) in damages {
        let mut row = columns();
        damage(&mut row);
        match row.into_recording() {
            Err(StoreError::Inconsistent { table, column, row, .. }) => {
                assert_eq!((table, column, row), (RECORDINGS, expected, 5));
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn announcements_of_a_batch_know_of_each_other() {
    let given = ["a", "known", "a", "b", "known"].map(announcement).to_vec();
    let announcing = Announcing::new(given, NOW);
    let ids: Vec<RecordingId> = announcing.rows().into_iter().map(|row| row.id).collect();
    assert_eq!(ids, ["a", "known", "b"].map(id));
    let made = HashMap::from([(id("a"), 11), (id("b"), 12)]);
    let all = announcing.take(vec![recording("known", 3)], &made);
    let told: Vec<_> = all
        .answers
        .iter()
        .map(|answer| (answer.recording.no, answer.is_repeated, answer.recording.repeats))
        .collect();
    assert_eq!(told, [(11, false, 0), (3, true, 1), (11, true, 1), (12, false, 0), (3, true, 2)]);
    let changed: Vec<_> = all.changed.iter().map(|one| (one.no, one.repeats)).collect();
    assert_eq!(changed, [(3, 2), (11, 1)], "as they are in the end");
    let logged: Vec<i64> = all.effects.transitions.iter().map(|step| step.entity_id).collect();
    assert_eq!((logged, all.effects.jobs.len()), (vec![11, 12], 2));
}

#[test]
fn a_window_has_two_ends_within_time() {
    let (from, until) = match_window(NOW);
    assert_eq!((NOW.since(from), until.since(NOW)), (MATCH_WITHIN, MATCH_WITHIN));
    assert_eq!(match_window(Timestamp::EPOCH).0, Timestamp::EPOCH);
    assert_eq!(match_window(Timestamp::MAX).1, Timestamp::MAX);
}

fn spoken(speaker: Option<&str>, start_ms: i64, end_ms: i64, text: &str) -> SpokenSegment {
    SpokenSegment {
        start_ms,
        end_ms,
        text: text.to_owned(),
        speaker: speaker.map(ToOwned::to_owned),
        language: None,
    }
}

#[test]
fn what_is_said_at_once_has_keys_of_its_own() {
    let said = [spoken(Some("Ann"), 0, 900, "yes"), spoken(None, 0, 900, "yes")];
    let names = BTreeMap::from([("Ann".to_owned(), "Anna".to_owned())]);
    let lines = recorded_lines(&recording("a", 1), &said, &names, NOW);
    let keys: Vec<&str> = lines.iter().map(|line| line.segment.key.field.as_str()).collect();
    assert_eq!(keys, ["0.000#1", "0.000#2"]);
    let voices: Vec<_> = lines
        .iter()
        .map(|line| (line.segment.content.speaker.as_deref(), line.segment.speaker_status))
        .collect();
    let labeled = SpeakerStatus::ProducerLabeled;
    assert_eq!(voices, [(Some("Anna"), labeled), (None, SpeakerStatus::NoSpeakerEvents)]);
    assert!(lines.iter().all(|line| line.kept && line.session_start == Some(NOW)));
}

#[test]
fn a_text_that_is_too_long_is_cut_between_words() {
    let text = vec!["word"; TEXT_BYTES_MAX / 2].join(" ");
    let said = [spoken(None, 1000, 9000, &text), spoken(None, 9000, 9000, "bye")];
    let lines = recorded_lines(&recording("a", 1), &said, &BTreeMap::new(), NOW);
    assert!(lines.len() > 3);
    let texts: Vec<&str> = lines.iter().map(|line| line.segment.content.text.as_str()).collect();
    assert!(texts.iter().all(|text| text.len() <= TEXT_BYTES_MAX && !text.starts_with(' ')));
    assert!(texts.join(" ") == text + " bye", "no word is lost or cut");
    let times: Vec<_> =
        lines.iter().map(|line| (line.segment.start_ms, line.segment.content.end_ms)).collect();
    assert!(times.windows(2).all(|pair| pair[0].1 == pair[1].0), "{times:?}");
    assert_eq!((times[0].0, times[times.len() - 1]), (1000, (9000, 9000)));
    assert_eq!(pieces_of(""), [""]);
    assert_eq!(pieces_of(&"ä".repeat(TEXT_BYTES_MAX)).len(), 2);
    assert_eq!(between(0, i64::MAX, 3, 3), i64::MAX);
}
