//! Many at once about the same bots: never one too many, never two ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::bots::{BotEvent, BotRecord, BotStatus, BotTimeouts, FINISH_KIND, MeetingId};
use roundsman_core::ports::{
    BeatAnswer, BotSweep, ConfigChange, EventAnswer, MeetingFilter, MeetingPage, ReserveAnswer,
    RuntimeNote, Seen,
};
use roundsman_core::users::UserId;

use super::attend::{
    all_events, at_address, beat_of, beats, bots_in, by_number, change, exit, full_sweep, happen,
    jobs_of, look, meetings_of, new_bot, reserve, states_of, sweep, sweep_with, try_reserve, user,
    user_with_limit,
};
use super::fixture::{Fixture, Task, at_once};
use super::wishes::SECOND;

/// B-1: fifty starts at once for a user who may have three.
pub async fn starts_at_once_never_pass_the_limit(fx: &Arc<Fixture>) {
    const STARTS: usize = 50;
    const LIMIT: usize = 3;
    for round in 0..fx.traits.start_rounds {
        let owner = user_with_limit(fx, &format!("owner{round}"), 3).await;
        let starts = (0..STARTS).map(|number| {
            let fx = Arc::clone(fx);
            async move { try_reserve(&fx, new_bot(owner, &number.to_string())).await }
        });
        let answers = at_once(starts).await;
        let made = answers.iter().filter(|answer| matches!(answer, ReserveAnswer::Reserved(_)));
        assert_eq!(made.count(), LIMIT, "round {round}");
        let refusal = ReserveAnswer::LimitReached { live: 3, max: 3 };
        let refused = answers.iter().filter(|answer| **answer == refusal).count();
        assert_eq!(refused, STARTS - LIMIT, "always for the same reason");
        let rows = live_of(fx, owner).await;
        assert_eq!(rows, LIMIT, "round {round}");
    }
}

/// B-1 with bots that come and go: at no commit are there more than the limit.
pub async fn a_freed_slot_is_taken_once(fx: &Arc<Fixture>) {
    const LIMIT: usize = 2;
    let ada = user_with_limit(fx, "ada", 2).await;
    let callers = (0..12usize).map(|caller| {
        let fx = Arc::clone(fx);
        async move {
            let mut most = 0;
            for round in 0..8 {
                let answer = try_reserve(&fx, new_bot(ada, &format!("{caller} {round}"))).await;
                // One look is one moment: what it shows was true at once.
                most = most.max(live_of(&fx, ada).await);
                if let ReserveAnswer::Reserved(made) = answer {
                    change(&fx, &made.record, exit(1)).await;
                }
            }
            most
        }
    });
    let most = at_once(callers).await.into_iter().max().expect("callers");
    assert!((1..=LIMIT).contains(&most), "{most} at once");
    assert_eq!(live_of(fx, ada).await, 0);
}

/// B-3: one meeting, asked for many times at once.
pub async fn a_meeting_started_twice_at_once_gets_one_bot(fx: &Arc<Fixture>) {
    const STARTS: usize = 10;
    let ada = user(fx, "ada").await;
    for round in 0..fx.traits.start_rounds {
        let native_id = format!("room {round}");
        let starts = (0..STARTS).map(|_| {
            let (fx, native_id) = (Arc::clone(fx), native_id.clone());
            async move { try_reserve(&fx, new_bot(ada, &native_id)).await }
        });
        let (mut made, mut refused) = (Vec::new(), Vec::new());
        for answer in at_once(starts).await {
            match answer {
                ReserveAnswer::Reserved(announced) => made.push(announced.record.meeting.id),
                ReserveAnswer::AlreadyLive { meeting } => refused.push(meeting),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(made.len(), 1, "round {round}");
        assert_eq!(refused, vec![made[0]; STARTS - 1], "all are told which");
    }
    assert_eq!(meetings_of(fx, ada).await.len(), fx.traits.start_rounds);
}

/// B-11: of a late heartbeat and a sweep on one bot exactly one wins.
pub async fn a_late_heartbeat_and_a_sweep_never_both_win(fx: &Arc<Fixture>) {
    const BOTS: usize = 100;
    let ada = user(fx, "ada").await;
    let (mut heard, mut swept) = (0, 0);
    let mut bots: Vec<BotRecord> = Vec::new();
    for round in 0..fx.traits.bot_races.div_ceil(BOTS) {
        let missing = BOTS - bots.len();
        let fresh = format!("round {round}");
        bots.extend(bots_in(fx, ada, &fresh, missing, BotStatus::Active).await);
        fx.advance(BotTimeouts::default().active + SECOND);
        let (winners, ended) = race_beats_against_sweeps(fx, &bots).await;
        assert_eq!(winners.len() + ended.len(), BOTS, "each bot has one winner");
        assert!(winners.is_disjoint(&ended), "both won");
        for bot in &bots {
            let now = look(fx, bot.meeting.id).await;
            if winners.contains(&bot.meeting.id) {
                assert_eq!(now.status, BotStatus::Active);
                assert_eq!(now.bot.heartbeat_at, Some(fx.now()));
            } else {
                assert_eq!(now.status, BotStatus::Failed);
                assert_eq!(now.bot.end_reason.as_deref(), Some("heartbeat_timeout"));
                assert_eq!(now.bot.heartbeat_at, bot.bot.heartbeat_at, "nothing of it changed");
            }
        }
        heard += winners.len();
        swept += ended.len();
        // Those that won run again; what they were heard at is what they are compared with.
        bots.retain(|bot| winners.contains(&bot.meeting.id));
        for bot in &mut bots {
            bot.bot.heartbeat_at = Some(fx.now());
        }
    }
    assert!(heard > 0 && swept > 0, "{heard}:{swept} is no race");
}

/// A bot that says that it has ended, while it is given up: one end, whichever it is.
pub async fn an_exit_and_a_sweep_never_both_win(fx: &Arc<Fixture>) {
    const BOTS: usize = 60;
    let ada = user(fx, "ada").await;
    let bots = bots_in(fx, ada, "a", BOTS, BotStatus::Active).await;
    fx.advance(BotTimeouts::default().active + SECOND);
    let mut tasks: Vec<Task<usize>> = Vec::new();
    for part in bots.chunks(BOTS / 3) {
        let (fx, part) = (Arc::clone(fx), part.to_vec());
        tasks.push(Box::pin(async move {
            let mut ended = 0;
            for bot in &part {
                let answer = happen(&fx, bot, exit(0)).await;
                ended += usize::from(matches!(answer, EventAnswer::Changed(_)));
                tokio::task::yield_now().await;
            }
            ended
        }));
    }
    let sweeper = Arc::clone(fx);
    tasks.push(Box::pin(async move { sweep_in_small_steps(&sweeper).await.len() }));
    let ends: usize = at_once(tasks).await.into_iter().sum();
    assert_eq!(ends, BOTS, "each ended once");
    for bot in &bots {
        let states = states_of(fx, bot.meeting.id).await;
        assert_eq!(states.len(), 4, "{states:?}");
        assert_eq!(jobs_of(fx, FINISH_KIND, bot.meeting.id).await.len(), 1);
    }
}

/// All callbacks of a life at once, each of them twice: a life in some order, and one end.
pub async fn callbacks_at_once_are_one_life(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for round in 0..15 {
        let record = reserve(fx, ada, &round.to_string()).await;
        let id = record.meeting.id;
        let events = [BotEvent::Started, BotEvent::Joined, BotEvent::Leaving, exit(0)];
        let callers = events.iter().chain(&events).cloned().map(|event| {
            let (fx, record) = (Arc::clone(fx), record.clone());
            async move {
                let answer = happen(&fx, &record, event).await;
                let known = matches!(answer, EventAnswer::Changed(_) | EventAnswer::Unchanged(_));
                assert!(known, "{answer:?}");
            }
        });
        at_once(callers).await;
        let ended = look(fx, id).await;
        assert!(ended.status.is_over());
        let states = states_of(fx, id).await;
        assert_eq!(states.last().map(String::as_str), Some(ended.status.as_str()));
        assert_eq!(states.iter().collect::<BTreeSet<_>>().len(), states.len(), "each state once");
        assert_eq!(jobs_of(fx, FINISH_KIND, id).await.len(), 1);
        if let Some(door) = &fx.backdoor {
            assert!(door.sessions(id).await.len() <= 1);
        }
    }
    let events = all_events(fx).await;
    let ids: BTreeSet<_> = events.iter().map(|(_, event)| &event.event_id).collect();
    assert_eq!(ids.len(), events.len(), "nobody is told twice");
}

/// The user's members and the bot's steps are in the same data: neither overwrites the other's.
pub async fn data_that_is_written_at_once_is_all_kept(fx: &Arc<Fixture>) {
    const MEMBERS: usize = 8;
    let ada = user(fx, "ada").await;
    for round in 0..5 {
        let record = reserve(fx, ada, &round.to_string()).await;
        let id = record.meeting.id;
        let mut tasks: Vec<Task<()>> = Vec::new();
        for number in 0..MEMBERS {
            let fx = Arc::clone(fx);
            tasks.push(Box::pin(async move {
                let members = serde_json::Map::from_iter([(format!("m{number}"), number.into())]);
                let merged = fx.store.merge_meeting_data(ada, by_number(id), members, fx.now());
                merged.await.expect("merge_meeting_data").expect("it is there");
            }));
        }
        for event in [BotEvent::Started, BotEvent::Joined, BotEvent::Leaving] {
            let (fx, record) = (Arc::clone(fx), record.clone());
            tasks.push(Box::pin(async move { drop(happen(&fx, &record, event).await) }));
        }
        at_once(tasks).await;
        let data = look(fx, id).await.meeting.data.to_value();
        for number in 0..MEMBERS {
            assert_eq!(data[format!("m{number}")], number, "{data}");
        }
        let kept = data["status_transition"].as_array().map_or(0, Vec::len);
        assert_eq!(kept + 1, states_of(fx, id).await.len(), "{data}");
    }
}

/// Everybody who may touch a bot does, on few bots: no call fails, and every log replays.
pub async fn everything_at_once_fails_nobody(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let callers = (0..16usize).map(|caller| {
        let fx = Arc::clone(fx);
        async move {
            for round in 0..10usize {
                let native_id = format!("room {}", (caller + round) % 3);
                drop(try_reserve(&fx, new_bot(ada, &native_id)).await);
                let rows = fx.store.live_bots(None, 10).await.expect("live_bots");
                touch(&fx, ada, &native_id, &rows, caller * 3 + round).await;
            }
        }
    });
    at_once(callers).await;
    for row in meetings_of(fx, ada).await {
        states_of(fx, row.meeting.id).await;
        let over = row.meeting.bot_status().expect("a bot's").is_over();
        assert_eq!(row.meeting.end_time.is_some(), over, "B3");
    }
}

/// One of the things that can happen to bots.
async fn touch(fx: &Fixture, user: UserId, native_id: &str, bots: &[BotRecord], what: usize) {
    let (store, now) = (&fx.store, fx.now());
    let Some(bot) = bots.get(what % bots.len().max(1)) else { return };
    match what % 9 {
        0 => drop(happen(fx, bot, BotEvent::Started).await),
        1 => drop(happen(fx, bot, BotEvent::Joined).await),
        2 => drop(happen(fx, bot, exit(0)).await),
        3 => {
            let stopped = store.wish_stop(user, at_address(native_id), "user", now).await;
            stopped.expect("wish_stop");
        }
        4 => {
            let target = by_number(bot.meeting.id);
            let change = ConfigChange { language: Some("de".to_owned()), ..Default::default() };
            store.wish_config(user, target, change, now).await.expect("wish_config");
        }
        5 => {
            // In both orders, so that two batches meet from opposite ends.
            let mut batch: Vec<_> = bots.iter().map(beat_of).collect();
            if what.is_multiple_of(2) {
                batch.reverse();
            }
            beats(fx, batch).await;
        }
        6 => {
            fx.advance(SECOND * 40);
            sweep(fx).await;
        }
        7 => {
            let absent =
                |bot: &BotRecord| RuntimeNote { workload: bot.workload(), seen: Seen::Absent };
            let notes = bots.iter().map(absent).collect();
            store.note_runtime(notes, 3, now).await.expect("note_runtime");
        }
        _ => {
            let members = serde_json::Map::from_iter([("n".to_owned(), what.into())]);
            let merged = store.merge_meeting_data(user, at_address(native_id), members, now).await;
            merged.expect("merge_meeting_data");
        }
    }
}

/// Sends a late heartbeat for every bot, in small batches, while two sweepers run. Returns those
/// that were heard, and those that the sweepers ended.
async fn race_beats_against_sweeps(
    fx: &Arc<Fixture>,
    bots: &[BotRecord],
) -> (BTreeSet<MeetingId>, BTreeSet<MeetingId>) {
    let mut tasks: Vec<Task<(Vec<MeetingId>, Vec<MeetingId>)>> = Vec::new();
    for part in bots.chunks(bots.len().div_ceil(2)) {
        let (fx, part) = (Arc::clone(fx), part.to_vec());
        tasks.push(Box::pin(async move {
            let mut heard = Vec::new();
            for batch in part.chunks(5) {
                let answers = beats(&fx, batch.iter().map(beat_of).collect()).await;
                for (bot, answer) in batch.iter().zip(answers) {
                    match answer {
                        BeatAnswer::Heard { .. } => heard.push(bot.meeting.id),
                        BeatAnswer::Over { status: BotStatus::Failed } => {}
                        other => panic!("{other:?}"),
                    }
                }
                // A store that never waits would keep the sweepers from their turn.
                tokio::task::yield_now().await;
            }
            (heard, vec![])
        }));
    }
    for _ in 0..2 {
        let fx = Arc::clone(fx);
        tasks.push(Box::pin(async move { (vec![], sweep_in_small_steps(&fx).await) }));
    }
    let (mut heard, mut swept) = (BTreeSet::new(), BTreeSet::new());
    for (winners, ended) in at_once(tasks).await {
        heard.extend(winners);
        for id in ended {
            assert!(swept.insert(id), "two sweeps ended {id}");
        }
    }
    (heard, swept)
}

/// Sweeps a few rows at a time until there is nothing left to take.
async fn sweep_in_small_steps(fx: &Fixture) -> Vec<MeetingId> {
    let few = BotSweep { rows_max: 5, ..full_sweep() };
    let mut ended = Vec::new();
    loop {
        let swept = sweep_with(fx, few).await;
        if swept.is_empty() {
            return ended;
        }
        ended.extend(swept.iter().map(|record| record.meeting.id));
        tokio::task::yield_now().await;
    }
}

/// How many live bots a user has.
async fn live_of(fx: &Fixture, user: UserId) -> usize {
    let filter = MeetingFilter { live: true, ..MeetingFilter::default() };
    let page = MeetingPage { before: None, skip: 0, rows_max: 100 };
    fx.store.meetings(user, filter, page).await.expect("meetings").len()
}
