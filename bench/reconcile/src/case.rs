//! One measurement: so many meetings, on one database.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::place::{Place, Target};
use bench_support::rooms::{self, WEBHOOK_SECRET};
use bench_support::server::Server;
use bench_support::{pause, percentile};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use roundsman_testkit::daily::{DailyStandInOptions, Lags, Route};
use roundsman_testkit::{DailyStandIn, RedisServer};

use crate::churn::{Change, guest, plan};
use crate::record::Record;

/// How exactly it is known when the record has a change.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A change that is not in the record so long after the rounds that should have found it is lost.
const LOST_AFTER: Duration = Duration::from_secs(120);

/// What is measured.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) target: Target,
    pub(crate) meetings: usize,
    /// In each of them.
    pub(crate) people: u16,
    /// Changes within one round.
    pub(crate) changes_per_round: usize,
    /// Rounds during which things change.
    pub(crate) rounds: u32,
    pub(crate) round: Duration,
    /// How old the provider's answers are.
    pub(crate) lag: Duration,
}

/// What it came to.
pub(crate) struct Seen {
    /// Seconds from each change until the record had it, sorted.
    pub(crate) fresh_after: Vec<f64>,
    /// Answers about all rooms, and about one.
    pub(crate) domain_answers: u64,
    pub(crate) looks: u64,
    /// Whatever else was asked.
    pub(crate) others: u64,
    pub(crate) processor: Duration,
    pub(crate) took: Duration,
}

impl Seen {
    /// Seconds within which this share of the changes was in the record.
    pub(crate) fn within(&self, share: f64) -> f64 {
        percentile(&self.fresh_after, share)
    }
}

impl Case {
    pub(crate) fn name(&self) -> String {
        format!("{}, {} meetings", self.target.name(), self.meetings)
    }

    pub(crate) async fn measure(&self, binary: &Path) -> anyhow::Result<Seen> {
        let clock = Arc::new(DatabaseClock::start());
        let daily = self.provider(&clock).await?;
        let all_there = clock.monotonic() + self.lag;
        // PostgreSQL has a Redis, as several nodes would.
        let redis = match self.target {
            Target::Sqlite { .. } => None,
            Target::Postgres { .. } => Some(RedisServer::start().await?),
        };
        let url = redis.as_ref().map(RedisServer::url);
        let place = Place::open(&self.target, url, "reconcile").await?;
        // The first start makes the tables; meetings are filled in while nobody runs.
        let first = Server::start(binary, &place, &[])?;
        let (user, _) = first.user().await?;
        drop(first);
        rooms::fill(&place, user, self.meetings, self.people).await?;
        // Before that, the provider would not show those who are there.
        pause(all_there.saturating_sub(clock.monotonic())).await;
        let server = self.start(binary, &place, &daily)?;
        self.first_round(&clock, &daily).await?;

        let record = Record::open(&place).await?;
        let (calls, processor) = (Calls::of(&daily), server.processor()?);
        let began = clock.monotonic();
        let fresh_after = self.churn(&clock, &daily, &record).await?;
        let after = Calls::of(&daily);
        let refused = daily.requests_refused();
        ensure!(refused == 0, "{refused} requests were more than the provider allows");
        Ok(Seen {
            fresh_after,
            domain_answers: after.domain - calls.domain,
            looks: after.rooms - calls.rooms,
            others: after.others - calls.others,
            processor: server.processor()?.saturating_sub(processor),
            took: clock.monotonic().saturating_sub(began),
        })
    }

    /// Everybody is in their rooms, and nothing of it is told.
    async fn provider(&self, clock: &Arc<DatabaseClock>) -> anyhow::Result<DailyStandIn> {
        let options = DailyStandInOptions {
            lags: Lags { room: self.lag, domain: self.lag },
            delivers: false,
            ..DailyStandInOptions::default()
        };
        let daily = DailyStandIn::start_with(options, clock.clone()).await?;
        for meeting in 1..=i64::try_from(self.meetings)? {
            let room = rooms::room(meeting);
            for person in 0..self.people {
                daily.join_as(&room, guest(person), &rooms::session(meeting, person));
            }
        }
        Ok(daily)
    }

    fn start(&self, binary: &Path, place: &Place, daily: &DailyStandIn) -> anyhow::Result<Server> {
        let (api_url, round) = (daily.api_url(), self.round.as_secs().to_string());
        let lag = self.lag.as_secs().to_string();
        let settings = [
            ("ROUNDSMAN_DAILY_API_URL", api_url.as_str()),
            ("ROUNDSMAN_DAILY_API_KEY", daily.api_key()),
            // With a secret events are expected, and recordings are asked for seldom.
            ("ROUNDSMAN_DAILY_WEBHOOK_SECRET", WEBHOOK_SECRET),
            ("ROUNDSMAN_PRESENCE_RECONCILE_SECS", &round),
            ("ROUNDSMAN_PRESENCE_LAG_SECS", &lag),
        ];
        Server::start(binary, place, &settings)
    }

    /// Waits for the first comparison, which must find that nothing differs.
    async fn first_round(&self, clock: &DatabaseClock, daily: &DailyStandIn) -> anyhow::Result<()> {
        let until = clock.monotonic() + self.round + LOST_AFTER;
        while Calls::of(daily).domain == 0 {
            ensure!(clock.monotonic() < until, "nobody asks about all rooms");
            pause(LOOK_EVERY).await;
        }
        // If somebody were looked at for it, that would begin at once.
        pause(self.round / 10).await;
        let looks = Calls::of(daily).rooms;
        ensure!(looks == 0, "{looks} rooms differ before anything has happened");
        Ok(())
    }

    /// Lets things happen, and returns how long each took to be in the record, sorted.
    async fn churn(
        &self,
        clock: &DatabaseClock,
        daily: &DailyStandIn,
        record: &Record,
    ) -> anyhow::Result<Vec<f64>> {
        let changes = self.changes_per_round * usize::try_from(self.rounds)?;
        let mut to_come =
            plan(self.meetings, changes, self.round * self.rounds).into_iter().peekable();
        let began = clock.monotonic();
        let until = began + self.round * (self.rounds + 1) + self.lag + LOST_AFTER;
        let mut open: Vec<Change> = Vec::new();
        let (mut happened, mut fresh_after) = (Vec::new(), Vec::new());
        while to_come.peek().is_some() || !open.is_empty() {
            let now = clock.monotonic();
            ensure!(now < until, "{} changes are not in the record: {open:?}", open.len());
            while let Some(change) = to_come.next_if(|change| began + change.due <= now) {
                ensure!(change.happen(daily), "{change:?} cannot happen");
                open.push(change);
                happened.push(clock.monotonic());
            }
            let there = record.has(&open).await.context("the record")?;
            let seen = clock.monotonic();
            for place in (0..open.len()).rev().filter(|place| there[*place]) {
                open.swap_remove(place);
                let since = happened.swap_remove(place);
                fresh_after.push(seen.saturating_sub(since).as_secs_f64());
            }
            pause(LOOK_EVERY).await;
        }
        fresh_after.sort_by(f64::total_cmp);
        Ok(fresh_after)
    }
}

/// What the provider was asked.
struct Calls {
    domain: u64,
    rooms: u64,
    others: u64,
}

impl Calls {
    fn of(daily: &DailyStandIn) -> Calls {
        let (domain, rooms) =
            (daily.requests(Route::DomainPresence), daily.requests(Route::RoomPresence));
        let others = daily.requests_total().saturating_sub(domain + rooms);
        Calls { domain, rooms, others }
    }
}
