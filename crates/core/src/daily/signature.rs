//! Signatures of Daily's webhooks: HMAC-SHA256, with the decoded secret, over the timestamp as it
//! was received, a dot and the body's bytes.
//!
//! Invariants: without a secret nothing is verified; how long it takes tells nothing about a secret,
//! nor which of them fits.

use std::time::Duration;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

use super::loose::instant_of;
use crate::Timestamp;

/// How old, or how far ahead, a signature may be. Generous, because nothing is promised about when a
/// repeated delivery is signed: what comes twice is known by its event's id.
pub const REPLAY_WINDOW_DEFAULT: Duration = Duration::from_secs(3600);

/// Shorter secrets can be guessed.
const SECRET_BYTES_MIN: usize = 16;
/// More digits are no time.
const TIMESTAMP_BYTES_MAX: usize = 32;

/// Secrets come with their padding and, from some hands, without.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What Daily signs with. Its `Debug` hides it.
#[derive(Clone)]
pub struct WebhookSecret {
    keyed: Hmac<Sha256>,
}

/// The text is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a Daily webhook secret is at least {SECRET_BYTES_MIN} bytes in base64")]
pub struct InvalidWebhookSecret;

impl WebhookSecret {
    /// Reads the text that Daily was given as `hmac`.
    pub fn parse(text: &str) -> Result<Self, InvalidWebhookSecret> {
        let bytes = LENIENT.decode(text.trim()).map_err(|_| InvalidWebhookSecret)?;
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(InvalidWebhookSecret);
        }
        let keyed = Hmac::new_from_slice(&bytes).expect("HMAC takes a key of any size");
        Ok(WebhookSecret { keyed })
    }

    /// The value of `X-Webhook-Signature`.
    pub fn sign(&self, timestamp: &str, body: &[u8]) -> String {
        BASE64_STANDARD.encode(self.mac(timestamp, body))
    }

    fn mac(&self, timestamp: &str, body: &[u8]) -> [u8; 32] {
        let mut mac = self.keyed.clone();
        mac.update(timestamp.as_bytes());
        mac.update(b".");
        mac.update(body);
        mac.finalize().into_bytes().into()
    }
}

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecret(hidden)")
    }
}

/// What came beside the body; `None` for what did not come, or not as text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignatureHeaders<'a> {
    /// `X-Webhook-Timestamp`.
    pub timestamp: Option<&'a str>,
    /// `X-Webhook-Signature`.
    pub signature: Option<&'a str>,
}

/// Why a delivery is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    #[error("no secret is configured")]
    NoSecret,
    #[error("X-Webhook-Timestamp is missing")]
    NoTimestamp,
    #[error("X-Webhook-Signature is missing")]
    NoSignature,
    #[error("the timestamp is no time")]
    OddTimestamp,
    #[error("the signature is too old or from the future")]
    OutsideWindow,
    #[error("the signature does not fit")]
    Wrong,
}

/// Believes a delivery that one of the secrets has signed, at most `window` ago or ahead.
/// [`Duration::MAX`] is any time.
pub fn verify(
    secrets: &[WebhookSecret],
    headers: SignatureHeaders<'_>,
    body: &[u8],
    window: Duration,
    now: Timestamp,
) -> Result<(), Unverified> {
    if secrets.is_empty() {
        return Err(Unverified::NoSecret);
    }
    let timestamp = headers.timestamp.ok_or(Unverified::NoTimestamp)?;
    let signature = headers.signature.ok_or(Unverified::NoSignature)?;
    let signed_at = read_timestamp(timestamp).ok_or(Unverified::OddTimestamp)?;
    let claimed = LENIENT.decode(signature.trim()).map_err(|_| Unverified::Wrong)?;
    // All are tried, also after one fits.
    let fits = secrets.iter().fold(Choice::from(0), |fits, secret| {
        fits | secret.mac(timestamp, body).as_slice().ct_eq(&claimed)
    });
    if !bool::from(fits) {
        return Err(Unverified::Wrong);
    }
    if now.since(signed_at).max(signed_at.since(now)) > window {
        return Err(Unverified::OutsideWindow);
    }
    Ok(())
}

/// Its unit is not documented: both are seen.
fn read_timestamp(text: &str) -> Option<Timestamp> {
    let is_number = !text.is_empty()
        && text.len() <= TIMESTAMP_BYTES_MAX
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_number.then(|| text.parse().ok().and_then(instant_of)).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 32 bytes that are 0 to 31.
    const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const BODY: &[u8] = br#"{"test":"test"}"#;
    const STAMP: &str = "1708972279961";
    /// Made once by another program from the three above.
    const SIGNATURE: &str = "eToyXiKmH2NT47y9e/gGWFLg6wXheSg9S3k6yX14UuI=";

    fn secret() -> WebhookSecret {
        WebhookSecret::parse(SECRET).unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_micros(1_708_972_280_000_000)
    }

    fn check(
        secrets: &[WebhookSecret],
        timestamp: Option<&str>,
        signature: Option<&str>,
        body: &[u8],
    ) -> Result<(), Unverified> {
        let headers = SignatureHeaders { timestamp, signature };
        verify(secrets, headers, body, REPLAY_WINDOW_DEFAULT, now())
    }

    #[test]
    fn a_signature_is_the_documented_one() {
        assert_eq!(secret().sign(STAMP, BODY), SIGNATURE);
        assert_eq!(check(&[secret()], Some(STAMP), Some(SIGNATURE), BODY), Ok(()));
    }

    #[test]
    fn what_is_missing_changed_or_foreign_is_not_believed() {
        let (ours, other) = (secret(), WebhookSecret::parse(&"b".repeat(32)).unwrap());
        let foreign = other.sign(STAMP, BODY);
        let ours = [ours];
        for (timestamp, signature, body, why) in [
            (None, Some(SIGNATURE), BODY, Unverified::NoTimestamp),
            (Some(STAMP), None, BODY, Unverified::NoSignature),
            (Some(""), Some(SIGNATURE), BODY, Unverified::OddTimestamp),
            (Some("now"), Some(SIGNATURE), BODY, Unverified::OddTimestamp),
            (Some("-1708972279"), Some(SIGNATURE), BODY, Unverified::OddTimestamp),
            (Some("1708972279961 "), Some(SIGNATURE), BODY, Unverified::OddTimestamp),
            (Some("1e12"), Some(SIGNATURE), BODY, Unverified::OddTimestamp),
            (Some("0"), Some(SIGNATURE), BODY, Unverified::OddTimestamp),
            (Some("1708972279962"), Some(SIGNATURE), BODY, Unverified::Wrong),
            (Some(STAMP), Some(""), BODY, Unverified::Wrong),
            (Some(STAMP), Some("not base64!"), BODY, Unverified::Wrong),
            (Some(STAMP), Some(&SIGNATURE[..20]), BODY, Unverified::Wrong),
            (Some(STAMP), Some(&foreign), BODY, Unverified::Wrong),
            (Some(STAMP), Some(SIGNATURE), br#"{"test": "test"}"#, Unverified::Wrong),
            (Some(STAMP), Some(SIGNATURE), b"", Unverified::Wrong),
        ] {
            let told = check(&ours, timestamp, signature, body);
            assert_eq!(told, Err(why), "{timestamp:?} {signature:?}");
        }
        assert_eq!(check(&[], Some(STAMP), Some(SIGNATURE), BODY), Err(Unverified::NoSecret));
        assert_eq!(check(&[other, secret()], Some(STAMP), Some(&foreign), BODY), Ok(()));
        assert_eq!(check(&[], None, None, BODY), Err(Unverified::NoSecret));
    }

    #[test]
    fn the_window_is_the_same_in_seconds_and_milliseconds() {
        let within = Duration::from_secs(300);
        for (stamp, is_believed) in [
            ("1708972280", true),
            ("1708972280000", true),
            ("1708972280.5", true),
            ("1708971980", true),
            ("1708971979", false),
            ("1708971979999", false),
            ("1708972580000", true),
            ("1708972581", false),
        ] {
            let signature = secret().sign(stamp, BODY);
            let headers =
                SignatureHeaders { timestamp: Some(stamp), signature: Some(signature.as_str()) };
            let told = verify(&[secret()], headers, BODY, within, now());
            assert_eq!(told.is_ok(), is_believed, "{stamp}: {told:?}");
            assert_eq!(verify(&[secret()], headers, BODY, Duration::MAX, now()), Ok(()));
        }
    }

    #[test]
    fn secrets_are_base64_and_long_enough() {
        let bare = WebhookSecret::parse(&format!(" {}\n", SECRET.trim_end_matches('='))).unwrap();
        assert_eq!(bare.sign(STAMP, BODY), SIGNATURE, "padding and white space do not matter");
        for bad in ["", "c2hvcnQ=", "not base64 at all, whatever", "AAEC*wQFBgcICQoLDA0ODw=="] {
            assert_eq!(WebhookSecret::parse(bad).err(), Some(InvalidWebhookSecret), "{bad}");
        }
        assert_eq!(format!("{bare:?}"), "WebhookSecret(hidden)");
    }

    proptest! {
        /// Whatever the secret, the body and the time: what was signed is believed, and what was
        /// changed in one bit is not.
        #[test]
        fn only_what_was_signed_is_believed(
            key in proptest::collection::vec(any::<u8>(), 16..80),
            body in proptest::collection::vec(any::<u8>(), 0..300),
            bit in any::<proptest::sample::Index>(),
        ) {
            let secret = WebhookSecret::parse(&BASE64_STANDARD.encode(key)).unwrap();
            let signature = secret.sign(STAMP, &body);
            let secrets = [secret];
            prop_assert_eq!(check(&secrets, Some(STAMP), Some(&signature), &body), Ok(()));
            let mut changed = [body, signature.into_bytes()].concat();
            let signature_at = changed.len() - SIGNATURE.len();
            // The last letters of a signature have bits that mean nothing.
            let bit = bit.index((changed.len() - 2) * 8);
            changed[bit / 8] ^= 1 << (bit % 8);
            let (body, signature) = changed.split_at(signature_at);
            let signature = String::from_utf8_lossy(signature);
            prop_assert!(check(&secrets, Some(STAMP), Some(&signature), body).is_err());
        }

        #[test]
        fn odd_headers_are_refused_without_a_panic(timestamp in ".{0,40}", signature in ".{0,60}") {
            prop_assert!(check(&[secret()], Some(&timestamp), Some(&signature), BODY).is_err());
        }
    }
}
