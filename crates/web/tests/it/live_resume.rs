//! Coming back to `/ws`: nothing is missed and nothing is told twice.

use serde_json::{Value, json};

use crate::app::App;
use crate::app_bots::MEET;
use crate::app_transcripts::{AT_MEET, said};

fn since(seq: i64) -> Value {
    let meeting = json!({"platform": "google_meet", "native_id": MEET, "since": seq});
    json!({"action": "subscribe", "meetings": [meeting]})
}

#[tokio::test]
async fn a_client_that_comes_back_gets_exactly_what_it_missed() {
    let app = App::new();
    let running = app.serve().await;
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
    let running = app.serve().await;
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

    let mut lines = std::collections::BTreeMap::new();
    for segment in before["segments"].as_array().unwrap() {
        let text = (segment["text"].clone(), segment["speaker"].clone());
        lines.insert(segment["absolute_start_time"].as_str().unwrap().to_owned(), text);
    }
    loop {
        let frame = socket.next().await;
        for segment in frame["payload"]["segments"].as_array().unwrap() {
            let text = (segment["text"].clone(), segment["speaker"].clone());
            lines.insert(segment["absolute_start_time"].as_str().unwrap().to_owned(), text);
        }
        if frame["seq"] == after["seq"] {
            break;
        }
    }
    let shown: Vec<_> = after["segments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|segment| (segment["text"].clone(), segment["speaker"].clone()))
        .collect();
    assert_eq!(lines.into_values().collect::<Vec<_>>(), shown);
}

#[tokio::test]
async fn a_place_that_is_gone_is_answered_with_the_whole() {
    let app = App::new();
    let running = app.serve().await;
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
