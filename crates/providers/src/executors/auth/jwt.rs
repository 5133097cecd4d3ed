//! JSON Web Tokens, as much of them as services ask for.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use roundsman_core::ports::Clock;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use sha2::Sha256;

/// Makes tokens that say who we are, signed with a secret that the service knows.
pub(in crate::executors) struct Minter {
    pub(super) issuer: SecretString,
    pub(super) key: SecretString,
    pub(super) ttl: Duration,
    pub(super) skew: Duration,
    pub(super) clock: Arc<dyn Clock>,
}

impl Minter {
    /// A new one for every request: it is cheap, and never about to expire.
    pub(super) fn mint(&self) -> String {
        let now = self.clock.now();
        let claims = json!({
            "iss": self.issuer.expose_secret(),
            "exp": (now + self.ttl).as_micros() / 1_000_000,
            "nbf": (now - self.skew).as_micros() / 1_000_000,
        });
        let unsigned = unsigned(&json!({"alg": "HS256", "typ": "JWT"}), &claims);
        let key = self.key.expose_secret().as_bytes();
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any size");
        mac.update(unsigned.as_bytes());
        signed(&unsigned, &mac.finalize().into_bytes())
    }
}

/// What is signed.
pub(super) fn unsigned(header: &Value, claims: &Value) -> String {
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

pub(super) fn signed(unsigned: &str, signature: &[u8]) -> String {
    format!("{unsigned}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}
