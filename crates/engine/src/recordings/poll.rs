//! Reads the provider's list for what its events have lost: a periodic job, so that one node does it.
//!
//! Invariants: the list is read, newest first, down to the newest recording up to which it was read
//! whole before, however far that is; that mark moves only past recordings that are finished and in
//! the database. A run that ends on the way is taken up where it ended, or, if the provider does not
//! know that place any more, from the top, ever less often. However the list behaves, a reading of it
//! has an end.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::jobs::{JobError, Json, KindSpec, Outcome, RetryPolicy};
use roundsman_core::ports::{RecordingsPage, RoomsError, StoreError, VideoRecordings};
use roundsman_core::recordings::{Announcement, POLL_KIND, RecordingId};
use serde::{Deserialize, Serialize};

use super::AnnounceReply;
use super::trouble::Trouble;
use super::work::RecordingWork;
use crate::jobs::{Handler, HandlerResult, JobContext, next_round, periodic_spec};

/// Pages read in one run; the next one goes on at once.
const PAGES_PER_RUN_MAX: u32 = 20;
/// Pages of one reading, over all its runs. What is further down is years old, or the list is none.
const PAGES_PER_READING_MAX: u32 = 2000;
/// How long to wait before a reading begins again from the top; doubled every time, up to the time
/// between two polls.
const RESTART_AFTER: Duration = Duration::from_secs(5);
const RESTART_DOUBLINGS_MAX: u32 = 10;
/// What is not finished after so long never will be, and is not waited for.
const UNFINISHED_FOR_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The policy of the job.
pub fn poll_spec() -> KindSpec {
    KindSpec {
        deadline: Some(Duration::from_secs(600)),
        retry: RetryPolicy { base: Duration::from_secs(5), cap: Duration::from_secs(180) },
        ..periodic_spec(POLL_KIND)
    }
}

/// Reads the list.
#[derive(Debug)]
pub struct RecordingPoller {
    work: RecordingWork,
}

/// What reading the list came to.
#[derive(Debug, Default)]
struct Polled {
    pages: u32,
    /// Recordings that were not known.
    new: u32,
    /// Recordings in rooms of somebody else.
    unknown_rooms: u32,
    /// Entries that cannot be understood.
    odd: u32,
    /// Where to go on; `None` at the end.
    place: Option<Place>,
}

/// How far a reading of the list has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// The page that comes next begins after this entry.
    after: Option<String>,
    /// The newest entry below which everything that was read is finished.
    newest: Option<String>,
    /// Pages read so far.
    #[serde(default)]
    pages: u32,
    /// How often the reading began again from the top.
    #[serde(default)]
    restarts: u32,
}

impl Place {
    /// The top of the list, after the provider did not know this place any more.
    fn restarted(&self) -> Self {
        Place { restarts: self.restarts.saturating_add(1), ..Place::default() }
    }

    /// How long to wait before the next reading from the top.
    fn restart_after(&self, every: Duration) -> Duration {
        let doublings = self.restarts.min(RESTART_DOUBLINGS_MAX);
        RESTART_AFTER.saturating_mul(1 << doublings).min(every)
    }
}

enum Failed {
    Store(StoreError),
    Provider(RoomsError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Failed::Store(error)
    }
}

impl RecordingPoller {
    pub(super) fn new(work: &RecordingWork) -> Self {
        RecordingPoller { work: work.clone() }
    }

    /// The handler of the job.
    pub fn handler(self) -> Arc<dyn Handler> {
        Arc::new(PollHandler(self))
    }

    async fn tick(&self, mut place: Place) -> Result<Polled, Failed> {
        let mut polled = Polled::default();
        let RecordingWork { recordings, metrics, clock, provider, .. } = &self.work;
        metrics.recordings_live(&recordings.recording_counts().await?);
        let Some(provider) = provider else { return Ok(polled) };
        let cursor = recordings.recording_cursor().await?;
        for _ in 0..PAGES_PER_RUN_MAX {
            let page = self.page(provider.as_ref(), &place).await?;
            polled.pages += 1;
            polled.odd += page.odd;
            place.pages += 1;
            let is_too_long = place.pages >= PAGES_PER_READING_MAX;
            if is_too_long {
                tracing::error!(pages = place.pages, "the list of recordings is not read further");
            }
            let is_end = page.next_after.is_none() || holds(&page, cursor.as_ref()) || is_too_long;
            place.newest = match place.newest {
                _ if !self.is_settled(&page) => None,
                None => page.finished.first().map(|first| first.id.as_str().to_owned()),
                newest => newest,
            };
            place.after = page.next_after;
            self.take(page.finished, cursor.as_ref(), &mut polled).await?;
            if is_end {
                let newest = place.newest.as_deref().and_then(RecordingId::new);
                if let Some(newest) = newest.filter(|newest| cursor.as_ref() != Some(newest)) {
                    recordings.set_recording_cursor(newest, clock.now()).await?;
                }
                return Ok(polled);
            }
        }
        polled.place = Some(place);
        Ok(polled)
    }

    async fn page(
        &self,
        provider: &dyn VideoRecordings,
        place: &Place,
    ) -> Result<RecordingsPage, Failed> {
        let page = provider.recordings_page(place.after.as_deref()).await;
        let page = page.and_then(|page| leading_on(page, place));
        self.work.metrics.recordings_page_read(page.is_ok());
        page.map_err(Failed::Provider)
    }

    /// Whether nothing on a page is waited for. Where on it the unfinished are is not told, so that
    /// one of them holds up the whole page.
    fn is_settled(&self, page: &RecordingsPage) -> bool {
        let old = self.work.clock.now() - UNFINISHED_FOR_MAX;
        page.unfinished.is_empty() || page.finished.first().is_some_and(|f| f.started_at < old)
    }

    /// Announces what is newer than the mark and not known, the oldest first.
    async fn take(
        &self,
        finished: Vec<Announcement>,
        cursor: Option<&RecordingId>,
        polled: &mut Polled,
    ) -> Result<(), Failed> {
        let newer = finished.into_iter().take_while(|announced| Some(&announced.id) != cursor);
        let newer: Vec<Announcement> = newer.collect();
        if newer.is_empty() {
            return Ok(());
        }
        let ids = newer.iter().map(|announced| announced.id.clone()).collect();
        let known = self.work.recordings.known_recordings(ids).await?;
        let unknown = newer.into_iter().zip(known).filter(|(_, known)| !known);
        let mut unknown: Vec<Announcement> = unknown.map(|(announced, _)| announced).collect();
        unknown.reverse();
        for reply in self.work.announce(unknown).await? {
            match reply {
                AnnounceReply::New(_) => polled.new += 1,
                // It became known while it was being looked up.
                AnnounceReply::Repeated(_) => {}
                AnnounceReply::UnknownRoom => polled.unknown_rooms += 1,
            }
        }
        Ok(())
    }
}

/// A page that leads to itself would be read for ever.
fn leading_on(page: RecordingsPage, place: &Place) -> Result<RecordingsPage, RoomsError> {
    let is_circle = page.next_after.is_some() && page.next_after == place.after;
    if is_circle {
        return Err(RoomsError::Odd("the list goes round in a circle".to_owned()));
    }
    Ok(page)
}

fn holds(page: &RecordingsPage, cursor: Option<&RecordingId>) -> bool {
    page.finished.iter().any(|announced| Some(&announced.id) == cursor)
}

struct PollHandler(RecordingPoller);

#[async_trait]
impl Handler for PollHandler {
    fn spec(&self) -> KindSpec {
        poll_spec()
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let place: Option<Place> = serde_json::from_str(context.job.payload.as_str()).ok();
        let place = place.unwrap_or_default();
        let is_on_the_way = place.after.is_some();
        let outcome = match self.0.tick(place.clone()).await {
            Ok(polled) => self.again(&polled),
            Err(Failed::Store(error)) => {
                let error = JobError::new("storage", error.to_string());
                Outcome::Retry { error, after: None }
            }
            // What it was to go on from may have been deleted meanwhile.
            Err(Failed::Provider(error)) if is_on_the_way && is_about_the_place(&error) => {
                let after = place.restart_after(self.0.work.options.poll_every);
                tracing::warn!(%error, ?after, "the list of recordings is read anew");
                self.at_place(after, &place.restarted())
            }
            Err(Failed::Provider(error)) => {
                let trouble = Trouble::of_provider(&error);
                tracing::warn!(code = trouble.code, "recordings cannot be listed: {error}");
                Outcome::Retry { error: trouble.error(), after: trouble.after }
            }
        };
        outcome.into()
    }
}

impl PollHandler {
    fn again(&self, polled: &Polled) -> Outcome {
        let RecordingWork { clock, random, options, .. } = &self.0.work;
        let Polled { pages, new, unknown_rooms, odd, .. } = polled;
        if *new > 0 || *odd > 0 {
            tracing::info!(pages, new, unknown_rooms, odd, "the list of recordings was read");
        }
        let Some(place) = &polled.place else {
            let at = next_round(clock.now(), options.poll_every, random.as_ref());
            return Outcome::Again { at, payload: Some(Json::null()) };
        };
        self.at_place(Duration::ZERO, place)
    }

    fn at_place(&self, after: Duration, place: &Place) -> Outcome {
        let place = serde_json::to_string(place).ok().and_then(|place| Json::parse(&place).ok());
        let at = self.0.work.clock.now() + after;
        Outcome::Again { at, payload: Some(place.unwrap_or_else(Json::null)) }
    }
}

/// Whether an error may come from where the reading was to go on.
fn is_about_the_place(error: &RoomsError) -> bool {
    matches!(error, RoomsError::NotFound | RoomsError::Refused(_) | RoomsError::Odd(_))
}
