//! Tokens for the key of a Google service account: a statement that we sign (RS256) is exchanged for
//! a token that is good for an hour.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use hyper::header::HeaderValue;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use roundsman_core::Timestamp;
use roundsman_core::ports::Clock;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;
use url::Url;
use url::form_urlencoded::Serializer;

use super::jwt;
use crate::http::{self, Call, CallLimits, Place, Tls};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const STATEMENT_FOR: Duration = Duration::from_secs(3600);
/// A token that is about to expire would expire on its way.
const RENEWED_BEFORE: Duration = Duration::from_secs(120);
const LIMITS: CallLimits =
    CallLimits { time_max: Duration::from_secs(10), answer_bytes_max: 64 * 1024 };

/// A service account, and the token that it has.
pub(in crate::executors) struct ServiceAccount {
    email: String,
    key_id: Option<String>,
    key: RsaKeyPair,
    scope: String,
    place: Place,
    token_url: Url,
    clock: Arc<dyn Clock>,
    /// Whoever finds it old gets a new one, and the others wait.
    token: Mutex<Option<(String, Timestamp)>>,
}

/// The file that Google gives out.
#[derive(Deserialize)]
struct KeyFile {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    token_uri: Option<String>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: u64,
}

impl ServiceAccount {
    pub(super) fn new(
        key: &SecretString,
        scope: &str,
        token_url: Option<&str>,
        tls: &Tls,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let file: KeyFile = serde_json::from_str(key.expose_secret())
            .map_err(|_| "service_account: the JSON file of a key, please".to_owned())?;
        let unusable = || "service_account: its private key cannot be used".to_owned();
        let der = PrivatePkcs8KeyDer::from_pem_slice(file.private_key.as_bytes());
        let der = der.map_err(|_| unusable())?;
        let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| unusable())?;
        let token_url = token_url.or(file.token_uri.as_deref());
        let token_url = token_url.unwrap_or("https://oauth2.googleapis.com/token");
        let nowhere = || format!("auth.token_url: `{token_url}` leads nowhere");
        let token_url = Url::parse(token_url).map_err(|_| nowhere())?;
        let place = Place::of(&token_url, tls).ok_or_else(nowhere)?;
        Ok(ServiceAccount {
            email: file.client_email,
            key_id: file.private_key_id,
            key,
            scope: scope.to_owned(),
            place,
            token_url,
            clock: clock.clone(),
            token: Mutex::new(None),
        })
    }

    /// A token that is good for a while.
    pub(super) async fn token(&self) -> Result<String, String> {
        let mut kept = self.token.lock().await;
        let now = self.clock.now();
        if let Some((token, _)) = kept.as_ref().filter(|(_, until)| now < *until) {
            return Ok(token.clone());
        }
        let answer = self.ask(now).await?;
        let lifetime = Duration::from_secs(answer.expires_in).saturating_sub(RENEWED_BEFORE);
        *kept = Some((answer.access_token.clone(), now + lifetime));
        Ok(answer.access_token)
    }

    pub(super) async fn forget(&self) {
        *self.token.lock().await = None;
    }

    async fn ask(&self, now: Timestamp) -> Result<TokenAnswer, String> {
        let statement = self.statement(now)?;
        let form = Serializer::new(String::new())
            .append_pair("grant_type", GRANT)
            .append_pair("assertion", &statement)
            .finish();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        let call = Call {
            method: Method::POST,
            target: self.place.target.clone(),
            host: self.place.host.clone(),
            headers: vec![("content-type".to_owned(), kind)],
            json: Some(form.into()),
        };
        let answer = http::send(&self.place.route, call, LIMITS).await;
        let answer = answer.map_err(|error| format!("no token could be got: {error}"))?;
        if answer.status != 200 {
            return Err(format!("no token could be got: {} from its issuer", answer.status));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|_| "no token could be got: its issuer's answer is odd".to_owned())
    }

    fn statement(&self, now: Timestamp) -> Result<String, String> {
        let seconds = now.as_micros() / 1_000_000;
        let mut header = json!({"alg": "RS256", "typ": "JWT"});
        if let Some(key_id) = &self.key_id {
            header["kid"] = json!(key_id);
        }
        let claims = json!({
            "iss": self.email,
            "scope": self.scope,
            "aud": self.token_url.as_str(),
            "iat": seconds,
            "exp": (now + STATEMENT_FOR).as_micros() / 1_000_000,
        });
        let unsigned = jwt::unsigned(&header, &claims);
        let mut signature = vec![0; self.key.public().modulus_len()];
        // The randomness hides the key while it is used; the signature is the same without it.
        self.key
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), unsigned.as_bytes(), &mut signature)
            .map_err(|_| "the statement for a token cannot be signed".to_owned())?;
        Ok(jwt::signed(&unsigned, &signature))
    }
}
