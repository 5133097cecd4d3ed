//! Signatures as Standard Webhooks describes them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::Timestamp;
use crate::ports::Random;

/// Begins a secret's text.
const SECRET_PREFIX: &str = "whsec_";
/// A secret's length, by the standard.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// What an endpoint's events are signed with. Its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Vec<u8>);

/// The text is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a webhook secret is `whsec_` and 24 to 64 bytes in base64, or at least 24 characters")]
pub struct InvalidSecret;

impl SigningSecret {
    pub fn draw(random: &dyn Random) -> Self {
        let mut bytes = vec![0u8; 32];
        random.fill(&mut bytes);
        SigningSecret(bytes)
    }

    /// Reads the standard's form; a text without its prefix is taken as it is, which is how Vexa's
    /// clients give theirs.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let bytes = match text.strip_prefix(SECRET_PREFIX) {
            Some(encoded) => BASE64_STANDARD.decode(encoded).map_err(|_| InvalidSecret)?,
            None => text.as_bytes().to_vec(),
        };
        if SECRET_BYTES.contains(&bytes.len()) {
            Ok(SigningSecret(bytes))
        } else {
            Err(InvalidSecret)
        }
    }

    pub fn from_stored(bytes: Vec<u8>) -> Self {
        SigningSecret(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text its owner verifies with.
    pub fn reveal(&self) -> String {
        format!("{SECRET_PREFIX}{}", BASE64_STANDARD.encode(&self.0))
    }

    /// The headers of one sending.
    pub fn headers(
        &self,
        event_id: &str,
        body: &str,
        now: Timestamp,
    ) -> Vec<(&'static str, String)> {
        let seconds = (now.as_micros() / 1_000_000).to_string();
        let signature = self.sign(&format!("{event_id}.{seconds}.{body}"));
        vec![
            ("webhook-id", event_id.to_owned()),
            ("webhook-timestamp", seconds),
            ("webhook-signature", format!("v1,{signature}")),
        ]
    }

    fn sign(&self, text: &str) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any size");
        mac.update(text.as_bytes());
        BASE64_STANDARD.encode(mac.finalize().into_bytes())
    }
}

impl std::fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningSecret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that the standard's own libraries test themselves with.
    #[test]
    fn a_signature_is_the_standards() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let at = Timestamp::from_micros(1_614_265_330_000_000);
        let headers = secret.headers("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#, at);
        assert_eq!(headers[1].1, "1614265330");
        assert_eq!(headers[2].1, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_read_back_and_short_ones_are_refused() {
        let secret = SigningSecret::parse("a plain secret of some length").unwrap();
        assert_eq!(SigningSecret::parse(&secret.reveal()), Ok(secret));
        for bad in ["", "short", "whsec_!!!", "whsec_c2hvcnQ="] {
            assert_eq!(SigningSecret::parse(bad), Err(InvalidSecret), "{bad}");
        }
    }
}
