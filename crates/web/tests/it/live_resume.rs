//! Coming back to `/ws`: nothing is missed and nothing is told twice.

use std::time::Duration;

use roundsman_core::ports::{Clock, JobStore, PruneRequest};
use serde_json::{Value, json};

use crate::app::App;
use crate::app_live::{Known, lines, since};
use crate::app_transcripts::{AT_MEET, said};

#[tokio::test]
async fn a_client_that_comes_back_gets_exactly_what_it_missed() {
    let app = App::new();
    let running = app.serve();
    let (_, _, producer) = app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    let mut first = running.listen(&key).await;
    first.subscribe().await;
    producer.say(&[said(1.0, "Ada", "one")]).await;
    let heard = first.next().await["seq"].as_i64().unwrap();
    drop(first);
    for (start, text) in [(3.0, "two"), (5.0, "three"), (7.0, "four")] {
        producer.say(&[said(start, "Ada", text)]).await;
    }
    let mut again = running.listen(&key).await;
    let subscribed = again.ask(since(heard)).await;
    assert_eq!(subscribed["meetings"][0]["seq"], heard);
    for (place, text) in (heard + 1..).zip(["two", "three", "four"]) {
        let frame = again.next().await;
        assert_eq!(
            (&frame["seq"], &frame["payload"]["segments"][0]["text"]),
            (&json!(place), &json!(text))
        );
    }
    producer.say(&[said(9.0, "Ada", "five")]).await;
    assert_eq!(again.next().await["seq"], heard + 4);
    again.is_silent().await;

    // Whoever asks again from an earlier place on the same socket hears it again.
    let subscribed = again.ask(since(heard + 2)).await;
    assert_eq!(subscribed["meetings"][0]["seq"], heard + 2);
    assert_eq!(again.next().await["seq"], heard + 3);
    assert_eq!(again.next().await["seq"], heard + 4);
}

#[tokio::test]
async fn a_read_and_the_frames_after_it_are_the_next_read() {
    let app = App::new();
    let running = app.serve();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Ada", "one"), said(3.0, "Ada", "two")]).await;
    let before = ada.get(&format!("{AT_MEET}?dedupe=false")).await.expect(200).body;
    producer.say(&[said(3.0, "Ada", "two, corrected")]).await;
    let mut socket = running.listen(&app.token("ada@example.org", &[]).await).await;
    socket.ask(since(before["seq"].as_i64().unwrap())).await;
    producer.say(&[said(5.0, "Bob", "three")]).await;
    ada.patch(&format!("{AT_MEET}/speakers"), json!({"from": "Bob", "to": "Rob"}))
        .await
        .expect(200);
    let after = ada.get(&format!("{AT_MEET}?dedupe=false")).await.expect(200).body;

    let mut known = Known::at(before["seq"].as_i64().unwrap());
    known.lines = lines(&before["segments"]);
    known.hear_until(&mut socket, after["seq"].as_i64().unwrap()).await;
    assert_eq!(known.lines, lines(&after["segments"]));
}

#[tokio::test]
async fn a_place_that_is_gone_is_answered_with_the_whole() {
    let app = App::new();
    let running = app.serve();
    let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Ada", "one"), said(3.0, "Ada", "two")]).await;
    let seq = ada.get(AT_MEET).await.expect(200).body["seq"].as_i64().unwrap();
    let mut socket = running.listen(&app.token("ada@example.org", &[]).await).await;
    // Nobody was ever given such a place: it is from another life of the database.
    socket.send(since(seq + 1000)).await;
    assert_eq!(socket.next().await["type"], "subscribed");
    let reset = socket.next().await;
    assert_eq!(
        (&reset["type"], &reset["meeting"]["id"]),
        (&json!("transcript.reset"), &json!(bot.meeting_id))
    );
    assert_eq!(reset["payload"]["segments"].as_array().unwrap().len(), 2);
    assert_eq!(reset["seq"], seq);
    producer.say(&[said(5.0, "Ada", "three")]).await;
    assert_eq!(socket.next().await["seq"], seq + 1);
}

/// Frames that were stored until now are kept no longer, as after ten minutes.
async fn forget_frames(app: &App) {
    app.clock.advance(Duration::from_mins(10));
    let never = app.clock.now() - Duration::from_hours(24 * 365);
    let request = PruneRequest {
        completed_before: never,
        failed_before: never,
        cancelled_before: never,
        idempotency_before: never,
        frames_before: app.clock.now(),
        buckets_before: never,
        rows_max: 100_000,
    };
    app.store.prune(request).await.unwrap();
}

/// T-17: whoever was away for too long.
#[tokio::test]
async fn a_place_that_is_too_old_is_answered_with_the_whole() {
    let app = App::new();
    let running = app.serve();
    let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    let mut first = running.listen(&key).await;
    let mut known = Known::at(first.subscribe().await);
    producer.say(&[said(1.0, "Ada", "one"), said(3.0, "Ada", "two")]).await;
    known.apply(&first.next().await);
    let heard = known.seq;
    drop(first);
    for text in ["three", "three and", "three and more"] {
        producer.say(&[said(5.0, "Ada", text)]).await;
    }
    forget_frames(&app).await;

    let mut again = running.listen(&key).await;
    let subscribed = again.ask(since(heard)).await;
    assert_eq!(subscribed["type"], "subscribed");
    let reset = again.next().await;
    assert_eq!(
        (&reset["type"], &reset["meeting"]["id"], &reset["seq"]),
        (&json!("transcript.reset"), &json!(bot.meeting_id), &json!(heard + 3))
    );
    known.apply(&reset);
    let read = |ada: &crate::app::Client| {
        let ada = ada.clone();
        async move { ada.get(&format!("{AT_MEET}?dedupe=false")).await.expect(200).body }
    };
    let shown: Value = read(&ada).await;
    assert_eq!((known.resets, &known.lines), (1, &lines(&shown["segments"])));
    // From there on all is as ever.
    producer.say(&[said(7.0, "Ada", "four")]).await;
    known.hear_until(&mut again, heard + 4).await;
    assert_eq!((known.resets, known.leaps), (1, 0));
    assert_eq!(known.lines, lines(&read(&ada).await["segments"]));
}
