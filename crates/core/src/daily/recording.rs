//! Recordings as Daily tells of them, in its events and in its list.
//!
//! The list does not say of what sort a recording is, and older events do not either: then it shows
//! in whether there are tracks.

use serde_json::Value;

use super::Odd;
use super::loose::{duration, instant, json, member, millis, text};
use crate::Timestamp;
use crate::presence::RoomName;
use crate::recordings::{Announcement, RecordingId, RecordingKind, Track, TrackMedium, Via};

/// Longest name of a file that is taken.
const TRACK_KEY_BYTES_MAX: usize = 1024;
/// More files than people in the largest room have.
const TRACKS_MAX: usize = 4096;

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    Finished(Announcement),
    /// It will be announced later, under this id.
    Unfinished(String),
    /// There is nothing to be had of it, and never will be.
    Nothing,
    Odd(Odd),
}

/// A page of the list, as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPage {
    pub entries: Vec<Listed>,
    /// How many there are, says the answer.
    pub total: Option<u64>,
    /// The last of them that can be named: the next page begins after it.
    pub last: Option<String>,
}

/// The answer to `GET /recordings`.
pub fn read_recordings_page(body: &[u8]) -> Result<ListedPage, Odd> {
    let answer = json(body)?;
    let data = answer.get("data").and_then(Value::as_array);
    let data = data.ok_or_else(|| Odd::new("it has no list"))?;
    let last = data.iter().rev().find_map(|entry| id_of(entry, &["id"]));
    Ok(ListedPage {
        entries: data.iter().map(read_listed).collect(),
        total: answer.get("total_count").and_then(Value::as_u64),
        last: last.map(|id| id.as_str().to_owned()),
    })
}

/// One entry of the list.
pub fn read_listed(entry: &Value) -> Listed {
    let Some(id) = id_of(entry, &["id"]) else {
        return Listed::Odd(Odd::new("a recording has no id"));
    };
    let lasted = entry.get("duration").and_then(duration);
    match member(entry, &["status"]).map(|status| status.as_str().unwrap_or_default()) {
        Some("canceled" | "cancelled") => return Listed::Nothing,
        Some("finished") | None => {}
        Some("in-progress") => return Listed::Unfinished(id.as_str().to_owned()),
        Some(other) => return Listed::Odd(Odd::new(format!("a recording is {other:?}"))),
    }
    // It is called finished a while before it is.
    let Some(lasted) = lasted else { return Listed::Unfinished(id.as_str().to_owned()) };
    match announcement(entry, id, None, Via::Poll) {
        // Its events leave those out, too.
        Ok(found) if lasted.is_zero() && found.tracks.is_empty() => Listed::Nothing,
        Ok(found) => Listed::Finished(found),
        Err(odd) => Listed::Odd(odd),
    }
}

/// The payload of `recording.ready-to-download`.
pub(super) fn read_ready(
    payload: &Value,
    event_at: Option<Timestamp>,
) -> Result<Announcement, Odd> {
    let id = id_of(payload, &["recording_id", "id"]);
    announcement(
        payload,
        id.ok_or_else(|| Odd::new("it names no recording"))?,
        event_at,
        Via::Event,
    )
}

/// `told_at`: when it was told, in case nothing says when it began.
fn announcement(
    of: &Value,
    id: RecordingId,
    told_at: Option<Timestamp>,
    via: Via,
) -> Result<Announcement, Odd> {
    let room = member(of, &["room_name", "room"]).and_then(Value::as_str);
    let room = room.ok_or_else(|| Odd::new("it names no room"))?;
    let room = RoomName::new(room).map_err(|error| Odd::new(error.to_string()))?;
    let lasted = of.get("duration").and_then(duration).unwrap_or_default();
    let started_at = member(of, &["start_ts"]).and_then(instant);
    let started_at = started_at.or_else(|| told_at.map(|at| at - lasted));
    let started_at = started_at.ok_or_else(|| Odd::new("it does not say when it began"))?;
    let tracks = tracks(of);
    let told = of.get("type").and_then(Value::as_str).and_then(RecordingKind::parse);
    let kind = told.unwrap_or(match tracks.as_slice() {
        [] => RecordingKind::Cloud,
        _ => RecordingKind::RawTracks,
    });
    Ok(Announcement { id, room, kind, started_at, duration_ms: millis(lasted), tracks, via })
}

fn id_of(of: &Value, names: &[&str]) -> Option<RecordingId> {
    member(of, names).and_then(Value::as_str).and_then(RecordingId::new)
}

/// Those that have a name, under which they can be had.
fn tracks(of: &Value) -> Vec<Track> {
    let Some(tracks) = of.get("tracks").and_then(Value::as_array) else { return Vec::new() };
    tracks.iter().filter_map(track).take(TRACKS_MAX).collect()
}

fn track(of: &Value) -> Option<Track> {
    let key = member(of, &["s3Key", "s3key", "s3_key"]).and_then(text)?;
    let fits = !key.is_empty() && key.len() <= TRACK_KEY_BYTES_MAX;
    if !fits || key.chars().any(char::is_control) {
        return None;
    }
    let medium = match of.get("type").and_then(Value::as_str) {
        Some("audio") => TrackMedium::Audio,
        Some("video") => TrackMedium::Video,
        // Names end in `cam-audio-…` and the like.
        _ if key.contains("-audio") => TrackMedium::Audio,
        _ => TrackMedium::Video,
    };
    Some(Track { medium, key, bytes: of.get("size").and_then(Value::as_u64) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finished(change: impl FnOnce(&mut Value)) -> Listed {
        let mut entry = json!({
            "id": "rec-1", "room_name": "room", "start_ts": 1_692_124_183, "status": "finished",
            "max_participants": 3, "duration": 11.5, "share_token": "x", "s3key": "d/r/1",
            "mtgSessionId": null, "tracks": [],
        });
        change(&mut entry);
        read_listed(&entry)
    }

    #[test]
    fn the_list_tells_what_can_be_had() {
        let Listed::Finished(cloud) = finished(|_| ()) else { panic!("it is finished") };
        assert_eq!(cloud.kind, RecordingKind::Cloud);
        assert_eq!((cloud.duration_ms, cloud.via), (11_500, Via::Poll));
        assert_eq!(cloud.started_at, Timestamp::from_micros(1_692_124_183_000_000));

        let Listed::Finished(raw) = finished(|entry| {
            entry["tracks"] = json!([
                {"type": "audio", "s3Key": "a", "size": 7},
                {"type": "video", "s3key": "v"},
                {"s3_key": "1-x-cam-audio-1", "size": -1},
                {"type": "audio"}, null, 5,
            ]);
        }) else {
            panic!("it is finished")
        };
        assert_eq!(raw.kind, RecordingKind::RawTracks);
        let tracks: Vec<_> =
            raw.tracks.iter().map(|t| (t.medium, t.key.as_str(), t.bytes)).collect();
        let (audio, video) = (TrackMedium::Audio, TrackMedium::Video);
        assert_eq!(
            tracks,
            [(audio, "a", Some(7)), (video, "v", None), (audio, "1-x-cam-audio-1", None)]
        );
    }

    #[test]
    fn an_entry_stands_for_itself() {
        let is_finished = |listed: Listed| matches!(listed, Listed::Finished(_));
        assert!(is_finished(finished(|entry| entry["tracks"] = json!(null))));
        assert!(is_finished(finished(|entry| entry["duration"] = json!(60))));
        assert!(is_finished(finished(|entry| entry["type"] = json!("cloud-audio-only"))));
        assert!(is_finished(finished(|entry| entry["type"] = json!("something new"))));
        assert!(is_finished(finished(|entry| entry["status"] = json!(null))));
        let unfinished = Listed::Unfinished("rec-1".to_owned());
        assert_eq!(finished(|entry| entry["status"] = json!("in-progress")), unfinished);
        assert_eq!(finished(|entry| entry["duration"] = json!(null)), unfinished);
        assert_eq!(finished(|entry| entry["status"] = json!("canceled")), Listed::Nothing);
        assert_eq!(finished(|entry| entry["duration"] = json!(0)), Listed::Nothing);
        for odd in [
            finished(|entry| *entry = json!(null)),
            finished(|entry| entry["id"] = json!(7)),
            finished(|entry| entry["room_name"] = json!("a room")),
            finished(|entry| entry["room_name"] = json!(null)),
            finished(|entry| entry["start_ts"] = json!("soon")),
            finished(|entry| entry["status"] = json!(["finished"])),
        ] {
            assert!(matches!(odd, Listed::Odd(_)), "{odd:?}");
        }
    }

    #[test]
    fn a_page_ends_with_what_can_be_named() {
        let page = json!({"total_count": 9, "data": [{"id": "a"}, {"id": "b"}, {}]}).to_string();
        let page = read_recordings_page(page.as_bytes()).unwrap();
        assert_eq!((page.total, page.last.as_deref(), page.entries.len()), (Some(9), Some("b"), 3));
        for odd in ["", "{}", "[]", "{\"data\":{}}", "{\"data\":[", "<html>"] {
            assert!(read_recordings_page(odd.as_bytes()).is_err(), "{odd}");
        }
    }
}
