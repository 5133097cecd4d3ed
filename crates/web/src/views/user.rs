//! Users and tokens, in the shapes that clients of the Vexa admin API know, plus our own members.

use std::num::NonZeroU64;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::jobs::Json;
use roundsman_core::users::{ApiToken, TokenScope, User};
use roundsman_engine::users::{IssuedToken, TokenWish, UserChange, UserWish};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use crate::problem::Problem;

/// Where an existing Vexa database may have a user's webhook secret.
const SECRET_MEMBER: &str = "webhook_secret";

/// A user.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = User)]
pub(crate) struct UserView {
    #[schema(example = 3)]
    id: i64,
    #[schema(example = "ada@example.org")]
    email: String,
    #[schema(example = "Ada")]
    name: Option<String>,
    image_url: Option<String>,
    #[schema(example = 1)]
    max_concurrent_bots: i32,
    /// Whatever the operator keeps with the user.
    #[schema(value_type = Object)]
    data: Box<RawValue>,
    /// UTC, without a zone, as in all answers under `/admin`.
    #[schema(example = "2026-01-31T12:00:00.000000")]
    created_at: String,
}

/// A user with their tokens.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UserDetail)]
pub(crate) struct UserDetailView {
    #[serde(flatten)]
    user: UserView,
    api_tokens: Vec<TokenView>,
}

/// A token without its text, which is shown once when it is made and never again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Token)]
pub(crate) struct TokenView {
    #[schema(example = 5)]
    id: i64,
    #[schema(example = 3)]
    user_id: i64,
    #[schema(example = "2026-01-31T12:00:00.000000")]
    created_at: String,
    /// Empty: everything its user may do.
    #[schema(value_type = Vec<String>, example = json!(["jobs", "work"]))]
    scopes: Vec<&'static str>,
    #[schema(example = "laptop")]
    name: Option<String>,
    #[schema(example = "2026-01-31T12:00:00.000000")]
    last_used_at: Option<String>,
    #[schema(example = "2026-01-31T12:00:00.000000")]
    expires_at: Option<String>,
    #[schema(example = "2026-01-31T12:00:00.000000")]
    revoked_at: Option<String>,
}

/// A token that was just made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = IssuedToken)]
pub(crate) struct IssuedTokenView {
    /// The only time this is shown.
    #[schema(example = "rmt_5_2f1c…")]
    token: String,
    #[serde(flatten)]
    about: TokenView,
}

/// A user to be found by e-mail address or made.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = UserRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserBody {
    #[schema(max_length = 255, example = "ada@example.org")]
    email: String,
    #[schema(max_length = 100, example = "Ada")]
    name: Option<String>,
    #[schema(max_length = 2048)]
    image_url: Option<String>,
    #[schema(minimum = 0, maximum = 10_000, default = 1)]
    max_concurrent_bots: Option<i32>,
    /// Accepted for clients that send it, and ignored: set it with PATCH.
    #[schema(value_type = Option<Object>)]
    #[serde(rename = "data")]
    _data: Option<Map<String, Value>>,
}

/// What to change of a user; what is absent or `null` stays.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = UserChangeRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserChangeBody {
    /// Only the address the user has: it cannot be changed.
    pub(crate) email: Option<String>,
    #[schema(max_length = 100)]
    name: Option<String>,
    #[schema(max_length = 2048)]
    image_url: Option<String>,
    #[schema(minimum = 0, maximum = 10_000)]
    max_concurrent_bots: Option<i32>,
    /// Replaces the whole of it.
    #[schema(value_type = Option<Object>)]
    data: Option<Map<String, Value>>,
}

/// Which part of the list of users.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsersQuery {
    /// Leave out this many.
    #[serde(default)]
    #[param(default = 0)]
    pub(crate) skip: u32,
    /// Users in the answer.
    #[serde(default = "users_default")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub(crate) limit: u32,
}

/// What a new token is for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenQuery {
    /// Scopes, separated by commas: read, jobs, work, bot, tx. None: everything.
    #[param(example = "jobs,work")]
    scopes: Option<String>,
    /// For people, to tell tokens apart.
    #[param(max_length = 200, example = "laptop")]
    name: Option<String>,
    /// Seconds until it stops working; without it, never.
    #[param(value_type = Option<u64>, minimum = 1, example = 86_400)]
    expires_in: Option<NonZeroU64>,
}

const fn users_default() -> u32 {
    100
}

impl From<&User> for UserView {
    fn from(user: &User) -> Self {
        UserView {
            id: user.id.get(),
            email: user.email.clone(),
            name: user.name.clone(),
            image_url: user.image_url.clone(),
            max_concurrent_bots: user.max_concurrent_bots,
            data: super::raw(&Json::from_stored(shown_data(&user.data))),
            created_at: user.created_at.naive(),
        }
    }
}

/// A user's data without the secret that later releases of Vexa keep there.
fn shown_data(data: &str) -> String {
    let mut members: Map<String, Value> = serde_json::from_str(data).unwrap_or_default();
    match members.remove(SECRET_MEMBER) {
        Some(_) => Value::Object(members).to_string(),
        None => data.to_owned(),
    }
}

impl UserDetailView {
    pub(crate) fn new(user: &User, tokens: &[ApiToken]) -> Self {
        UserDetailView { user: user.into(), api_tokens: tokens.iter().map(Into::into).collect() }
    }
}

impl From<&ApiToken> for TokenView {
    fn from(token: &ApiToken) -> Self {
        TokenView {
            id: token.id.get(),
            user_id: token.user_id.get(),
            created_at: token.created_at.naive(),
            scopes: token.scopes.iter().copied().map(TokenScope::as_str).collect(),
            name: token.name.clone(),
            last_used_at: token.last_used_at.map(Timestamp::naive),
            expires_at: token.expires_at.map(Timestamp::naive),
            revoked_at: token.revoked_at.map(Timestamp::naive),
        }
    }
}

impl From<IssuedToken> for IssuedTokenView {
    fn from(issued: IssuedToken) -> Self {
        IssuedTokenView { about: (&issued.token).into(), token: issued.text }
    }
}

impl From<UserBody> for UserWish {
    fn from(body: UserBody) -> Self {
        let UserBody { email, name, image_url, max_concurrent_bots, .. } = body;
        UserWish { email, name, image_url, max_concurrent_bots }
    }
}

impl TryFrom<UserChangeBody> for UserChange {
    type Error = Problem;

    fn try_from(body: UserChangeBody) -> Result<Self, Problem> {
        let UserChangeBody { name, image_url, max_concurrent_bots, data, .. } = body;
        let data = data.map(|members| Json::from_value(&Value::Object(members))).transpose();
        let data = data.map_err(|error| Problem::field("data", error.to_string()))?;
        let data = data.map(Json::into_string);
        Ok(UserChange { name, image_url, max_concurrent_bots, data })
    }
}

impl TryFrom<TokenQuery> for TokenWish {
    type Error = Problem;

    fn try_from(query: TokenQuery) -> Result<Self, Problem> {
        let scopes: Vec<String> = match &query.scopes {
            None => Vec::new(),
            Some(words) => words.split(',').map(|word| word.trim().to_owned()).collect(),
        };
        // No scopes at all means all of them, which an empty variable in a script must not.
        if scopes.iter().any(String::is_empty) {
            return Err(Problem::field("scopes", "must not be empty; leave it out for all scopes"));
        }
        let expires_in = query.expires_in.map(|secs| Duration::from_secs(secs.get()));
        Ok(TokenWish { name: query.name, scopes, expires_in })
    }
}
