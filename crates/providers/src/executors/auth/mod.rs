//! Who asks: keys, tokens of our making, and tokens that are got for a key.
//!
//! Invariant: no key and no token is in a log or an error.

mod google;
mod jwt;

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use roundsman_core::ports::Clock;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::description::Auth as Shape;
use super::secrets::Secrets;
use crate::http::Tls;
use google::ServiceAccount;

/// Makes requests ours.
pub(super) enum Auth {
    None,
    Header { name: HeaderName, value: HeaderValue },
    Query { name: String, key: SecretString },
    Jwt(jwt::Minter),
    Google(Box<ServiceAccount>),
}

impl Auth {
    pub(super) fn new(
        shape: &Shape,
        secrets: &Secrets,
        tls: &Tls,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, String> {
        Ok(match shape {
            Shape::None {} => Auth::None,
            Shape::Bearer { prefix } => Auth::Header {
                name: AUTHORIZATION,
                value: sensitive(prefix, secrets.required("api_key")?)?,
            },
            Shape::Header { name } => Auth::Header {
                name: HeaderName::try_from(name.as_str())
                    .map_err(|_| format!("auth.name: `{name}` is no name of a header"))?,
                value: sensitive("", secrets.required("api_key")?)?,
            },
            Shape::Query { name } => {
                Auth::Query { name: name.clone(), key: secrets.required("api_key")?.clone() }
            }
            Shape::JwtHs256 { ttl_secs, skew_secs } => Auth::Jwt(jwt::Minter {
                issuer: secrets.required("access_key")?.clone(),
                key: secrets.required("secret_key")?.clone(),
                ttl: Duration::from_secs(*ttl_secs),
                skew: Duration::from_secs(*skew_secs),
                clock: clock.clone(),
            }),
            Shape::GoogleServiceAccount { scope, token_url } => {
                let key = secrets.required("service_account")?;
                let token_url = token_url.as_deref();
                Auth::Google(Box::new(ServiceAccount::new(key, scope, token_url, tls, clock)?))
            }
        })
    }

    /// The header that a request needs; asks for a token if there is none. What it says is no
    /// secret.
    pub(super) async fn header(&self) -> Result<Option<(HeaderName, HeaderValue)>, String> {
        match self {
            Auth::None | Auth::Query { .. } => Ok(None),
            Auth::Header { name, value } => Ok(Some((name.clone(), value.clone()))),
            Auth::Jwt(minter) => bearer(&minter.mint()).map(Some),
            Auth::Google(account) => bearer(&account.token().await?).map(Some),
        }
    }

    /// Puts the key into an address, for services that want it there.
    pub(super) fn sign(&self, url: &mut Url) {
        if let Auth::Query { name, key } = self {
            url.query_pairs_mut().append_pair(name, key.expose_secret());
        }
    }

    /// The service says that it does not know us: a token that was kept is not used again.
    pub(super) async fn was_refused(&self) {
        if let Auth::Google(account) = self {
            account.forget().await;
        }
    }
}

fn bearer(token: &str) -> Result<(HeaderName, HeaderValue), String> {
    sensitive("Bearer ", &SecretString::from(token)).map(|value| (AUTHORIZATION, value))
}

fn sensitive(prefix: &str, key: &SecretString) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_str(&format!("{prefix}{}", key.expose_secret()));
    let mut value = value.map_err(|_| "the key has signs that no header can carry".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}
