//! Whether a webhook comes from the service.
//!
//! Invariants: what is not verified is not read; how long it takes tells nothing about a secret; an
//! old message is refused even if it is genuine.

mod fal;
mod hmac;

use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::ports::{Clock, Unverified, WebhookDelivery};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use subtle::ConstantTimeEq;
use url::{Url, form_urlencoded};

use super::description::VerifyWord;
use super::plan::WebhookPlan;
use super::pointer::{Pointer, first_text};
use super::secrets::Secrets;
use crate::http::Tls;
use fal::PublicKeys;
use hmac::HmacSecret;

/// Where our own token is in the callback's address.
const TOKEN: &str = "token";
const TOKEN_BYTES_MIN: usize = 16;

/// Believes webhooks, or does not.
pub(super) struct Verifier {
    proof: Proof,
    id: Vec<Pointer>,
    tolerance: Duration,
    clock: Arc<dyn Clock>,
}

enum Proof {
    Standard(HmacSecret),
    Kling(HmacSecret),
    Fal(PublicKeys),
    Token(SecretString),
}

impl Verifier {
    /// `None` without the secret that is needed: then there are no webhooks.
    pub(super) fn new(
        plan: &WebhookPlan,
        secrets: &Secrets,
        tls: &Tls,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Self>, String> {
        let secret = secrets.get("webhook_secret");
        let proof = match (plan.verify, secret, &plan.keys_url) {
            (VerifyWord::Fal, _, Some(url)) => Proof::Fal(PublicKeys::new(url, tls, clock)?),
            (VerifyWord::Fal, _, None) | (_, None, _) => return Ok(None),
            (VerifyWord::Standard, Some(secret), _) => Proof::Standard(HmacSecret::read(secret)?),
            (VerifyWord::Kling, Some(secret), _) => Proof::Kling(HmacSecret::read(secret)?),
            (VerifyWord::Token, Some(secret), _) => {
                if secret.expose_secret().len() < TOKEN_BYTES_MIN {
                    return Err(format!("webhook_secret: at least {TOKEN_BYTES_MIN} bytes"));
                }
                Proof::Token(secret.clone())
            }
        };
        let (id, tolerance) = (plan.id.clone(), plan.tolerance);
        Ok(Some(Verifier { proof, id, tolerance, clock: clock.clone() }))
    }

    /// The callback's address as the service is told it.
    pub(super) fn callback(&self, url: &str) -> Option<String> {
        let mut url = Url::parse(url).ok()?;
        if let Proof::Token(token) = &self.proof {
            url.query_pairs_mut().append_pair(TOKEN, token.expose_secret());
        }
        Some(url.into())
    }

    /// The id of the task that it is about.
    pub(super) async fn verify(
        &self,
        delivery: &WebhookDelivery<'_>,
    ) -> Result<String, Unverified> {
        match &self.proof {
            Proof::Standard(secret) => {
                let signed = hmac::Signed::read(delivery).ok_or(Unverified::Signature)?;
                secret.verify(&signed, delivery.body)?;
                self.check_time(signed.timestamp)?;
            }
            Proof::Kling(secret) => match hmac::Signed::read(delivery) {
                Some(signed) => {
                    secret.verify(&signed, delivery.body)?;
                    self.check_time(signed.timestamp)?;
                }
                None => secret.verify_body(delivery)?,
            },
            Proof::Fal(keys) => {
                let signed = fal::Signed::read(delivery).ok_or(Unverified::Signature)?;
                self.check_time(signed.timestamp)?;
                keys.verify(&signed, delivery.body).await?;
            }
            Proof::Token(token) => check_token(token, delivery)?,
        }
        let body: Value = serde_json::from_slice(delivery.body).map_err(|_| Unverified::NoTask)?;
        first_text(&self.id, &body).ok_or(Unverified::NoTask)
    }

    fn check_time(&self, seconds: &str) -> Result<(), Unverified> {
        let seconds: i64 = seconds.parse().map_err(|_| Unverified::Stale)?;
        let at = seconds.checked_mul(1_000_000).map(Timestamp::from_micros);
        let (at, now) = (at.ok_or(Unverified::Stale)?, self.clock.now());
        let distance = if at > now { at.since(now) } else { now.since(at) };
        if distance <= self.tolerance { Ok(()) } else { Err(Unverified::Stale) }
    }
}

fn check_token(token: &SecretString, delivery: &WebhookDelivery<'_>) -> Result<(), Unverified> {
    let mut given = form_urlencoded::parse(delivery.query.as_bytes());
    let given = given.find(|(name, _)| name == TOKEN).map(|(_, value)| value);
    let given = given.ok_or(Unverified::Signature)?;
    let is_same: bool = given.as_bytes().ct_eq(token.expose_secret().as_bytes()).into();
    if is_same { Ok(()) } else { Err(Unverified::Signature) }
}
