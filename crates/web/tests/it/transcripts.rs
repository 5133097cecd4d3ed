//! Transcripts as clients of the Vexa API read them, all of them or what is new.

use serde_json::{Value, json};

use crate::app::App;
use crate::app_bots::MEET;
use crate::app_transcripts::{AT_MEET, NOT_FOUND, said, texts};

#[tokio::test]
async fn a_transcript_is_read_in_the_shape_that_clients_know() {
    let app = App::new();
    let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
    let first = json!({"start": "12.340", "end": "15.100", "text": "Good morning.",
        "speaker": "Ada", "language": "en", "completed": true, "segment_id": "s-1"});
    producer.say(&[said(20.0, "Bob", "Hello Ada"), first]).await;
    let read = ada.get(AT_MEET).await.expect(200).body;
    assert_eq!(read["id"], bot.meeting_id);
    assert_eq!(
        (&read["platform"], &read["native_meeting_id"]),
        (&json!("google_meet"), &json!(MEET))
    );
    assert_eq!(read["constructed_meeting_url"], "https://meet.google.com/abc-defg-hij");
    assert_eq!((&read["status"], &read["state"]), (&json!("requested"), &json!("reserved")));
    assert_eq!((&read["start_time"], &read["end_time"]), (&Value::Null, &Value::Null));
    assert_eq!(texts(&read), ["Good morning.", "Hello Ada"], "in the order they were said");
    let segment = &read["segments"][0];
    assert_eq!((&segment["start"], &segment["end"]), (&json!(12.34), &json!(15.1)));
    assert_eq!(segment["absolute_start_time"], "2026-01-31T12:00:12.340000+00:00");
    assert_eq!(segment["absolute_end_time"], "2026-01-31T12:00:15.100000+00:00");
    assert_eq!((&segment["speaker"], &segment["language"]), (&json!("Ada"), &json!("en")));
    assert_eq!((&segment["completed"], &segment["segment_id"]), (&json!(true), &json!("s-1")));
    assert_eq!((&read["more"], &read["retracted"]), (&json!(false), &json!([])));
    assert_eq!(read["next_since"], read["seq"]);

    let by_id = ada.get(&format!("/transcripts/by-id/{}", bot.meeting_id)).await.expect(200);
    assert_eq!(by_id.body, read);
    let by_both = ada.get(&format!("{AT_MEET}?meeting_id={}", bot.meeting_id)).await.expect(200);
    assert_eq!(by_both.body, read);
    let listed = ada.get(&format!("/internal/transcripts/{}", bot.meeting_id)).await.expect(200);
    assert_eq!(listed.body, read["segments"]);
}

#[tokio::test]
async fn nobody_reads_anybody_elses_transcript() {
    let app = App::new();
    let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Ada", "for me alone")]).await;
    let bob = app.user("bob@example.org").await;
    let id = bot.meeting_id;
    for path in ["", "/export", "/shares", "/events"] {
        let refused = bob.get(&format!("{AT_MEET}{path}")).await;
        refused.expect_detail(404, "not_found", NOT_FOUND);
        let words =
            format!("Meeting not found for platform google_meet, ID {MEET}, and meeting_id {id}");
        let refused = bob.get(&format!("{AT_MEET}{path}?meeting_id={id}")).await;
        refused.expect_detail(404, "not_found", &words);
    }
    for path in [
        format!("/transcripts/by-id/{id}"),
        format!("/transcripts/by-id/{id}/export"),
        format!("/transcripts/by-id/{id}/events"),
        format!("/internal/transcripts/{id}"),
    ] {
        bob.get(&path).await.expect_detail(404, "not_found", "Meeting not found");
    }
    bob.delete(AT_MEET).await.expect_detail(404, "not_found", NOT_FOUND);
    bob.post(&format!("{AT_MEET}/share"), json!({})).await.expect_problem(404, "not_found");
    let rename = json!({"from": "Ada", "to": "Bob"});
    bob.patch(&format!("{AT_MEET}/speakers"), rename).await.expect_problem(404, "not_found");
    assert_eq!(bob.get("/transcripts/search?q=alone").await.expect(200).body["results"], json!([]));
    assert_eq!(texts(&ada.get(AT_MEET).await.expect(200).body), ["for me alone"]);

    let (missing, wrong) = (app.client(), app.client().header("x-api-key", "wrong"));
    missing.get(AT_MEET).await.expect_detail(403, "forbidden", "Missing API token");
    wrong.get(AT_MEET).await.expect_detail(403, "forbidden", "Invalid API token");
    app.admin().get(AT_MEET).await.expect_problem(403, "forbidden");
}

#[tokio::test]
async fn a_number_must_be_at_its_address() {
    let app = App::new();
    let (ada, first, _) = app.meeting_of("ada@example.org").await;
    first.exit().await;
    let second = app.start_bot(&ada, MEET).await;
    app.producer(&second).await.say(&[said(1.0, "Ada", "second")]).await;
    assert_eq!(ada.get(AT_MEET).await.expect(200).body["id"], second.meeting_id, "the latest");
    let path = format!("{AT_MEET}?meeting_id={}", first.meeting_id);
    assert_eq!(ada.get(&path).await.expect(200).body["id"], first.meeting_id);
    let elsewhere = format!("/transcripts/zoom/1234567890?meeting_id={}", first.meeting_id);
    for refused in [
        ada.get(&elsewhere).await,
        ada.delete(&elsewhere).await,
        ada.get(&format!("{AT_MEET}?meeting_id=999")).await,
    ] {
        refused.expect_problem(404, "not_found");
    }
    ada.get(&format!("{AT_MEET}?meeting_id=x"))
        .await
        .expect_invalid(&json!(["query", "meeting_id"]), "");
    ada.get("/transcripts/webex/1").await.expect_invalid(&json!(["path", "platform"]), "");
    ada.get("/transcripts/by-id/x").await.expect_invalid(&json!(["path", "id"]), "");
}

#[tokio::test]
async fn what_is_new_is_read_in_parts() {
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Ada", "one"), said(3.0, "Ada", "two")]).await;
    producer.say(&[said(5.0, "Ada", "three")]).await;
    producer.say(&[said(7.0, "Ada", "four")]).await;
    producer.say(&[said(1.0, "Ada", "one, again")]).await;

    let mut since = None::<i64>;
    let mut known: std::collections::BTreeMap<String, Value> = std::collections::BTreeMap::new();
    let mut parts = Vec::new();
    loop {
        let since_text = since.map_or_else(String::new, |seq| format!("&since={seq}"));
        let part = ada.get(&format!("{AT_MEET}?limit=1{since_text}")).await.expect(200).body;
        parts.push(part["segments"].as_array().unwrap().len());
        for segment in part["segments"].as_array().unwrap() {
            let key = segment["absolute_start_time"].as_str().unwrap().to_owned();
            known.insert(key, segment.clone());
        }
        since = part["next_since"].as_i64();
        if part["more"] == json!(false) {
            break;
        }
    }
    assert_eq!(parts, [1, 1, 1, 1], "what one frame told of is never cut in two, and told once");
    let whole = ada.get(AT_MEET).await.expect(200).body;
    assert_eq!(json!(known.into_values().collect::<Vec<_>>()), whole["segments"]);
    assert_eq!(since, whole["seq"].as_i64());

    let nothing = ada.get(&format!("{AT_MEET}?since={}", since.unwrap())).await.expect(200).body;
    assert_eq!((&nothing["segments"], &nothing["more"]), (&json!([]), &json!(false)));
    for (query, field) in [
        ("since=-1", "since"),
        ("since=x", "since"),
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("dedupe=perhaps", "dedupe"),
    ] {
        let refused = ada.get(&format!("{AT_MEET}?{query}")).await;
        refused.expect_invalid(&json!(["query", field]), "");
    }
}

#[tokio::test]
async fn what_overlaps_and_says_the_same_is_read_once() {
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let again = json!({"start": 1.2, "end": 2.0, "text": "same words", "speaker": "Ada",
        "segment_id": "b"});
    let other = json!({"start": 1.3, "end": 2.0, "text": "same words", "speaker": "Bob",
        "segment_id": "c"});
    let first = json!({"start": 1.0, "end": 2.5, "text": "same words", "speaker": "Ada",
        "segment_id": "a"});
    producer.say(&[first, again, other]).await;
    let speakers = |read: &Value| -> Vec<String> {
        let segments = read["segments"].as_array().unwrap();
        segments.iter().map(|segment| segment["speaker"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(speakers(&ada.get(AT_MEET).await.expect(200).body), ["Ada", "Bob"]);
    let all = ada.get(&format!("{AT_MEET}?dedupe=false")).await.expect(200).body;
    assert_eq!(speakers(&all), ["Ada", "Ada", "Bob"]);
    let new = ada.get(&format!("{AT_MEET}?since=0")).await.expect(200).body;
    assert_eq!(speakers(&new).len(), 3, "whoever reads changes needs every one of them");
}

#[tokio::test]
async fn who_has_the_same_already_is_told_so() {
    let app = App::new();
    let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Ada", "hello everybody")]).await;
    let first = ada.get(AT_MEET).await.expect(200);
    let tag = first.header("etag").to_owned();
    let id = bot.meeting_id;
    let begin = format!("W/\"{id}-{}-", first.body["seq"]);
    assert!(tag.starts_with(&begin), "{tag}");
    assert_eq!(first.header("cache-control"), "private, no-cache");
    for known in [tag.clone(), tag.trim_start_matches("W/").to_owned(), format!("\"x\", {tag}")] {
        let same = ada.clone().header("if-none-match", &known).get(AT_MEET).await.expect(304);
        assert_eq!((same.text.as_str(), same.header("etag")), ("", tag.as_str()));
    }
    let knows = ada.clone().header("if-none-match", &tag);
    knows.get(&format!("{AT_MEET}?since=0")).await.expect(200);
    knows.get(&format!("{AT_MEET}?dedupe=false")).await.expect(200);
    producer.say(&[said(1.0, "Ada", "hello everybody")]).await;
    knows.get(AT_MEET).await.expect(304);
    producer.say(&[said(1.0, "Ada", "hello everybody here")]).await;
    knows.get(AT_MEET).await.expect(200);
    let tag = ada.get(AT_MEET).await.expect(200).header("etag").to_owned();
    let knows = ada.clone().header("if-none-match", &tag);
    bot.join().await;
    knows.get(AT_MEET).await.expect(200);
}

#[tokio::test]
async fn the_description_of_a_transcript_is_what_is_sent() {
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Ada", "hello everybody")]).await;
    let read = ada.get(AT_MEET).await.expect(200).body;
    let document: Value = serde_json::from_str(&roundsman_web::openapi_json()).unwrap();
    let described = |name: &str| -> Vec<String> {
        let properties = &document["components"]["schemas"][name]["properties"];
        properties.as_object().unwrap().keys().cloned().collect()
    };
    let sent =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(described("Transcript"), sent(&read));
    assert_eq!(described("Segment"), sent(&read["segments"][0]));
}

#[tokio::test]
async fn a_service_asks_which_meetings_a_user_may_listen_to() {
    let app = App::new();
    let (ada, bot, _) = app.meeting_of("ada@example.org").await;
    let ask = |meetings: Value| json!({"meetings": meetings});
    let meet = json!({"platform": "google_meet", "native_meeting_id": MEET});
    let zoom = json!({"platform": "zoom", "native_meeting_id": "1234567890"});
    let path = "/ws/authorize-subscribe";
    let answer = ada.post(path, ask(json!([meet, zoom]))).await.expect(200).body;
    let user = answer["user_id"].as_i64().unwrap();
    let authorized = json!([{"platform": "google_meet", "native_id": MEET,
        "user_id": user.to_string(), "meeting_id": bot.meeting_id.to_string()}]);
    assert_eq!(answer["authorized"], authorized);
    assert_eq!(answer["errors"], json!(["meetings[1] not authorized or not found for user"]));
    let bob = app.user("bob@example.org").await;
    let answer = bob.post(path, ask(json!([meet]))).await.expect(200).body;
    assert_eq!(answer["authorized"], json!([]));

    ada.post(path, ask(json!([]))).await.expect_invalid(&json!(["body", "meetings"]), "");
    ada.post(path, json!({})).await.expect_invalid(&json!(["body", "meetings"]), "required");
    let invalid = json!({"platform": "google_meet", "native_meeting_id": "x"});
    let place = json!(["body", "meetings", 1, "native_meeting_id"]);
    let refused = ada.post(path, ask(json!([meet, invalid]))).await;
    refused.expect_invalid(&place, "invalid native_meeting_id for platform 'google_meet'");
    let unknown = json!({"platform": "webex", "native_meeting_id": "x"});
    let place = json!(["body", "meetings", 0, "platform"]);
    ada.post(path, ask(json!([unknown]))).await.expect_invalid(&place, "");
    app.client().post(path, ask(json!([meet]))).await.expect_problem(403, "forbidden");
}
