//! The secrets of one executor, by name.

use std::collections::BTreeMap;
use std::fmt;

use secrecy::{ExposeSecret, SecretString};

/// The secrets that an executor may have. They are given apart from its description, so that this
/// can be shown.
pub const SECRET_NAMES: [&str; 5] =
    ["access_key", "api_key", "secret_key", "service_account", "webhook_secret"];

/// What only the operator and the service know.
#[derive(Clone, Default)]
pub struct Secrets {
    by_name: BTreeMap<String, SecretString>,
}

impl Secrets {
    /// One more; its name is one of [`SECRET_NAMES`].
    #[must_use]
    pub fn with(mut self, name: &str, secret: SecretString) -> Self {
        self.by_name.insert(name.to_owned(), secret);
        self
    }

    /// `None` if it is absent or empty.
    pub(super) fn get(&self, name: &str) -> Option<&SecretString> {
        self.by_name.get(name).filter(|secret| !secret.expose_secret().is_empty())
    }

    pub(super) fn required(&self, name: &str) -> Result<&SecretString, String> {
        self.get(name).ok_or_else(|| format!("{name} is missing"))
    }
}

/// Names only.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}
