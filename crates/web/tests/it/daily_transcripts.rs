//! What was said in a video room is read, searched, saved, shared and listened to like all else; only
//! bots do not go there.

use std::time::Duration;

use roundsman_core::bots::{MeetingGrant, MeetingId};
use roundsman_core::ports::{Clock, PresenceStore, Scope};
use serde_json::{Value, json};

use crate::app::{App, Client};
use crate::app_presence::ROOM;
use crate::app_transcripts::{Producer, said, texts};

const AT_ROOM: &str = "/transcripts/daily/weekly-sync";

/// A meeting in a room in which something was said.
async fn told(app: &App) -> (Client, i64) {
    let ada = app.user("ada@example.org").await;
    let id = app.open(&ada, ROOM).await;
    let meeting = app.store.presence_meeting(Scope::All, MeetingId::new(id)).await.unwrap();
    let grant = MeetingGrant {
        meeting_id: MeetingId::new(id),
        user_id: meeting.unwrap().user_id,
        platform: "daily".to_owned(),
        native_meeting_id: ROOM.to_owned(),
    };
    let now = app.clock.now();
    let token = app.meeting_tokens.sign(&grant, now, now + Duration::from_secs(7200), "jti");
    let uid = "recording:rec-1".to_owned();
    let producer = Producer { client: app.client(), token, meeting_id: id, uid };
    producer.start().await;
    producer.say(&[said(1.0, "Ada", "the budget of next year")]).await;
    (ada, id)
}

#[tokio::test]
async fn a_transcript_of_a_room_is_read_like_all_others() {
    let app = App::new();
    let (ada, id) = told(&app).await;
    let read = ada.get(AT_ROOM).await.expect(200).body;
    assert_eq!((&read["id"], texts(&read)), (&json!(id), vec!["the budget of next year"]));
    assert_eq!((&read["platform"], &read["native_meeting_id"]), (&json!("daily"), &json!(ROOM)));
    assert_eq!((&read["status"], &read["state"]), (&json!("active"), &json!("open")));
    assert_eq!(read["constructed_meeting_url"], Value::Null);
    assert_eq!(ada.get(&format!("{AT_ROOM}?meeting_id={id}")).await.expect(200).body, read);
    assert_eq!(ada.get(&format!("/transcripts/by-id/{id}")).await.expect(200).body, read);
    for format in ["txt", "srt", "vtt", "json", "csv", "md"] {
        let file = ada.get(&format!("{AT_ROOM}/export?format={format}")).await.expect(200);
        assert!(file.text.contains("budget"), "{format}");
        let name = format!("filename=\"transcript-daily-weekly-sync.{format}\"");
        assert!(file.header("content-disposition").contains(&name), "{format}");
    }
    let found = ada.get("/transcripts/search?q=budget").await.expect(200).body;
    assert_eq!(found["results"][0]["platform"], "daily");
    let shared = ada.post(&format!("{AT_ROOM}/share"), json!({})).await.expect(200).body;
    let link = format!("/public/transcripts/{}.txt", shared["share_id"].as_str().unwrap());
    assert!(app.client().get(&link).await.expect(200).text.contains("budget"));
    let renamed = json!({"from": "Ada", "to": "Lady Lovelace"});
    ada.patch(&format!("{AT_ROOM}/speakers"), renamed).await.expect(200);
    let segments = ada.get(AT_ROOM).await.expect(200).body["segments"].clone();
    assert_eq!(segments[0]["speaker"], "Lady Lovelace");

    let bob = app.user("bob@example.org").await;
    let words = "Meeting not found for platform daily and ID weekly-sync";
    bob.get(AT_ROOM).await.expect_detail(404, "not_found", words);
    ada.call(axum::http::Method::POST, &format!("/presence/meetings/{id}/deactivate"))
        .await
        .expect(200);
    let over = ada.get(AT_ROOM).await.expect(200).body;
    assert_eq!((&over["status"], &over["state"]), (&json!("completed"), &json!("completed")));
    ada.delete(AT_ROOM).await.expect(200);
    assert_eq!(texts(&ada.get(AT_ROOM).await.expect(200).body), Vec::<&str>::new());
}

#[tokio::test]
async fn a_room_is_listened_to_like_all_others() {
    let app = App::new();
    let (ada, id) = told(&app).await;
    let running = app.serve();
    let key = app.token("ada@example.org", &[]).await;
    let mut listener = running.socket(&format!("/ws?api_key={key}"), &[]).await;
    let wanted = json!({"platform": "daily", "native_id": ROOM});
    listener.send(json!({"action": "subscribe", "meetings": [wanted]})).await;
    let answer = listener.next().await;
    assert_eq!(
        (&answer["type"], &answer["meetings"][0]["meeting_id"]),
        (&json!("subscribed"), &json!(id))
    );
    let ask = |name: &str| json!({"meetings": [{"platform": "daily", "native_meeting_id": name}]});
    let path = "/ws/authorize-subscribe";
    let may = ada.post(path, ask(ROOM)).await.expect(200).body;
    assert_eq!(may["authorized"][0]["meeting_id"], id.to_string());
    let refused = ada.post(path, ask("a b")).await;
    let place = json!(["body", "meetings", 0, "native_meeting_id"]);
    refused.expect_invalid(&place, "invalid native_meeting_id for platform 'daily'");
}

#[tokio::test]
async fn rooms_are_among_the_users_meetings() {
    let app = App::new();
    let (ada, id) = told(&app).await;
    let bot = app.start_bot(&ada, crate::app_bots::MEET).await;
    let listed = ada.get("/meetings?platform=daily").await.expect(200).body;
    let ids: Vec<i64> = listed["meetings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|meeting| meeting["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, [id]);
    assert_eq!(app.meeting_ids(&ada).await, [bot.meeting_id, id]);
    let shown = ada.get("/meetings/daily/weekly-sync").await.expect(200).body;
    assert_eq!((&shown["id"], &shown["status"]), (&json!(id), &json!("active")));
    let named = json!({"data": {"name": "Weekly"}});
    let changed = ada.patch("/meetings/daily/weekly-sync", named).await.expect(200).body;
    assert_eq!(changed["data"]["name"], "Weekly");
    let going_on = ada.delete("/meetings/daily/weekly-sync").await;
    going_on.expect_problem(409, "wrong_state");
    assert!(going_on.text.contains("Current status: active"), "{}", going_on.text);
}

#[tokio::test]
async fn no_bot_goes_into_a_room() {
    let app = App::new();
    let (ada, _) = told(&app).await;
    let wish = json!({"platform": "daily", "native_meeting_id": ROOM});
    for refused in [
        ada.post("/bots/start", wish.clone()).await,
        ada.post("/bots/stop", wish.clone()).await,
        ada.put("/bots/config", wish.clone()).await,
    ] {
        refused.expect_problem(422, "invalid_request");
        assert_eq!(refused.body["errors"][0]["field"], "platform");
    }
    let permitted = "permitted: 'google_meet', 'zoom', 'teams'";
    ada.post("/bots", wish).await.expect_invalid(&json!(["body", "platform"]), permitted);
    for refused in [
        ada.delete("/bots/daily/weekly-sync").await,
        ada.put("/bots/daily/weekly-sync/config", json!({})).await,
    ] {
        refused.expect_invalid(&json!(["path", "platform"]), permitted);
    }
}
