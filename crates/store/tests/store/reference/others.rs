//! Everything but the jobs.

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::effects::{
    Effects, Frame, LoggedTransition, Transition, Violation, WebhookEvent,
};
use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{Database, EffectStore, StoreError, UserStore};
use roundsman_core::users::{ApiToken, NewToken, NewUser, TokenId, User, UserId};

use super::{Reference, State, next_id};

#[async_trait]
impl Database for Reference {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(Timestamp::MAX)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn describe(&self) -> String {
        "reference 1".to_owned()
    }

    async fn close(&self) {}
}

#[async_trait]
impl EffectStore for Reference {
    async fn commit(
        &self,
        guard: Option<LeaseRef>,
        effects: Effects,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let held = guard.is_none_or(|lease| state.holds(lease));
        if held {
            state.apply(&self.rules, effects, now);
        }
        Ok(held)
    }

    async fn frames(
        &self,
        stream: String,
        after_seq: i64,
        rows_max: u32,
    ) -> Result<Vec<Frame>, StoreError> {
        let state = self.lock();
        let wanted = |frame: &&Frame| frame.stream == stream && frame.seq > after_seq;
        let frames = state.frames.iter().filter(wanted).cloned();
        Ok(frames.take(rows_max as usize).collect())
    }

    async fn transitions(
        &self,
        entity: String,
        entity_id: i64,
    ) -> Result<Vec<LoggedTransition>, StoreError> {
        let state = self.lock();
        let wanted =
            |step: &&LoggedTransition| step.entity == entity && step.entity_id == entity_id;
        Ok(state.transitions.iter().filter(wanted).cloned().collect())
    }

    async fn webhook_events(
        &self,
        after_id: i64,
        rows_max: u32,
    ) -> Result<Vec<(i64, WebhookEvent)>, StoreError> {
        let state = self.lock();
        let events = state.webhooks.iter().filter(|stored| stored.id > after_id);
        let events = events.map(|stored| (stored.id, stored.event.clone()));
        Ok(events.take(rows_max as usize).collect())
    }

    async fn check(&self) -> Result<Vec<Violation>, StoreError> {
        Ok(vec![])
    }
}

#[async_trait]
impl UserStore for Reference {
    async fn find_or_create_user(
        &self,
        user: NewUser,
        now: Timestamp,
    ) -> Result<(User, bool), StoreError> {
        let mut state = self.lock();
        if let Some(known) = state.users.iter().find(|known| known.email == user.email) {
            return Ok((known.clone(), false));
        }
        let made = User {
            id: UserId::new(next_id(state.users.len())),
            email: user.email,
            name: user.name,
            image_url: user.image_url,
            max_concurrent_bots: user.max_concurrent_bots,
            created_at: now,
            data: "{}".to_owned(),
        };
        state.users.push(made.clone());
        Ok((made, true))
    }

    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        Ok(self.lock().users.iter().find(|user| user.id == id).cloned())
    }

    async fn user_by_email(&self, email: String) -> Result<Option<User>, StoreError> {
        Ok(self.lock().users.iter().find(|user| user.email == email).cloned())
    }

    async fn users(&self, skip: u32, rows_max: u32) -> Result<Vec<User>, StoreError> {
        let state = self.lock();
        let users = state.users.iter().skip(skip as usize).take(rows_max as usize);
        Ok(users.cloned().collect())
    }

    async fn update_user(&self, user: User) -> Result<Option<User>, StoreError> {
        let mut state = self.lock();
        let known = state.users.iter_mut().find(|known| known.id == user.id);
        Ok(known.map(|known| {
            known.name = user.name;
            known.image_url = user.image_url;
            known.max_concurrent_bots = user.max_concurrent_bots;
            known.data = user.data;
            known.clone()
        }))
    }

    async fn create_token(
        &self,
        token: NewToken,
        now: Timestamp,
    ) -> Result<Option<ApiToken>, StoreError> {
        let mut state = self.lock();
        if !state.users.iter().any(|user| user.id == token.user_id) {
            return Ok(None);
        }
        let made = ApiToken {
            id: TokenId::new(next_id(state.tokens.len())),
            user_id: token.user_id,
            name: token.name,
            scopes: token.scopes,
            hash: token.hash,
            created_at: now,
            expires_at: token.expires_at,
            last_used_at: None,
            revoked_at: None,
        };
        state.tokens.push(made.clone());
        self.log_token(&mut state, made.id, None, "active", "created", now);
        Ok(Some(made))
    }

    async fn token(&self, id: TokenId) -> Result<Option<ApiToken>, StoreError> {
        Ok(self.lock().tokens.iter().find(|token| token.id == id).cloned())
    }

    async fn tokens_of(&self, user: UserId) -> Result<Vec<ApiToken>, StoreError> {
        let state = self.lock();
        Ok(state.tokens.iter().filter(|token| token.user_id == user).cloned().collect())
    }

    async fn revoke_token(
        &self,
        id: TokenId,
        cause: &'static str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let live = |token: &&mut ApiToken| token.id == id && token.revoked_at.is_none();
        let Some(token) = state.tokens.iter_mut().find(live) else {
            return Ok(false);
        };
        token.revoked_at = Some(now);
        self.log_token(&mut state, id, Some("active"), "revoked", cause, now);
        Ok(true)
    }

    async fn user_of_vexa_key(&self, _key: String) -> Result<Option<UserId>, StoreError> {
        Ok(None)
    }

    async fn touch_tokens(&self, used: Vec<(TokenId, Timestamp)>) -> Result<(), StoreError> {
        let mut state = self.lock();
        for (id, at) in used {
            for token in state.tokens.iter_mut().filter(|token| token.id == id) {
                token.last_used_at = token.last_used_at.max(Some(at));
            }
        }
        Ok(())
    }
}

impl Reference {
    fn log_token(
        &self,
        state: &mut State,
        id: TokenId,
        from: Option<&str>,
        to: &str,
        cause: &str,
        now: Timestamp,
    ) {
        let step = Transition {
            entity: "token",
            entity_id: id.get(),
            from_state: from.map(ToOwned::to_owned),
            to_state: to.to_owned(),
            cause: cause.to_owned(),
            detail: None,
        };
        let effects = Effects { transitions: vec![step], ..Effects::default() };
        state.apply(&self.rules, effects, now);
    }
}
