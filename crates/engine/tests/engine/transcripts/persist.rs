//! What has not changed for a while becomes final, and nobody who reads meanwhile misses or doubles a
//! line: T-19.

use std::collections::BTreeMap;
use std::sync::Arc;

use roundsman_core::jobs::Job;
use roundsman_core::ports::Clock;
use roundsman_core::transcripts::{SearchQuery, SegmentKey};
use roundsman_engine::transcripts::{PERSIST_KIND, TranscriptLimits, transcript_wishes};

use super::{SESSION, STABLE_AFTER, Talk, new_user, reserve, said};
use crate::backend::{Backend, on_every_database};
use crate::flaky::Fault;
use crate::support::{MICROSECOND, World, secs, soon, until_running};

on_every_database! {
    segments_are_final_when_they_have_not_changed_for_a_while
    the_filter_refuses_noise_and_says_so
    what_was_refused_stays_away_until_it_changes
    one_meeting_that_cannot_be_stored_holds_up_no_other
    many_segments_become_final_in_steps
    the_job_runs_again_and_again
    a_round_that_finds_no_database_is_tried_again
    what_is_final_is_found_by_its_words
    readers_see_every_line_once_while_it_becomes_final
}

async fn segments_are_final_when_they_have_not_changed_for_a_while(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "an early segment")]).await;
    talk.world.clock.advance(secs(20));
    talk.say(&[(2000, 3000, "a later segment")]).await;
    talk.world.clock.advance(STABLE_AFTER.saturating_sub(secs(20)).saturating_sub(MICROSECOND));
    assert_eq!(talk.persist().await.kept, 0, "not yet");
    talk.world.clock.advance(MICROSECOND);
    assert_eq!(talk.persist().await.kept, 1);
    assert!(talk.world.metrics.encode().contains("roundsman_live_segments 1\n"));
    // Told again as it was is no change, so it does not start over.
    talk.say(&[(2000, 3000, "a later segment")]).await;
    talk.world.clock.advance(secs(20));
    let mut reader = talk.reader().await;
    let frames = talk.frames().await.len();
    assert_eq!(talk.persist().await.kept, 1);
    assert_eq!(talk.frames().await.len(), frames, "nobody sees a difference");
    reader.agrees(&talk).await;
    assert_eq!(talk.texts().await, ["an early segment", "a later segment"]);
    assert!(talk.transcript().await.lines.iter().all(|line| line.kept));
    let told = talk.say(&[(4000, 5000, "and one more")]).await;
    reader.hear_until(told.seq.unwrap()).await;
    talk.check().await;
}

async fn the_filter_refuses_noise_and_says_so(backend: Backend) {
    let talk = Talk::new(backend).await;
    let mut reader = talk.reader().await;
    talk.say(&[(0, 1000, "[BLANK_AUDIO]"), (2000, 3000, "real words were said")]).await;
    talk.say(&[(4000, 4500, "hm"), (6000, 7000, "aaaaaaaa it repeats")]).await;
    assert_eq!(reader.hear().await, 2);
    assert_eq!(reader.rendered.len(), 4);
    let round = talk.settle().await;
    assert_eq!((round.kept, round.dropped), (1, 3));
    reader.hear_until(talk.transcript().await.seq).await;
    reader.agrees(&talk).await;
    assert_eq!(reader.rendered.len(), 1, "what was dropped was taken back");
    let metrics = talk.world.metrics.encode();
    for reason in ["noise", "too_short", "repeated_character"] {
        let line = format!("roundsman_segments_dropped_total{{reason=\"{reason}\"}} 1");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    assert!(metrics.contains("roundsman_segments_kept_total 1"));
    talk.check().await;
}

async fn what_was_refused_stays_away_until_it_changes(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.say(&[(0, 1000, "hm")]).await;
    assert_eq!(talk.settle().await.dropped, 1);
    assert_eq!(talk.say(&[(0, 1000, "hm")]).await.changed, 0, "it is known, and not wanted");
    assert_eq!(talk.texts().await, Vec::<String>::new());
    assert_eq!(talk.say(&[(0, 1500, "hm, let me think")]).await.changed, 1);
    assert_eq!(talk.texts().await, ["hm, let me think"]);
    assert_eq!(talk.settle().await.kept, 1);
    talk.check().await;
}

async fn one_meeting_that_cannot_be_stored_holds_up_no_other(backend: Backend) {
    let talk = Talk::new(backend).await;
    let other = reserve(&talk.world, talk.user, "xyz-abcd-efg").await;
    for record in [&talk.record, &other] {
        let message = said(&talk.token_of(record), Some(SESSION), &[(0, 1000, "of a meeting")]);
        talk.ingest(&message).await;
    }
    talk.world.clock.advance(STABLE_AFTER + secs(1));
    let poison: &'static str = Box::leak(format!("MeetingId({})", talk.id()).into_boxed_str());
    talk.world.store.set("settle_segments", Fault::RefusesMentionOf(poison));
    let round = talk.persist().await;
    assert_eq!((round.kept, round.failed), (1, 1));
    assert!(talk.world.metrics.encode().contains("roundsman_settle_failures_total 1\n"));
    talk.world.store.set("settle_segments", Fault::Down);
    assert!(talk.persister().tick(None).await.is_err());
    talk.world.store.mend();
    assert_eq!(talk.persist().await.kept, 1);
    talk.check().await;
}

async fn many_segments_become_final_in_steps(backend: Backend) {
    let limits = TranscriptLimits { settled_rows_max: 7, ..TranscriptLimits::default() };
    let talk = Talk::with(backend, limits, true).await;
    let texts: Vec<String> = (0..50).map(|n| format!("segment number {n}")).collect();
    let segments: Vec<(i64, i64, &str)> =
        (0..).zip(&texts).map(|(n, text)| (n * 1000, n * 1000 + 900, text.as_str())).collect();
    talk.say(&segments).await;
    assert_eq!(talk.settle().await.kept, 50);
    assert_eq!(talk.texts().await, texts);
    assert_eq!(super::mirror::cached(&talk).len(), 0);
    talk.check().await;
}

/// The job itself, under its lease.
async fn the_job_runs_again_and_again(backend: Backend) {
    use roundsman_core::jobs::Role;

    let talk = Talk::new(backend).await;
    let world: &World = &talk.world;
    let worker = world.worker_with(vec![talk.persister().handler()], |options| {
        options.roles = vec![Role::Scheduler];
    });
    for wish in transcript_wishes(world.clock.now()) {
        world.enqueue(wish).await;
    }
    talk.say(&[(0, 1000, "soon to be final")]).await;
    for _ in 0..6 {
        world.clock.advance(secs(12));
        worker.claim_tick().await.unwrap();
        until_running(&worker, 0).await;
        worker.settle_tick().await.unwrap();
    }
    assert!(talk.transcript().await.lines[0].kept);
    let jobs = world.all_jobs(Some(PERSIST_KIND)).await;
    assert!(matches!(jobs.as_slice(), [Job::Waiting(_)]), "{jobs:?}");
    talk.check().await;
}

async fn a_round_that_finds_no_database_is_tried_again(backend: Backend) {
    let talk = Talk::cached(backend).await;
    talk.say(&[(0, 1000, "soon to be final")]).await;
    talk.world.clock.advance(STABLE_AFTER + secs(1));
    for call in [
        "live_meetings",
        "settle_segments",
        "unpublished_frames",
        "index_transcriptions",
        "prune_transcripts",
        "live_segment_count",
    ] {
        talk.world.store.set(call, Fault::Down);
        assert!(talk.persister().tick(None).await.is_err(), "{call}");
        talk.world.store.mend();
    }
    // The work was done, but nobody has heard of it.
    talk.world.store.set("settle_segments", Fault::AnswerLost);
    let settled = talk.persister().tick(None).await;
    assert!(settled.is_ok() || talk.transcript().await.lines[0].kept);
    talk.world.store.mend();
    talk.persist().await;
    assert!(talk.transcript().await.lines[0].kept);
    assert_eq!(super::mirror::cached(&talk).len(), 0, "the cache was repaired");
    talk.check().await;
}

async fn what_is_final_is_found_by_its_words(backend: Backend) {
    use roundsman_core::ports::SearchPage;

    let talk = Talk::new(backend).await;
    let eve = new_user(&talk.world, "eve@example.org").await;
    let hers = reserve(&talk.world, eve, "eve-evee-eve").await;
    talk.say(&[(0, 1000, "the quarterly budget is fine")]).await;
    talk.settle().await;
    talk.say(&[(2000, 3000, "nobody likes the budget")]).await;
    let message = said(&talk.token_of(&hers), Some(SESSION), &[(0, 1000, "her own budget")]);
    talk.ingest(&message).await;
    let page = SearchPage { before: None, rows_max: 10 };
    let query = SearchQuery::parse("budget").unwrap();
    let hits = talk.transcripts.search(talk.user, query, page).await.unwrap();
    let found: Vec<(bool, &str)> =
        hits.iter().map(|hit| (hit.id.is_some(), hit.line.segment.content.text.as_str())).collect();
    let expected = [(false, "nobody likes the budget"), (true, "the quarterly budget is fine")];
    assert_eq!(found, expected, "live first, and nothing of others");
    talk.check().await;
}

/// T-19. On a database whose readers and writers really run beside each other.
async fn readers_see_every_line_once_while_it_becomes_final(backend: Backend) {
    const LINES: usize = 60;
    const READS: usize = 2000;
    let limits = TranscriptLimits { settled_rows_max: 5, ..TranscriptLimits::default() };
    let talk = match backend {
        Backend::Sqlite => Talk::over(World::on_disk().await, limits, false).await,
        Backend::Postgres => Talk::with(backend, limits, false).await,
    };
    let talk = Arc::new(talk);
    talk.start_session(talk.now()).await;
    let texts: Vec<String> = (0..LINES).map(|n| format!("segment number {n}")).collect();
    for (n, text) in (0..).zip(&texts) {
        talk.say(&[(n * 1000, n * 1000 + 900, text)]).await;
    }
    let writer = {
        let (talk, texts) = (talk.clone(), texts.clone());
        talk.world.tasks.clone().spawn(async move {
            for (n, text) in (0..).zip(&texts) {
                talk.world.clock.advance(secs(10));
                talk.persist().await;
                // One that is final changes, and so does one that is live.
                talk.say(&[(n * 1000, n * 1000 + 950, &format!("{text}, corrected"))]).await;
                tokio::task::yield_now().await;
            }
        })
    };
    let mut reads = 0;
    let mut seq = 0;
    while reads < READS || !writer.is_finished() {
        let transcript = talk.transcript().await;
        let mut seen: BTreeMap<&SegmentKey, usize> = BTreeMap::new();
        for line in &transcript.lines {
            *seen.entry(&line.segment.key).or_default() += 1;
            assert!(line.segment.seq <= transcript.seq);
        }
        assert_eq!(seen.len(), LINES, "no line is missing");
        assert!(seen.values().all(|count| *count == 1), "and none is doubled");
        assert!(transcript.seq >= seq);
        seq = transcript.seq;
        reads += 1;
    }
    soon(writer).await.unwrap();
    assert!(talk.texts().await.iter().all(|text| text.ends_with("corrected")));
    talk.check().await;
}
