//! Tasks and alarms over HTTP.

use axum::body::Body;
use axum::http::Method;
use roundsman_core::ports::TaskChange;
use roundsman_core::tasks::{KeptFile, Produced, TaskEvent, TaskId};
use serde_json::{Value, json};

use crate::app::{ADMIN_TOKEN, App};
use crate::app_tasks::FILE;

fn wish(project: &str) -> Value {
    json!({"project_id": project, "task_type": "painting", "params": {"prompt": "a cat"}, "node_id": "n1"})
}

#[tokio::test]
async fn a_task_is_made_shown_listed_and_cancelled() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let made = ada.post("/tasks", wish("p/q")).await.expect(201).body;
    let now = "2026-01-01T00:00:00.000000Z";
    assert_eq!(
        made,
        json!({"task_id": "task_1", "project_id": "p/q", "task_type": "painting", "status": "pending",
            "stage": "waiting", "params": {"prompt": "a cat"}, "node_id": "n1",
            "external_service": "painter", "external_task_id": null, "result_url": null,
            "result_data": null, "error": null, "retry_count": 0, "max_retries": 3, "polls": 0,
            "retry_of": null, "created_at": now, "updated_at": now, "completed_at": null,
            "deadline_at": "2026-01-01T02:00:00.000000Z", "next_poll_at": null})
    );
    assert_eq!(ada.get("/tasks/task_1").await.expect(200).body, made);
    assert_eq!(ada.get("/tasks/1").await.expect(200).body, made);
    for path in ["/tasks/task_1", "/tasks/task_9", "/tasks/x"] {
        bob.get(path).await.expect(404);
    }
    bob.post("/tasks", wish("p/q")).await.expect(403);
    bob.post("/tasks/task_1/cancel", json!({})).await.expect(404);
    let second = ada.post("/tasks", wish("p/q")).await.expect(201).body;
    let page = ada.get("/projects/p%2Fq/tasks?limit=1").await.expect(200).body;
    assert_eq!(
        (&page["tasks"][0]["task_id"], &page["next_before"]),
        (&second["task_id"], &json!("task_2"))
    );
    let rest = ada.get("/projects/p%2Fq/tasks?before=task_2").await.expect(200).body;
    assert_eq!((&rest["tasks"][0], &rest["next_before"]), (&made, &Value::Null));
    assert_eq!(bob.get("/projects/p%2Fq/tasks").await.expect(200).body["tasks"], json!([]));
    ada.get("/projects/p/tasks?status=tired").await.expect(422);
    ada.post("/tasks/task_2/retry", json!({})).await.expect(422);
    let over = ada.post("/tasks/task_2/cancel", json!({})).await.expect(200).body;
    assert_eq!(over["status"], "cancelled");
    let failed = ada.get("/projects/p%2Fq/tasks?status=cancelled").await.expect(200).body;
    assert_eq!(failed["tasks"].as_array().unwrap().len(), 1);
    let again = ada.post("/tasks/task_2/retry", json!({})).await.expect(201).body;
    assert_eq!((&again["task_id"], &again["retry_of"]), (&json!("task_3"), &json!("task_2")));
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_in_words() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let unknown = json!({"project_id": "p", "task_type": "dance", "params": {}});
    let refused = ada.post("/tasks", unknown).await.expect(422).body;
    assert_eq!(refused["errors"][0]["field"], "task_type");
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains("painting"), "{refused}");
    let incomplete = json!({"project_id": "p", "task_type": "painting", "params": {}});
    let refused = ada.post("/tasks", incomplete).await.expect(422).body;
    assert_eq!(refused["errors"][0]["message"], "prompt is missing");
    ada.post("/tasks", json!({"project_id": "p"})).await.expect(422);
    let admin = app.client().header("x-admin-api-key", ADMIN_TOKEN);
    admin.post("/tasks", wish("p")).await.expect(403);
}

#[tokio::test]
async fn rooms_hear_other_services_and_generators() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let admin = app.client().header("x-admin-api-key", ADMIN_TOKEN);
    ada.post("/tasks", wish("p")).await.expect(201);
    ada.post("/rooms/p/trigger-task-polling", json!({})).await.expect(403);
    admin.post("/rooms/p/trigger-task-polling", json!({})).await.expect(200);
    let said = json!({"task_id": "task_1", "result_url": "https://example.org/a.png"});
    ada.post("/rooms/p/broadcast-task", said.clone()).await.expect(403);
    admin.post("/rooms/q/broadcast-task", said.clone()).await.expect(404);
    let applied = admin.post("/rooms/p/broadcast-task", said.clone()).await.expect(200).body;
    assert_eq!(
        (&applied["is_applied"], &applied["task"]["status"]),
        (&json!(true), &json!("completed"))
    );
    let again = admin.post("/rooms/p/broadcast-task", said).await.expect(200).body;
    assert_eq!(again["is_applied"], false);

    let stranger = app.client();
    let signed = app.client().header("x-signature", "good");
    let hook = async |client: &crate::app::Client, path: &str, body: &'static str| {
        client.send(Method::POST, path, Body::from(body)).await
    };
    hook(&stranger, "/webhooks/painter", "x1").await.expect(401);
    hook(&signed, "/webhooks/nobody", "x1").await.expect(404);
    hook(&signed, "/webhooks/painter", "").await.expect(422);
    let heard = hook(&signed, "/webhooks/painter", "x1").await.expect(200).body;
    assert_eq!(heard, json!({"success": true, "is_known": false}));
}

#[tokio::test]
async fn files_are_for_whoever_has_their_address() {
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    ada.post("/tasks", wish("p")).await.expect(201);
    let store = &app.task_work.tasks;
    let task = store.tasks_by_id(vec![TaskId::new(1)]).await.unwrap().remove(0);
    let kept = |blob: &str| KeptFile {
        blob: blob.to_owned(),
        bytes: FILE.len() as u64,
        sha256: "x".to_owned(),
        media_type: Some("image/png".to_owned()),
    };
    let files = vec![kept("here"), kept("gone")];
    let event = TaskEvent::Produced(Produced { files, ..Produced::default() });
    let change = TaskChange::new(task.id, event, app.task_work.options.rules);
    store.change_task(change, task.created_at).await.unwrap();
    let stranger = app.client();
    let address = format!("/results/{}", task.result_key);
    let file = stranger.get(&format!("{address}/0")).await.expect(200);
    assert_eq!(file.text.as_bytes(), FILE);
    for (name, value) in [("content-type", "image/png"), ("x-content-type-options", "nosniff")] {
        assert_eq!(file.headers[name], value);
    }
    for missing in [format!("{address}/1"), format!("{address}/2"), "/results/no/0".to_owned()] {
        stranger.get(&missing).await.expect(404);
    }
}

#[tokio::test]
async fn alarms_are_set_shown_and_taken_back() {
    let app = App::new();
    let (ada, bob) = (app.user("ada@example.org").await, app.user("bob@example.org").await);
    let alarm = json!({"name": "remind", "after_secs": 30, "payload": {"to": "ada"}});
    let shown = ada.post("/rooms/p/alarms", alarm.clone()).await.expect(200).body;
    assert_eq!(
        shown,
        json!({"alarm_type": "idle", "alarms": [{"name": "remind", "at": "2026-01-01T00:00:30.000000Z",
            "payload": {"to": "ada"}, "is_firing": false, "attempts_failed": 0, "is_failing": false,
            "last_error": null}]})
    );
    let later = json!({"name": "remind", "at": "2026-01-02T00:00:00Z", "mode": "replace"});
    let moved = ada.post("/rooms/p/alarms", later).await.expect(200).body;
    assert_eq!(moved["alarms"][0]["at"], "2026-01-02T00:00:00.000000Z");
    for (wrong, field) in [
        (json!({"name": "snapshot", "after_secs": 1}), "name"),
        (json!({"name": "a"}), "at"),
        (json!({"name": "a", "at": "tomorrow"}), "at"),
        (json!({"name": "a", "after_secs": -1}), "after_secs"),
        (json!({"name": "a", "after_secs": 1, "mode": "never"}), "mode"),
    ] {
        let refused = ada.post("/rooms/p/alarms", wrong).await.expect(422).body;
        assert_eq!(refused["errors"][0]["field"], field, "{refused}");
    }
    for path in ["/rooms/p/alarms", "/rooms/nobodys/alarms"] {
        bob.get(path).await.expect(404);
    }
    bob.post("/rooms/p/alarms", alarm).await.expect(404);
    ada.delete("/rooms/p/alarms/remind").await.expect(204);
    ada.delete("/rooms/p/alarms/remind").await.expect(404);
    ada.post("/tasks", wish("p")).await.expect(201);
    let shown = ada.get("/rooms/p/alarms").await.expect(200).body;
    assert_eq!(
        (&shown["alarm_type"], &shown["alarms"][0]["name"]),
        (&json!("task_polling"), &json!("task_polling"))
    );
}
