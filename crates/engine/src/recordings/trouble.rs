//! Why a recording is not processed, and whether it helps to try again.

use std::time::Duration;

use roundsman_core::jobs::JobError;
use roundsman_core::ports::{MediaError, RoomsError, StoreError};

/// What ends a run before its end.
#[derive(Debug)]
pub(super) enum Stopped {
    /// Somebody else has the job.
    LeaseLost,
    /// The database did not do what it should: that says nothing about the recording.
    Store(StoreError),
    For(Trouble),
}

/// What is wrong with a recording, or with those who have it.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) code: &'static str,
    pub(super) message: String,
    /// Trying again will not help.
    pub(super) is_final: bool,
    /// When to try again, if somebody says so.
    pub(super) after: Option<Duration>,
}

impl Trouble {
    /// It may work later.
    pub(super) fn later(code: &'static str, message: impl Into<String>) -> Self {
        Trouble { code, message: message.into(), is_final: false, after: None }
    }

    /// It will not.
    pub(super) fn for_good(code: &'static str, message: impl Into<String>) -> Self {
        Trouble { is_final: true, ..Trouble::later(code, message) }
    }

    /// Nobody is configured who could.
    pub(super) fn not_configured(what: &str) -> Self {
        Trouble::for_good("not_configured", format!("no {what} is configured"))
    }

    pub(super) fn of_provider(error: &RoomsError) -> Self {
        let said = error.to_string();
        match error {
            RoomsError::NotFound => Trouble::later("not_found", said),
            RoomsError::RateLimited { after } => {
                Trouble { after: *after, ..Trouble::later("rate_limited", said) }
            }
            RoomsError::Refused(_) => Trouble::for_good("refused", said),
            RoomsError::Unavailable(_) => Trouble::later("provider_unavailable", said),
            RoomsError::Odd(_) => Trouble::later("provider_odd", said),
            RoomsError::NotConfigured => Trouble::not_configured("provider"),
        }
    }

    /// What went wrong while doing something with a file.
    pub(super) fn of_media(doing: &str, error: &MediaError) -> Self {
        let said = format!("{doing}: {error}");
        match error {
            MediaError::NotFound => Trouble::later("not_found", said),
            MediaError::Refused(_) => Trouble::for_good("refused", said),
            MediaError::Failed(_) => Trouble::later("failed", said),
            MediaError::NotConfigured => Trouble::for_good("not_configured", said),
        }
    }

    /// As it is kept with the job.
    pub(super) fn error(&self) -> JobError {
        JobError::new(self.code, self.message.clone())
    }

    /// As it is kept with the recording.
    pub(super) fn told(&self) -> String {
        format!("{}: {}", self.code, self.error().message)
    }
}

impl From<Trouble> for Stopped {
    fn from(trouble: Trouble) -> Self {
        Stopped::For(trouble)
    }
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Stopped::Store(error)
    }
}
