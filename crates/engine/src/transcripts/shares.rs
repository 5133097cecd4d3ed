//! Links that let whoever has them read a transcript.
//!
//! Invariant: the secret of a link is in the answer that made it and nowhere else.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{BotTarget, NewShare, Share, StoreError, Transcript};
use roundsman_core::users::UserId;
use sha2::{Digest, Sha256};

use super::Transcripts;
use crate::bots::nameable;
use crate::{Error, FieldError};

/// A link holds at least and at most this long.
pub const SHARE_SECS_MIN: u64 = 60;
pub const SHARE_SECS_MAX: u64 = 366 * 24 * 3600;

const SECRET_BYTES: usize = 32;

/// A link and the only copy of its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedShare {
    pub share: Share,
    /// URL-safe.
    pub secret: String,
}

impl std::fmt::Debug for IssuedShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedShare").field("share", &self.share).finish_non_exhaustive()
    }
}

impl Transcripts {
    /// Makes a link that holds for a while. `None` if the user has no such meeting.
    pub async fn share(
        &self,
        user: UserId,
        target: BotTarget,
        holds_for: Duration,
    ) -> Result<Option<IssuedShare>, Error> {
        if !(SHARE_SECS_MIN..=SHARE_SECS_MAX).contains(&holds_for.as_secs()) {
            let problem = format!("must be {SHARE_SECS_MIN} to {SHARE_SECS_MAX} seconds");
            return Err(Error::Invalid(vec![FieldError::new("expires_in_secs", problem)]));
        }
        if !nameable(&target) {
            return Ok(None);
        }
        let Some(row) = self.store().meeting(user, target).await? else { return Ok(None) };
        let meeting = row.meeting.id;
        let now = self.clock().now();
        if self.store().shares(user, meeting, now).await?.len()
            >= self.limits().shares_per_meeting_max
        {
            self.metrics().limit_hit("shares_per_meeting");
            let reason = "the meeting has too many links; end some of them first".to_owned();
            return Err(Error::Forbidden { reason });
        }
        let mut secret = [0u8; SECRET_BYTES];
        self.random().fill(&mut secret);
        let new = NewShare { secret_hash: hash(&secret), expires_at: now + holds_for };
        let target = BotTarget::Meeting(meeting);
        let share = self.store().share_transcript(user, target, new, now).await?;
        let secret = BASE64_URL_SAFE_NO_PAD.encode(secret);
        Ok(share.map(|share| IssuedShare { share, secret }))
    }

    /// What a link shows. `None` if it does not hold, or what it shows is gone.
    pub async fn shared(&self, secret: &str) -> Result<Option<(Share, Transcript)>, StoreError> {
        // Nothing that is longer is decoded.
        let decoded = Some(secret).filter(|secret| secret.len() <= 2 * SECRET_BYTES);
        let decoded = decoded.and_then(|secret| BASE64_URL_SAFE_NO_PAD.decode(secret).ok());
        let Some(secret) = decoded.and_then(|bytes| <[u8; SECRET_BYTES]>::try_from(bytes).ok())
        else {
            return Ok(None);
        };
        let now = self.clock().now();
        let Some(share) = self.store().share(hash(&secret), now).await? else { return Ok(None) };
        let target = BotTarget::Meeting(share.meeting_id);
        let transcript = self.store().transcript(share.user_id, target, None).await?;
        Ok(transcript.map(|transcript| (share, transcript)))
    }

    /// A user's links to a meeting that hold, newest first.
    pub async fn shares(&self, user: UserId, meeting: MeetingId) -> Result<Vec<Share>, StoreError> {
        self.store().shares(user, meeting, self.clock().now()).await
    }

    /// Ends a link. `false` if the user has no such link.
    pub async fn end_share(&self, user: UserId, share: i64) -> Result<bool, StoreError> {
        self.store().end_share(user, share).await
    }
}

fn hash(secret: &[u8; SECRET_BYTES]) -> [u8; 32] {
    Sha256::digest(secret).into()
}
