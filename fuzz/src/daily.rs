//! What must hold for whatever Daily sends: an input is the body of an event or of an answer.

use std::collections::BTreeSet;

use roundsman_core::Timestamp;
use roundsman_core::daily::{
    EVENT_ID_BYTES_MAX, Event, Listed, read_delivery, read_domain_presence, read_recordings_page,
    read_room_presence,
};
use roundsman_core::presence::{
    Hint, NAME_BYTES_MAX, Participant, is_session_id, read_hints, write_hints,
};
use roundsman_core::recordings::Announcement;

const NOW: Timestamp = Timestamp::from_micros(1_769_860_800_000_000);

/// Panics if something does not hold.
pub(crate) fn check(data: &[u8]) {
    check_event(data);
    if let Ok(people) = read_room_presence(data, NOW) {
        check_people(&people);
    }
    if let Ok(look) = read_domain_presence(data, NOW) {
        look.rooms.values().for_each(|people| check_people(people));
    }
    if let Ok(page) = read_recordings_page(data) {
        for entry in &page.entries {
            match entry {
                Listed::Finished(announcement) => check_announcement(announcement),
                Listed::Unfinished(id) => assert!(!id.is_empty()),
                Listed::Odd(odd) => assert!(!odd.to_string().is_empty()),
                Listed::Nothing => {}
            }
        }
        let is_named =
            |entry: &Listed| matches!(entry, Listed::Finished(_) | Listed::Unfinished(_));
        assert!(page.last.is_some() || !page.entries.iter().any(is_named), "one has a name");
    }
}

fn check_event(data: &[u8]) {
    let delivery = read_delivery(data, NOW);
    assert_eq!(read_delivery(data, NOW), delivery, "the same bytes are the same event");
    assert!((1..=EVENT_ID_BYTES_MAX).contains(&delivery.id.len()));
    let texts = [Some(&delivery.id), Some(&delivery.kind), delivery.room.as_ref()];
    assert!(texts.into_iter().flatten().all(|text| is_kept(text)));
    match &delivery.event {
        Event::Participant { room, hint } | Event::MeetingEnded { room, hint } => {
            assert_eq!(delivery.room.as_deref(), Some(room.as_str()));
            assert_eq!(hint.event, delivery.id);
            check_hint(hint);
        }
        Event::RecordingReady(announcement) => check_announcement(announcement),
        Event::Odd { reason } => assert!(!reason.is_empty()),
        Event::Ping | Event::Other => {}
    }
}

/// Both databases can keep it.
fn is_kept(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control)
}

fn check_hint(hint: &Hint) {
    assert_eq!(hint.clone().sound(), *hint, "nothing of it is left out later");
    let hints = [hint.clone()];
    assert_eq!(read_hints(&write_hints(&hints).to_value()), hints, "it travels in a job");
    check_times([hint.joined_at, hint.left_at].into_iter().flatten());
}

fn check_people(people: &[Participant]) {
    let ids: BTreeSet<&str> = people.iter().map(|person| person.session_id.as_str()).collect();
    assert_eq!(ids.len(), people.len(), "everybody is there once");
    for person in people {
        assert!(is_session_id(&person.session_id));
        assert!(person.user_name.iter().chain(&person.user_id).all(|name| is_kept(name)));
    }
    check_times(people.iter().map(|person| person.joined_at));
}

fn check_announcement(announcement: &Announcement) {
    assert!(announcement.duration_ms >= 0);
    assert!(announcement.tracks.iter().all(|track| !track.key.chars().any(char::is_control)));
    check_times([announcement.started_at]);
}

fn check_times(times: impl IntoIterator<Item = Timestamp>) {
    for time in times {
        assert!((Timestamp::EPOCH..=Timestamp::MAX).contains(&time));
    }
}
