//! R8: whoever announces, processes, gives up or dies at the same time, a recording is one row, with
//! one job, and gets one transcript.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{LeaseRef, Outcome};
use roundsman_core::ports::{AnnounceAnswer, BeginAnswer, FinishAnswer, RecordingFilter, Scope};
use roundsman_core::recordings::{
    Announcement, ERASE_KIND, PROCESS_KIND, Recording, RecordingId, RecordingStatus, SpokenSegment,
    Via,
};

use super::attend::{frames_of, jobs_of};
use super::fixture::{Fixture, Task, at_once, boxed};
use super::record::{
    announce, announce_all, announcement, as_spoken, assert_replays, begin, conversation, fail,
    find, finish, keep, lines_of, log_of, media, new_begun, new_recording, process_jobs, recording,
    recording_id, recording_in, recordings, retry, says, says_of_consent, states_of, to_erase,
    transcript, waiting,
};
use super::visit::{lease, room};
use super::wishes::{MINUTE, SECOND, TTL, done};

/// the webhook and the poll tell of it at the same time.
pub async fn of_many_announcements_one_is_new(fx: &Arc<Fixture>) {
    const CALLERS: usize = 8;
    for round in 0..fx.traits.start_rounds {
        let name = format!("rec-{round}");
        let callers = (0..CALLERS).map(|caller| {
            let (fx, name) = (Arc::clone(fx), name.clone());
            let via = if caller % 2 == 0 { Via::Event } else { Via::Poll };
            async move {
                announce(&fx, Announcement { via, ..announcement(&fx, &name, "weekly") }).await
            }
        });
        let answers: Vec<AnnounceAnswer> = at_once(callers).await;
        let new = answers.iter().filter(|answer| !answer.is_repeated).count();
        assert_eq!(new, 1, "round {round}");
        let repeats: BTreeSet<u32> =
            answers.iter().map(|answer| answer.recording.repeats).collect();
        assert_eq!(repeats.len(), CALLERS, "each is counted: {repeats:?}");
        let now = recording(fx, &recording_id(&name)).await;
        assert_eq!((now.repeats as usize, now.no), (CALLERS - 1, answers[0].recording.no));
        assert_eq!(process_jobs(fx, &now.id).await.len(), 1);
        assert_eq!(log_of(fx, now.no).await.len(), 1);
    }
    let all = recordings(fx, Scope::All, RecordingFilter::default()).await;
    assert_eq!(all.len(), fx.traits.start_rounds);
}

pub async fn batches_in_any_order_do_not_deadlock(fx: &Arc<Fixture>) {
    const CALLERS: usize = 6;
    const RECORDINGS: usize = 20;
    for round in 0..5 {
        let callers = (0..CALLERS).map(|caller| {
            let fx = Arc::clone(fx);
            async move {
                let mut names: Vec<String> =
                    (0..RECORDINGS).map(|number| format!("{round}-{number}")).collect();
                names.rotate_left(caller * 3);
                if caller % 2 == 0 {
                    names.reverse();
                }
                let batch = names.iter().map(|name| announcement(&fx, name, "weekly")).collect();
                announce_all(&fx, batch).await.iter().filter(|one| !one.is_repeated).count()
            }
        });
        assert_eq!(at_once(callers).await.iter().sum::<usize>(), RECORDINGS);
    }
    for one in recordings(fx, Scope::All, RecordingFilter::default()).await {
        assert_eq!(one.repeats as usize, CALLERS - 1, "{one:?}");
        assert_eq!(process_jobs(fx, &one.id).await.len(), 1);
    }
}

/// An announcement and its job are one: whoever sees one of them sees the other.
pub async fn a_recording_is_never_without_its_job(fx: &Arc<Fixture>) {
    const RECORDINGS: usize = 60;
    let over = Arc::new(AtomicBool::new(false));
    let (teller, reader, worker) = (Arc::clone(fx), Arc::clone(fx), Arc::clone(fx));
    let (told, read, worked) = (Arc::clone(&over), Arc::clone(&over), Arc::clone(&over));
    let tasks: Vec<Task<()>> = vec![
        boxed(async move {
            for number in 0..RECORDINGS {
                announce(&teller, announcement(&teller, &format!("r-{number}"), "weekly")).await;
                tokio::task::yield_now().await;
            }
            told.store(true, Ordering::SeqCst);
        }),
        boxed(async move {
            while !read.load(Ordering::SeqCst) {
                let all = recordings(&reader, Scope::All, RecordingFilter::default()).await;
                if let Some(newest) = all.first() {
                    let jobs = process_jobs(&reader, &newest.id).await;
                    assert_eq!(jobs.len(), 1, "{newest:?} has a job");
                }
                tokio::task::yield_now().await;
            }
        }),
        boxed(async move {
            let mut seen = 0;
            while seen < RECORDINGS {
                let is_last = worked.load(Ordering::SeqCst);
                let jobs = worker.claim(PROCESS_KIND, 5).await;
                assert!(!(is_last && jobs.is_empty()), "{seen} jobs for {RECORDINGS}");
                for job in jobs {
                    let id = recording_id(job.facts.key.as_ref().expect("it has one").as_str());
                    assert!(find(&worker, Scope::All, &id).await.is_some(), "{id:?} is known");
                    seen += 1;
                }
                tokio::task::yield_now().await;
            }
        }),
    ];
    at_once(tasks).await;
}

/// A worker that was thought dead comes back while another one has taken its place.
pub async fn a_worker_that_comes_back_changes_nothing(fx: &Arc<Fixture>) {
    for round in 0..fx.traits.start_rounds {
        let id = room(fx, &format!("room-{round}")).await;
        let wish = announcement(fx, &format!("rec-{round}"), &format!("room-{round}"));
        let made = new_recording(fx, wish).await;
        let dead = fx.claim_one(PROCESS_KIND).await.lease_ref();
        assert!(matches!(begin(fx, &made.id, dead).await, BeginAnswer::Begun(_)));
        fx.advance(TTL + SECOND);
        fx.sweep().await;
        fx.advance(MINUTE * 10);
        let alive = fx.claim_one(PROCESS_KIND).await.lease_ref();
        let tasks: Vec<Task<()>> = vec![
            boxed(works(Arc::clone(fx), made.clone(), alive)),
            boxed(comes_back(Arc::clone(fx), made.clone(), dead, round)),
        ];
        at_once(tasks).await;
        let over = recording(fx, &made.id).await;
        assert_eq!((over.status, over.segments, over.error), (RecordingStatus::Completed, 3, None));
        assert_eq!(over.media, [media("a", 1)]);
        assert_eq!(as_spoken(&transcript(fx, id).await.lines), conversation());
        assert_eq!(states_of(fx, &made).await, ["pending", "processing", "completed"]);
        assert_no_hole(fx, id).await;
        fx.land(alive, done("null")).await;
    }
}

async fn works(fx: Arc<Fixture>, made: Recording, guard: LeaseRef) {
    let id = &made.id;
    assert!(matches!(begin(&fx, id, guard).await, BeginAnswer::Begun(_)));
    assert!(keep(&fx, id, vec![media("a", 1)], guard).await);
    let answer = finish(&fx, id, conversation(), guard).await;
    assert!(matches!(answer, FinishAnswer::Saved { .. }), "{answer:?}");
}

async fn comes_back(fx: Arc<Fixture>, made: Recording, dead: LeaseRef, round: usize) {
    let id = &made.id;
    // It does one thing or the other first.
    for step in (0..4).map(|step| (step + round) % 4) {
        match step {
            0 => assert!(!keep(&fx, id, vec![media("b", 9)], dead).await),
            1 => {
                let spoken = vec![says("Eve", 0, 900, "echo")];
                let answer = finish(&fx, id, spoken, dead).await;
                assert!(matches!(answer, FinishAnswer::LeaseLost | FinishAnswer::Done));
            }
            2 => assert!(!fail(&fx, id, "late", dead).await),
            _ => {
                let answer = begin(&fx, id, dead).await;
                assert!(matches!(answer, BeginAnswer::LeaseLost | BeginAnswer::Done));
            }
        }
    }
}

/// R8: it saves, or its lease is taken away and another one saves.
pub async fn an_end_and_a_sweep_leave_one_transcript(fx: &Arc<Fixture>) {
    for round in 0..fx.traits.start_rounds {
        let id = room(fx, &format!("room-{round}")).await;
        let wish = announcement(fx, &format!("rec-{round}"), &format!("room-{round}"));
        let made = new_recording(fx, wish).await;
        let first = fx.claim_one(PROCESS_KIND).await.lease_ref();
        begin(fx, &made.id, first).await;
        fx.advance(TTL + SECOND);
        let (saver, sweeper, rec) = (Arc::clone(fx), Arc::clone(fx), made.id.clone());
        let tasks: Vec<Task<bool>> = vec![
            boxed(async move {
                let answer = finish(&saver, &rec, vec![says("Ann", 0, 900, "first")], first).await;
                assert_ne!(answer, FinishAnswer::Done);
                answer != FinishAnswer::LeaseLost
            }),
            boxed(async move {
                sweeper.sweep().await;
                false
            }),
        ];
        let was_saved = at_once(tasks).await.contains(&true);
        // A sweep may have passed by a row that was being written; then the next one takes it.
        fx.sweep().await;
        fx.advance(MINUTE * 10);
        let second = fx.claim_one(PROCESS_KIND).await.lease_ref();
        let begins = begin(fx, &made.id, second).await;
        assert_eq!(begins == BeginAnswer::Done, was_saved, "{begins:?}");
        let ends = finish(fx, &made.id, vec![says("Bob", 0, 900, "second")], second).await;
        assert_eq!(ends == FinishAnswer::Done, was_saved, "{ends:?}");
        let expected =
            if was_saved { says("Ann", 0, 900, "first") } else { says("Bob", 0, 900, "second") };
        assert_eq!(as_spoken(&transcript(fx, id).await.lines), [expected]);
        assert_eq!(states_of(fx, &made).await, ["pending", "processing", "completed"]);
        fx.land(second, done("null")).await;
    }
}

/// Even of those who all hold a lease only one saves.
pub async fn of_many_who_end_at_once_one_saves(fx: &Arc<Fixture>) {
    const WORKERS: usize = 6;
    let id = room(fx, "weekly").await;
    for round in 0..fx.traits.start_rounds {
        let (begun, _) = new_begun(fx, &format!("rec-{round}"), "weekly").await;
        let mut workers = Vec::new();
        for worker in 0..WORKERS {
            let (fx, rec, guard) = (Arc::clone(fx), begun.id.clone(), lease(fx).await);
            workers.push(async move {
                let text = format!("worker {worker}");
                let answer = finish(&fx, &rec, vec![says("Ann", 0, 900, &text)], guard).await;
                match answer {
                    FinishAnswer::Saved { frames, .. } => Some((text, frames)),
                    other => {
                        assert_eq!(other, FinishAnswer::Done);
                        None
                    }
                }
            });
        }
        let saved: Vec<_> = at_once(workers).await.into_iter().flatten().collect();
        assert_eq!(saved.len(), 1, "round {round}");
        let lines = lines_of(&transcript(fx, id).await, &begun.id);
        assert_eq!(as_spoken(&lines), [says("Ann", 0, 900, &saved[0].0)]);
        assert_eq!(saved[0].1.len(), 1);
        fx.advance(SECOND);
    }
    assert_no_hole(fx, id).await;
}

pub async fn of_many_who_retry_at_once_one_does(fx: &Arc<Fixture>) {
    const CALLERS: usize = 6;
    room(fx, "weekly").await;
    for round in 0..fx.traits.start_rounds {
        let failed =
            recording_in(fx, &format!("rec-{round}"), "weekly", RecordingStatus::Failed).await;
        let callers = (0..CALLERS).map(|caller| {
            let (fx, id) = (Arc::clone(fx), failed.id.clone());
            async move {
                let id = (caller % 2 == 0).then_some(&id);
                retry(&fx, Scope::All, id, 10).await
            }
        });
        assert_eq!(at_once(callers).await.iter().sum::<u32>(), 1, "round {round}");
        assert_eq!(process_jobs(fx, &failed.id).await.len(), 1, "it joins the one that waits");
        let states = states_of(fx, &failed).await;
        assert_eq!(states, ["pending", "processing", "failed", "pending"]);
    }
}

/// Whoever denies while it ends has not spoken too late nor too early.
pub async fn a_denial_and_an_end_at_once_erase(fx: &Arc<Fixture>) {
    for round in 0..fx.traits.start_rounds {
        let name = format!("room-{round}");
        let id = room(fx, &name).await;
        let (begun, guard) = new_begun(fx, &name, &name).await;
        let (saver, speaker, rec) = (Arc::clone(fx), Arc::clone(fx), begun.id.clone());
        let tasks: Vec<Task<()>> = vec![
            boxed(async move {
                let answer = finish(&saver, &rec, conversation(), guard).await;
                assert!(matches!(answer, FinishAnswer::Saved { .. }), "{answer:?}");
            }),
            boxed(async move {
                assert!(says_of_consent(&speaker, Scope::All, id, "ann", false).await);
            }),
        ];
        at_once(tasks).await;
        assert_eq!(waiting(&jobs_of(fx, ERASE_KIND, id).await), 1);
        assert_eq!(to_erase(fx, id).await, [recording(fx, &begun.id).await]);
    }
}

/// Several recordings of one meeting end at once; whoever follows the frames sees what is read.
pub async fn transcripts_of_one_meeting_are_all_saved(fx: &Arc<Fixture>) {
    const RECORDINGS: usize = 8;
    const SEGMENTS: i64 = 20;
    let id = room(fx, "weekly").await;
    let earlier = transcript(fx, id).await;
    let mut workers = Vec::new();
    for number in 0..RECORDINGS {
        let (begun, guard) = new_begun(fx, &format!("rec-{number}"), "weekly").await;
        let fx = Arc::clone(fx);
        workers.push(async move {
            let said = |n: i64| says("Ann", n * 1000, n * 1000 + 900, &format!("{number} {n}"));
            let spoken: Vec<SpokenSegment> = (0..SEGMENTS).map(said).collect();
            let answer = finish(&fx, &begun.id, spoken.clone(), guard).await;
            assert!(matches!(answer, FinishAnswer::Saved { .. }), "{answer:?}");
            let lines = lines_of(&transcript(&fx, id).await, &begun.id);
            assert_eq!(as_spoken(&lines), spoken, "what was acknowledged is read from then on");
        });
    }
    at_once(workers).await;
    let now = transcript(fx, id).await;
    assert_eq!(now.lines.len(), RECORDINGS * usize::try_from(SEGMENTS).expect("few"));
    assert_replays(id, &earlier, &frames_of(fx, id).await, &now);
    assert_no_hole(fx, id).await;
}

/// All operations on few recordings by many callers: no call fails, and what is left agrees.
pub async fn everything_at_once_fails_nobody(fx: &Arc<Fixture>) {
    const CALLERS: usize = 8;
    let id = room(fx, "weekly").await;
    let callers = (0..CALLERS).map(|caller| {
        let fx = Arc::clone(fx);
        async move {
            for round in 0..15 {
                do_something(&fx, id, caller, round).await;
            }
        }
    });
    at_once(callers).await;
    let now = transcript(fx, id).await;
    for one in recordings(fx, Scope::All, RecordingFilter::default()).await {
        assert_eq!(lines_of(&now, &one.id).len(), one.segments as usize, "{one:?}");
        let states = states_of(fx, &one).await;
        assert_eq!(states.last().map(String::as_str), Some(one.status.as_str()));
        let ends = states.iter().filter(|state| *state == "completed").count();
        assert_eq!(ends, usize::from(one.status == RecordingStatus::Completed), "once at most");
    }
    assert_no_hole(fx, id).await;
}

async fn do_something(fx: &Fixture, meeting: MeetingId, caller: usize, round: usize) {
    let name = format!("rec-{}", (caller + round) % 4);
    let id = recording_id(&name);
    match (caller * 7 + round) % 10 {
        0 => drop(fx.store.recording_counts().await.expect("recording_counts")),
        1 => drop(retry(fx, Scope::All, None, 2).await),
        2 => {
            let given = round.is_multiple_of(2);
            assert!(says_of_consent(fx, Scope::All, meeting, &name, given).await);
            drop(to_erase(fx, meeting).await);
        }
        3 => {
            let guard = lease(fx).await;
            fail(fx, &id, "broken", guard).await;
        }
        4 => {
            for job in fx.claim(ERASE_KIND, 1).await {
                for one in to_erase(fx, meeting).await {
                    let erased =
                        fx.store.media_erased(one.id, None, job.lease_ref(), fx.now()).await;
                    assert!(erased.expect("media_erased"));
                }
                fx.settle(job.lease_ref(), Outcome::Release).await;
            }
        }
        5 | 6 => {
            let guard = lease(fx).await;
            if let BeginAnswer::Begun(_) = begin(fx, &id, guard).await {
                keep(fx, &id, vec![media(&format!("track-{caller}"), 1)], guard).await;
                let answer = finish(fx, &id, conversation(), guard).await;
                assert!(matches!(answer, FinishAnswer::Saved { .. } | FinishAnswer::Done));
            }
        }
        7 => {
            let guard = lease(fx).await;
            begin(fx, &id, guard).await;
        }
        _ => {
            let names = [0, 1, 2, 3].map(|number| format!("rec-{}", (number + caller) % 4));
            announce_all(fx, names.iter().map(|name| announcement(fx, name, "weekly")).collect())
                .await;
            read(fx, &id).await;
        }
    }
}

/// Reads one in all ways there are: what is known stays so.
async fn read(fx: &Fixture, id: &RecordingId) {
    let known = fx.store.known_recordings(vec![id.clone()]).await.expect("known_recordings");
    let found = find(fx, Scope::All, id).await;
    assert!(known[0] && found.is_some());
}

/// The frames of a meeting follow each other.
async fn assert_no_hole(fx: &Fixture, id: MeetingId) {
    let seqs: Vec<i64> = frames_of(fx, id).await.iter().map(|frame| frame.seq).collect();
    assert_eq!(seqs, (1..).take(seqs.len()).collect::<Vec<_>>());
}
