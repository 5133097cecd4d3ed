//! Recordings, their list, and the links under which they can be read.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::recordings::{RecordingKind, TrackMedium};
use serde_json::{Value, json};

use super::http::{Body, Reply, Request, Sent};

/// How long a link is good for unless it is asked otherwise.
const LINK_LASTS: Duration = Duration::from_mins(60);

/// A recording to be there.
#[derive(Debug, Clone)]
pub struct NewRecording {
    pub room: String,
    pub kind: RecordingKind,
    pub started_at: Timestamp,
    pub duration: Duration,
    /// What a link leads to, of one that is one file.
    pub bytes: Vec<u8>,
    pub tracks: Vec<NewTrack>,
}

/// A track of a recording.
#[derive(Debug, Clone)]
pub struct NewTrack {
    pub medium: TrackMedium,
    /// Its name in the bucket.
    pub key: String,
    pub bytes: Vec<u8>,
}

impl NewRecording {
    /// One file of some seconds.
    pub fn cloud(room: &str, started_at: Timestamp, bytes: Vec<u8>) -> Self {
        NewRecording {
            room: room.to_owned(),
            kind: RecordingKind::Cloud,
            started_at,
            duration: Duration::from_secs(60),
            bytes,
            tracks: Vec::new(),
        }
    }

    /// A file for everybody.
    pub fn raw_tracks(room: &str, started_at: Timestamp, tracks: Vec<NewTrack>) -> Self {
        let kind = RecordingKind::RawTracks;
        NewRecording { kind, tracks, ..NewRecording::cloud(room, started_at, Vec::new()) }
    }
}

impl NewTrack {
    /// The sound of somebody's camera, under the name that Daily gives it.
    pub fn speech(
        room: &str,
        session: &str,
        recording_started_at: Timestamp,
        offset: Duration,
        bytes: Vec<u8>,
    ) -> Self {
        let began = recording_started_at.as_micros() / 1000;
        let track_began = (recording_started_at + offset).as_micros() / 1000;
        let key = format!("stand-in/{room}/{began}-{session}-cam-audio-{track_began}");
        NewTrack { medium: TrackMedium::Audio, key, bytes }
    }
}

/// In the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    kept: Vec<Kept>,
}

#[derive(Debug)]
pub(super) struct Kept {
    id: String,
    /// As the list shows it.
    entry: Value,
    kind: RecordingKind,
    /// By key; a recording that is one file has one with its own.
    files: Vec<(String, Arc<Vec<u8>>)>,
}

impl Recordings {
    pub(super) fn add(&mut self, id: String, new: NewRecording, status: &str) {
        let s3key = format!("stand-in/{}/{}", new.room, new.started_at.as_micros() / 1000);
        let medium = |medium| match medium {
            TrackMedium::Audio => "audio",
            TrackMedium::Video => "video",
        };
        let tracks: Vec<Value> = new
            .tracks
            .iter()
            .map(|track| {
                json!({"type": medium(track.medium), "s3Key": track.key, "size": track.bytes.len()})
            })
            .collect();
        let mut entry = json!({
            "id": id, "room_name": new.room, "start_ts": new.started_at.as_micros() / 1_000_000,
            "status": status, "max_participants": 2, "share_token": "stand-in", "s3key": s3key,
            "mtgSessionId": null, "tracks": tracks,
        });
        // It is there only once it is known.
        if status == "finished" {
            entry["duration"] = json!(new.duration.as_secs());
        }
        let tracks = new.tracks.into_iter().map(|track| (track.key, Arc::new(track.bytes)));
        let mut files: Vec<_> = tracks.collect();
        if files.is_empty() {
            files.push((s3key, Arc::new(new.bytes)));
        }
        self.insert(Kept { id, entry, kind: new.kind, files });
    }

    /// Anything at all, as the newest entry of the list.
    pub(super) fn add_entry(&mut self, entry: Value) {
        let id = entry.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.insert(Kept { id, entry, kind: RecordingKind::Cloud, files: Vec::new() });
    }

    fn insert(&mut self, kept: Kept) {
        self.kept.push(kept);
    }

    /// An unfinished one is finished, and lasted so long.
    pub(super) fn finish(&mut self, id: &str, duration: Duration) -> bool {
        let Some(kept) = self.kept.iter_mut().find(|kept| kept.id == id) else { return false };
        kept.entry["status"] = json!("finished");
        kept.entry["duration"] = json!(duration.as_secs());
        true
    }

    /// What its event says.
    pub(super) fn ready_payload(&self, id: &str) -> Option<Value> {
        let kept = self.kept.iter().find(|kept| kept.id == id)?;
        let entry = &kept.entry;
        let mut payload = json!({
            "type": kept.kind.as_str(), "recording_id": kept.id, "room_name": entry["room_name"],
            "start_ts": entry["start_ts"], "status": "finished", "duration": entry["duration"],
            "max_participants": 2, "s3_key": entry["s3key"],
        });
        if kept.kind == RecordingKind::RawTracks {
            payload["tracks"] = entry["tracks"].clone();
        }
        Some(payload)
    }

    pub(super) fn list(&self, request: &Request) -> Reply {
        let room = request.query("room_name");
        let matching = self.kept.iter().rev().filter(|kept| {
            room.is_none_or(|room| {
                kept.entry.get("room_name").and_then(Value::as_str) == Some(room)
            })
        });
        let matching: Vec<&Kept> = matching.collect();
        let place = |id: &str| matching.iter().position(|kept| kept.id == id);
        let limit = request.query("limit").and_then(|limit| limit.parse().ok()).unwrap_or(100);
        let range = match (request.query("starting_after"), request.query("ending_before")) {
            (Some(id), _) => match place(id) {
                Some(place) => place + 1..matching.len(),
                None => return Reply::error(400, "invalid-request-error", "no such cursor"),
            },
            (None, Some("OLDEST")) => matching.len().saturating_sub(limit)..matching.len(),
            (None, Some(id)) => {
                let end = place(id).unwrap_or(0);
                end.saturating_sub(limit)..end
            }
            (None, None) => 0..matching.len(),
        };
        let data: Vec<&Value> =
            matching[range].iter().take(limit.min(100)).map(|kept| &kept.entry).collect();
        Reply::json(&json!({"total_count": matching.len(), "data": data}))
    }

    pub(super) fn read(&self, id: &str) -> Reply {
        match self.kept.iter().find(|kept| kept.id == id) {
            Some(kept) => Reply::json(&kept.entry),
            None => not_found(id),
        }
    }

    pub(super) fn delete(&mut self, id: &str) -> Reply {
        let Some(place) = self.kept.iter().position(|kept| kept.id == id) else {
            return not_found(id);
        };
        let kept = self.kept.remove(place);
        let s3_key = &kept.entry["s3key"];
        Reply::json(&json!({"deleted": true, "id": id, "s3_bucket": "stand-in",
            "s3_region": "nowhere", "s3_key": s3_key}))
    }

    pub(super) fn link(&self, id: &str, request: &Request, base: &str, now: Timestamp) -> Reply {
        let Some(kept) = self.kept.iter().find(|kept| kept.id == id) else { return not_found(id) };
        let key = request.query("s3_key");
        let number = match key {
            None if kept.kind == RecordingKind::RawTracks => None,
            None => Some(0),
            Some(key) => kept.files.iter().position(|(known, _)| known == key),
        };
        let Some(number) = number else { return not_found(key.unwrap_or(id)) };
        let lasts = request.query("valid_for_secs").and_then(|secs| secs.parse().ok());
        let lasts = lasts.map_or(LINK_LASTS, Duration::from_secs);
        let expires = (now + lasts).as_micros() / 1_000_000;
        let link = format!("{base}/files/{id}/{number}?Expires={expires}");
        Reply::json(&json!({"download_link": link, "expires": expires}))
    }

    /// What a link leads to.
    pub(super) fn file(&self, id: &str, number: &str, request: &Request, now: Timestamp) -> Reply {
        let expires = request.query("Expires").and_then(|at| at.parse::<i64>().ok());
        if expires.is_none_or(|at| at <= now.as_micros() / 1_000_000) {
            return Reply::new(403, "<Error><Code>AccessDenied</Code></Error>");
        }
        let kept = self.kept.iter().find(|kept| kept.id == id);
        let number = number.parse::<usize>().ok();
        let file = kept.zip(number).and_then(|(kept, number)| kept.files.get(number));
        let Some((_, bytes)) = file else {
            return Reply::new(404, "<Error><Code>NoSuchKey</Code></Error>");
        };
        send_file(bytes, request.header("range"))
    }
}

fn send_file(bytes: &Arc<Vec<u8>>, range: Option<&str>) -> Reply {
    let length = bytes.len();
    let mut headers = vec![
        ("content-type", "application/octet-stream".to_owned()),
        ("accept-ranges", "bytes".to_owned()),
        ("etag", format!("\"{length}\"")),
    ];
    let (status, range) = match range.map(|range| part(range, length)) {
        None => (200, 0..length),
        Some(Some(range)) => {
            let (first, last) = (range.start, range.end - 1);
            headers.push(("content-range", format!("bytes {first}-{last}/{length}")));
            (206, range)
        }
        Some(None) => {
            headers.push(("content-range", format!("bytes */{length}")));
            (416, 0..0)
        }
    };
    let body = Body::File { bytes: bytes.clone(), range };
    Reply { status, headers, body, sent: Sent::Whole }
}

/// `bytes=from-to`, `bytes=from-` or `bytes=-last`.
fn part(range: &str, length: usize) -> Option<Range<usize>> {
    let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (from.parse::<usize>().ok(), to.parse::<usize>().ok()) {
        (Some(from), Some(to)) => from..to.saturating_add(1).min(length),
        (Some(from), None) => from..length,
        (None, Some(last)) => length.saturating_sub(last)..length,
        (None, None) => return None,
    };
    (range.start < range.end).then_some(range)
}

fn not_found(what: &str) -> Reply {
    Reply::error(404, "not-found", &format!("recording {what} not found"))
}
