//! Users and their tokens in the database.

use async_trait::async_trait;

use super::StoreError;
use crate::Timestamp;
use crate::users::{ApiToken, NewToken, NewUser, TokenId, User, UserId};

/// Stores users and tokens. A token's making and revoking are logged as transitions of the entity
/// `token` (`active`, `revoked`) in the same transaction.
#[async_trait]
pub trait UserStore: Send + Sync {
    /// The user with this e-mail address (already normalised), made if there is none. The flag says
    /// whether it was made.
    async fn find_or_create_user(
        &self,
        user: NewUser,
        now: Timestamp,
    ) -> Result<(User, bool), StoreError>;

    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError>;

    async fn user_by_email(&self, email: String) -> Result<Option<User>, StoreError>;

    /// Users by ascending number.
    async fn users(&self, skip: u32, rows_max: u32) -> Result<Vec<User>, StoreError>;

    /// Replaces what may change: name, image, limit of bots, data. `None` if there is no such user.
    async fn update_user(&self, user: User) -> Result<Option<User>, StoreError>;

    /// `None` if there is no such user.
    async fn create_token(
        &self,
        token: NewToken,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError>;

    /// The token, revoked or not.
    async fn token(&self, id: TokenId) -> Result<Option<ApiToken>, StoreError>;

    /// A user's tokens by ascending number.
    async fn tokens_of(&self, user: UserId) -> Result<Vec<ApiToken>, StoreError>;

    /// Whether there was a live token to revoke.
    async fn revoke_token(
        &self,
        id: TokenId,
        cause: &'static str,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Whose key this is in the `api_tokens` of an existing Vexa database, which keeps them as plain
    /// text. `None` where there is no such key or no such table.
    async fn user_of_vexa_key(&self, key: String) -> Result<Option<UserId>, StoreError>;

    /// Notes when tokens were last used; an older time than the stored one changes nothing.
    async fn touch_tokens(&self, used: Vec<(TokenId, Timestamp)>) -> Result<(), StoreError>;
}
