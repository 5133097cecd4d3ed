//! Who is and was in a meeting: pages of sessions, the timeline, and files.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{App, Client};
use crate::app_presence::ROOM;

/// A meeting in which two people came, one left and one more came.
async fn gathering(app: &App) -> (Client, i64) {
    let ada = app.user("ada@example.org").await;
    let id = app.open(&ada, ROOM).await;
    app.look().await;
    let (first, second) = (app.person("s1", "Ada"), app.person("s2", "=HYPERLINK(\"x\"), Bob"));
    app.see(id, vec![first.clone(), second]).await;
    app.clock.advance(Duration::from_secs(60));
    let third = app.person("s3", "Eve");
    app.see(id, vec![first, third]).await;
    (ada, id)
}

fn at(id: i64, rest: &str) -> String {
    format!("/presence/meetings/{id}{rest}")
}

fn ids(listed: &Value) -> Vec<&str> {
    let sessions = listed["sessions"].as_array().unwrap();
    sessions.iter().map(|session| session["session_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn sessions_are_listed_in_the_order_in_which_they_began() {
    let app = App::new();
    let (ada, id) = gathering(&app).await;
    let all = ada.get(&at(id, "/sessions")).await.expect(200).body;
    assert_eq!((ids(&all), &all["next_after"]), (vec!["s1", "s2", "s3"], &Value::Null));
    let ada_there = &all["sessions"][0];
    assert_eq!(
        (&ada_there["user_id"], &ada_there["user_name"], &ada_there["joined_at"]),
        (&json!("user-s1"), &json!("Ada"), &json!("2026-01-01T00:00:00.000000Z"))
    );
    assert_eq!((&ada_there["left_at"], &ada_there["left_by"]), (&Value::Null, &Value::Null));
    assert_eq!(ada_there["duration_secs"], 190.0, "until now");
    let gone = &all["sessions"][1];
    assert_eq!(gone["left_by"], "poll");
    assert!(gone["left_at"].is_string());
    assert_eq!(ids(&ada.get(&at(id, "/sessions?open=true")).await.expect(200).body), ["s1", "s3"]);
    assert_eq!(ids(&ada.get(&at(id, "/sessions?open=false")).await.expect(200).body), ["s2"]);

    let mut after = String::new();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let page = ada.get(&at(id, &format!("/sessions?limit=1{after}"))).await.expect(200).body;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        after = format!("&after={}", page["next_after"].as_str().unwrap());
    }
    assert_eq!(seen, ["s1", "s2", "s3"]);
    let end = ada.get(&at(id, &format!("/sessions?limit=1{after}"))).await.expect(200).body;
    assert_eq!(end, json!({"sessions": [], "next_after": null}));
    for (query, field) in [
        ("open=perhaps", "open"),
        ("after=s1", "after"),
        ("after=", "after"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
    ] {
        let refused = ada.get(&at(id, &format!("/sessions?{query}"))).await;
        refused.expect_problem(422, "invalid_request");
        assert_eq!(refused.body["errors"][0]["field"], field, "{query}");
    }
}

#[tokio::test]
async fn the_timeline_tells_who_came_and_went() {
    let app = App::new();
    let (ada, id) = gathering(&app).await;
    let told = ada.get(&at(id, "/timeline")).await.expect(200).body;
    assert_eq!((&told["meeting"]["id"], &told["is_whole"]), (&json!(id), &json!(true)));
    let entries = told["entries"].as_array().unwrap();
    let steps: Vec<_> = entries
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap();
            (text("what"), text("session_id"), entry["num_clients"].as_i64().unwrap())
        })
        .collect();
    assert_eq!(steps.len(), 4, "{told}");
    assert_eq!(steps[..2], [("joined", "s1", 1), ("joined", "s2", 2)]);
    assert!(steps.iter().any(|(what, who, _)| (*what, *who) == ("left", "s2")));
    assert_eq!(steps[3].2, 2);
    let times: Vec<&str> = entries.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted());
    let left = entries.iter().find(|entry| entry["what"] == "left").unwrap();
    assert_eq!(left["left_by"], "poll");
}

#[tokio::test]
async fn a_meeting_is_saved_as_a_table() {
    let app = App::new();
    let (ada, id) = gathering(&app).await;
    let file = ada.get(&at(id, "/export.csv")).await.expect(200);
    assert_eq!(file.header("content-type"), "text/csv; charset=utf-8; header=present");
    let saved = format!("attachment; filename=\"presence-{id}-weekly-sync.csv\"");
    assert_eq!((file.header("content-disposition"), file.header("x-whole")), (&*saved, "true"));
    let lines: Vec<&str> = file.text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 4, "{}", file.text);
    assert_eq!(lines[0], "session_id,user_id,user_name,joined_at,left_at,left_by,duration_secs");
    assert_eq!(lines[1], "s1,user-s1,Ada,2026-01-01T00:00:00.000000Z,,,190.000");
    assert!(
        lines[2].starts_with("s2,user-s2,\"'=HYPERLINK(\"\"x\"\"), Bob\",2026-01-01"),
        "nothing is calculated: {}",
        lines[2]
    );
}

#[tokio::test]
async fn a_meeting_is_saved_as_json() {
    let app = App::new();
    let (ada, id) = gathering(&app).await;
    let file = ada.get(&at(id, "/export.json")).await.expect(200);
    assert_eq!(file.header("content-type"), "application/json");
    let saved = format!("attachment; filename=\"presence-{id}-weekly-sync.json\"");
    assert_eq!(file.header("content-disposition"), saved);
    assert_eq!(file.body["meeting"]["num_clients"], 2);
    assert_eq!((ids(&file.body), &file.body["is_whole"]), (vec!["s1", "s2", "s3"], &json!(true)));
    assert_eq!(file.body["sessions"][1]["user_name"], "=HYPERLINK(\"x\"), Bob");
    let listed = ada.get(&at(id, "/sessions")).await.expect(200);
    assert_eq!(file.body["sessions"], listed.body["sessions"]);
    let other = ada.get(&at(id, "/export.xml")).await;
    other.expect_problem(404, "not_found");
}
