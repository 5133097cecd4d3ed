//! What producers send over HTTP.

use roundsman_core::ports::Database;
use serde_json::{Value, json};

use crate::app::App;
use crate::app_transcripts::{AT_MEET, said, texts};

const PATH: &str = "/ingest/transcription";

#[tokio::test]
async fn a_message_is_taken_and_what_it_changed_is_told() {
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let first = producer.say(&[said(1.0, "Ada", "one"), said(3.0, "Ada", "two")]).await;
    let seq = first["seq"].as_i64().unwrap();
    assert_eq!(
        first,
        json!({"accepted": 2, "changed": 2, "refused": [], "seq": seq, "warnings": []})
    );
    let again = producer.say(&[said(1.0, "Ada", "one"), said(3.0, "Ada", "two")]).await;
    let expected = json!({"accepted": 2, "changed": 0, "refused": [], "seq": null, "warnings": []});
    assert_eq!(again, expected);
    let mixed = json!([said(5.0, "Ada", "three"), {"start": "NaN", "end": 1, "text": "x"}, 7]);
    let answer = producer.send(json!({"segments": mixed})).await.expect(200).body;
    assert_eq!((&answer["accepted"], &answer["seq"]), (&json!(1), &json!(seq + 1)));
    let refused = json!([{"index": 1, "reason": "start is no time within a day"},
        {"index": 2, "reason": "not an object"}]);
    assert_eq!(answer["refused"], refused);
    assert_eq!(texts(&ada.get(AT_MEET).await.expect(200).body), ["one", "two", "three"]);
    producer.send(json!({"type": "session_end"})).await.expect(200);
    let late = producer.say(&[said(7.0, "Ada", "late")]).await;
    assert_eq!(late["changed"], 1, "what comes late is taken");
}

#[tokio::test]
async fn a_token_may_be_beside_the_message() {
    let app = App::new();
    let (_, bot, producer) = app.meeting_of("ada@example.org").await;
    let message = json!({"uid": producer.uid, "segments": [said(1.0, "Ada", "one")]});
    let bearer = app.client().header("authorization", &format!("Bearer {}", producer.token));
    assert_eq!(bearer.post(PATH, message.clone()).await.expect(200).body["changed"], 1);
    // The message's own counts more, good or not.
    let mut other = message.clone();
    other["token"] = json!("wrong");
    bearer.post(PATH, other).await.expect_problem(401, "unauthorized");
    let wrong = app.client().header("authorization", "Bearer wrong");
    let mut own = message.clone();
    own["token"] = json!(producer.token);
    wrong.post(PATH, own).await.expect(200);
    wrong.post(PATH, message.clone()).await.expect_problem(401, "unauthorized");
    app.client().post(PATH, message).await.expect_problem(401, "unauthorized");
    // Neither a user nor a bot is a producer.
    let key = app.token("ada@example.org", &[]).await;
    for token in [key.as_str(), bot.token.as_str(), crate::app::ADMIN_TOKEN] {
        let client = app.client().header("authorization", &format!("Bearer {token}"));
        client.post(PATH, json!({"segments": []})).await.expect_problem(401, "unauthorized");
    }
}

#[tokio::test]
async fn a_session_without_a_name_is_taken_with_a_warning() {
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let message = json!({"token": producer.token, "segments": [said(1.0, "Ada", "nobody's")]});
    let answer = app.client().post(PATH, message).await.expect(200).body;
    assert_eq!(
        (&answer["accepted"], &answer["warnings"]),
        (&json!(1), &json!(["missing_session_uid"]))
    );
    let read = ada.get(AT_MEET).await.expect(200).body;
    let segment = &read["segments"][0];
    assert_eq!(
        (&segment["text"], &segment["absolute_start_time"]),
        (&json!("nobody's"), &Value::Null)
    );
}

#[tokio::test]
async fn what_cannot_be_taken_says_why_to_whoever_has_a_token() {
    let app = App::new();
    let (_, _, producer) = app.meeting_of("ada@example.org").await;
    let cases = [
        (json!({"type": "dance"}), "dance"),
        (json!({"type": 7}), "type"),
        (json!({}), "segments"),
        (json!({"segments": {}}), "segments"),
        (json!({"uid": 7, "segments": []}), "uid"),
        (json!({"type": "session_start", "uid": ""}), "uid"),
        (json!({"type": "session_start"}), "start_timestamp"),
        (json!({"type": "session_start", "start_timestamp": "soon"}), "start_timestamp"),
        (json!({"segments": vec![json!({}); 1001]}), "too many"),
    ];
    for (message, part) in cases {
        let refused = producer.send(message.clone()).await;
        refused.expect_problem(422, "invalid_request");
        assert!(refused.text.contains(part), "{part}: {}", refused.text);
        let stranger = app.client().post(PATH, message).await;
        stranger.expect_problem(401, "unauthorized");
        let words = "Send the meeting's token in the message, or in Authorization as Bearer.";
        assert_eq!(stranger.body["detail"], words, "and nothing else");
    }
    for text in ["", "{", "7", "nope", "{} {}", "[1,", "\"x\""] {
        app.client().post_text(PATH, text).await.expect_problem(400, "invalid_json");
    }
    app.client().post_text(PATH, b"\xff".to_vec()).await.expect_problem(400, "invalid_json");
    let plain = app.client().header("content-type", "text/plain");
    let refused = plain.send(axum::http::Method::POST, PATH, "{}".into()).await;
    refused.expect_problem(415, "unsupported_media_type");
    let large = vec![b' '; crate::app::BODY_BYTES_MAX + 1];
    app.client().post_text(PATH, large).await.expect_problem(413, "too_large");
}

#[tokio::test]
async fn a_meeting_that_is_not_there_takes_nothing() {
    let app = App::new();
    let (_, _, producer) = app.meeting_of("ada@example.org").await;
    let mut grant = app.grant(producer.meeting_id).await;
    let sign = |grant: &roundsman_core::bots::MeetingGrant| {
        let now = roundsman_core::ports::Clock::now(app.clock.as_ref());
        app.meeting_tokens.sign(grant, now, now + std::time::Duration::from_secs(60), "jti")
    };
    let say = |token: String| {
        let message = json!({"token": token, "uid": "u", "segments": [said(1.0, "Eve", "x y z")]});
        let client = app.client();
        async move { client.post(PATH, message).await }
    };
    grant.meeting_id = roundsman_core::bots::MeetingId::new(999);
    say(sign(&grant)).await.expect_detail(422, "invalid_request", "There is no such meeting.");
    let mut grant = app.grant(producer.meeting_id).await;
    grant.user_id = roundsman_core::users::UserId::new(999);
    say(sign(&grant)).await.expect_detail(422, "invalid_request", "There is no such meeting.");
    app.store.close().await;
    say(producer.token.clone()).await.expect_problem(503, "storage_unavailable");
}

#[tokio::test]
async fn a_list_is_answered_message_by_message() {
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let uid = "another-session";
    let message = |message: Value| {
        let mut message = producer.message(message);
        message["uid"] = json!(uid);
        message
    };
    let stranger = json!({"uid": uid, "segments": [said(9.0, "Eve", "from nobody")]});
    let list = json!([
        message(json!({"type": "session_start", "start_timestamp": "2026-01-31T13:00:00Z"})),
        message(json!({"segments": [said(1.0, "Ada", "first"), {}]})),
        stranger,
        message(json!({"segments": [said(1.0, "Ada", "first, corrected")]})),
        message(json!({"type": "dance"})),
        7,
    ]);
    let answer = app.client().post(PATH, list).await.expect(200).body;
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 6);
    assert_eq!(
        (&results[1]["accepted"], &results[1]["refused"][0]["index"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(results[2]["error"], "unauthorized");
    assert_eq!(results[3]["changed"], 1);
    assert_eq!(results[4]["error"], "invalid_request");
    assert_eq!(results[5]["error"], "invalid_json");
    let read = ada.get(AT_MEET).await.expect(200).body;
    assert_eq!(texts(&read), ["first, corrected"], "in the order of the list");
    assert_eq!(read["segments"][0]["absolute_start_time"], "2026-01-31T13:00:01.000000+00:00");

    assert_eq!(app.client().post(PATH, json!([])).await.expect(200).body, json!({"results": []}));
    let strangers = json!([{"segments": []}, {"segments": []}]);
    app.client().post(PATH, strangers).await.expect_problem(401, "unauthorized");
    let many = Value::from(vec![json!(1); 1001]);
    app.client().post(PATH, many).await.expect_problem(422, "invalid_request");
}

#[tokio::test]
async fn a_long_list_is_taken_in_order() {
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let list: Vec<Value> = (0..100)
        .map(|round| {
            let text = format!("version {round}");
            producer.message(json!({"segments": [said(1.0, "Ada", &text)]}))
        })
        .collect();
    let answer = app.client().post(PATH, Value::from(list)).await.expect(200).body;
    assert!(answer["results"].as_array().unwrap().iter().all(|result| result["changed"] == 1));
    assert_eq!(texts(&ada.get(AT_MEET).await.expect(200).body), ["version 99"]);
}

#[tokio::test]
async fn whoever_tries_tokens_is_held_back_and_whoever_has_one_is_not() {
    let app = App::new();
    let (_, _, producer) = app.meeting_of("ada@example.org").await;
    for _ in 0..120 {
        app.client().post(PATH, json!({"token": "x"})).await.expect_problem(401, "unauthorized");
    }
    let held = app.client().post(PATH, json!({"token": "x"})).await;
    held.expect_problem(429, "too_many_refusals");
    producer.say(&[said(1.0, "Ada", "still heard")]).await;
}

/// Each may be as large as a message, and there may be many.
#[tokio::test]
async fn a_list_of_large_messages_ends_early() {
    use roundsman_core::ports::{Clock, NewDeadLetter, TranscriptStore};
    use roundsman_core::transcripts::DEAD_LETTER_BYTES_MAX;
    let app = App::new();
    for number in 0..6 {
        let letter = NewDeadLetter {
            source: "transcription_segments".to_owned(),
            entry: number.to_string(),
            reason: "for a test".to_owned(),
            deliveries: 5,
            payload: "x".repeat(DEAD_LETTER_BYTES_MAX),
        };
        app.store.put_dead_letters(vec![letter], app.clock.now()).await.unwrap();
    }
    let (mut entries, mut pages, mut path) = (Vec::new(), 0, "/ingest/dead-letters".to_owned());
    loop {
        let page = app.admin().get(&path).await.expect(200);
        assert!(page.text.len() < 5 * DEAD_LETTER_BYTES_MAX, "{}", page.text.len());
        let letters = page.body["dead_letters"].as_array().unwrap().iter();
        entries.extend(letters.map(|letter| letter["entry"].as_str().unwrap().to_owned()));
        pages += 1;
        match page.body["next_before"].as_i64() {
            Some(before) => path = format!("/ingest/dead-letters?before={before}"),
            None => break,
        }
    }
    assert_eq!((pages, entries), (2, ["5", "4", "3", "2", "1", "0"].map(str::to_owned).to_vec()));
}

#[tokio::test]
async fn the_operator_looks_after_messages_that_could_not_be_taken() {
    use roundsman_core::ports::{NewDeadLetter, TranscriptStore};
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let letter = |entry: &str, payload: Value| NewDeadLetter {
        source: "transcription_segments".to_owned(),
        entry: entry.to_owned(),
        reason: "for a test".to_owned(),
        deliveries: 5,
        payload: payload.to_string(),
    };
    let good = producer.message(json!({"segments": [said(1.0, "Ada", "taken after all")]}));
    let letters = vec![letter("1-0", good), letter("2-0", json!({"token": "x", "segments": []}))];
    let now = roundsman_core::ports::Clock::now(app.clock.as_ref());
    app.store.put_dead_letters(letters, now).await.unwrap();

    let admin = app.admin();
    let listed = admin.get("/ingest/dead-letters").await.expect(200).body;
    let (bad, good) = (&listed["dead_letters"][0], &listed["dead_letters"][1]);
    assert_eq!((&good["entry"], &good["deliveries"]), (&json!("1-0"), &json!(5)));
    assert!(good["payload"].as_str().unwrap().contains("taken after all"));
    let page = admin.get("/ingest/dead-letters?limit=1").await.expect(200).body;
    assert_eq!(
        (&page["dead_letters"][0]["entry"], &page["next_before"]),
        (&json!("2-0"), &bad["id"])
    );

    let replay = |id: &Value| format!("/ingest/dead-letters/{id}/replay");
    let taken = admin.post(&replay(&good["id"]), json!({})).await.expect(200).body;
    assert_eq!((&taken["accepted"], &taken["changed"]), (&json!(1), &json!(1)));
    assert_eq!(texts(&ada.get(AT_MEET).await.expect(200).body), ["taken after all"]);
    admin.post(&replay(&good["id"]), json!({})).await.expect_problem(404, "not_found");
    admin.post(&replay(&bad["id"]), json!({})).await.expect_problem(422, "invalid_request");
    let path = format!("/ingest/dead-letters/{}", bad["id"]);
    ada.delete(&path).await.expect_problem(403, "forbidden");
    ada.get("/ingest/dead-letters").await.expect_problem(403, "forbidden");
    app.client().get("/ingest/dead-letters").await.expect_problem(401, "unauthorized");
    admin.delete(&path).await.expect(204);
    admin.delete(&path).await.expect_problem(404, "not_found");
    assert_eq!(admin.get("/ingest/dead-letters").await.expect(200).body["dead_letters"], json!([]));
}
