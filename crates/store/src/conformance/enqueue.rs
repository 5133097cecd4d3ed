//! Wishes become waiting jobs, exactly as they were given.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{FinishedState, Job, JobState, Json, NewJob, Outcome, first_wait};
use roundsman_core::limits::{KEY_BYTES_MAX, KIND_BYTES_MAX, PRIORITY_MAX, STORE_BATCH_ROWS_MAX};

use super::fixture::{Fixture, at_once};
use super::wishes::{BOB, MINUTE, RENDER, SECOND, json, key, kind};

pub async fn a_wish_becomes_a_waiting_job(fx: &Arc<Fixture>) {
    let wish = NewJob {
        user_id: BOB,
        key: Some(key("a")),
        payload: json(r#"{"page":7}"#),
        priority: -3,
        run_at: fx.now() - SECOND,
        max_attempts: None,
        ..fx.wish(RENDER)
    };
    let id = fx.put(wish.clone()).await;
    assert_eq!(fx.job(id).await, Job::Waiting(first_wait(id, wish, fx.now())));
    assert_eq!(fx.state(id).await, JobState::Pending);
}

pub async fn a_wish_for_later_waits_for_its_time(fx: &Arc<Fixture>) {
    let wish = NewJob { run_at: fx.now() + MINUTE, ..fx.wish(RENDER) };
    let id = fx.put(wish.clone()).await;
    assert_eq!(fx.waiting(id).await, first_wait(id, wish, fx.now()));
    assert_eq!(fx.state(id).await, JobState::Scheduled);
    fx.assert_nothing_to_claim(RENDER).await;

    fx.advance(MINUTE);
    assert_eq!(fx.state(id).await, JobState::Pending);
    assert_eq!(fx.claim_one(RENDER).await.facts.id, id);
}

pub async fn numbers_grow_in_the_order_of_the_batch(fx: &Arc<Fixture>) {
    let first = fx.enqueue((0..5).map(|_| fx.wish(RENDER)).collect()).await;
    let second = fx.enqueue(vec![fx.keyed("other", "x")]).await;
    let all: Vec<_> = first.iter().chain(&second).collect();
    assert_eq!(all.len(), 6);
    assert!(all.windows(2).all(|pair| pair[0].id < pair[1].id), "{all:?}");
    assert!(all.iter().all(|one| !one.coalesced));
}

pub async fn an_empty_request_is_stored(fx: &Arc<Fixture>) {
    assert_eq!(fx.enqueue(vec![]).await, vec![]);
    assert_eq!(fx.all_jobs().await, vec![]);
}

pub async fn the_largest_batch_is_stored_whole(fx: &Arc<Fixture>) {
    let wishes = (0..STORE_BATCH_ROWS_MAX).map(|number| NewJob {
        // Every second has a key, so that both ways of writing meet in one batch.
        key: (number % 2 == 0).then(|| key(&number.to_string())),
        payload: json(&number.to_string()),
        ..fx.wish(RENDER)
    });
    let stored = fx.enqueue(wishes.collect()).await;
    let ids: BTreeSet<_> = stored.iter().map(|one| one.id).collect();
    assert_eq!(ids.len(), STORE_BATCH_ROWS_MAX);
    let depths = fx.store.depths(fx.now()).await.expect("depths");
    assert_eq!(depths[0].pending, STORE_BATCH_ROWS_MAX as u64);
    for position in [0, 1, STORE_BATCH_ROWS_MAX - 1] {
        let job = fx.waiting(stored[position].id).await;
        assert_eq!(job.facts.payload, json(&position.to_string()));
    }
}

pub async fn many_callers_at_once_lose_nothing(fx: &Arc<Fixture>) {
    const CALLERS: usize = 16;
    const CALLS: usize = 20;
    let callers = (0..CALLERS).map(|_| {
        let fx = Arc::clone(fx);
        async move {
            let mut ids = Vec::new();
            for _ in 0..CALLS {
                ids.push(fx.put(fx.wish(RENDER)).await);
            }
            ids
        }
    });
    let ids: BTreeSet<_> = at_once(callers).await.into_iter().flatten().collect();
    assert_eq!(ids.len(), CALLERS * CALLS);
    let found: BTreeSet<_> = fx.all_jobs().await.iter().map(|job| job.facts().id).collect();
    assert_eq!(found, ids);
}

/// JSON comes back character by character, in each of the places that keep it.
pub async fn odd_json_comes_back_as_it_was_given(fx: &Arc<Fixture>) {
    let deep = format!("{}{}", "[".repeat(64), "]".repeat(64));
    let texts = [
        "null",
        "true",
        "0",
        "-0.0",
        "0.1",
        "1e308",
        "9007199254740993",
        "18446744073709551615",
        "-9223372036854775808",
        r#""""#,
        r#""\ud83d\ude00 \u00e9 \uffff \u2028 \u202e\u200b""#,
        r#""'; DROP TABLE job_queue; -- \" \\ \\u0000 $1 ?1 %s {} \t\r\n\b\f""#,
        r#"{"b":1,"a":{"":[]},"A":null,"a b":"é"}"#,
        "[1,[2,[3,{}]],[]]",
        &deep,
    ];
    for text in texts {
        let value = json(text);
        let wish = NewJob { payload: value.clone(), ..fx.wish(RENDER) };
        let id = fx.put(wish).await;
        assert_eq!(fx.waiting(id).await.facts.payload, value);
        assert_carried_to_the_end(fx, &value).await;
    }
    // Written by an earlier release, perhaps with spaces: the text is not touched.
    let spaced = Json::from_stored(r#"{ "a" : 1.50, "a" : 2 }"#.to_owned());
    let wish = NewJob { payload: spaced.clone(), ..fx.wish(RENDER) };
    fx.put(wish).await;
    assert_carried_to_the_end(fx, &spaced).await;
}

pub async fn a_large_payload_comes_back_whole(fx: &Arc<Fixture>) {
    let text = "ä😀x".repeat(256 * 1024 / 7);
    let value = Json::from_value(&text.into()).expect("a string is JSON");
    let wish = NewJob { payload: value.clone(), ..fx.wish(RENDER) };
    let id = fx.put(wish).await;
    assert_eq!(fx.waiting(id).await.facts.payload, value);
    assert_carried_to_the_end(fx, &value).await;
}

pub async fn names_of_every_script_stay_apart(fx: &Arc<Fixture>) {
    let long = "k".repeat(KEY_BYTES_MAX);
    let long_too = format!("{}!", "k".repeat(KEY_BYTES_MAX - 1));
    let keys = [
        "a", "A", "ä", "a\u{308}", "a ", " a", "0", "00", "null", "NULL", "'", "\"", "\\", "%",
        "_", "😀", "ی", "a/b", &long, &long_too,
    ];
    let wishes = keys.iter().map(|text| fx.keyed(RENDER, text)).collect();
    let stored = fx.enqueue(wishes).await;
    for (text, one) in keys.iter().zip(&stored) {
        assert!(!one.coalesced, "{text:?} met another key");
        assert_eq!(fx.waiting(one.id).await.facts.key, Some(key(text)));
        assert_eq!(fx.join(fx.keyed(RENDER, text)).await, one.id, "{text:?}");
    }
    let long_kind = "k".repeat(KIND_BYTES_MAX);
    let id = fx.put(fx.wish(&long_kind)).await;
    assert_eq!(fx.claim_one(&long_kind).await.facts.kind, kind(&long_kind));
    assert_eq!(fx.state(id).await, JobState::Processing);
}

pub async fn the_ends_of_every_range_can_be_stored(fx: &Arc<Fixture>) {
    let ends = [
        (PRIORITY_MAX, Timestamp::EPOCH, Some(1)),
        (-PRIORITY_MAX, Timestamp::MAX, Some(i32::MAX.unsigned_abs())),
        (0, fx.now(), None),
    ];
    for (priority, run_at, max_attempts) in ends {
        let wish = NewJob { priority, run_at, max_attempts, ..fx.wish(RENDER) };
        let id = fx.put(wish.clone()).await;
        let expected = first_wait(id, wish, fx.now());
        assert_eq!(fx.waiting(id).await, expected);
    }
    assert_eq!(fx.claim(RENDER, 10).await.len(), 2);
}

/// Claims the one waiting job, reports the value as its progress and result, and compares.
async fn assert_carried_to_the_end(fx: &Arc<Fixture>, value: &Json) {
    let job = fx.claim_one(RENDER).await;
    assert_eq!(&job.facts.payload, value, "as claimed");
    fx.heartbeat_with(job.lease_ref(), None, Some(value.clone())).await;
    let running = fx.running(job.facts.id).await;
    assert_eq!(&running.progress.expect("progress").0, value);
    assert_eq!(&running.facts.payload, value, "while it runs");
    let result = value.clone();
    fx.land(job.lease_ref(), Outcome::Done { result }).await;
    let finished = fx.finished(job.facts.id).await;
    assert_eq!(&finished.facts.payload, value, "when it is over");
    assert_eq!(&finished.progress.expect("progress").0, value);
    let result = value.clone();
    assert_eq!(finished.state, FinishedState::Completed { result });
}
