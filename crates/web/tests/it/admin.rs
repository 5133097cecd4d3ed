//! Users and tokens, for the operator.

use std::time::Duration;

use serde_json::json;

use crate::app::{ADMIN_TOKEN, App, Setup};

#[tokio::test]
async fn a_user_is_made_once_and_found_again() {
    let app = App::new();
    let admin = app.admin();
    let wish = json!({"email": " Ada@Example.org", "name": "Ada", "max_concurrent_bots": 4});
    let made = admin.post("/admin/users", wish).await.expect(201);
    let expected = json!({"id": made.body["id"], "email": "ada@example.org", "name": "Ada",
        "image_url": null, "max_concurrent_bots": 4, "data": {},
        "created_at": "2026-01-01T00:00:00.000000"});
    assert_eq!(made.body, expected);
    let again = json!({"email": "ada@example.org", "name": "Other", "data": {"x": 1}});
    assert_eq!(admin.post("/admin/users", again).await.expect(200).body, expected);
    assert_eq!(admin.get("/admin/users/email/ADA@example.org").await.expect(200).body, expected);

    let id = &made.body["id"];
    let mut detail = expected.clone();
    detail["api_tokens"] = json!([]);
    assert_eq!(admin.get(&format!("/admin/users/{id}")).await.expect(200).body, detail);

    admin.post("/admin/users", json!({"email": "bob@example.org"})).await.expect(201);
    let page = admin.get("/admin/users?skip=1&limit=1").await.expect(200);
    assert_eq!(page.body.as_array().unwrap().len(), 1);
    assert_eq!(page.body[0]["email"], "bob@example.org");
    assert_eq!(page.body[0]["max_concurrent_bots"], 1);
}

#[tokio::test]
async fn a_user_is_changed_except_for_the_address() {
    let app = App::new();
    let admin = app.admin();
    let made = admin.post("/admin/users", json!({"email": "ada@example.org"})).await.expect(201);
    let path = format!("/admin/users/{}", made.body["id"]);
    let change = json!({"email": "ada@example.org", "name": "Ada", "data": {"plan": "pro"}});
    let changed = admin.patch(&path, change).await.expect(200);
    assert_eq!(
        (&changed.body["name"], &changed.body["data"]),
        (&json!("Ada"), &json!({"plan": "pro"}))
    );
    let replaced = admin.patch(&path, json!({"data": {"webhook_url": "https://x"}})).await;
    assert_eq!(replaced.expect(200).body["data"], json!({"webhook_url": "https://x"}));

    let moved = admin.patch(&path, json!({"email": "new@example.org"})).await;
    moved.expect_problem(400, "email_fixed");
    assert_eq!(moved.body["detail"], "Cannot change user email via this endpoint.");
    for (bad, field) in [
        (json!({"data": [1]}), "data"),
        (json!({"data": {"a": "\u{0}"}}), "data"),
        (json!({"max_concurrent_bots": -1}), "max_concurrent_bots"),
    ] {
        admin.patch(&path, bad).await.expect_invalid(&json!(["body", field]), "");
    }
    let nobody = admin.patch("/admin/users/999", json!({"name": "x"})).await;
    nobody.expect_problem(404, "not_found");
    assert_eq!(nobody.body["detail"], "User not found");
}

#[tokio::test]
async fn a_token_is_shown_once_works_and_is_revoked() {
    let app = App::new();
    let admin = app.admin();
    let made = admin.post("/admin/users", json!({"email": "ada@example.org"})).await.expect(201);
    let tokens = format!("/admin/users/{}/tokens", made.body["id"]);
    let issued = admin
        .post(&format!("{tokens}?scopes=jobs,work&name=laptop&expires_in=60"), json!({}))
        .await;
    let issued = issued.expect(201);
    let text = issued.body["token"].as_str().unwrap().to_owned();
    assert_eq!(issued.body["scopes"], json!(["jobs", "work"]));
    assert_eq!(issued.body["expires_at"], "2026-01-01T00:01:00.000000");
    assert_eq!(issued.header("cache-control"), "no-store");

    let listed = admin.get(&tokens).await.expect(200);
    assert_eq!(listed.body[0]["name"], "laptop");
    let secret = text.rsplit('_').next().unwrap();
    let detail = admin.get(&format!("/admin/users/{}", made.body["id"])).await.expect(200);
    assert_eq!(detail.body["api_tokens"], listed.body);
    assert!(!listed.text.contains(secret) && !detail.text.contains(secret), "never shown again");

    let ada = app.client().header("authorization", &format!("bearer {text}"));
    ada.get("/jobs").await.expect(200);
    let path = format!("/admin/tokens/{}", issued.body["id"]);
    admin.delete(&path).await.expect(204);
    ada.get("/jobs").await.expect_problem(401, "unauthorized");
    let again = admin.delete(&path).await;
    again.expect_problem(404, "not_found");
    assert_eq!(again.body["detail"], "Token not found");

    let second = admin.post(&format!("{tokens}?expires_in=60"), json!({})).await.expect(201);
    let ada = app.client().header("x-api-key", second.body["token"].as_str().unwrap());
    ada.get("/jobs").await.expect(200);
    app.clock.advance(Duration::from_mins(1));
    ada.get("/jobs").await.expect_problem(401, "unauthorized");
}

#[tokio::test]
async fn a_token_is_not_made_wider_than_meant() {
    let app = App::new();
    let admin = app.admin();
    let made = admin.post("/admin/users", json!({"email": "ada@example.org"})).await.expect(201);
    let tokens = format!("/admin/users/{}/tokens", made.body["id"]);
    for bad in
        ["scopes=", "scopes=jobs,", "scopes=all", "expires_in=0", "expires_in=-1", "scope=jobs"]
    {
        let refused = admin.post(&format!("{tokens}?{bad}"), json!({})).await.expect(422);
        assert_eq!(refused.body["code"], "invalid_request");
        assert!(refused.body["detail"][0]["msg"].is_string(), "{}", refused.text);
    }
    assert_eq!(admin.get(&tokens).await.expect(200).body, json!([]));
    admin.post("/admin/users/999/tokens", json!({})).await.expect_problem(404, "not_found");
    admin.get("/admin/users/999/tokens").await.expect_problem(404, "not_found");
}

#[tokio::test]
async fn a_secret_in_a_users_data_is_not_shown() {
    let app = App::new();
    let admin = app.admin();
    let made = admin.post("/admin/users", json!({"email": "ada@example.org"})).await.expect(201);
    let path = format!("/admin/users/{}", made.body["id"]);
    let data = json!({"webhook_secret": "hunter2", "plan": "pro"});
    let changed = admin.patch(&path, json!({"data": data})).await.expect(200);
    let shown = admin.get(&path).await.expect(200);
    for answer in [changed, shown] {
        assert_eq!(answer.body["data"], json!({"plan": "pro"}));
        assert!(!answer.text.contains("hunter2"));
    }
}

#[tokio::test]
async fn the_admin_routes_refuse_in_the_words_their_clients_know() {
    let app = App::new();
    let user = app.token("ada@example.org", &[]).await;
    let clients = [
        app.client(),
        app.client().header("x-admin-api-key", "wrong"),
        app.client().header("x-admin-api-key", &user),
        app.client().header("authorization", &format!("Bearer {user}")),
        app.client().header("x-api-key", &user),
    ];
    for client in clients {
        let refused = client.get("/admin/users").await;
        refused.expect_problem(403, "forbidden");
        assert_eq!(refused.body["detail"], "Invalid or missing admin token.");
    }
    let bearer = app.client().header("authorization", &format!("Bearer {ADMIN_TOKEN}"));
    bearer.get("/admin/users").await.expect(200);
}

#[tokio::test]
async fn without_an_admin_token_nobody_is_the_operator() {
    let app = App::with(Setup { admin: None, ..Setup::default() });
    for token in ["", "x", ADMIN_TOKEN] {
        let client = app.client().header("x-admin-api-key", token);
        client.get("/admin/users").await.expect_problem(503, "admin_not_configured");
    }
    app.client().header("x-api-key", "").get("/jobs").await.expect_problem(401, "unauthorized");
}
