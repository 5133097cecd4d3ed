//! Users and their tokens.
//!
//! `public.users` may be the table of an existing Vexa database: its times are without a zone and
//! mean UTC, and it is read and written by these statements alone.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::ports::{StoreError, UserStore};
use roundsman_core::users::{ApiToken, NewToken, NewUser, TokenId, User, UserId};
use tokio_postgres::Row;

use super::PostgresStore;
use super::columns::Reader;
use super::error::Failure;
use super::pool::Operation;
use super::session::Session;
use super::types::Time;
use crate::rows::{hash_from_bytes, scopes_from_text, scopes_to_text};

#[async_trait]
impl UserStore for PostgresStore {
    async fn find_or_create_user(
        &self,
        user: NewUser,
        now: Timestamp,
    ) -> Result<(User, bool), StoreError> {
        self.change("store.create_user", &FindOrCreate { user, now }).await
    }

    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        self.pool.run(&UserById { id }).await
    }

    async fn user_by_email(&self, email: String) -> Result<Option<User>, StoreError> {
        self.pool.run(&UserByEmail { email }).await
    }

    async fn users(&self, skip: u32, rows_max: u32) -> Result<Vec<User>, StoreError> {
        self.pool.run(&Users { skip, rows_max }).await
    }

    async fn update_user(&self, user: User) -> Result<Option<User>, StoreError> {
        self.change("store.update_user", &UpdateUser { user }).await
    }

    async fn create_token(
        &self,
        token: NewToken,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError> {
        self.change("store.create_token", &CreateToken { token, now }).await
    }

    async fn token(&self, id: TokenId) -> Result<Option<ApiToken>, StoreError> {
        self.pool.run(&TokenById { id }).await
    }

    async fn tokens_of(&self, user: UserId) -> Result<Vec<ApiToken>, StoreError> {
        self.pool.run(&TokensOf { user }).await
    }

    async fn revoke_token(
        &self,
        id: TokenId,
        cause: &'static str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.change("store.revoke_token", &RevokeToken { id, cause, now }).await
    }

    async fn user_of_vexa_key(&self, key: String) -> Result<Option<UserId>, StoreError> {
        self.pool.run(&UserOfVexaKey { key }).await
    }

    async fn touch_tokens(&self, used: Vec<(TokenId, Timestamp)>) -> Result<(), StoreError> {
        self.change("store.touch_tokens", &TouchTokens { used: &used }).await
    }
}

/// The number is widened because an existing table may have either width.
macro_rules! user_columns {
    () => {
        "id::bigint, email::text, name::text, image_url::text, max_concurrent_bots, \
         created_at AT TIME ZONE 'UTC', data::text"
    };
}

macro_rules! token_columns {
    () => {
        "id, user_id, name, scopes, secret_hash, created_at, expires_at, last_used_at, revoked_at"
    };
}

pub(super) use user_columns;

pub(super) fn read_user(row: &Row) -> Result<User, Failure> {
    let mut reader = Reader::new(row);
    Ok(User {
        id: UserId::new(reader.value()?),
        email: reader.value()?,
        name: reader.value()?,
        image_url: reader.value()?,
        max_concurrent_bots: reader.value()?,
        // Rows that others wrote may lack it.
        created_at: reader.time_opt()?.unwrap_or(Timestamp::EPOCH),
        data: plain_json(reader.value()?),
    })
}

/// `jsonb` has its own way of spacing; everywhere else JSON is written without.
pub(super) fn plain_json(text: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => value.to_string(),
        Err(_) => text.to_owned(),
    }
}

fn read_token(row: &Row) -> Result<ApiToken, Failure> {
    let mut reader = Reader::new(row);
    let id: i64 = reader.value()?;
    Ok(ApiToken {
        id: TokenId::new(id),
        user_id: UserId::new(reader.value()?),
        name: reader.value()?,
        scopes: scopes_from_text(reader.value()?, id)?,
        hash: hash_from_bytes(reader.value()?, id)?,
        created_at: reader.time()?,
        expires_at: reader.time_opt()?,
        last_used_at: reader.time_opt()?,
        revoked_at: reader.time_opt()?,
    })
}

const USER_BY_EMAIL: &str =
    concat!("-- user_by_email\nSELECT ", user_columns!(), " FROM public.users WHERE email = $1");

/// Addresses are normalised by us, but not by whoever else writes the table. There is no index for
/// this look, which only strangers and new users cause.
const USER_BY_ODD_EMAIL: &str = concat!(
    "-- user_by_odd_email\nSELECT ",
    user_columns!(),
    " FROM public.users WHERE lower(email) = $1 ORDER BY id LIMIT 1"
);

async fn user_by_email(session: &mut Session, email: &str) -> Result<Option<User>, Failure> {
    let mut row = session.query_opt(USER_BY_EMAIL, &[&email]).await?;
    if row.is_none() {
        row = session.query_opt(USER_BY_ODD_EMAIL, &[&email]).await?;
    }
    row.as_ref().map(read_user).transpose()
}

/// `data` is given because an existing table may have no default for it.
const CREATE_USER: &str = concat!(
    "-- create_user
INSERT INTO public.users (email, name, image_url, max_concurrent_bots, created_at, data)
VALUES ($1, $2, $3, $4, $5::timestamptz AT TIME ZONE 'UTC', '{}'::jsonb)
ON CONFLICT DO NOTHING
RETURNING ",
    user_columns!()
);

struct FindOrCreate {
    user: NewUser,
    now: Timestamp,
}

impl Operation for FindOrCreate {
    type Answer = (User, bool);

    async fn run(&self, session: &mut Session) -> Result<(User, bool), Failure> {
        let NewUser { email, name, image_url, max_concurrent_bots } = &self.user;
        if let Some(user) = user_by_email(session, email).await? {
            return Ok((user, false));
        }
        let created = session
            .query_opt(CREATE_USER, &[email, name, image_url, max_concurrent_bots, &Time(self.now)])
            .await
            .map_err(Failure::Commit)?;
        if let Some(row) = created {
            return Ok((read_user(&row)?, true));
        }
        // Somebody else made it in between.
        let user = user_by_email(session, email).await?.ok_or(Failure::Raced)?;
        Ok((user, false))
    }
}

pub(super) const USER_BY_ID: &str =
    concat!("-- user_by_id\nSELECT ", user_columns!(), " FROM public.users WHERE id = $1::bigint");

struct UserById {
    id: UserId,
}

impl Operation for UserById {
    type Answer = Option<User>;

    async fn run(&self, session: &mut Session) -> Result<Option<User>, Failure> {
        let row = session.query_opt(USER_BY_ID, &[&self.id.get()]).await?;
        row.as_ref().map(read_user).transpose()
    }
}

struct UserByEmail {
    email: String,
}

impl Operation for UserByEmail {
    type Answer = Option<User>;

    async fn run(&self, session: &mut Session) -> Result<Option<User>, Failure> {
        user_by_email(session, &self.email).await
    }
}

const USERS: &str = concat!(
    "-- users\nSELECT ",
    user_columns!(),
    " FROM public.users ORDER BY id LIMIT $1 OFFSET $2"
);

struct Users {
    skip: u32,
    rows_max: u32,
}

impl Operation for Users {
    type Answer = Vec<User>;

    async fn run(&self, session: &mut Session) -> Result<Vec<User>, Failure> {
        let (rows_max, skip) = (i64::from(self.rows_max), i64::from(self.skip));
        let rows = session.query(USERS, &[&rows_max, &skip]).await?;
        rows.iter().map(read_user).collect()
    }
}

const UPDATE_USER: &str = concat!(
    "-- update_user
UPDATE public.users
   SET name = $2, image_url = $3, max_concurrent_bots = $4, data = $5::text::jsonb
 WHERE id = $1::bigint
RETURNING ",
    user_columns!()
);

struct UpdateUser {
    user: User,
}

impl Operation for UpdateUser {
    type Answer = Option<User>;

    async fn run(&self, session: &mut Session) -> Result<Option<User>, Failure> {
        let User { id, name, image_url, max_concurrent_bots, data, .. } = &self.user;
        // Writing the same twice is the same, so a broken connection may be repeated.
        let row = session
            .query_opt(UPDATE_USER, &[&id.get(), name, image_url, max_concurrent_bots, data])
            .await?;
        row.as_ref().map(read_user).transpose()
    }
}

/// Makes the token and the first step of its log, if there is such a user.
const CREATE_TOKEN: &str = concat!(
    "-- create_token
WITH made AS (
    INSERT INTO roundsman.api_tokens (user_id, name, scopes, secret_hash, created_at, expires_at)
    SELECT $1::bigint, $2, $3, $4, $5, $6
     WHERE EXISTS (SELECT FROM public.users WHERE id = $1)
    RETURNING ",
    token_columns!(),
    "
), logged AS (
    INSERT INTO roundsman.transitions (entity, entity_id, from_state, to_state, cause, at)
    SELECT 'token', id, NULL, 'active', 'created', $5 FROM made
)
SELECT ",
    token_columns!(),
    " FROM made"
);

struct CreateToken {
    token: NewToken,
    now: Timestamp,
}

impl Operation for CreateToken {
    type Answer = Option<ApiToken>;

    async fn run(&self, session: &mut Session) -> Result<Option<ApiToken>, Failure> {
        let NewToken { user_id, name, scopes, hash, expires_at } = &self.token;
        let row = session
            .query_opt(
                CREATE_TOKEN,
                &[
                    &user_id.get(),
                    name,
                    &scopes_to_text(scopes),
                    &hash.as_bytes().as_slice(),
                    &Time(self.now),
                    &expires_at.map(Time),
                ],
            )
            .await
            .map_err(Failure::Commit)?;
        row.as_ref().map(read_token).transpose()
    }
}

const TOKEN_BY_ID: &str = concat!(
    "-- token_by_id\nSELECT ",
    token_columns!(),
    " FROM roundsman.api_tokens WHERE id = $1"
);

struct TokenById {
    id: TokenId,
}

impl Operation for TokenById {
    type Answer = Option<ApiToken>;

    async fn run(&self, session: &mut Session) -> Result<Option<ApiToken>, Failure> {
        let row = session.query_opt(TOKEN_BY_ID, &[&self.id.get()]).await?;
        row.as_ref().map(read_token).transpose()
    }
}

const TOKENS_OF: &str = concat!(
    "-- tokens_of\nSELECT ",
    token_columns!(),
    " FROM roundsman.api_tokens WHERE user_id = $1 ORDER BY id"
);

struct TokensOf {
    user: UserId,
}

impl Operation for TokensOf {
    type Answer = Vec<ApiToken>;

    async fn run(&self, session: &mut Session) -> Result<Vec<ApiToken>, Failure> {
        let rows = session.query(TOKENS_OF, &[&self.user.get()]).await?;
        rows.iter().map(read_token).collect()
    }
}

const REVOKE_TOKEN: &str = "-- revoke_token
WITH revoked AS (
    UPDATE roundsman.api_tokens SET revoked_at = $3
     WHERE id = $1 AND revoked_at IS NULL
    RETURNING id
)
INSERT INTO roundsman.transitions (entity, entity_id, from_state, to_state, cause, at)
SELECT 'token', id, 'active', 'revoked', $2, $3 FROM revoked";

struct RevokeToken {
    id: TokenId,
    cause: &'static str,
    now: Timestamp,
}

impl Operation for RevokeToken {
    type Answer = bool;

    async fn run(&self, session: &mut Session) -> Result<bool, Failure> {
        let revoked = session
            .execute(REVOKE_TOKEN, &[&self.id.get(), &self.cause, &Time(self.now)])
            .await
            .map_err(Failure::Commit)?;
        Ok(revoked > 0)
    }
}

/// Looked at each time: the table may come or go while we run, and the answer is a cached look.
const HAS_VEXA_KEYS: &str = "-- has_vexa_keys
SELECT count(*) = 2 FROM pg_attribute
 WHERE attrelid = to_regclass('public.api_tokens') AND attname IN ('token', 'user_id')
   AND NOT attisdropped";

/// Later Vexa releases let a key expire; the column is asked for in a way that does not mind its
/// absence. Against the server's clock, because these keys were made by it.
const USER_OF_VEXA_KEY: &str = "-- user_of_vexa_key
SELECT user_id::bigint FROM public.api_tokens t
 WHERE token = $1
   AND coalesce((to_jsonb(t) ->> 'expires_at')::timestamptz > clock_timestamp(), true)";

struct UserOfVexaKey {
    key: String,
}

impl Operation for UserOfVexaKey {
    type Answer = Option<UserId>;

    async fn run(&self, session: &mut Session) -> Result<Option<UserId>, Failure> {
        let known = session.query_opt(HAS_VEXA_KEYS, &[]).await?.ok_or(Failure::Raced)?;
        // No key has a NUL in it, and the server would take it for a mistake of ours.
        if !known.try_get::<_, bool>(0)? || self.key.contains('\0') {
            return Ok(None);
        }
        let row = session.query_opt(USER_OF_VEXA_KEY, &[&self.key]).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?.map(UserId::new))
    }
}

const TOUCH_TOKENS: &str = "-- touch_tokens
UPDATE roundsman.api_tokens t
   SET last_used_at = used.at
  FROM unnest($1::bigint[], $2::timestamptz[]) AS used(id, at)
 WHERE t.id = used.id AND (t.last_used_at IS NULL OR t.last_used_at < used.at)";

struct TouchTokens<'a> {
    used: &'a [(TokenId, Timestamp)],
}

impl Operation for TouchTokens<'_> {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> Result<(), Failure> {
        if self.used.is_empty() {
            return Ok(());
        }
        // Each token once, and in order, so that servers that flush at once cannot deadlock.
        let mut latest: BTreeMap<TokenId, Timestamp> = BTreeMap::new();
        for &(id, at) in self.used {
            let known = latest.entry(id).or_insert(at);
            *known = at.max(*known);
        }
        let ids: Vec<i64> = latest.keys().map(|id| id.get()).collect();
        let times: Vec<Time> = latest.values().map(|&at| Time(at)).collect();
        session.execute(TOUCH_TOKENS, &[&ids, &times]).await?;
        Ok(())
    }
}
