//! What a page refers to, fetched within a budget.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use futures_util::StreamExt;
use roundsman_core::audits::observed::{Resource, ResourceAnswer, ResourceKind, Seen};
use roundsman_core::ports::ObserveStep;
use tokio::time::timeout;
use url::Url;

use super::exchange::{Accept, Appetite, Eaten, origin};
use super::image;
use super::look::{Look, no_time};
use super::references::Reference;
use super::robots::Known;

/// What is used up of what there is.
#[derive(Default)]
struct Spent {
    transfer_bytes: AtomicU64,
    kept_bytes: AtomicU64,
    done: AtomicU32,
}

impl Look<'_> {
    /// The first references with what came of them, and how many there are beyond these.
    pub(super) async fn resources(
        &self,
        found: Vec<Reference>,
        page: &Url,
        known: Option<&Known>,
    ) -> (Vec<Resource>, u32) {
        let limits = &self.options.limits;
        let left_out = found.len().saturating_sub(limits.resources_max);
        let found = &found[..found.len() - left_out];
        let of = u32::try_from(found.len()).unwrap_or(u32::MAX);
        self.progress.step(ObserveStep::Resources { done: 0, of });
        let answers: Mutex<Vec<Seen<ResourceAnswer>>> =
            Mutex::new(found.iter().map(|_| no_time()).collect());
        let spent = Spent::default();
        let (answers_ref, spent_ref) = (&answers, &spent);
        let fetching = futures_util::stream::iter(found.iter().enumerate()).for_each_concurrent(
            limits.resources_at_once_max,
            |(at, reference)| async move {
                let answer = self.resource(reference, page, known, spent_ref).await;
                answers_ref.lock().unwrap_or_else(PoisonError::into_inner)[at] = answer;
                let done = spent_ref.done.fetch_add(1, Relaxed) + 1;
                self.progress.step(ObserveStep::Resources { done, of });
            },
        );
        // What is not there in time stays as it is: missing.
        let _ = timeout(self.left().min(limits.resources_time_max), fetching).await;
        let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        let resource = |(reference, answer): (&Reference, Seen<ResourceAnswer>)| Resource {
            url: reference.url.as_str().to_owned(),
            kind: reference.kind,
            placement: reference.placement,
            answer,
        };
        let resources = found.iter().zip(answers).map(resource).collect();
        (resources, u32::try_from(left_out).unwrap_or(u32::MAX))
    }

    async fn resource(
        &self,
        reference: &Reference,
        page: &Url,
        known: Option<&Known>,
        spent: &Spent,
    ) -> Seen<ResourceAnswer> {
        let (limits, url) = (&self.options.limits, &reference.url);
        let is_own = origin(url) == origin(page);
        if self.wish.obey_robots
            && is_own
            && let Some(Err(error)) = known.map(|known| known.allows(url))
        {
            return Seen::Missing(error.to_string());
        }
        let left = limits.resources_bytes_max.saturating_sub(spent.transfer_bytes.load(Relaxed));
        if left == 0 {
            return Seen::Missing("the page's other parts used up the budget of bytes".to_owned());
        }
        let decoded_bytes_max = limits.resource_bytes_max.min(left);
        let kept_bytes_max = match reference.kind {
            ResourceKind::Script | ResourceKind::Stylesheet => decoded_bytes_max,
            ResourceKind::Image | ResourceKind::Icon => image::BEGIN_BYTES_MAX,
            _ => 0,
        };
        let appetite = Appetite { decoded_bytes_max, kept_bytes_max };
        match self.fetch(url.clone(), accept(reference.kind), appetite).await {
            Ok(eaten) => {
                spent.transfer_bytes.fetch_add(eaten.fetched.transfer_bytes, Relaxed);
                Seen::Seen(self.resource_answer(reference.kind, eaten, spent))
            }
            Err(error) => Seen::Missing(error.to_string()),
        }
    }

    fn resource_answer(&self, kind: ResourceKind, eaten: Eaten, spent: &Spent) -> ResourceAnswer {
        let Eaten { fetched, decoded_bytes } = eaten;
        let body = fetched.body;
        let is_image = matches!(kind, ResourceKind::Image | ResourceKind::Icon);
        let image = image::read(&body).filter(|_| is_image);
        let is_text = matches!(kind, ResourceKind::Script | ResourceKind::Stylesheet);
        let bytes = body.len() as u64;
        let is_kept = is_text
            && fetched.is_whole
            && spent.kept_bytes.fetch_add(bytes, Relaxed) + bytes
                <= self.options.limits.resources_kept_bytes_max;
        ResourceAnswer {
            status: fetched.status,
            final_url: fetched.url,
            headers: fetched.headers,
            transfer_bytes: fetched.transfer_bytes,
            decoded_bytes,
            http_version: fetched.http_version,
            timing: fetched.timing,
            body: is_kept.then_some(body),
            image,
        }
    }
}

fn accept(kind: ResourceKind) -> Accept {
    Accept::kinds(match kind {
        ResourceKind::Stylesheet => "text/css,*/*;q=0.1",
        ResourceKind::Image | ResourceKind::Icon => {
            "image/avif,image/webp,image/svg+xml,image/*,*/*;q=0.8"
        }
        ResourceKind::Frame => "text/html,application/xhtml+xml,*/*;q=0.8",
        _ => "*/*",
    })
}
