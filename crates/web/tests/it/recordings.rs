//! Recordings: how far they are, trying them again, and what people say about them.

use roundsman_core::Timestamp;
use roundsman_core::recordings::{Media, RecordingStatus};
use serde_json::{Value, json};

use crate::app::{App, Client};
use crate::app_presence::{ROOM, event};

const RECORDINGS: &str = "/recordings";

/// Daily announces one.
async fn announce(app: &App, room: &str, id: &str) {
    let payload = json!({"type": "raw-tracks", "room_name": room, "recording_id": id,
        "start_ts": 1_767_225_600, "duration": 61, "status": "finished",
        "tracks": [{"type": "audio", "s3Key": format!("d/{room}/1-a"), "size": 7}]});
    app.daily_tells(&event("recording.ready-to-download", &format!("rtd-{id}"), &payload)).await;
}

async fn ids(client: &Client, query: &str) -> Vec<String> {
    let listed = client.get(&format!("{RECORDINGS}{query}")).await.expect(200).body;
    let recordings = listed["recordings"].as_array().unwrap();
    recordings.iter().map(|recording| recording["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_recording_shows_how_far_it_is() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let meeting = app.open(&ada, ROOM).await;
    announce(&app, ROOM, "rec-1").await;
    let shown = ada.get("/recordings/rec-1").await.expect(200).body;
    let now = "2026-01-01T00:00:00.000000Z";
    assert_eq!(
        shown,
        json!({"id": "rec-1", "number": 1, "meeting_id": meeting, "user_id": shown["user_id"],
            "room": ROOM, "type": "raw-tracks", "started_at": now, "duration_secs": 61.0,
            "tracks": [{"type": "audio", "key": "d/weekly-sync/1-a", "bytes": 7}], "media": [],
            "status": "pending", "error": null, "repeats": 0, "segments": 0, "announced_at": now,
            "updated_at": now, "completed_at": null, "erased_at": null, "erase_error": null})
    );
    app.kept_recordings.change("rec-1", |recording| {
        recording.status = RecordingStatus::Completed;
        recording.erased_at = Some(Timestamp::from_micros(1_767_225_700_000_000));
        recording.media = vec![Media {
            track: "t".to_owned(),
            blob: "b".to_owned(),
            bytes: 7,
            sha256: "00".to_owned(),
        }];
    });
    let shown = ada.get("/recordings/rec-1").await.expect(200).body;
    assert_eq!(
        (&shown["status"], &shown["erased_at"], &shown["media"][0]["bytes"]),
        (&json!("completed"), &json!("2026-01-01T00:01:40.000000Z"), &json!(7))
    );
}

#[tokio::test]
async fn recordings_are_listed_in_pages_for_whom_they_concern() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let meeting = app.open(&ada, ROOM).await;
    app.open(&bob, "of-bob").await;
    for id in ["rec-1", "rec-2", "rec-3"] {
        announce(&app, ROOM, id).await;
    }
    announce(&app, "of-bob", "rec-4").await;
    assert_eq!(ids(&ada, "").await, ["rec-3", "rec-2", "rec-1"]);
    assert_eq!(ids(&bob, "").await, ["rec-4"]);
    assert_eq!(ids(&app.admin(), "").await.len(), 4);
    let page = ada.get(&format!("{RECORDINGS}?limit=2")).await.expect(200).body;
    let next = page["next_before"].as_i64().unwrap();
    assert_eq!(ids(&ada, &format!("?limit=2&before={next}")).await, ["rec-1"]);
    app.kept_recordings.change("rec-2", |recording| recording.status = RecordingStatus::Failed);
    assert_eq!(ids(&ada, "?status=failed").await, ["rec-2"]);
    assert_eq!(ids(&ada, &format!("?meeting_id={meeting}")).await.len(), 3);
    assert_eq!(ids(&ada, "?meeting_id=999").await, Vec::<String>::new());
    for (query, field) in [
        ("status=lost", "status"),
        ("meeting_id=x", "meeting_id"),
        ("limit=0", "limit"),
        ("before=x", "before"),
    ] {
        let refused = ada.get(&format!("{RECORDINGS}?{query}")).await;
        refused.expect_problem(422, "invalid_request");
        assert_eq!(refused.body["errors"][0]["field"], field, "{query}");
    }
    for path in ["/recordings/rec-4", "/recordings/none", "/recordings/%00"] {
        ada.get(path).await.expect_detail(404, "not_found", "Recording not found");
        let again = ada.post(&format!("{path}/retry"), json!({})).await;
        again.expect_detail(404, "not_found", "Recording not found");
    }
}

#[tokio::test]
async fn what_has_failed_is_tried_again() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    app.open(&ada, ROOM).await;
    announce(&app, ROOM, "rec-1").await;
    let retry = async || ada.post("/recordings/rec-1/retry", json!({})).await;
    let refused = retry().await;
    refused.expect_problem(409, "wrong_state");
    assert_eq!(refused.body["state"], "pending");
    app.kept_recordings.change("rec-1", |recording| {
        recording.status = RecordingStatus::Failed;
        recording.error = Some("nobody heard it".to_owned());
    });
    let waits = retry().await.expect(202).body;
    assert_eq!((&waits["id"], &waits["status"]), (&json!("rec-1"), &json!("pending")));
    retry().await.expect_problem(409, "wrong_state");
}

#[tokio::test]
async fn people_say_whether_they_agree() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let id = app.open(&ada, ROOM).await;
    let (say, told) =
        (format!("/presence/meetings/{id}/consent"), format!("/presence/meetings/{id}/consents"));
    let none = ada.get(&told).await.expect(200).body;
    assert_eq!(none, json!({"consents": [], "is_denied": false}));
    let agrees = ada.post(&say, json!({"person": "ada", "given": true})).await.expect(200).body;
    let at = "2026-01-01T00:00:00.000000Z";
    assert_eq!(agrees, json!({"person": "ada", "given": true, "at": at}));
    // As other servers want to be told.
    ada.post(&say, json!({"person": "ada", "consent_given": false})).await.expect(200);
    let nameless = ada.post(&say, json!({"given": true})).await.expect(200).body;
    assert!(nameless["person"].as_str().unwrap().starts_with("anonymous-"), "{nameless}");
    let all = ada.get(&told).await.expect(200).body;
    assert_eq!((all["consents"].as_array().unwrap().len(), &all["is_denied"]), (2, &json!(true)));
    for (body, field) in [
        (json!({}), "body"),
        (json!({"person": "ada"}), "body"),
        (json!({"given": "yes"}), "given"),
        (json!({"given": true, "person": " "}), "person"),
        (json!({"given": true, "person": "a\0"}), "person"),
        (json!({"given": true, "person": "p".repeat(201)}), "person"),
        (json!({"given": true, "user": "x"}), "user"),
    ] {
        let refused = ada.post(&say, body.clone()).await;
        refused.expect_problem(422, "invalid_request");
        assert_eq!(refused.body["errors"][0]["field"], field, "{body}");
    }
    let described = |value: &Value| value.as_object().unwrap().len();
    assert_eq!(described(&all), 2);
}
