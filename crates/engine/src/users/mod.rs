//! Users and tokens at run time: making them, and telling who is asking.

mod authenticator;

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::failpoint;
use roundsman_core::ports::{Clock, Random, UserStore};
use roundsman_core::users::{
    ApiToken, NewToken, NewUser, TokenId, TokenScope, TokenSecret, User, UserId, normal_email,
};

pub use authenticator::{AdminToken, Authenticator, AuthenticatorOptions, Denied};

use crate::{Error, FieldError};

/// Makes, changes and lists users and tokens: the operator's service.
#[derive(Clone)]
pub struct Users {
    store: Arc<dyn UserStore>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    authenticator: Authenticator,
}

/// A user as asked for.
#[derive(Debug, Clone, Default)]
pub struct UserWish {
    pub email: String,
    pub name: Option<String>,
    pub image_url: Option<String>,
    pub max_concurrent_bots: Option<i32>,
}

/// What may be changed of a user; `None` leaves it.
#[derive(Debug, Clone, Default)]
pub struct UserChange {
    pub name: Option<String>,
    pub image_url: Option<String>,
    pub max_concurrent_bots: Option<i32>,
    /// A JSON object; replaces the whole.
    pub data: Option<String>,
}

/// A token as asked for.
#[derive(Debug, Clone, Default)]
pub struct TokenWish {
    pub name: Option<String>,
    pub scopes: Vec<String>,
    pub expires_in: Option<Duration>,
}

/// A token and the only copy of its text.
#[derive(Debug)]
pub struct IssuedToken {
    pub token: ApiToken,
    pub text: String,
}

impl Users {
    pub fn new(
        store: Arc<dyn UserStore>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        authenticator: Authenticator,
    ) -> Self {
        Users { store, clock, random, authenticator }
    }

    /// The user with this address, made if there is none; the flag says whether it was made.
    pub async fn find_or_create(&self, wish: UserWish) -> Result<(User, bool), Error> {
        let email = normal_email(&wish.email).map_err(|e| invalid("email", &e))?;
        check_text("name", wish.name.as_deref(), 100)?;
        check_text("image_url", wish.image_url.as_deref(), 2048)?;
        let max_concurrent_bots = wish.max_concurrent_bots.unwrap_or(1);
        check_bots(max_concurrent_bots)?;
        let UserWish { name, image_url, .. } = wish;
        let user = NewUser { email, name, image_url, max_concurrent_bots };
        Ok(self.store.find_or_create_user(user, self.clock.now()).await?)
    }

    pub async fn user(&self, id: UserId) -> Result<User, Error> {
        self.store.user(id).await?.ok_or(Error::NotFound { what: "user" })
    }

    pub async fn user_by_email(&self, email: &str) -> Result<User, Error> {
        let email = normal_email(email).map_err(|e| invalid("email", &e))?;
        self.store.user_by_email(email).await?.ok_or(Error::NotFound { what: "user" })
    }

    pub async fn users(&self, skip: u32, rows_max: u32) -> Result<Vec<User>, Error> {
        Ok(self.store.users(skip, rows_max.clamp(1, 1000)).await?)
    }

    pub async fn update(&self, id: UserId, change: UserChange) -> Result<User, Error> {
        let mut user = self.user(id).await?;
        if let Some(name) = change.name {
            check_text("name", Some(&name), 100)?;
            user.name = Some(name);
        }
        if let Some(url) = change.image_url {
            check_text("image_url", Some(&url), 2048)?;
            user.image_url = Some(url);
        }
        if let Some(max) = change.max_concurrent_bots {
            check_bots(max)?;
            user.max_concurrent_bots = max;
        }
        if let Some(data) = change.data {
            let object = serde_json::from_str::<serde_json::Map<_, _>>(&data);
            if object.is_err() || data.contains("\\u0000") {
                return Err(invalid("data", &"must be a JSON object without NUL"));
            }
            user.data = data;
        }
        self.store.update_user(user).await?.ok_or(Error::NotFound { what: "user" })
    }

    /// Makes a token. Its text is in the answer and nowhere else.
    pub async fn issue_token(
        &self,
        user_id: UserId,
        wish: TokenWish,
    ) -> Result<IssuedToken, Error> {
        check_text("name", wish.name.as_deref(), 200)?;
        let mut scopes = Vec::new();
        for text in &wish.scopes {
            let scope = TokenScope::parse(text).map_err(|e| invalid("scopes", &e))?;
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        let now = self.clock.now();
        let secret = TokenSecret::draw(self.random.as_ref());
        let new = NewToken {
            user_id,
            name: wish.name,
            scopes,
            hash: secret.hash(),
            expires_at: wish.expires_in.map(|life| now + life),
        };
        let made = self.store.create_token(new, now).await?;
        let token = made.ok_or(Error::NotFound { what: "user" })?;
        failpoint::hit("users.token_issued");
        Ok(IssuedToken { text: secret.reveal(token.id), token })
    }

    pub async fn tokens_of(&self, user_id: UserId) -> Result<Vec<ApiToken>, Error> {
        Ok(self.store.tokens_of(user_id).await?)
    }

    /// Revokes a token; on this node it stops working at once, on others within the cache's time.
    pub async fn revoke_token(&self, id: TokenId) -> Result<(), Error> {
        let revoked = self.store.revoke_token(id, "admin", self.clock.now()).await?;
        self.authenticator.forget(id);
        if revoked { Ok(()) } else { Err(Error::NotFound { what: "token" }) }
    }
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Users").finish_non_exhaustive()
    }
}

fn invalid(field: &str, problem: &dyn std::fmt::Display) -> Error {
    Error::Invalid(vec![FieldError::new(field, problem.to_string())])
}

fn check_text(field: &str, text: Option<&str>, chars_max: usize) -> Result<(), Error> {
    let Some(text) = text else { return Ok(()) };
    if text.chars().count() > chars_max || text.contains('\0') {
        return Err(invalid(field, &format!("must be at most {chars_max} characters without NUL")));
    }
    Ok(())
}

fn check_bots(max: i32) -> Result<(), Error> {
    if (0..=10_000).contains(&max) {
        return Ok(());
    }
    Err(invalid("max_concurrent_bots", &"must be from 0 to 10000"))
}
