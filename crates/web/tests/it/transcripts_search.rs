//! Looking for words in transcripts.

use serde_json::{Value, json};

use crate::app::App;
use crate::app_transcripts::said;

fn found(body: &Value) -> Vec<&str> {
    let results = body["results"].as_array().unwrap();
    results.iter().map(|hit| hit["segment"]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn words_are_found_and_marked() {
    let app = App::new();
    let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
    producer
        .say(&[
            said(1.0, "Ada", "The budget of <next> year"),
            said(3.0, "Bob", "No budget at all"),
            said(5.0, "Ada", "Something else"),
        ])
        .await;
    let search = ada.get("/transcripts/search?q=BUDGET+year").await.expect(200).body;
    assert_eq!(found(&search), ["The budget of <next> year"]);
    let hit = &search["results"][0];
    assert_eq!((&hit["id"], &hit["meeting_id"]), (&Value::Null, &json!(bot.meeting_id)));
    assert_eq!(
        (&hit["platform"], &hit["native_meeting_id"]),
        (&json!("google_meet"), &json!("abc-defg-hij"))
    );
    assert_eq!(hit["highlight"], "The <mark>budget</mark> of &lt;next&gt; <mark>year</mark>");
    assert_eq!(hit["hits"], json!([[4, 10], [21, 25]]));
    let phrase = ada.get("/transcripts/search?q=%22budget%20at%22").await.expect(200).body;
    assert_eq!(found(&phrase), ["No budget at all"]);
    let prefix = ada.get("/transcripts/search?q=bud*").await.expect(200).body;
    assert_eq!(found(&prefix).len(), 2);
    let first = ada.get("/transcripts/search?q=bud*&limit=1").await.expect(200).body;
    assert_eq!(found(&first).len(), 1);
    assert!(first["next_before"].is_number(), "there may be more");
    let limit = ada.get("/transcripts/search?q=bud*&limit=200").await.expect(200).body;
    assert_eq!(limit["next_before"], Value::Null);

    let bob = app.user("bob@example.org").await;
    assert_eq!(
        bob.get("/transcripts/search?q=budget").await.expect(200).body["results"],
        json!([])
    );
    let many = vec!["a"; 20].join("+");
    let long = "a".repeat(300);
    for (query, field) in [
        ("", "q"),
        ("q=", "q"),
        ("q=%22%27--", "q"),
        (&format!("q={many}"), "q"),
        (&format!("q={long}"), "q"),
        ("q=x&limit=0", "limit"),
        ("q=x&limit=201", "limit"),
        ("q=x&before=y", "before"),
    ] {
        let refused = ada.get(&format!("/transcripts/search?{query}")).await;
        refused.expect_invalid(&json!(["query", field]), "");
    }
    app.client().get("/transcripts/search?q=x").await.expect_problem(403, "forbidden");
}
