//! Bots and meetings are found by whom they concern, and by nobody else.

use std::collections::BTreeMap;
use std::sync::Arc;

use roundsman_core::bots::{
    BotEvent, BotRecord, BotStatus, BotWish, MeetingId, NewBot, Platform, WorkloadId,
};
use roundsman_core::ports::{AnonymiseAnswer, BotTarget, MeetingFilter, MeetingPage, MeetingRow};
use roundsman_core::users::UserId;
use serde_json::{Map, Value, json};

use super::attend::{
    LIVE, as_row, at_address, bot_in, by_number, change, everything, exit, look, meetings_of,
    new_bot, plain, plain_row, reserve, reserve_new, states_of, supervise, user,
};
use super::fixture::Fixture;
use super::wishes::SECOND;

const ALL: MeetingPage = MeetingPage { before: None, skip: 0, rows_max: 100 };

pub async fn live_bots_are_listed_in_pages(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let mut live = Vec::new();
    for round in 0..2 {
        for (number, status) in BotStatus::ALL.into_iter().enumerate() {
            let owner = if (round + number) % 2 == 0 { ada } else { bob };
            let record = bot_in(fx, owner, &format!("{round} {number}"), status).await;
            if !status.is_over() {
                live.push(record);
            }
        }
    }
    assert_eq!(live_bots(fx, None, 100).await, live);
    for page_rows in [1, 3, 8] {
        let mut found: Vec<BotRecord> = Vec::new();
        loop {
            let after = found.last().map(|record| record.meeting.id);
            let page = live_bots(fx, after, page_rows).await;
            assert!(page.len() <= page_rows as usize);
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        assert_eq!(found, live, "in pages of {page_rows}");
    }
    assert_eq!(live_bots(fx, Some(MeetingId::new(i64::MAX)), 10).await, vec![]);
}

/// Only the current attempt of a bot that is live belongs to anybody.
pub async fn workloads_of_live_bots_are_known(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let mut asked = Vec::new();
    let mut known = Vec::new();
    for status in BotStatus::ALL {
        let workload = bot_in(fx, ada, status.as_str(), status).await.workload();
        asked.push(workload);
        asked.push(WorkloadId { attempt: 2, ..workload });
        if !status.is_over() {
            known.push(workload);
        }
    }
    let first = reserve(fx, ada, "again").await;
    let lease = supervise(fx, &first).await;
    let next = fx.store.next_attempt(first.workload(), lease).await.expect("next_attempt");
    known.push(next.expect("it is reserved").workload());
    asked.extend([first.workload(), known[known.len() - 1]]);
    asked.push(WorkloadId { meeting_id: MeetingId::new(1_000_000), attempt: 1 });
    asked.push(WorkloadId { meeting_id: MeetingId::new(i64::MAX), attempt: 1 });
    let mut found = fx.store.live_workloads(asked).await.expect("live_workloads");
    found.sort_unstable();
    assert_eq!(found, known);
    assert_eq!(fx.store.live_workloads(vec![]).await.expect("live_workloads"), vec![]);
}

pub async fn bots_are_counted_by_state(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let mut expected = BTreeMap::new();
    for (number, status) in BotStatus::ALL.into_iter().enumerate() {
        for copy in 0..=number {
            bot_in(fx, ada, &format!("{number} {copy}"), status).await;
        }
        if !status.is_over() {
            expected.insert(status, number as u64 + 1);
        }
    }
    let counts = fx.store.bot_counts().await.expect("bot_counts");
    let found: BTreeMap<_, _> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(found, expected);
}

pub async fn meetings_are_listed_in_pages(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let mut mine = Vec::new();
    for (number, status) in BotStatus::ALL.into_iter().enumerate() {
        mine.insert(0, as_row(&bot_in(fx, ada, &number.to_string(), status).await));
        reserve(fx, bob, &number.to_string()).await;
        fx.advance(SECOND);
    }
    assert_eq!(meetings_of(fx, ada).await, mine);
    for (before, skip, rows_max, from, to) in [
        (None, 0, 2, 0, 2),
        (None, 2, 2, 2, 4),
        (None, 5, 10, 5, 6),
        (None, 6, 10, 6, 6),
        (Some(1), 0, 2, 2, 4),
        (Some(1), 1, 10, 3, 6),
        (Some(5), 0, 10, 6, 6),
    ] {
        let before = before.map(|index: usize| mine[index].meeting.id);
        let page = MeetingPage { before, skip, rows_max };
        let found = meetings(fx, ada, MeetingFilter::default(), page).await;
        assert_eq!(found, mine[from..to], "{page:?}");
    }
}

pub async fn meetings_are_filtered(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let mut mine = Vec::new();
    for platform in Platform::ATTENDED {
        for status in BotStatus::ALL {
            let bot = NewBot { platform, ..new_bot(ada, status.as_str()) };
            let mut record = reserve_new(fx, bot).await;
            if status != BotStatus::Reserved {
                record = change(fx, &record, BotEvent::Joined).await;
            }
            if status.is_over() {
                let code = i32::from(status == BotStatus::Failed);
                record = change(fx, &record, exit(code)).await;
            }
            mine.insert(0, as_row(&record));
        }
    }
    reserve(fx, bob, "b").await;
    let live = [true, false];
    let statuses = BotStatus::ALL.into_iter().map(Some).chain([None]);
    let platforms = || Platform::ALL.into_iter().map(Some).chain([None]);
    for status in statuses {
        for (platform, live) in platforms().flat_map(|platform| live.map(|live| (platform, live))) {
            let filter = MeetingFilter { live, status, platform };
            let expected: Vec<MeetingRow> =
                mine.iter().filter(|row| matches(row, &filter)).cloned().collect();
            assert_eq!(meetings(fx, ada, filter.clone(), ALL).await, expected, "{filter:?}");
        }
    }
}

pub async fn one_meeting_is_found_by_its_owner(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let older = bot_in(fx, ada, "a", BotStatus::Completed).await;
    let latest = bot_in(fx, ada, "a", BotStatus::Active).await;
    let elsewhere = NewBot { platform: Platform::Zoom, ..new_bot(ada, "a") };
    let elsewhere = reserve_new(fx, elsewhere).await;
    for (target, expected) in [
        (by_number(older.meeting.id), &older),
        (by_number(latest.meeting.id), &latest),
        (at_address("a"), &latest),
        (BotTarget::Address { platform: Platform::Zoom, native_id: "a".to_owned() }, &elsewhere),
    ] {
        assert_eq!(meeting(fx, ada, target.clone()).await, Some(as_row(expected)), "{target:?}");
        assert_eq!(meeting(fx, bob, target).await, None);
    }
    for target in [at_address("b"), at_address(""), by_number(MeetingId::new(i64::MAX))] {
        assert_eq!(meeting(fx, ada, target).await, None);
    }
}

/// The user's own members are merged into the latest meeting; those of others stay.
pub async fn data_is_merged_member_by_member(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    let older = bot_in(fx, ada, "a", BotStatus::Completed).await;
    let record = bot_in(fx, ada, "a", BotStatus::Active).await;
    let id = record.meeting.id;
    fx.advance(SECOND);
    let first = members(json!({"name": "Weekly 😀 'x'", "notes": {"a": 1}, "participants": ["A"]}));
    merge(fx, ada, at_address("a"), first).await.expect("it is there");
    let second = members(json!({"notes": {"b": 2.5}, "languages": [], "none": null}));
    let row = merge(fx, ada, by_number(id), second).await.expect("it is there");
    let mut expected = record.meeting.data.to_value();
    expected["name"] = json!("Weekly 😀 'x'");
    expected["participants"] = json!(["A"]);
    expected["notes"] = json!({"b": 2.5});
    expected["languages"] = json!([]);
    expected["none"] = json!(null);
    assert_eq!(row.meeting.data.to_value(), expected);
    assert_eq!(row.bot, Some(record.bot.clone()));
    let now = look(fx, id).await;
    assert_eq!(as_row(&now), row);
    assert_eq!((now.status, &now.meeting.status), (record.status, &record.meeting.status));
    assert_eq!(look(fx, older.meeting.id).await, older, "only the latest");
    for (who, target) in [(bob, at_address("a")), (bob, by_number(id)), (ada, at_address("b"))] {
        assert_eq!(merge(fx, who, target, members(json!({"x": 1}))).await, None);
    }
    // What the bot does afterwards keeps what the user wrote.
    let ended = change(fx, &now, exit(0)).await;
    assert_eq!(ended.meeting.data.to_value()["name"], "Weekly 😀 'x'");
}

pub async fn a_finished_meeting_is_anonymised_once(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    for (number, status) in [BotStatus::Completed, BotStatus::Failed].into_iter().enumerate() {
        let record = secretive_bot(fx, ada, &number.to_string(), status).await;
        let id = record.meeting.id;
        let mine = json!({"name": "secret", "error": "e", "diagnostics": {"d": 1}});
        merge(fx, ada, by_number(id), members(mine)).await.expect("it is there");
        fx.advance(SECOND);
        let stranger = anonymise(fx, bob, by_number(id)).await;
        assert_eq!(stranger, AnonymiseAnswer::NotFound);
        let target = if number == 0 { by_number(id) } else { at_address(&number.to_string()) };
        assert_eq!(anonymise(fx, ada, target.clone()).await, AnonymiseAnswer::Done);
        let now = look(fx, id).await;
        assert_eq!(now.meeting.native_id, None);
        assert_eq!(now.bot.wish, BotWish::default(), "its address may be there too");
        assert_eq!((now.status, now.meeting.end_time), (status, record.meeting.end_time));
        let before = record.meeting.data.to_value();
        let mut kept = json!({"redacted": true, "error": "e", "diagnostics": {"d": 1}});
        for name in ["status_transition", "completion_reason"] {
            if let Some(value) = before.get(name) {
                kept[name] = value.clone();
            }
        }
        assert_eq!(now.meeting.data.to_value(), kept);
        assert_eq!(anonymise(fx, ada, by_number(id)).await, AnonymiseAnswer::Already);
        assert_eq!(look(fx, id).await, now);
        assert_eq!(meeting(fx, ada, at_address(&number.to_string())).await, None);
        assert!(states_of(fx, id).await.ends_with(&[status.as_str().to_owned()]));
    }
}

pub async fn a_meeting_that_goes_on_is_not_anonymised(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for status in LIVE {
        let record = bot_in(fx, ada, status.as_str(), status).await;
        let before = everything(fx, &[ada]).await;
        for target in [by_number(record.meeting.id), at_address(status.as_str())] {
            match anonymise(fx, ada, target).await {
                AnonymiseAnswer::NotOver(row) => assert_eq!(plain_row(*row), as_row(&record)),
                other => panic!("{}: {other:?}", status.as_str()),
            }
        }
        assert_eq!(everything(fx, &[ada]).await, before);
    }
    let nowhere = anonymise(fx, ada, at_address("nowhere")).await;
    assert_eq!(nowhere, AnonymiseAnswer::NotFound);
}

/// A bot that was told where to go and how to get in, and is over.
async fn secretive_bot(fx: &Fixture, user: UserId, native_id: &str, end: BotStatus) -> BotRecord {
    let wish = BotWish {
        bot_name: Some("Ada's".to_owned()),
        passcode: Some("open sesame".to_owned()),
        meeting_url: Some("https://example.org/secret".to_owned()),
        ..BotWish::default()
    };
    let record = reserve_new(fx, NewBot { wish, ..new_bot(user, native_id) }).await;
    let record = change(fx, &record, BotEvent::Joined).await;
    let ended = change(fx, &record, exit(i32::from(end == BotStatus::Failed))).await;
    assert_eq!(ended.status, end);
    ended
}

fn matches(row: &MeetingRow, filter: &MeetingFilter) -> bool {
    let status = row.meeting.bot_status().expect("a bot's meeting");
    (!filter.live || !status.is_over())
        && filter.status.is_none_or(|wanted| wanted == status)
        && filter.platform.is_none_or(|wanted| wanted.as_str() == row.meeting.platform)
}

async fn live_bots(fx: &Fixture, after: Option<MeetingId>, rows_max: u32) -> Vec<BotRecord> {
    let bots = fx.store.live_bots(after, rows_max).await.expect("live_bots");
    bots.into_iter().map(plain).collect()
}

async fn meetings(
    fx: &Fixture,
    user: UserId,
    filter: MeetingFilter,
    page: MeetingPage,
) -> Vec<MeetingRow> {
    let rows = fx.store.meetings(user, filter, page).await.expect("meetings");
    rows.into_iter().map(plain_row).collect()
}

async fn meeting(fx: &Fixture, user: UserId, target: BotTarget) -> Option<MeetingRow> {
    fx.store.meeting(user, target).await.expect("meeting").map(plain_row)
}

async fn merge(
    fx: &Fixture,
    user: UserId,
    target: BotTarget,
    members: Map<String, Value>,
) -> Option<MeetingRow> {
    let row = fx.store.merge_meeting_data(user, target, members, fx.now()).await;
    row.expect("merge_meeting_data").map(plain_row)
}

async fn anonymise(fx: &Fixture, user: UserId, target: BotTarget) -> AnonymiseAnswer {
    let answer = fx.store.anonymise_meeting(user, target, fx.now()).await;
    answer.expect("anonymise_meeting")
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} has no members"),
    }
}
