//! Links to transcripts: who has the secret reads, for a while.

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotStatus, MeetingId};
use roundsman_core::ports::{BotTarget, NewShare, Share, TranscriptPrune};
use roundsman_core::users::UserId;

use super::attend::{at_address, user};
use super::fixture::Fixture;
use super::speak::{Room, room, room_of};
use super::wishes::{MINUTE, SECOND};

pub async fn a_link_holds_until_it_expires(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    let made = share(fx, &room, 1, MINUTE).await;
    assert_eq!((made.user_id, made.meeting_id), (room.user, room.meeting));
    assert_eq!((made.created_at, made.expires_at), (fx.now(), fx.now() + MINUTE));
    assert_eq!(find(fx, 1).await, Some(made));
    assert_eq!(find(fx, 2).await, None, "another secret");
    assert_eq!(shares(fx, room.user, room.meeting).await, [made]);
    fx.advance(SECOND * 59);
    assert_eq!(find(fx, 1).await, Some(made));
    fx.advance(SECOND);
    assert_eq!(find(fx, 1).await, None);
    assert_eq!(shares(fx, room.user, room.meeting).await, vec![]);
}

pub async fn links_are_listed_for_their_owner_newest_first(fx: &Arc<Fixture>) {
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    let second = room_of(fx, room.user, "second", BotStatus::Active).await;
    let mut made = Vec::new();
    for number in 0..4u8 {
        made.insert(0, share(fx, &room, number, MINUTE * (1 + u32::from(number))).await);
    }
    let elsewhere = share(fx, &second, 10, MINUTE).await;
    let theirs = share(fx, &other, 11, MINUTE).await;
    assert_eq!(shares(fx, room.user, room.meeting).await, made);
    assert_eq!(shares(fx, room.user, second.meeting).await, [elsewhere]);
    assert_eq!(shares(fx, other.user, other.meeting).await, [theirs]);
    assert_eq!(shares(fx, other.user, room.meeting).await, vec![]);
    fx.advance(MINUTE * 2);
    assert_eq!(shares(fx, room.user, room.meeting).await, made[..2]);
    let ids: std::collections::BTreeSet<i64> =
        made.iter().chain([&elsewhere, &theirs]).map(|share| share.id).collect();
    assert_eq!(ids.len(), 6);
}

pub async fn a_link_is_ended_by_its_owner(fx: &Arc<Fixture>) {
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    let (first, second) = (share(fx, &room, 1, MINUTE).await, share(fx, &room, 2, MINUTE).await);
    let end = async |user: UserId, id: i64| fx.store.end_share(user, id).await.expect("end_share");
    assert!(!end(other.user, first.id).await, "it is not theirs");
    assert!(!end(room.user, 1_000_000).await);
    assert_eq!(find(fx, 1).await, Some(first));
    assert!(end(room.user, first.id).await);
    assert!(!end(room.user, first.id).await, "it has ended");
    assert_eq!(find(fx, 1).await, None);
    assert_eq!(shares(fx, room.user, room.meeting).await, [second]);
    assert_eq!(find(fx, 2).await, Some(second));
}

pub async fn nobody_shares_the_meetings_of_others(fx: &Arc<Fixture>) {
    let (room, other) = (room(fx, "ada").await, room(fx, "bob").await);
    let nowhere = [
        (other.user, room.target()),
        (other.user, room.address()),
        (room.user, BotTarget::Meeting(MeetingId::new(1_000_000))),
        (room.user, at_address("nowhere")),
        (UserId::new(1_000_000), room.target()),
    ];
    for (number, (user, target)) in (0u8..).zip(nowhere) {
        let new = NewShare { secret_hash: [number; 32], expires_at: fx.now() + MINUTE };
        let made = fx.store.share_transcript(user, target, new, fx.now()).await;
        assert_eq!(made.expect("share_transcript"), None);
        assert_eq!(find(fx, number).await, None);
    }
}

/// A link to an address is one to the meeting that is there now.
pub async fn a_link_stays_with_its_meeting(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let first = room_of(fx, ada, "weekly", BotStatus::Completed).await;
    let new = NewShare { secret_hash: [1; 32], expires_at: fx.now() + MINUTE };
    let made = fx.store.share_transcript(ada, first.address(), new, fx.now()).await;
    let made = made.expect("share_transcript").expect("it is theirs");
    assert_eq!(made.meeting_id, first.meeting);
    room_of(fx, ada, "weekly", BotStatus::Completed).await;
    assert_eq!(find(fx, 1).await, Some(made));
}

pub async fn links_that_ended_are_pruned(fx: &Arc<Fixture>) {
    let room = room(fx, "ada").await;
    for number in 0..5u8 {
        share(fx, &room, number, MINUTE * (1 + u32::from(number))).await;
    }
    let begun = fx.now();
    let prune = async |shares_before: Timestamp, rows_max: u32| {
        let never = Timestamp::EPOCH;
        let request = TranscriptPrune {
            speaker_events_before: never,
            dead_letters_before: never,
            shares_before,
            dropped_before: never,
            rows_max,
        };
        fx.store.prune_transcripts(request).await.expect("prune_transcripts")
    };
    assert_eq!(prune(begun + MINUTE, 100).await, 0, "it ends only then");
    fx.advance(MINUTE * 4 + SECOND);
    assert_eq!(prune(fx.now(), 3).await, 3, "no more than it may");
    assert_eq!(prune(fx.now(), 3).await, 1);
    assert_eq!(prune(fx.now(), 3).await, 0);
    assert_eq!(shares(fx, room.user, room.meeting).await.len(), 1);
    assert!(find(fx, 4).await.is_some());
}

async fn share(fx: &Fixture, room: &Room, number: u8, lasts: Duration) -> Share {
    let new = NewShare { secret_hash: [number; 32], expires_at: fx.now() + lasts };
    let made = fx.store.share_transcript(room.user, room.target(), new, fx.now()).await;
    made.expect("share_transcript").expect("it is theirs")
}

async fn find(fx: &Fixture, number: u8) -> Option<Share> {
    fx.store.share([number; 32], fx.now()).await.expect("share")
}

async fn shares(fx: &Fixture, user: UserId, meeting: MeetingId) -> Vec<Share> {
    fx.store.shares(user, meeting, fx.now()).await.expect("shares")
}
