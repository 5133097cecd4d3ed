//! `roundsman token`: makes, lists and revokes API tokens from the shell, beside a server or
//! without one.

use std::sync::Arc;

use roundsman_core::ports::{Clock, Random, Store, UserStore};
use roundsman_core::users::{ApiToken, TokenId, TokenScope, User};
use roundsman_engine::clock::DatabaseClock;
use roundsman_engine::random::OsRandom;
use roundsman_engine::users::{Authenticator, AuthenticatorOptions, TokenWish, UserWish, Users};
use serde_json::json;

use crate::cli::{TokenCommand, TokenCreateArgs, TokenListArgs, TokenRevokeArgs};
use crate::config::Config;
use crate::node::{Access, catalog, open_store};
use crate::output;

/// Users looked at for a list of all tokens.
const USERS_MAX: u32 = 1000;

pub(crate) async fn run(config: Config, command: TokenCommand) -> anyhow::Result<()> {
    let store = open_store(&config, Arc::new(catalog(&config)), Access::Tool).await?;
    let clock = Arc::new(DatabaseClock::start());
    clock.sync(store.as_ref()).await?;
    let users = users(&store, &clock);
    let result = match command {
        TokenCommand::Create(args) => create(&users, args).await,
        TokenCommand::List(args) => list(&users, &args).await,
        TokenCommand::Revoke(args) => revoke(&users, &args).await,
    };
    store.close().await;
    output::print(&result?)?;
    Ok(())
}

fn users(store: &Arc<dyn Store>, clock: &Arc<DatabaseClock>) -> Users {
    let store: Arc<dyn UserStore> = store.clone();
    let clock: Arc<dyn Clock> = clock.clone();
    let random: Arc<dyn Random> = Arc::new(OsRandom);
    let options = AuthenticatorOptions { admin: None, cache_for: std::time::Duration::ZERO };
    let authenticator = Authenticator::new(store.clone(), clock.clone(), options);
    Users::new(store, clock, random, authenticator)
}

/// Prints the token alone, so that a script can take it as it is, or all about it.
async fn create(users: &Users, args: TokenCreateArgs) -> anyhow::Result<String> {
    let (user, made) =
        users.find_or_create(UserWish { email: args.user, ..UserWish::default() }).await?;
    if made {
        output::note(&format!("created user {} ({})", user.id.get(), user.email));
    }
    let wish = TokenWish { name: None, scopes: args.scopes, expires_in: args.expires_in };
    let issued = users.issue_token(user.id, wish).await?;
    if args.json {
        let mut shown = as_json(&user, &issued.token);
        shown["token"] = json!(issued.text);
        shown["user_created"] = json!(made);
        return Ok(serde_json::to_string_pretty(&shown)?);
    }
    output::note(&format!(
        "token {} of {}; it is shown only once:",
        issued.token.id.get(),
        user.email
    ));
    Ok(issued.text)
}

async fn list(users: &Users, args: &TokenListArgs) -> anyhow::Result<String> {
    let owners = match &args.user {
        Some(email) => vec![users.user_by_email(email).await?],
        None => users.users(0, USERS_MAX).await?,
    };
    let mut rows = Vec::new();
    for user in owners {
        for token in users.tokens_of(user.id).await? {
            rows.push((user.clone(), token));
        }
    }
    if args.json {
        let rows: Vec<_> = rows.iter().map(|(user, token)| as_json(user, token)).collect();
        return Ok(serde_json::to_string_pretty(&rows)?);
    }
    let mut lines = vec![row("id", "user", "scopes", "expires", "state")];
    for (user, token) in &rows {
        let expires = token.expires_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        let state = if token.revoked_at.is_some() { "revoked" } else { "active" };
        let id = token.id.get().to_string();
        lines.push(row(&id, &user.email, &scopes(token), &expires, state));
    }
    Ok(lines.join("\n"))
}

fn row(id: &str, user: &str, scopes: &str, expires: &str, state: &str) -> String {
    format!("{id:>6}  {user:<30} {scopes:<16} {expires:<28} {state}")
}

async fn revoke(users: &Users, args: &TokenRevokeArgs) -> anyhow::Result<String> {
    users.revoke_token(TokenId::new(args.id)).await?;
    if args.json {
        return Ok(serde_json::to_string_pretty(&json!({"id": args.id, "revoked": true}))?);
    }
    Ok(format!("token {} is revoked", args.id))
}

fn scopes(token: &ApiToken) -> String {
    if token.scopes.is_empty() {
        return "all".to_owned();
    }
    let names: Vec<&str> = token.scopes.iter().map(|scope| TokenScope::as_str(*scope)).collect();
    names.join(",")
}

fn as_json(user: &User, token: &ApiToken) -> serde_json::Value {
    json!({
        "id": token.id,
        "user_id": user.id,
        "email": user.email,
        "name": token.name,
        "scopes": token.scopes,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
        "revoked_at": token.revoked_at,
    })
}
