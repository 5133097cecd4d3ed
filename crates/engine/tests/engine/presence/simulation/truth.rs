//! What must be true at every moment, and what when the world is quiet.

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{PresenceStore, SessionFilter};
use roundsman_core::presence::{ClosedBy, PresenceSession};

use super::{Life, RECENT, ROOMS, ROUNDING};
use crate::presence::{LAG, RECONCILE_EVERY};
use crate::support::secs;

/// What has happened in all lives: a simulation in which nothing does proves nothing.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) confirmed: u64,
    pub(super) refused: u64,
    pub(super) ended: u64,
    pub(super) healed: u64,
    pub(super) visits: u64,
}

impl Seen {
    pub(super) fn add(&mut self, other: &Seen) {
        self.confirmed += other.confirmed;
        self.refused += other.refused;
        self.ended += other.ended;
        self.healed += other.healed;
        self.visits += other.visits;
    }

    pub(super) fn check(&self) {
        let Seen { confirmed, refused, ended, healed, visits } = self;
        for count in [confirmed, refused, ended, healed, visits] {
            assert!(*count > 0, "{self:?}");
        }
    }
}

impl Life {
    /// What is recorded about a room is true: about those who came not long ago, or about all.
    pub(super) async fn check(&mut self, room: &'static str, all: bool) {
        let id = self.meetings[room];
        let meeting = self.world.meeting(id).await;
        let since = self.world.now() - RECENT;
        let after = (!all).then(|| (since, String::new()));
        let filter = SessionFilter { open: None, after, rows_max: 100_000 };
        let store = &self.world.world.store;
        let sessions = store.presence_sessions(id, filter).await.unwrap();
        let seed = self.seed;
        if all {
            let open = sessions.iter().filter(|session| session.is_open()).count();
            assert_eq!(meeting.num_clients as usize, open, "R4, seed {seed}");
            assert!(open == 0 || meeting.is_active(), "seed {seed}");
        }
        let last_no = self.last_no.insert(id, meeting.looks.last_no).unwrap_or(0);
        assert!(meeting.looks.last_no >= last_no, "R2, seed {seed}");
        for session in &sessions {
            let stay = &self.world.daily.stay(room, &session.session_id);
            let drift = session.joined_at.since(stay.person.joined_at);
            assert!(drift <= ROUNDING, "seed {seed}: {session:?} {stay:?}");
            let Some(closed) = session.closed else { continue };
            let left_at = stay.until.unwrap_or_else(|| {
                panic!("R5, seed {seed}: nobody closes who is there: {session:?}")
            });
            assert!(closed.at + ROUNDING >= left_at, "seed {seed}: {session:?} {left_at}");
            assert!(closed.at >= session.joined_at, "R7, seed {seed}: {session:?}");
            if closed.by == ClosedBy::Event {
                assert!(closed.at.since(left_at) <= ROUNDING, "seed {seed}: {session:?} {left_at}");
            }
        }
        self.check_confirmed(id, &sessions);
    }

    /// What was told and shown does not change any more.
    fn check_confirmed(&mut self, id: MeetingId, sessions: &[PresenceSession]) {
        for session in sessions {
            let key = (id, session.session_id.clone());
            match (self.confirmed.get(&key), session.closed) {
                (Some(before), now) => assert_eq!(Some(*before), now, "R7, seed {}", self.seed),
                (None, Some(closed)) if closed.by == ClosedBy::Event => {
                    self.confirmed.insert(key, closed);
                }
                (None, _) => {}
            }
        }
    }

    /// Nothing breaks and nobody moves: what is recorded becomes complete.
    pub(super) async fn be_quiet(&mut self) {
        self.world.world.store.mend();
        self.world.daily.mend();
        self.world.daily.set_lag(LAG);
        self.wake_zombies(true).await;
        if std::mem::take(&mut self.locks_are_held) {
            // A lease, and the longest backoff.
            self.pass(secs(120 + 30)).await;
        }
        self.pass(LAG + RECONCILE_EVERY + LAG + secs(5)).await;
        for room in ROOMS {
            self.check(room, true).await;
            let id = self.meetings[room];
            let inside = self.world.daily.inside(room);
            assert_eq!(self.world.inside(id).await, inside, "R1, seed {}, {room}", self.seed);
            let meeting = self.world.meeting(id).await;
            assert!(meeting.is_active() || inside.is_empty(), "seed {}: healed", self.seed);
            assert_eq!(meeting.looks.failing_since, None);
        }
    }
}
