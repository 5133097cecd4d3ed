//! A description that was checked: pointers and templates are read, and name only what there is.

mod build;
mod request;

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use roundsman_core::ports::{ExecutorCapabilities, FailureCode};
use serde_json::Value;
use url::Url;

use super::description::{Limits, NeedsWord, StatusWord, VerifyWord};
use super::errors::Errors;
use super::params::Params;
use super::pointer::Pointer;
use super::template::TextTemplate;
pub(super) use build::unknown_code;
pub(super) use request::{FormPart, RequestPlan};

/// How a service is spoken to.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) base: Url,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) params: Params,
    pub(super) submit: RequestPlan,
    /// Where the answer has the id; none if it has the result.
    pub(super) submit_id: Vec<Pointer>,
    pub(super) poll: Option<PollPlan>,
    pub(super) result: ResultPlan,
    pub(super) errors: Errors,
    pub(super) look_up: Option<LookUpPlan>,
    pub(super) cancel: Option<CancelPlan>,
    pub(super) webhook: Option<WebhookPlan>,
    pub(super) limits: Limits,
    pub(super) capabilities: ExecutorCapabilities,
}

#[derive(Debug)]
pub(super) struct PollPlan {
    pub(super) request: RequestPlan,
    pub(super) items: Option<ItemsPlan>,
    pub(super) ends: EndsPlan,
    pub(super) progress: Option<(Pointer, f64)>,
    pub(super) message: Vec<Pointer>,
    pub(super) code: Vec<Pointer>,
}

/// Where an answer has its list, and each of that list its id.
#[derive(Debug)]
pub(super) struct ItemsPlan {
    pub(super) at: Pointer,
    pub(super) id: Pointer,
}

/// How a task shows that it has ended.
#[derive(Debug)]
pub(super) enum EndsPlan {
    Status { at: Pointer, words: BTreeMap<String, StatusWord> },
    Done { at: Pointer, failed: Option<Pointer> },
}

#[derive(Debug)]
pub(super) struct ResultPlan {
    pub(super) files: Vec<Pointer>,
    pub(super) inline: Vec<InlinePlan>,
    pub(super) path: Option<TextTemplate>,
    pub(super) data: Vec<(String, Pointer)>,
    pub(super) needs: NeedsWord,
    pub(super) none: Vec<NonePlan>,
    pub(super) second: Option<SecondPlan>,
    pub(super) download_with_key: bool,
    pub(super) storage: Option<Url>,
}

#[derive(Debug)]
pub(super) struct InlinePlan {
    pub(super) at: Pointer,
    pub(super) data: Pointer,
    pub(super) media_type: Option<Pointer>,
}

#[derive(Debug)]
pub(super) struct NonePlan {
    pub(super) at: Pointer,
    pub(super) values: Vec<String>,
    pub(super) code: FailureCode,
}

#[derive(Debug)]
pub(super) struct SecondPlan {
    pub(super) request: RequestPlan,
    pub(super) url: Option<Pointer>,
    pub(super) failed_http: Vec<u16>,
}

#[derive(Debug)]
pub(super) struct LookUpPlan {
    pub(super) request: RequestPlan,
    pub(super) id: Vec<Pointer>,
}

#[derive(Debug)]
pub(super) struct CancelPlan {
    pub(super) request: RequestPlan,
    pub(super) too_late_http: Vec<u16>,
}

#[derive(Debug)]
pub(super) struct WebhookPlan {
    pub(super) verify: VerifyWord,
    pub(super) id: Vec<Pointer>,
    pub(super) tolerance: Duration,
    pub(super) keys_url: Option<Url>,
}

impl ItemsPlan {
    /// The task of that id in an answer.
    pub(super) fn find<'a>(&self, answer: &'a Value, id: &str) -> Option<&'a Value> {
        let items = self.at.first(answer).and_then(Value::as_array);
        items?.iter().find(|item| {
            self.id.first(item).and_then(super::pointer::text_of).as_deref() == Some(id)
        })
    }
}

impl Plan {
    /// Whether an address is one of the service's own, so that it may be told the key.
    pub(super) fn is_own(&self, url: &Url) -> bool {
        let same = |own: &Url| own.origin() == url.origin();
        same(&self.base) || self.result.storage.as_ref().is_some_and(same)
    }
}
