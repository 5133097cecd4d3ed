//! What a page refers to, fetched within a budget.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use roundsman_core::audits::observed::{Resource, ResourceAnswer, ResourceKind, Seen};
use roundsman_core::ports::ObserveStep;
use tokio::time::timeout;
use url::Url;

use super::exchange::{Accept, Appetite, Eaten, origin};
use super::image;
use super::look::{Look, no_time};
use super::references::{Reference, of_sheet};
use super::robots::Known;
use super::sheets::Letters;

/// The page's own parts first, then what those refer to: stylesheets that import others that import others are
/// followed so far.
const ROUNDS_MAX: usize = 5;

/// What is used up of what there is.
#[derive(Default)]
struct Spent {
    transfer_bytes: AtomicU64,
    kept_bytes: AtomicU64,
    done: AtomicU32,
}

/// What is asked for, and what came of it.
#[derive(Default)]
struct Gathered {
    asked: Vec<Resource>,
    known: HashSet<String>,
    left_out: usize,
}

impl Gathered {
    /// What is named again is known; what is beyond the budget is counted.
    fn add(&mut self, found: Vec<Reference>, resources_max: usize) {
        for Reference { url, kind, placement } in found {
            let url = String::from(url);
            if !self.known.insert(url.clone()) {
                continue;
            }
            if self.asked.len() < resources_max {
                self.asked.push(Resource { url, kind, placement, answer: no_time() });
            } else {
                self.left_out += 1;
            }
        }
    }

    /// What the stylesheets refer to that have come since.
    fn of_sheets(&self, from: usize, letters: &Letters) -> Vec<Reference> {
        let sheets = self.asked[from..].iter().filter(|it| it.kind == ResourceKind::Stylesheet);
        let links = sheets.filter_map(|sheet| {
            let answer = sheet.answer.as_option().filter(|answer| answer.status < 400)?;
            let (body, url) = (answer.body.as_deref()?, Url::parse(&answer.final_url).ok()?);
            Some(of_sheet(&String::from_utf8_lossy(body), &url, sheet.placement, letters))
        });
        links.flatten().collect()
    }
}

impl Look<'_> {
    /// The first references with what came of them, then what stylesheets among them refer to, and how many
    /// there are beyond these.
    pub(super) async fn resources(
        &self,
        found: Vec<Reference>,
        letters: &Letters,
        page: &Url,
        known: Option<&Known>,
    ) -> (Vec<Resource>, u32) {
        let limits = &self.options.limits;
        let gathered = Mutex::new(Gathered::default());
        lock(&gathered).add(found, limits.resources_max);
        let spent = Spent::default();
        let fetching = async {
            let mut from = 0;
            for round in 1..=ROUNDS_MAX {
                let of = lock(&gathered).asked.len();
                if from == of && round > 1 {
                    break;
                }
                self.fetch_some(from..of, &gathered, page, known, &spent).await;
                let mut gathered = lock(&gathered);
                let found = gathered.of_sheets(from, letters);
                let resources_max = if round < ROUNDS_MAX { limits.resources_max } else { of };
                gathered.add(found, resources_max);
                from = of;
            }
        };
        // What is not there in time stays as it is: missing.
        let _ = timeout(self.left().min(limits.resources_time_max), fetching).await;
        let Gathered { asked, left_out, .. } =
            gathered.into_inner().unwrap_or_else(PoisonError::into_inner);
        (asked, u32::try_from(left_out).unwrap_or(u32::MAX))
    }

    async fn fetch_some(
        &self,
        which: Range<usize>,
        gathered: &Mutex<Gathered>,
        page: &Url,
        known: Option<&Known>,
        spent: &Spent,
    ) {
        let of = u32::try_from(which.end).unwrap_or(u32::MAX);
        self.progress.step(ObserveStep::Resources { done: spent.done.load(Relaxed), of });
        let at_once_max = self.options.limits.resources_at_once_max;
        let fetching = futures_util::stream::iter(which).for_each_concurrent(at_once_max, |at| {
            let (url, kind) = {
                let asked = &lock(gathered).asked[at];
                (Url::parse(&asked.url), asked.kind)
            };
            async move {
                if let Ok(url) = url {
                    let answer = self.resource(&url, kind, page, known, spent).await;
                    lock(gathered).asked[at].answer = answer;
                }
                let done = spent.done.fetch_add(1, Relaxed) + 1;
                self.progress.step(ObserveStep::Resources { done, of });
            }
        });
        fetching.await;
    }

    async fn resource(
        &self,
        url: &Url,
        kind: ResourceKind,
        page: &Url,
        known: Option<&Known>,
        spent: &Spent,
    ) -> Seen<ResourceAnswer> {
        let limits = &self.options.limits;
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
        let kept_bytes_max = match kind {
            ResourceKind::Script | ResourceKind::Stylesheet => decoded_bytes_max,
            ResourceKind::Image | ResourceKind::Icon => image::BEGIN_BYTES_MAX,
            _ => 0,
        };
        let appetite = Appetite { decoded_bytes_max, kept_bytes_max };
        match self.fetch(url.clone(), accept(kind), appetite).await {
            Ok(eaten) => {
                spent.transfer_bytes.fetch_add(eaten.fetched.transfer_bytes, Relaxed);
                Seen::Seen(self.resource_answer(kind, eaten, spent))
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
