//! What is sent: requests that are ready as bytes, no two of them alike, because an event that was
//! heard before costs next to nothing.

use bench_support::http::request;
use bench_support::rooms::{self, WEBHOOK_SECRET};
use bench_support::server::SECRET;
use roundsman_core::Timestamp;
use roundsman_core::bots::{CallbackKey, ConnectionId, MeetingId, WorkloadId};
use roundsman_core::daily::WebhookSecret;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;

/// A sort of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// One that does nothing: the yardstick.
    Nothing,
    /// Somebody has come or gone, says Daily.
    Participants,
    /// A recording can be had, says Daily.
    Recordings,
    /// A bot has ended, says the bot.
    Exits,
}

impl Class {
    /// What was answered is on disk.
    pub(crate) fn is_durable(self) -> bool {
        matches!(self, Class::Recordings | Class::Exits)
    }

    /// Where they are sent to, and what counts them there.
    pub(crate) fn route(self) -> Route {
        match self {
            Class::Nothing => Route { method: "GET", path: "/healthz" },
            Class::Participants | Class::Recordings => {
                Route { method: "POST", path: "/webhooks/daily" }
            }
            Class::Exits => Route { method: "POST", path: "/callback/exited" },
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
}

/// Makes requests of one class.
pub(crate) struct Events {
    class: Class,
    rooms: i64,
    clock: DatabaseClock,
    webhook_secret: WebhookSecret,
    callback_key: CallbackKey,
    made: i64,
}

impl Events {
    pub(crate) fn new(class: Class, rooms: usize) -> anyhow::Result<Events> {
        Ok(Events {
            class,
            rooms: i64::try_from(rooms)?,
            clock: DatabaseClock::start(),
            webhook_secret: WebhookSecret::parse(WEBHOOK_SECRET)?,
            callback_key: CallbackKey::new(SECRET.as_bytes()),
            made: 0,
        })
    }

    /// Further ones, signed now.
    pub(crate) fn make(&mut self, count: usize) -> Vec<Vec<u8>> {
        let now = self.clock.now();
        let mut next = || {
            self.made += 1;
            self.request(self.made, now)
        };
        std::iter::repeat_with(&mut next).take(count).collect()
    }

    /// How many were made.
    pub(crate) fn made(&self) -> i64 {
        self.made
    }

    fn request(&self, number: i64, now: Timestamp) -> Vec<u8> {
        match self.class {
            Class::Nothing => request("GET", "/healthz", &[], ""),
            Class::Participants => self.signed(&self.participant(number, now), now),
            Class::Recordings => self.signed(&self.recording(number, now), now),
            Class::Exits => self.exit(number),
        }
    }

    fn signed(&self, body: &str, now: Timestamp) -> Vec<u8> {
        let timestamp = (now.as_micros() / 1000).to_string();
        let signature = self.webhook_secret.sign(&timestamp, body.as_bytes());
        let timestamp = format!("x-webhook-timestamp: {timestamp}");
        let signature = format!("x-webhook-signature: {signature}");
        request("POST", "/webhooks/daily", &[&timestamp, &signature], body)
    }

    /// Everybody stays for some seconds: who came with one event goes with the next.
    fn participant(&self, number: i64, now: Timestamp) -> String {
        let visit = number / 2;
        let (kind, short, duration) = match number % 2 {
            0 => ("participant.joined", "join", ""),
            _ => ("participant.left", "left", r#","duration":11.419000148773193"#),
        };
        let (room, user) = (self.room(visit), id_of(visit));
        let (secs, joined) = (now.as_secs_f64(), now.as_secs_f64() - 12.0);
        format!(
            r#"{{"version":"1.0.0","type":"{kind}","id":"ptcpt-{short}-{user}-{number}","payload":{{"room":"{room}","user_id":"{user}","user_name":"guest-{visit}","session_id":"{user}","joined_at":{joined:.3},"will_eject_at":null,"owner":false,"permissions":{{"hasPresence":true,"canSend":true,"canReceive":{{"base":true}},"canAdmin":false}}{duration}}},"event_ts":{secs:.3}}}"#
        )
    }

    fn recording(&self, number: i64, now: Timestamp) -> String {
        let (room, recording) = (self.room(number), id_of(number));
        let (secs, start) = (now.as_secs_f64(), now.as_micros() / 1_000_000 - 120);
        format!(
            r#"{{"version":"1.0.0","type":"recording.ready-to-download","id":"rec-rtd-{recording}-{start}","payload":{{"type":"cloud","recording_id":"{recording}","room_name":"{room}","start_ts":{start},"status":"finished","max_participants":3,"duration":110,"s3_key":"bench/{room}/{number}"}},"event_ts":{secs:.3}}}"#
        )
    }

    /// Each bot ends once.
    fn exit(&self, number: i64) -> Vec<u8> {
        let connection = format!("bench-{number}");
        let workload = WorkloadId { meeting_id: MeetingId::new(number), attempt: 1 };
        let token =
            self.callback_key.token(workload, &ConnectionId::from_stored(connection.clone()));
        let authorization = format!("authorization: Bearer {token}");
        let body = format!(
            r#"{{"connection_id":"{connection}","exit_code":0,"reason":"left_alone_timeout"}}"#
        );
        request("POST", "/callback/exited", &[&authorization], &body)
    }

    fn room(&self, number: i64) -> String {
        rooms::room(number % self.rooms + 1)
    }
}

/// In the form of Daily's ids.
fn id_of(number: i64) -> String {
    format!("{number:08x}-1111-4000-8000-{number:012x}")
}

#[cfg(test)]
mod tests {
    use roundsman_core::daily::{Event, read_delivery};

    use super::*;

    #[test]
    fn events_are_read_as_what_they_are() {
        let events = Events::new(Class::Participants, 7).unwrap();
        let now = Timestamp::from_micros(1_700_000_000_123_456);
        let read = |body: &str| read_delivery(body.as_bytes(), now);
        let (joined, left) = (read(&events.participant(4, now)), read(&events.participant(5, now)));
        let hint_of = |event: &Event| match event {
            Event::Participant { room, hint } => (room.as_str().to_owned(), hint.clone()),
            other => panic!("{other:?}"),
        };
        let ((room, came), (same_room, went)) = (hint_of(&joined.event), hint_of(&left.event));
        assert_eq!((room.as_str(), &room, &came.session), ("bench-3", &same_room, &went.session));
        assert_ne!(joined.id, left.id);
        assert!(came.left_at.is_none() && went.left_at < Some(now));
        let recording = read(&events.recording(9, now));
        assert!(matches!(recording.event, Event::RecordingReady(_)), "{recording:?}");
    }
}
