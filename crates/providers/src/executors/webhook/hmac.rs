//! Signatures with a shared secret: Standard Webhooks, and Kling's variant of it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use roundsman_core::ports::{Unverified, WebhookDelivery};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// More signatures than that in one header are an attack on our patience.
const SIGNATURES_MAX: usize = 16;

pub(super) struct HmacSecret {
    keyed: Hmac<Sha256>,
}

/// What the standard's headers say.
pub(super) struct Signed<'a> {
    id: &'a str,
    pub(super) timestamp: &'a str,
    signatures: &'a str,
}

impl<'a> Signed<'a> {
    pub(super) fn read(delivery: &WebhookDelivery<'a>) -> Option<Self> {
        Some(Signed {
            id: delivery.header("webhook-id")?,
            timestamp: delivery.header("webhook-timestamp")?,
            signatures: delivery.header("webhook-signature")?,
        })
    }
}

impl HmacSecret {
    /// The standard's form, or a text as it is.
    pub(super) fn read(secret: &SecretString) -> Result<Self, String> {
        let text = secret.expose_secret().trim();
        let bytes = match text.strip_prefix("whsec_") {
            None => text.as_bytes().to_vec(),
            Some(encoded) => BASE64_STANDARD
                .decode(encoded)
                .map_err(|_| "webhook_secret: after `whsec_` comes base64".to_owned())?,
        };
        if bytes.len() < super::TOKEN_BYTES_MIN {
            return Err(format!("webhook_secret: at least {} bytes", super::TOKEN_BYTES_MIN));
        }
        let keyed = Hmac::new_from_slice(&bytes).expect("HMAC takes a key of any size");
        Ok(HmacSecret { keyed })
    }

    pub(super) fn verify(&self, signed: &Signed<'_>, body: &[u8]) -> Result<(), Unverified> {
        let head = format!("{}.{}.", signed.id, signed.timestamp);
        self.any(signed.signatures, &[head.as_bytes(), body])
    }

    /// Over the body alone.
    pub(super) fn verify_body(&self, delivery: &WebhookDelivery<'_>) -> Result<(), Unverified> {
        let signatures = delivery.header("webhook-signature").ok_or(Unverified::Signature)?;
        self.any(signatures, &[delivery.body])
    }

    /// While keys change there are several signatures.
    fn any(&self, signatures: &str, parts: &[&[u8]]) -> Result<(), Unverified> {
        let fits = |signature: &str| {
            let encoded = signature.strip_prefix("v1,")?;
            let expected = BASE64_STANDARD.decode(encoded).ok()?;
            let mut mac = self.keyed.clone();
            for part in parts {
                mac.update(part);
            }
            mac.verify_slice(&expected).ok()
        };
        let mut signatures = signatures.split_whitespace().take(SIGNATURES_MAX);
        if signatures.any(|signature| fits(signature).is_some()) {
            Ok(())
        } else {
            Err(Unverified::Signature)
        }
    }
}
