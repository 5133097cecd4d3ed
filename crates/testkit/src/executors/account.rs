//! Who may ask a stand-in, and with what it signs.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use ring::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_2048_8192_SHA256};
use roundsman_core::Timestamp;
use serde_json::{Value, json};
use sha2::Sha256;

use super::rsa;

const SERVICE_ACCOUNT_EMAIL: &str = "robot@stand-in.iam.example";

/// An account, with every sort of key.
#[derive(Debug, Clone)]
pub struct Account {
    pub api_key: String,
    pub access_key: String,
    pub secret_key: String,
    /// In the form of Standard Webhooks.
    pub webhook_secret: String,
}

impl Default for Account {
    fn default() -> Self {
        Account {
            api_key: "stand-in-api-key".to_owned(),
            access_key: "stand-in-access-key".to_owned(),
            secret_key: "stand-in-secret-key".to_owned(),
            webhook_secret: "whsec_c3RhbmQtaW4gd2ViaG9vayBzZWNyZXQh".to_owned(),
        }
    }
}

impl Account {
    /// The JSON file of a key, with the token's address at the stand-in.
    pub(super) fn service_account(&self, url: &str) -> String {
        json!({
            "type": "service_account",
            "client_email": SERVICE_ACCOUNT_EMAIL,
            "private_key_id": self.access_key,
            "private_key": rsa::private_pem(),
            "token_uri": format!("{url}/token"),
        })
        .to_string()
    }

    /// The token that a good statement is exchanged for.
    pub(super) fn oauth_token(&self) -> String {
        format!("oauth-{}", self.api_key)
    }

    /// Whether a token of Kling's sort is good now.
    pub(super) fn is_good_hs256(&self, token: &str, now: Timestamp) -> bool {
        let Some((unsigned, signature)) = token.rsplit_once('.') else { return false };
        let Some((_, claims)) = unsigned.split_once('.').map(|(h, c)| (h, claims(c))) else {
            return false;
        };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.secret_key.as_bytes()) else {
            return false;
        };
        mac.update(unsigned.as_bytes());
        let Ok(signature) = BASE64_URL_SAFE_NO_PAD.decode(signature) else { return false };
        let now = now.as_micros() / 1_000_000;
        mac.verify_slice(&signature).is_ok()
            && claims["iss"] == json!(self.access_key)
            && claims["exp"].as_i64().is_some_and(|exp| now < exp && exp <= now + 1800)
            && claims["nbf"].as_i64().is_some_and(|nbf| nbf <= now)
    }

    /// Whether a statement for a token is good now.
    pub(super) fn is_good_rs256(token: &str, url: &str, now: Timestamp) -> bool {
        let Some((unsigned, signature)) = token.rsplit_once('.') else { return false };
        let Ok(signature) = BASE64_URL_SAFE_NO_PAD.decode(signature) else { return false };
        let (public, message) = (rsa::public(), unsigned.as_bytes());
        let claims = unsigned.split_once('.').map(|(_, encoded)| claims(encoded));
        let claims = claims.unwrap_or_default();
        let now = now.as_micros() / 1_000_000;
        public.verify(&RSA_PKCS1_2048_8192_SHA256, message, &signature).is_ok()
            && claims["iss"] == json!(SERVICE_ACCOUNT_EMAIL)
            && claims["aud"] == json!(format!("{url}/token"))
            && claims["scope"].as_str().is_some_and(|scope| scope.contains("cloud-platform"))
            && claims["exp"].as_i64().is_some_and(|exp| now < exp && exp <= now + 3600)
    }

    /// The headers of Standard Webhooks.
    pub(super) fn standard_headers(
        &self,
        id: &str,
        body: &str,
        now: Timestamp,
    ) -> Vec<(String, String)> {
        let seconds = (now.as_micros() / 1_000_000).to_string();
        let signature = self.hmac(format!("{id}.{seconds}.{body}").as_bytes());
        vec![
            ("webhook-id".to_owned(), id.to_owned()),
            ("webhook-timestamp".to_owned(), seconds),
            ("webhook-signature".to_owned(), format!("v1,{signature}")),
        ]
    }

    /// Over anything, in base64.
    pub(super) fn hmac(&self, bytes: &[u8]) -> String {
        let encoded = self.webhook_secret.trim_start_matches("whsec_");
        let key = BASE64_STANDARD.decode(encoded).unwrap_or_default();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes a key of any size");
        mac.update(bytes);
        BASE64_STANDARD.encode(mac.finalize().into_bytes())
    }

    /// Signs as fal does, in hexadecimal.
    pub(super) fn ed25519(&self, message: &[u8]) -> String {
        hex::encode(self.pair().sign(message).as_ref())
    }

    /// The public key as fal shows it, after one of another sort.
    pub(super) fn key_set(&self) -> Value {
        let x = BASE64_URL_SAFE_NO_PAD.encode(self.pair().public_key().as_ref());
        json!({"keys": [
            {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
            {"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": x},
        ]})
    }

    fn pair(&self) -> Ed25519KeyPair {
        let mut seed = [7u8; 32];
        for (to, from) in seed.iter_mut().zip(self.secret_key.bytes()) {
            *to = from;
        }
        Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seed has 32 bytes")
    }
}

fn claims(encoded: &str) -> Value {
    let decoded = BASE64_URL_SAFE_NO_PAD.decode(encoded).unwrap_or_default();
    serde_json::from_slice(&decoded).unwrap_or_default()
}
