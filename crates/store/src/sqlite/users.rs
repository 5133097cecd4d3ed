//! Users and their tokens.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::ports::{StoreError, UserStore};
use roundsman_core::users::{ApiToken, NewToken, NewUser, TokenId, User, UserId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::SqliteStore;
use super::effects::log_transition;
use super::error::Result as InTransaction;
use super::time::{At, optional};
use crate::rows::{hash_from_bytes, scopes_from_text, scopes_to_text, token_made, token_revoked};

macro_rules! user_columns {
    () => {
        "id, email, name, image_url, max_concurrent_bots, created_at, data"
    };
}

macro_rules! token_columns {
    () => {
        "id, user_id, name, scopes, secret_hash, created_at, expires_at, last_used_at, revoked_at"
    };
}

#[async_trait]
impl UserStore for SqliteStore {
    async fn find_or_create_user(
        &self,
        user: NewUser,
        now: Timestamp,
    ) -> Result<(User, bool), StoreError> {
        self.write("store.create_user", move |conn, _| {
            let made = conn
                .prepare_cached(INSERT_USER)?
                .query_row(
                    params![
                        user.email,
                        user.name,
                        user.image_url,
                        user.max_concurrent_bots,
                        At(now)
                    ],
                    read_user,
                )
                .optional()?;
            if let Some(made) = made {
                return Ok((made, true));
            }
            let found = conn.prepare_cached(USER_BY_EMAIL)?.query_row([&user.email], read_user)?;
            Ok((found, false))
        })
        .await
    }

    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        self.read(move |conn| {
            Ok(conn.prepare_cached(USER)?.query_row([id.get()], read_user).optional()?)
        })
        .await
    }

    async fn user_by_email(&self, email: String) -> Result<Option<User>, StoreError> {
        self.read(move |conn| {
            Ok(conn.prepare_cached(USER_BY_EMAIL)?.query_row([email], read_user).optional()?)
        })
        .await
    }

    async fn users(&self, skip: u32, rows_max: u32) -> Result<Vec<User>, StoreError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(USERS)?;
            let users = statement.query_map([rows_max, skip], read_user)?;
            Ok(users.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn update_user(&self, user: User) -> Result<Option<User>, StoreError> {
        self.write("store.update_user", move |conn, _| {
            let updated = conn.prepare_cached(UPDATE_USER)?.query_row(
                params![
                    user.id.get(),
                    user.name,
                    user.image_url,
                    user.max_concurrent_bots,
                    user.data
                ],
                read_user,
            );
            Ok(updated.optional()?)
        })
        .await
    }

    async fn create_token(
        &self,
        token: NewToken,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError> {
        self.write("store.create_token", move |conn, _| create_token(conn, &token, now)).await
    }

    async fn token(&self, id: TokenId) -> Result<Option<ApiToken>, StoreError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(TOKEN)?;
            let columns = statement.query_row([id.get()], read_token).optional()?;
            Ok(columns.map(TokenColumns::into_token).transpose()?)
        })
        .await
    }

    async fn tokens_of(&self, user: UserId) -> Result<Vec<ApiToken>, StoreError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(TOKENS_OF)?;
            let mut rows = statement.query([user.get()])?;
            let mut tokens = Vec::new();
            while let Some(row) = rows.next()? {
                tokens.push(read_token(row)?.into_token()?);
            }
            Ok(tokens)
        })
        .await
    }

    async fn revoke_token(
        &self,
        id: TokenId,
        cause: &'static str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write("store.revoke_token", move |conn, _| {
            let revoked = conn.prepare_cached(REVOKE)?.execute(params![id.get(), At(now)])? == 1;
            if revoked {
                log_transition(conn, &token_revoked(id.get(), cause), now)?;
            }
            Ok(revoked)
        })
        .await
    }

    async fn user_of_vexa_key(&self, _key: String) -> Result<Option<UserId>, StoreError> {
        // No Vexa database is a SQLite file, so there are no keys of one.
        Ok(None)
    }

    async fn touch_tokens(&self, used: Vec<(TokenId, Timestamp)>) -> Result<(), StoreError> {
        self.write("store.touch_tokens", move |conn, _| {
            let mut statement = conn.prepare_cached(TOUCH)?;
            for (id, at) in used {
                statement.execute(params![id.get(), At(at)])?;
            }
            Ok(())
        })
        .await
    }
}

const INSERT_USER: &str = concat!(
    "-- insert_user
    INSERT INTO users (email, name, image_url, max_concurrent_bots, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (email) DO NOTHING
    RETURNING ",
    user_columns!()
);

pub(super) const USER: &str = concat!(
    "-- user
    SELECT ",
    user_columns!(),
    " FROM users WHERE id = ?1"
);

const USER_BY_EMAIL: &str = concat!(
    "-- user_by_email
    SELECT ",
    user_columns!(),
    " FROM users WHERE email = ?1"
);

const USERS: &str = concat!(
    "-- users
    SELECT ",
    user_columns!(),
    " FROM users ORDER BY id LIMIT ?1 OFFSET ?2"
);

const UPDATE_USER: &str = concat!(
    "-- update_user
    UPDATE users SET name = ?2, image_url = ?3, max_concurrent_bots = ?4, data = ?5 WHERE id = ?1
    RETURNING ",
    user_columns!()
);

/// Inserts nothing if there is no such user.
const INSERT_TOKEN: &str = concat!(
    "-- insert_token
    INSERT INTO api_tokens (user_id, name, scopes, secret_hash, created_at, expires_at)
    SELECT id, ?2, ?3, ?4, ?5, ?6 FROM users WHERE id = ?1
    RETURNING ",
    token_columns!()
);

const TOKEN: &str = concat!(
    "-- token
    SELECT ",
    token_columns!(),
    " FROM api_tokens WHERE id = ?1"
);

const TOKENS_OF: &str = concat!(
    "-- tokens_of
    SELECT ",
    token_columns!(),
    " FROM api_tokens WHERE user_id = ?1 ORDER BY id"
);

const REVOKE: &str = "-- revoke
    UPDATE api_tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";

const TOUCH: &str = "-- touch
    UPDATE api_tokens SET last_used_at = ?2
     WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)";

fn create_token(
    conn: &Connection,
    token: &NewToken,
    now: Timestamp,
) -> InTransaction<Option<ApiToken>> {
    let made = conn
        .prepare_cached(INSERT_TOKEN)?
        .query_row(
            params![
                token.user_id.get(),
                token.name,
                scopes_to_text(&token.scopes),
                token.hash.as_bytes(),
                At(now),
                token.expires_at.map(At),
            ],
            read_token,
        )
        .optional()?;
    let Some(columns) = made else { return Ok(None) };
    log_transition(conn, &token_made(columns.id), now)?;
    Ok(Some(columns.into_token()?))
}

pub(super) fn read_user(row: &Row<'_>) -> rusqlite::Result<User> {
    Ok(User {
        id: UserId::new(row.get(0)?),
        email: row.get(1)?,
        name: row.get(2)?,
        image_url: row.get(3)?,
        max_concurrent_bots: row.get(4)?,
        created_at: row.get(5).map(|At(at)| at)?,
        data: row.get(6)?,
    })
}

struct TokenColumns {
    id: i64,
    user_id: i64,
    name: Option<String>,
    scopes: String,
    secret_hash: Vec<u8>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

impl TokenColumns {
    fn into_token(self) -> Result<ApiToken, StoreError> {
        Ok(ApiToken {
            id: TokenId::new(self.id),
            user_id: UserId::new(self.user_id),
            name: self.name,
            scopes: scopes_from_text(&self.scopes, self.id)?,
            hash: hash_from_bytes(&self.secret_hash, self.id)?,
            created_at: self.created_at,
            expires_at: self.expires_at,
            last_used_at: self.last_used_at,
            revoked_at: self.revoked_at,
        })
    }
}

fn read_token(row: &Row<'_>) -> rusqlite::Result<TokenColumns> {
    Ok(TokenColumns {
        id: row.get(0)?,
        user_id: row.get(1)?,
        name: row.get(2)?,
        scopes: row.get(3)?,
        secret_hash: row.get(4)?,
        created_at: row.get(5).map(|At(at)| at)?,
        expires_at: optional(row.get(6)?),
        last_used_at: optional(row.get(7)?),
        revoked_at: optional(row.get(8)?),
    })
}
