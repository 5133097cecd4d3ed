//! Whose words they are: by what was heard of speakers, and by the names that users give them.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::ports::{Rename, Taken};
use roundsman_core::transcripts::{
    SPEAKER_EVENT_SLACK_MS, SPEAKER_EVENTS_PER_SESSION_MAX, SPEAKER_EVENTS_READ_MAX, SpeakerEvent,
    SpeakerEventKind, SpeakerStatus, map_speaker,
};

use super::attend::{by_number, frames_of};
use super::backdoor::Said;
use super::fixture::Fixture;
use super::speak::{
    NOISE, Room, UID, assert_replays, event, hear, keep_events, read, rename, room, settle_all,
    speakers, spoken, texts, told, told_by, turn,
};
use super::wishes::{MINUTE, SECOND};

use SpeakerEventKind::{End, Start};

type Voice = (Option<String>, SpeakerStatus);

/// Every status that mapping can have, by the rule that maps.
pub async fn segments_are_mapped_by_what_was_heard(fx: &Arc<Fixture>) {
    let mut events = turn("Ann", 2000, 4000);
    events.extend(turn("Bob", 3500, 9000));
    let segments = [(0, 900), (1000, 1900), (2000, 2900), (3000, 4500), (20_000, 20_900)];
    let mut statuses = BTreeSet::new();
    for (name, known) in [("ada", &[][..]), ("bob", &events)] {
        let room = room(fx, name).await;
        keep_events(fx, Some(room.meeting), known.to_vec()).await;
        let told = segments.iter().map(|(start, end)| told(*start, *end, "alpha")).collect();
        hear(fx, room.says(1, told)).await;
        for line in read(fx, &room).await.lines {
            let segment = &line.segment;
            let expected = map_speaker(segment.start_ms, segment.content.end_ms, known);
            assert_eq!((segment.content.speaker.clone(), segment.speaker_status), expected);
            statuses.insert(segment.speaker_status.as_str());
        }
    }
    assert_eq!(statuses.len(), 4, "{statuses:?}");
}

/// Events are no change by themselves: whoever is told again is then somebody's.
pub async fn what_is_heard_later_counts_when_it_is_told_again(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let message = |version| room.says(version, vec![told(0, 900, "alpha")]);
    hear(fx, message(1)).await;
    let before = (read(fx, &room).await, spoken(fx, &room).await);
    keep_events(fx, Some(room.meeting), turn("Ann", 0, 900)).await;
    assert_eq!(spoken(fx, &room).await, before.1);
    fx.advance(SECOND);
    let again = hear(fx, message(2)).await;
    assert_eq!((again.changed, again.frames.len()), (1, 1));
    assert_eq!(speakers(&read(fx, &room).await.lines), [Some("Ann")]);
    assert_eq!(hear(fx, message(3)).await, Taken::default());
    assert_replays(fx, &room, &before.0).await;
}

pub async fn events_without_a_meeting_are_heard_where_their_session_is(fx: &Arc<Fixture>) {
    let (first, second) = (room(fx, "ada").await, room(fx, "bob").await);
    keep_events(fx, None, turn("Ann", 0, 900)).await;
    for room in [&first, &second] {
        assert_eq!(voice_of(fx, room, 0, 900).await, mapped("Ann"));
    }
    // What came with the meeting is heard beside what came without.
    keep_events(fx, Some(first.meeting), turn("Bob", 1000, 1900)).await;
    assert_eq!(voice_of(fx, &first, 1000, 1900).await, mapped("Bob"));
    assert_eq!(voice_of(fx, &second, 1000, 1900).await, (None, SpeakerStatus::Unknown));
}

pub async fn events_of_others_are_not_used(fx: &Arc<Fixture>) {
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    keep_events(fx, Some(other.meeting), turn("Eve", 0, 900)).await;
    keep_events(fx, Some(room.meeting), [event("session-b", Start, "Eve", 0)]).await;
    keep_events(fx, None, [event("session-b", Start, "Eve", 0)]).await;
    assert_eq!(voice_of(fx, &room, 0, 900).await, (None, SpeakerStatus::NoSpeakerEvents));
    // Nor has anybody spoken who said nothing about a session.
    hear(fx, room.says_in(None, 1, vec![told(5000, 5900, "alpha")])).await;
    let nobody = read(fx, &room).await.lines.pop().expect("a line without times is last");
    assert_eq!(nobody.segment.speaker_status, SpeakerStatus::NoSpeakerEvents);
}

/// An event is one by its session, its time, what happened and whose it is; the first name stays.
pub async fn what_was_heard_before_is_left_out(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let begins = event(UID, Start, "Ann", 0);
    let renamed = SpeakerEvent { name: "Anna".to_owned(), ..begins.clone() };
    let twice = [begins.clone(), begins.clone(), renamed.clone()];
    keep_events(fx, Some(room.meeting), twice).await;
    keep_events(fx, Some(room.meeting), [renamed, begins]).await;
    keep_events(fx, Some(room.meeting), []).await;
    assert_eq!(voice_of(fx, &room, 0, 900).await, mapped("Ann"));
    keep_events(fx, Some(room.meeting), [event(UID, End, "Ann", 0)]).await;
    assert_eq!(voice_of(fx, &room, 1000, 1900).await, mapped("Ann"), "an end comes first");
}

pub async fn what_is_over_the_limit_of_a_session_is_left_out(fx: &Arc<Fixture>) {
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    let limit = i64::from(SPEAKER_EVENTS_PER_SESSION_MAX);
    let many = (0..limit - 1).map(|n| {
        let kind = if n % 2 == 0 { End } else { Start };
        event(UID, kind, "Ann", n)
    });
    keep_events(fx, Some(room.meeting), many).await;
    // One is still taken, of however many come at once.
    let late = (0..3).map(|n| event(UID, Start, &format!("Bob {n}"), limit + n * 1000));
    keep_events(fx, Some(room.meeting), late).await;
    keep_events(fx, Some(room.meeting), [event(UID, Start, "Eve", limit)]).await;
    let after = limit + 2000;
    assert_eq!(voice_of(fx, &room, after, after + 900).await, mapped("Bob 0"));
    // It is a session's limit, of one meeting.
    keep_events(fx, Some(other.meeting), turn("Ann", 0, 900)).await;
    assert_eq!(voice_of(fx, &other, 0, 900).await, mapped("Ann"));
}

pub async fn only_the_latest_events_before_the_end_are_looked_at(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let window = i64::from(SPEAKER_EVENTS_READ_MAX);
    let first = event(UID, Start, "Ann", 0);
    let noise = (1..window).map(|n| event(UID, End, "Nobody", n));
    keep_events(fx, Some(room.meeting), noise.chain([first])).await;
    assert_eq!(voice_of(fx, &room, 1000, 1900).await, mapped("Ann"));
    let later = event(UID, End, "Nobody", 5000 + SPEAKER_EVENT_SLACK_MS);
    keep_events(fx, Some(room.meeting), [later]).await;
    assert_eq!(voice_of(fx, &room, 4000, 4999).await, mapped("Ann"), "it is after the end");
    assert_eq!(voice_of(fx, &room, 4100, 5000).await, (None, SpeakerStatus::Unknown));
}

/// A user calls somebody by another name: live, final, to come, and in the frames about it.
pub async fn a_speaker_is_renamed_in_all_that_was_and_will_be_said(fx: &Arc<Fixture>) {
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    keep_events(fx, Some(room.meeting), turn("Ann", 0, 9900)).await;
    let labelled = vec![told_by("Ann", 0, 900, "kept label"), told_by("Bob", 1000, 1900, "kept")];
    hear(fx, room.says(1, labelled.clone())).await;
    hear(fx, room.says(1, vec![told(2000, 2900, "kept mapped")])).await;
    settle_all(fx, &room).await;
    hear(fx, room.says(1, vec![told(3000, 3900, "live"), told_by("Bob", 4000, 4900, "x")])).await;
    hear(fx, other.says(1, labelled.clone())).await;
    let (before, elsewhere) = (read(fx, &room).await, spoken(fx, &other).await);
    fx.advance(SECOND);
    let renamed = rename(fx, &room, "Ann", "Zoë").await;
    assert_eq!((renamed.meeting_id, renamed.changed, renamed.frames.len()), (room.meeting, 3, 1));
    assert_eq!(texts(&renamed.live), ["live"]);
    let after = read(fx, &room).await;
    let expected = [Some("Zoë"), Some("Bob"), Some("Zoë"), Some("Zoë"), Some("Bob")];
    assert_eq!(speakers(&after.lines), expected);
    let moved: Vec<bool> = after.lines.iter().map(|line| line.segment.seq == after.seq).collect();
    assert_eq!(moved, [true, false, true, true, false]);
    assert!(after.lines.contains(&renamed.live[0]));
    assert_replays(fx, &room, &before).await;
    assert_eq!(spoken(fx, &other).await, elsewhere, "names are a meeting's own");
    if let Some(door) = &fx.backdoor {
        let said = door.said(room.meeting).await;
        let names: Vec<_> = said.iter().map(|(_, said)| said.speaker.as_deref()).collect();
        assert_eq!(names, [Some("Zoë"), Some("Bob"), Some("Zoë")]);
    }
    // What is told again with the old name says nothing new, and what is new has the new name.
    assert_eq!(hear(fx, room.says(2, labelled)).await, Taken::default());
    let more = vec![told_by("Ann", 5000, 5900, "labelled"), told(6000, 6900, "mapped")];
    hear(fx, room.says(2, more)).await;
    assert_eq!(speakers(&read(fx, &room).await.lines)[5..], [Some("Zoë"), Some("Zoë")]);
}

pub async fn names_follow_each_other(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let says = async |version: i64, name: &str| {
        let message =
            room.says(version, vec![told_by(name, version * 1000, version * 1000 + 900, "alpha")]);
        hear(fx, message).await;
        read(fx, &room).await.lines.pop().and_then(|line| line.segment.content.speaker)
    };
    assert_eq!(says(0, "Ann").await.as_deref(), Some("Ann"));
    assert_eq!(rename(fx, &room, "Ann", "Bea").await.changed, 1);
    assert_eq!(rename(fx, &room, "Bea", "Cat").await.changed, 1);
    assert_eq!(says(1, "Ann").await.as_deref(), Some("Cat"));
    assert_eq!(says(2, "Bea").await.as_deref(), Some("Cat"));
    assert_eq!(rename(fx, &room, "Cat", "Ann").await.changed, 3);
    for (version, name) in [(3, "Ann"), (4, "Bea"), (5, "Cat")] {
        assert_eq!(says(version, name).await.as_deref(), Some("Ann"), "{name}");
    }
    // A name that nobody had yet is one for whoever comes.
    let nobody = rename(fx, &room, "Dan", "Dot").await;
    assert_eq!((nobody.changed, nobody.frames, nobody.live), (0, vec![], vec![]));
    assert_eq!(says(6, "Dan").await.as_deref(), Some("Dot"));
    let before = spoken(fx, &room).await;
    assert_eq!(rename(fx, &room, "Ann", "Ann").await.changed, 0);
    assert_eq!(spoken(fx, &room).await, before);
}

/// The last look at who spoke knows the names, too.
pub async fn who_is_found_late_has_the_name_that_was_given(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    hear(fx, room.says(1, vec![told(0, 900, "alpha")])).await;
    rename(fx, &room, "Ann", "Zoë").await;
    keep_events(fx, Some(room.meeting), turn("Ann", 0, 900)).await;
    settle_all(fx, &room).await;
    assert_eq!(speakers(&read(fx, &room).await.lines), [Some("Zoë")]);
}

/// A name is no reason for a segment to come back that the filter refused.
pub async fn a_name_brings_nothing_back(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let noise = || vec![told_by("Ann", 0, 900, NOISE)];
    hear(fx, room.says(1, noise())).await;
    settle_all(fx, &room).await;
    let frames = frames_of(fx, room.meeting).await.len();
    assert_eq!(rename(fx, &room, "Ann", "Zoë").await.changed, 0);
    fx.advance(MINUTE);
    assert_eq!(hear(fx, room.says(2, noise())).await, Taken::default());
    assert_eq!(read(fx, &room).await.lines, vec![]);
    assert_eq!(frames_of(fx, room.meeting).await.len(), frames);
}

/// Rows that somebody else wrote have speakers like any other.
pub async fn rows_of_somebody_else_are_renamed_too(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let room = room(fx, "ada").await;
    for speaker in [Some("Ann"), Some("Bob"), None] {
        let speaker = speaker.map(ToOwned::to_owned);
        let said = Said { end: 1.0, text: "alpha".to_owned(), speaker, ..Said::default() };
        door.put_said(room.meeting, said).await;
    }
    let renamed = rename(fx, &room, "Ann", "Zoë").await;
    assert_eq!(renamed.changed, 1);
    let body = renamed.frames[0].body.to_value();
    assert_eq!(body["payload"]["segments"][0]["speaker"], "Zoë");
    let lines = read(fx, &room).await.lines;
    let mut names = speakers(&lines);
    names.sort_unstable();
    assert_eq!(names, [None, Some("Bob"), Some("Zoë")]);
}

pub async fn nobody_renames_the_speakers_of_others(fx: &Arc<Fixture>) {
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    hear(fx, room.says(1, vec![told_by("Ann", 0, 900, "alpha")])).await;
    let before = spoken(fx, &room).await;
    for target in
        [room.target(), room.address(), by_number(roundsman_core::bots::MeetingId::new(0))]
    {
        let to = Rename { from: "Ann".to_owned(), to: "Eve".to_owned() };
        let renamed = fx.store.rename_speaker(other.user, target, to, fx.now()).await;
        assert_eq!(renamed.expect("rename_speaker"), None);
    }
    hear(fx, room.says(2, vec![told_by("Ann", 0, 900, "alpha")])).await;
    assert_eq!(spoken(fx, &room).await, before);
}

fn mapped(name: &str) -> Voice {
    (Some(name.to_owned()), SpeakerStatus::Mapped)
}

/// Who speaks in a segment that is told now.
async fn voice_of(fx: &Fixture, room: &Room, start_ms: i64, end_ms: i64) -> Voice {
    let taken = hear(fx, room.says(1, vec![told(start_ms, end_ms, "alpha")])).await;
    let segment = &taken.live[0].segment;
    (segment.content.speaker.clone(), segment.speaker_status)
}
