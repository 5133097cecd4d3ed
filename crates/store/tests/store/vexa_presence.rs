//! Meetings in rooms beside those of a database that Vexa made: nobody takes the one for the other.

use std::time::Duration;

use roundsman_core::bots::{BotStatus, BotTimeouts, MeetingId};
use roundsman_core::jobs::{KindName, Lane, LeaseOwner, RunningJob, WorkerName};
use roundsman_core::ports::{
    BotStore, BotSweep, BotTarget, ClaimRequest, CommitAnswer, EffectStore, JobStore, LaneDemand,
    MeetingFilter, MeetingPage, OpenAnswer, PresenceStore, Scope,
};
use roundsman_core::presence::{
    EndReason, Look, LookReport, NewPresenceMeeting, POLL_KIND, Participant, PresenceRules,
    RoomName,
};
use roundsman_core::users::UserId;
use roundsman_store::postgres::PostgresStore;

use crate::vexa_database::{ADA, BOB, DESCRIBE, NOW, SETTLED, open, text};

/// The next number in that database.
const STANDUP: MeetingId = MeetingId::new(8);

const STANDUP_ROW: &str = "
    SELECT platform || ' ' || platform_specific_id || ' ' || status || ' '
           || coalesce(start_time::text, '-') || ' ' || coalesce(end_time::text, '-') || ' '
           || created_at || ' ' || data
      FROM public.meetings WHERE id = 8";

#[tokio::test]
async fn a_meeting_in_a_room_lives_beside_those_of_vexa() {
    let (_database, operator, store) = open().await;
    operator.batch_execute("SET search_path = public").await.expect("a path");
    let (described, settled) = (text(&operator, DESCRIBE).await, text(&operator, SETTLED).await);
    let before = store.bot_counts().await.expect("bot_counts");

    let wish = NewPresenceMeeting {
        user_id: ADA,
        room: RoomName::new("standup").expect("a name"),
        room_url: None,
        schedule: None,
    };
    let opened = store.open_presence(wish, NOW).await.expect("open_presence");
    let OpenAnswer::Opened(meeting) = opened else { panic!("{opened:?}") };
    assert_eq!(meeting.id, STANDUP, "numbers go on where they were");
    let row = "daily standup open - - 2026-01-01 00:00:00 {}";
    assert_eq!(text(&operator, STANDUP_ROW).await, row);

    // To whatever looks after bots it is not there.
    assert_eq!(store.bot_counts().await.expect("bot_counts"), before);
    assert_eq!(store.adopt_meetings(100, NOW).await.expect("adopt_meetings"), 3, "as without it");
    assert_eq!(store.bot(STANDUP).await.expect("bot"), None);
    let live = store.live_bots(None, 100).await.expect("live_bots");
    assert_eq!(live.len(), 3);
    assert_eq!(listed(&store, true).await, [5], "it takes no slot");
    assert_eq!(listed(&store, false).await, [8, 5, 2, 1]);

    seen(&store).await;
    let row = "daily standup open 2026-01-01 00:00:30 - 2026-01-01 00:00:00 {}";
    assert_eq!(text(&operator, STANDUP_ROW).await, row, "whatever the zone of the database");
    let sweep = BotSweep {
        timeouts: BotTimeouts::default(),
        serving_since: roundsman_core::Timestamp::EPOCH,
        runtime_answered: true,
        rows_max: 100,
    };
    let much_later = NOW + Duration::from_secs(1_000_000);
    let swept = store.sweep_bots(sweep, much_later).await.expect("sweep_bots");
    assert!(swept.iter().all(|one| one.record.meeting.id != STANDUP), "{swept:?}");

    let late = NOW + Duration::from_secs(120);
    assert_eq!(
        store.end_presence(Scope::User(BOB), STANDUP, late).await.expect("end_presence"),
        roundsman_core::ports::EndAnswer::NotFound
    );
    store.end_presence(Scope::User(ADA), STANDUP, late).await.expect("end_presence");
    let row =
        "daily standup completed 2026-01-01 00:00:30 2026-01-01 00:02:00 2026-01-01 00:00:00 {}";
    assert_eq!(text(&operator, STANDUP_ROW).await, row);
    let ended = store.presence_meeting(Scope::All, STANDUP).await.expect("presence_meeting");
    let ended = ended.expect("it was");
    assert_eq!((ended.ended_at, ended.end_reason), (Some(late), Some(EndReason::Deactivated)));
    let shown = store.meeting(ADA, BotTarget::Meeting(STANDUP)).await.expect("meeting");
    let shown = shown.expect("it is hers");
    assert_eq!((shown.meeting.bot_status(), shown.bot), (Ok(BotStatus::Completed), None));

    assert_eq!(store.check().await.expect("check"), []);
    assert_eq!(text(&operator, DESCRIBE).await, described, "the seed's tables were altered");
    assert_eq!(text(&operator, SETTLED).await, settled, "rows that were settled were touched");
}

/// The numbers of Ada's meetings, newest first.
async fn listed(store: &PostgresStore, live: bool) -> Vec<i64> {
    let page = MeetingPage { before: None, skip: 0, rows_max: 10 };
    let filter = MeetingFilter { live, ..MeetingFilter::default() };
    let rows = store.meetings(ADA, filter, page).await.expect("meetings");
    rows.iter().map(|row| row.meeting.id.get()).collect()
}

/// Somebody has come.
async fn seen(store: &PostgresStore) {
    let demand = LaneDemand {
        lane: Lane::of(UserId::SYSTEM, &KindName::new(POLL_KIND).expect("a kind")),
        max: 1,
        lease_ttl: Duration::from_secs(120),
        deadline: None,
    };
    let request = ClaimRequest {
        worker: WorkerName::new("w"),
        owner: LeaseOwner::Outside,
        demands: vec![demand],
        total_max: 1,
    };
    let job: RunningJob = store.claim(request, NOW).await.expect("claim").jobs.remove(0);
    let now = NOW + Duration::from_secs(60);
    let person = Participant {
        session_id: "a".to_owned(),
        user_id: None,
        user_name: Some("Ada".to_owned()),
        joined_at: NOW + Duration::from_secs(30),
    };
    let no = job.lease.lease_no.get();
    let report =
        LookReport { no, began_at: now, look: Look::Seen(vec![person]), hints: Vec::new() };
    let rules = PresenceRules::default();
    let written = store.commit_look(STANDUP, report, rules, job.lease_ref(), now).await;
    let written = written.expect("commit_look");
    assert!(matches!(written, CommitAnswer::Written(_)), "{written:?}");
}
