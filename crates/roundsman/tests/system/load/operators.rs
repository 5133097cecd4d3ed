//! Requests about users and tokens, and requests that are sent again.

use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::json;

use super::api::{Answer, Api, Lost};
use super::ledger::{Idempotent, KnownToken, Ledger, Sort, number};
use super::{Client, producer};

/// Sends a request with its key. What was answered before must be answered alike.
pub(super) async fn send_idempotent(
    api: &Api,
    ledger: &Ledger,
    request: &Idempotent,
) -> Result<(), Lost> {
    match api.post_idempotent("/jobs", &request.body, &request.key).await {
        Answer::Acked { body, .. } => {
            ledger.enqueued(number(&body["id"]), Sort::Plain, producer::marker(&request.body));
            Ok(())
        }
        Answer::Refused { status, code } => {
            ledger.problem(format!("{} was refused: {status} {code}", request.key));
            Ok(())
        }
        Answer::Lost(lost) => Err(lost),
    }
}

/// Sends one of the requests again that had no answer.
pub(super) async fn resend_one(api: &Api, ledger: &Ledger) -> Result<(), Lost> {
    let request = ledger.entries().unanswered.pop();
    let Some(request) = request else { return Ok(()) };
    let sent = send_idempotent(api, ledger, &request).await;
    if sent.is_err() {
        ledger.entries().unanswered.push(request);
    }
    sent
}

/// Sends all of them; the server is well and must answer.
pub(super) async fn resend_unanswered(api: &Api, ledger: &Arc<Ledger>) -> Result<()> {
    while !ledger.entries().unanswered.is_empty() {
        let sent = resend_one(api, ledger).await;
        sent.map_err(|lost| anyhow::anyhow!("{lost:?}")).context("a repeated request")?;
    }
    Ok(())
}

/// Makes a user with a token, changes it, uses it, and revokes the token again or not.
pub(super) async fn users_and_tokens(client: &Client) {
    if let Err(lost) = try_users_and_tokens(client).await {
        client.lost(lost).await;
    }
}

async fn try_users_and_tokens(client: &Client) -> Result<(), Lost> {
    let Client { admin, ledger, .. } = client;
    let email = format!("user-{}@example.org", ledger.number());
    let Some(user) = answered(admin.post("/admin/users", &json!({"email": email})).await)? else {
        ledger.problem("a user was refused");
        return Ok(());
    };
    let user_id = number(&user["id"]);
    ledger.entries().users.push((email, user_id));
    let change = json!({"name": "Somebody", "data": {"seen": true}});
    answered(admin.patch(&format!("/admin/users/{user_id}"), &change).await)?;
    let path = format!("/admin/users/{user_id}/tokens?scopes=read");
    let Some(token) = answered(admin.post(&path, &json!({})).await)? else {
        ledger.problem("a token was refused");
        return Ok(());
    };
    let (id, text) = (number(&token["id"]), token["token"].as_str().unwrap_or_default());
    ledger.entries().tokens.push(KnownToken { id, text: text.to_owned(), revoked: Some(false) });
    if client.percent() < 50 {
        let answer = admin.delete(&format!("/admin/tokens/{id}")).await;
        let revoked = match &answer {
            Answer::Acked { .. } => Some(true),
            Answer::Refused { .. } => Some(false),
            Answer::Lost(_) => None,
        };
        if let Some(token) = ledger.entries().tokens.iter_mut().find(|token| token.id == id) {
            token.revoked = revoked;
        }
        answered(answer)?;
    }
    Ok(())
}

fn answered(answer: Answer) -> Result<Option<serde_json::Value>, Lost> {
    match answer {
        Answer::Lost(lost) => Err(lost),
        other => Ok(other.acked()),
    }
}
