//! fal's signatures: Ed25519 over its headers and the body's hash, with keys that fal shows.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::Method;
use ring::signature::{ED25519, UnparsedPublicKey};
use roundsman_core::Timestamp;
use roundsman_core::ports::{Clock, Unverified, WebhookDelivery};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use url::Url;

use crate::http::{self, Call, CallLimits, Place, Tls};

/// How long keys are believed.
const KEPT_FOR: Duration = Duration::from_secs(3600);
/// How often they are asked for when a signature does not fit: a new key may be the reason, and an
/// attacker must not be.
const ASKED_EVERY: Duration = Duration::from_secs(60);
const KEYS_MAX: usize = 16;
const LIMITS: CallLimits =
    CallLimits { time_max: Duration::from_secs(10), answer_bytes_max: 64 * 1024 };

/// What fal's headers say.
pub(super) struct Signed<'a> {
    request_id: &'a str,
    user_id: &'a str,
    pub(super) timestamp: &'a str,
    signature: Vec<u8>,
}

impl<'a> Signed<'a> {
    pub(super) fn read(delivery: &WebhookDelivery<'a>) -> Option<Self> {
        Some(Signed {
            request_id: delivery.header("x-fal-webhook-request-id")?,
            user_id: delivery.header("x-fal-webhook-user-id")?,
            timestamp: delivery.header("x-fal-webhook-timestamp")?,
            signature: hex::decode(delivery.header("x-fal-webhook-signature")?).ok()?,
        })
    }

    fn message(&self, body: &[u8]) -> String {
        let hash = hex::encode(Sha256::digest(body));
        [self.request_id, self.user_id, self.timestamp, &hash].join("\n")
    }
}

/// The keys, as they were last seen.
pub(super) struct PublicKeys {
    place: Place,
    clock: Arc<dyn Clock>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    keys: Vec<Vec<u8>>,
    at: Option<Timestamp>,
    asked_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    kty: String,
    #[serde(default)]
    crv: String,
    #[serde(default)]
    x: String,
}

impl PublicKeys {
    pub(super) fn new(url: &Url, tls: &Tls, clock: &Arc<dyn Clock>) -> Result<Self, String> {
        let place = Place::of(url, tls).ok_or("webhook.keys_url leads nowhere")?;
        Ok(PublicKeys { place, clock: clock.clone(), seen: Mutex::default() })
    }

    pub(super) async fn verify(&self, signed: &Signed<'_>, body: &[u8]) -> Result<(), Unverified> {
        let message = signed.message(body);
        let fits = |key: &Vec<u8>| {
            let key = UnparsedPublicKey::new(&ED25519, key);
            key.verify(message.as_bytes(), &signed.signature).is_ok()
        };
        let mut seen = self.seen.lock().await;
        let now = self.clock.now();
        let is_older = |at: Option<Timestamp>, age| at.is_none_or(|at| now.since(at) >= age);
        if is_older(seen.at, KEPT_FOR) {
            self.look(&mut seen, now).await?;
        }
        if seen.keys.iter().any(fits) {
            return Ok(());
        }
        if is_older(seen.asked_at, ASKED_EVERY) {
            self.look(&mut seen, now).await?;
        }
        if seen.keys.iter().any(fits) { Ok(()) } else { Err(Unverified::Signature) }
    }

    async fn look(&self, seen: &mut Seen, now: Timestamp) -> Result<(), Unverified> {
        seen.asked_at = Some(now);
        let call = Call {
            method: Method::GET,
            target: self.place.target.clone(),
            host: self.place.host.clone(),
            headers: Vec::new(),
            json: None,
        };
        let unavailable = |reason: String| Unverified::KeysUnavailable(reason);
        let answer = http::send(&self.place.route, call, LIMITS).await;
        let answer = answer.map_err(|error| unavailable(error.to_string()))?;
        if answer.status != 200 {
            return Err(unavailable(format!("{}", answer.status)));
        }
        let set: KeySet = serde_json::from_slice(&answer.body)
            .map_err(|_| unavailable("the answer is no key set".to_owned()))?;
        let ours = set.keys.iter().filter(|key| key.kty == "OKP" && key.crv == "Ed25519");
        let decoded = ours.filter_map(|key| BASE64_URL_SAFE_NO_PAD.decode(&key.x).ok());
        seen.keys = decoded.take(KEYS_MAX).collect();
        seen.at = Some(now);
        Ok(())
    }
}
