//! Whoever comes back gets exactly what they missed, or starts over: T-17.

use futures_util::FutureExt;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{JobStore, PruneRequest, Random, StoreError};
use roundsman_engine::transcripts::TranscriptLimits;
use roundsman_testkit::SeededRandom;
use serde_json::Value;

use super::{SESSION, Talk};
use crate::backend::{Backend, on_every_database};
use crate::support::{secs, soon};

on_every_database! {
    a_thousand_disconnects_leave_no_gap_and_no_repeat
    whoever_missed_too_much_starts_over_with_the_whole
    a_place_that_never_was_starts_over
    a_deleted_transcript_is_gone_for_whoever_comes_back
    all_who_come_back_at_once_share_one_look
    a_meeting_without_a_bot_starts_over_for_its_user
    everything_from_the_beginning_is_told_while_it_is_kept
}

/// Frames that were stored until now are no longer kept.
async fn prune_frames(talk: &Talk) {
    let never = talk.now() - secs(24 * 3600 * 365);
    let request = PruneRequest {
        completed_before: never,
        failed_before: never,
        cancelled_before: never,
        idempotency_before: never,
        frames_before: talk.now(),
        buckets_before: never,
        rows_max: 100_000,
    };
    talk.world.store.prune(request).await.unwrap();
}

async fn a_thousand_disconnects_leave_no_gap_and_no_repeat(backend: Backend) {
    // Small, so that places fall out of it, and never joined, so that every place is seen.
    let limits = TranscriptLimits {
        ring_frames_max: 16,
        coalesce_frames_min: usize::MAX,
        behind_frames_per_sec_max: u32::MAX,
        ..TranscriptLimits::default()
    };
    let mut talk = Talk::with(backend, limits, false).await;
    talk.start_session(talk.now()).await;
    let random = SeededRandom::new(17);
    let mut reader = talk.reader().await;
    let from = reader.seq;
    let mut disconnects = 0;
    while disconnects < 1000 {
        for _ in 0..random.below(4) {
            let start = i64::try_from(random.below(30)).unwrap() * 1000;
            let text = format!("said after {disconnects} disconnects");
            talk.say(&[(start, start + 900, &text)]).await;
        }
        match random.below(4) {
            // It reads something, perhaps.
            0 => {
                if let Some(deliveries) = reader.listener.next().now_or_never() {
                    reader.apply(&deliveries.unwrap());
                }
            }
            1 if random.below(20) == 0 => {
                talk.restart();
                disconnects += 1;
                reader.reconnect(&talk).await;
            }
            _ => {
                disconnects += 1;
                reader.reconnect(&talk).await;
            }
        }
        if random.below(50) == 0 {
            talk.world.clock.advance(secs(20));
            talk.persist().await;
        }
    }
    let end = talk.transcript().await.seq;
    reader.hear_until(end).await;
    reader.agrees(&talk).await;
    let heard: Vec<i64> = reader.heard.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(heard, (from + 1..=end).collect::<Vec<_>>(), "no gap, no repeat");
    talk.check().await;
}

async fn whoever_missed_too_much_starts_over_with_the_whole(backend: Backend) {
    let limits = TranscriptLimits { ring_frames_max: 4, ..TranscriptLimits::default() };
    let mut talk = Talk::with(backend, limits, false).await;
    talk.start_session(talk.now()).await;
    talk.say(&[(0, 1000, "what was said first")]).await;
    let mut reader = talk.reader().await;
    for start in 1..10 {
        talk.say(&[(start * 2000, start * 2000 + 900, "missed by one who slept")]).await;
    }
    talk.world.clock.advance(secs(1));
    prune_frames(&talk).await;
    talk.restart();
    reader.reconnect(&talk).await;
    let told = talk.say(&[(0, 1000, "what was said first, corrected")]).await;
    reader.hear_until(told.seq.unwrap()).await;
    reader.agrees(&talk).await;
    let resets = reader.heard.iter().filter(|(_, kind)| kind == "transcript.reset").count();
    assert_eq!(resets, 1);
    assert!(talk.world.metrics.encode().contains("roundsman_listener_resets_total 1\n"));
    // From there on all is as ever.
    let told = talk.say(&[(60_000, 61_000, "and on it goes")]).await;
    reader.hear_until(told.seq.unwrap()).await;
    reader.agrees(&talk).await;
    talk.check().await;
}

async fn a_place_that_never_was_starts_over(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.say(&[(0, 1000, "this is all there is")]).await;
    let end = talk.transcript().await.seq;
    let mut listener = talk.transcripts.listen();
    assert_eq!(listener.add(talk.id(), Some(end + 1000)).await.unwrap(), end);
    let deliveries = soon(listener.next()).await.unwrap();
    assert_eq!((deliveries.len(), deliveries[0].seq), (1, end));
    let frame: Value = serde_json::from_slice(&deliveries[0].text).unwrap();
    assert_eq!(frame["type"], "transcript.reset");
    assert_eq!(frame["payload"]["segments"][0]["text"], "this is all there is");
    // And hears what follows.
    let told = talk.say(&[(2000, 3000, "now there is more")]).await;
    let deliveries = soon(listener.next()).await.unwrap();
    assert_eq!(deliveries[0].seq, told.seq.unwrap());
}

async fn a_deleted_transcript_is_gone_for_whoever_comes_back(backend: Backend) {
    let talk = Talk::new(backend).await;
    let mut there = talk.reader().await;
    let mut away = talk.reader().await;
    talk.say(&[(0, 1000, "to be forgotten"), (2000, 3000, "as well")]).await;
    there.hear().await;
    assert_eq!(there.rendered.len(), 2);
    let deleted = talk.transcripts.delete(talk.user, talk.target()).await.unwrap().unwrap();
    assert_eq!(deleted.changed, 2);
    there.hear_until(talk.transcript().await.seq).await;
    assert!(there.rendered.is_empty(), "it was told to forget");
    away.reconnect(&talk).await;
    let deliveries = soon(away.listener.next()).await.unwrap();
    for delivery in &deliveries {
        let text = std::str::from_utf8(&delivery.text).unwrap();
        assert!(!text.contains("forgotten"), "{text}");
    }
    away.apply(&deliveries);
    assert!(away.rendered.is_empty());
    talk.say(&[(9000, 9900, "a new beginning")]).await;
    for reader in [&mut there, &mut away] {
        reader.hear_until(talk.transcript().await.seq).await;
        reader.agrees(&talk).await;
    }
    talk.check().await;
}

/// After a restart of the server, everybody.
async fn all_who_come_back_at_once_share_one_look(backend: Backend) {
    let mut talk = Talk::new(backend).await;
    for start in 0..100 {
        talk.say(&[(start * 1000, start * 1000 + 900, "before the restart")]).await;
    }
    let end = talk.transcript().await.seq;
    talk.restart();
    let (frames, ends) = (talk.world.store.calls("frames"), talk.world.store.calls("stream_ends"));
    let mut listeners = Vec::new();
    for number in 0..500 {
        listeners.push(talk.listen(Some(end - 5 - number % 5)).await);
    }
    for (number, listener) in listeners.iter_mut().enumerate() {
        let deliveries = soon(listener.next()).await.unwrap();
        let seqs: Vec<i64> = deliveries.iter().map(|delivery| delivery.seq).collect();
        let from = end - 5 - i64::try_from(number % 5).unwrap();
        assert_eq!(seqs, (from + 1..=end).collect::<Vec<_>>());
    }
    // One for the ring, one when the bus is listened to, one for whoever was further back than the
    // first of them.
    let looks = talk.world.store.calls("frames") - frames;
    assert!(looks <= 8, "{looks} looks for 500 listeners");
    assert_eq!(talk.world.store.calls("stream_ends") - ends, 1);

    // The same when all have missed too much.
    talk.world.clock.advance(secs(1));
    prune_frames(&talk).await;
    talk.restart();
    let reads = talk.world.store.calls("transcript");
    for _ in 0..100 {
        let mut listener = talk.listen(Some(1)).await;
        let deliveries = soon(listener.next()).await.unwrap();
        assert_eq!((deliveries.len(), deliveries[0].seq), (1, end));
        listeners.push(listener);
    }
    assert_eq!(talk.world.store.calls("transcript") - reads, 1, "one transcript for all of them");
}

/// An existing database has meetings that never had a bot of ours.
async fn a_meeting_without_a_bot_starts_over_for_its_user(backend: Backend) {
    let talk = Talk::new(backend).await;
    let nowhere = MeetingId::new(4711);
    let mut listener = talk.transcripts.listen();
    listener.add(nowhere, Some(7)).await.unwrap();
    let failed = soon(listener.next()).await;
    assert!(matches!(failed, Err(StoreError::Failed(_))), "nobody knows whose it is: {failed:?}");
    let mut listener = talk.transcripts.listen().of(talk.user);
    listener.add(nowhere, Some(7)).await.unwrap();
    let deliveries = soon(listener.next()).await.unwrap();
    let frame: Value = serde_json::from_slice(&deliveries[0].text).unwrap();
    assert_eq!((&frame["type"], &frame["seq"]), (&"transcript.reset".into(), &0.into()));
    assert_eq!(frame["payload"]["segments"], Value::Array(vec![]));
}

async fn everything_from_the_beginning_is_told_while_it_is_kept(backend: Backend) {
    let talk = Talk::new(backend).await;
    let message = talk.said(SESSION, &[(0, 1000, "from the beginning")]);
    talk.ingest(&message).await;
    for after in [Some(0), Some(-5)] {
        let mut listener = talk.transcripts.listen();
        assert_eq!(listener.add(talk.id(), after).await.unwrap(), 0);
        let deliveries = soon(listener.next()).await.unwrap();
        let seqs: Vec<i64> = deliveries.iter().map(|delivery| delivery.seq).collect();
        assert_eq!(seqs, (1..=talk.transcript().await.seq).collect::<Vec<_>>());
    }
}
