//! Bots that have been silent for too long are given up, and no others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::bots::{
    self, BotClock, BotEvent, BotRecord, BotStatus, BotTimeouts, FINISH_KIND, MeetingId,
    SUPERVISE_KIND, Source, overdue,
};
use roundsman_core::jobs::{Job, JobState};
use roundsman_core::ports::{BotBeat, BotHappened, BotSweep, RuntimeNote, Seen};

use super::attend::{
    assert_announced, beat, beat_of, bot_in, bots_in, callback, changed, everything, frames_of,
    full_sweep, jobs_of, log_of, look, plain, reserve, supervise, sweep, sweep_with, tell, user,
};
use super::fixture::{Fixture, at_once};
use super::wishes::{MINUTE, done};

/// The smallest step of time.
const TICK: Duration = Duration::from_micros(1);

/// B5: at the limit a bot is left alone, a microsecond later it is given up.
pub async fn each_state_has_its_patience(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let limits = BotTimeouts::default();
    for (status, patience, reason) in [
        (BotStatus::Reserved, limits.reserved, "never_started"),
        (BotStatus::Starting, limits.starting, "join_timeout"),
        (BotStatus::Active, limits.active, "heartbeat_timeout"),
        (BotStatus::Stopping, limits.stopping, "stop_timeout"),
    ] {
        let record = bot_in(fx, ada, status.as_str(), status).await;
        fx.advance(patience);
        assert_spared(fx, &record).await;
        fx.advance(TICK);
        assert_given_up(fx, &record, reason).await;
    }
}

/// In `active` a sign of life begins the wait anew; in the other states it does not.
pub async fn a_sign_of_life_moves_the_end_of_an_active_bot(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let limits = BotTimeouts::default();
    let record = bot_in(fx, ada, "heard", BotStatus::Active).await;
    for _ in 0..3 {
        fx.advance(limits.active);
        beat(fx, beat_of(&record)).await;
        fx.advance(TICK);
        assert_spared(fx, &look(fx, record.meeting.id).await).await;
    }
    fx.advance(limits.active);
    assert_given_up(fx, &look(fx, record.meeting.id).await, "heartbeat_timeout").await;

    // A bot without heartbeats lives by what its launcher says.
    let silent = stock_bot(fx, "seen", BotStatus::Active).await;
    for _ in 0..3 {
        fx.advance(limits.active);
        see(fx, &silent, Seen::Running).await;
        fx.advance(TICK);
        assert_spared(fx, &look(fx, silent.meeting.id).await).await;
    }
    fx.advance(limits.active);
    assert_given_up(fx, &look(fx, silent.meeting.id).await, "heartbeat_timeout").await;

    for (status, patience) in
        [(BotStatus::Starting, limits.starting), (BotStatus::Stopping, limits.stopping)]
    {
        let record = bot_in(fx, ada, status.as_str(), status).await;
        fx.advance(patience);
        beat(fx, beat_of(&record)).await;
        assert_spared(fx, &look(fx, record.meeting.id).await).await;
        fx.advance(TICK);
        assert_eq!(sweep(fx).await.len(), 1, "{}", status.as_str());
    }
}

/// B-13: the process lives, its media does not.
pub async fn a_bot_whose_media_stands_still_is_given_up(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let limits = BotTimeouts::default();
    let patience = limits.media.expect("media is watched by default");
    let watched = bot_in(fx, ada, "a", BotStatus::Active).await;
    let unwatched = bot_in(fx, ada, "b", BotStatus::Active).await;
    let mut progressed = fx.now();
    for (media_progress, grows) in [(1, true), (2, true), (2, false), (1, false)] {
        beat(fx, BotBeat { media_progress: Some(media_progress), ..beat_of(&watched) }).await;
        beat(fx, beat_of(&unwatched)).await;
        if grows {
            progressed = fx.now();
        }
        fx.advance(MINUTE);
    }
    let left = (progressed + patience).since(fx.now());
    fx.advance(left);
    for record in [&watched, &unwatched] {
        beat(fx, beat_of(record)).await;
    }
    assert_spared(fx, &look(fx, watched.meeting.id).await).await;
    fx.advance(TICK);
    let blind = BotSweep { timeouts: BotTimeouts { media: None, ..limits }, ..full_sweep() };
    assert_eq!(sweep_with(fx, blind).await, vec![]);
    assert_given_up(fx, &look(fx, watched.meeting.id).await, "no_media").await;
    assert_eq!(look(fx, unwatched.meeting.id).await.status, BotStatus::Active);
}

/// From reservation to end, whatever is heard.
pub async fn no_bot_lives_longer_than_its_lifetime(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let limits = BotTimeouts { lifetime: MINUTE, ..BotTimeouts::default() };
    let short = BotSweep { timeouts: limits, ..full_sweep() };
    for status in [BotStatus::Reserved, BotStatus::Active, BotStatus::Stopping] {
        let record = bot_in(fx, ada, status.as_str(), status).await;
        fx.advance(MINUTE);
        beat(fx, beat_of(&record)).await;
        assert_eq!(sweep_with(fx, short).await, vec![]);
        fx.advance(TICK);
        beat(fx, beat_of(&record)).await;
        let swept = sweep_with(fx, short).await;
        assert_eq!(swept.len(), 1, "{}", status.as_str());
        assert_eq!(swept[0].bot.end_reason.as_deref(), Some("max_duration_exceeded"));
    }
}

/// B-12: after an outage of ours every bot has a full timeout to be heard.
pub async fn our_own_outage_is_not_held_against_a_bot(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let limits = BotTimeouts::default();
    for (status, patience) in [
        (BotStatus::Reserved, limits.reserved),
        (BotStatus::Starting, limits.starting),
        (BotStatus::Active, limits.active),
        (BotStatus::Stopping, limits.stopping),
    ] {
        bot_in(fx, ada, status.as_str(), status).await;
        fx.advance(MINUTE * 60);
        let back = BotSweep { serving_since: fx.now(), ..full_sweep() };
        assert_eq!(sweep_with(fx, back).await, vec![]);
        fx.advance(patience);
        assert_eq!(sweep_with(fx, back).await, vec![], "{}", status.as_str());
        fx.advance(TICK);
        assert_eq!(sweep_with(fx, back).await.len(), 1, "{}", status.as_str());
    }
}

/// B-15: while the launcher gives no answer, the bots that only it knows are spared.
pub async fn a_launcher_that_does_not_answer_spares_its_bots(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let stock = stock_bot(fx, "stock", BotStatus::Active).await;
    let with_beats = bot_in(fx, ada, "beats", BotStatus::Active).await;
    fx.advance(MINUTE * 10);
    let blind = BotSweep { runtime_answered: false, ..full_sweep() };
    let swept = ids(&sweep_with(fx, blind).await);
    assert_eq!(swept, BTreeSet::from([with_beats.meeting.id]));
    let swept = ids(&sweep(fx).await);
    assert_eq!(swept, BTreeSet::from([stock.meeting.id]));
    // A bot that never came is not excused by it.
    stock_bot(fx, "never", BotStatus::Reserved).await;
    fx.advance(MINUTE * 10);
    assert_eq!(sweep_with(fx, blind).await.len(), 1);
}

pub async fn a_sweep_takes_no_more_than_it_may(fx: &Arc<Fixture>) {
    const OVERDUE: usize = 10;
    let ada = user(fx, "ada").await;
    // Those that are well come first in every order of numbers and must not be in the way.
    let well = bots_in(fx, ada, "well", 10, BotStatus::Active).await;
    let late = bots_in(fx, ada, "late", OVERDUE, BotStatus::Active).await;
    fx.advance(BotTimeouts::default().active + TICK);
    for record in &well {
        beat(fx, beat_of(record)).await;
    }
    let few = BotSweep { rows_max: 4, ..full_sweep() };
    let (mut counts, mut swept) = (Vec::new(), BTreeSet::new());
    for _ in 0..4 {
        let round = sweep_with(fx, few).await;
        counts.push(round.len());
        swept.extend(ids(&round));
    }
    assert_eq!(counts, [4, 4, 2, 0]);
    assert_eq!(swept, ids(&late));
    for record in &well {
        assert_eq!(look(fx, record.meeting.id).await.status, BotStatus::Active);
    }
}

/// What a sweep writes is what any other event writes, with its own cause.
pub async fn a_sweep_is_written_like_any_change(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Active).await;
    let id = record.meeting.id;
    let lease = supervise(fx, &record).await;
    fx.land(lease, done("1")).await;
    fx.advance(MINUTE * 10);
    let event = BotEvent::TimedOut { reason: "heartbeat_timeout" };
    let expected = bots::change(record, event, Source::Sweeper, fx.now()).expect("it is live");
    let swept = fx.store.sweep_bots(full_sweep(), fx.now()).await.expect("sweep_bots");
    assert_eq!(swept.len(), 1);
    assert_announced(fx, id, &swept[0].frames, &expected.effects.frames).await;
    assert_eq!(plain(swept[0].record.clone()), plain(expected.record));
    assert_eq!(look(fx, id).await, plain(swept[0].record.clone()));
    let last = frames_of(fx, id).await.pop().expect("a frame");
    assert_eq!(last.body, expected.effects.frames[0].body);
    let step = log_of(fx, id).await.pop().expect("a step");
    let states = (step.from_state.as_deref(), step.to_state.as_str());
    assert_eq!(states, (Some("active"), "failed"));
    assert_eq!(
        (step.cause.as_str(), step.detail),
        ("sweeper", expected.effects.transitions[0].detail.clone())
    );
    for kind_name in [FINISH_KIND, SUPERVISE_KIND] {
        let due = |job: &Job| job.state(fx.now()) == JobState::Pending;
        let jobs = jobs_of(fx, kind_name, id).await;
        assert_eq!(jobs.iter().filter(|job| due(job)).count(), 1, "{kind_name}");
    }
}

pub async fn what_is_over_is_never_swept(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    bot_in(fx, ada, "a", BotStatus::Completed).await;
    bot_in(fx, ada, "b", BotStatus::Failed).await;
    let before = everything(fx, &[ada]).await;
    fx.advance(MINUTE * 60 * 24 * 365);
    assert_eq!(sweep(fx).await, vec![]);
    assert_eq!(everything(fx, &[ada]).await, before);
}

pub async fn sweepers_at_once_end_each_bot_once(fx: &Arc<Fixture>) {
    const BOTS: usize = 40;
    let ada = user(fx, "ada").await;
    let bots = bots_in(fx, ada, "a", BOTS, BotStatus::Active).await;
    fx.advance(MINUTE * 10);
    let sweepers = (0..6).map(|_| {
        let fx = Arc::clone(fx);
        async move { sweep(&fx).await }
    });
    let mut swept: Vec<BotRecord> = at_once(sweepers).await.into_iter().flatten().collect();
    // Rows that one had locked were left by the others; what all left is still there.
    swept.extend(sweep(fx).await);
    assert_eq!(swept.len(), BOTS, "each by one");
    assert_eq!(ids(&swept), ids(&bots));
    for bot in &bots {
        let log = log_of(fx, bot.meeting.id).await;
        assert_eq!(log.iter().filter(|step| step.to_state == "failed").count(), 1);
        assert_eq!(jobs_of(fx, FINISH_KIND, bot.meeting.id).await.len(), 1);
    }
}

/// A bot of the original image: it has no heartbeats.
async fn stock_bot(fx: &Fixture, native_id: &str, status: BotStatus) -> BotRecord {
    let owner = user(fx, "stock").await;
    let reserved = reserve(fx, owner, native_id).await;
    if status == BotStatus::Reserved {
        return reserved;
    }
    let joined = BotHappened { beats: false, ..callback(&reserved, BotEvent::Joined) };
    changed(tell(fx, joined).await).record
}

async fn see(fx: &Fixture, record: &BotRecord, seen: Seen) {
    let note = RuntimeNote { workload: record.workload(), seen };
    let ended = fx.store.note_runtime(vec![note], 3, fx.now()).await.expect("note_runtime");
    assert!(ended.is_empty());
}

/// Neither the rules nor the store give it up.
async fn assert_spared(fx: &Fixture, record: &BotRecord) {
    assert_eq!(rule(fx, record), None);
    assert_eq!(sweep(fx).await, vec![], "{record:?}");
}

/// The store gives up this bot alone, for the reason that the rules have too.
async fn assert_given_up(fx: &Fixture, record: &BotRecord, reason: &'static str) {
    assert_eq!(rule(fx, record), Some(reason));
    let swept = sweep(fx).await;
    assert_eq!(ids(&swept), BTreeSet::from([record.meeting.id]));
    assert_eq!(swept[0].status, BotStatus::Failed);
    assert_eq!(swept[0].bot.end_reason.as_deref(), Some(reason));
    assert_eq!(swept[0].meeting.end_time, Some(fx.now()));
    assert_eq!(look(fx, record.meeting.id).await, swept[0]);
}

fn rule(fx: &Fixture, record: &BotRecord) -> Option<&'static str> {
    let request = full_sweep();
    let clock = BotClock::of(record, true);
    let found = overdue(clock, &request.timeouts, request.serving_since, fx.now());
    found.map(|overdue| overdue.reason)
}

fn ids(records: &[BotRecord]) -> BTreeSet<MeetingId> {
    records.iter().map(|record| record.meeting.id).collect()
}
