//! What is measured: a server that runs, with everything that it needs beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::place::{Place, Target};
use bench_support::rooms::{self, WEBHOOK_SECRET};
use bench_support::server::Server;
use bench_support::{meetings, process};
use roundsman_engine::clock::DatabaseClock;
use roundsman_testkit::{DailyStandIn, RedisServer};

use crate::bare::Bare;
use crate::events::{Class, Route};
use crate::peer::{Peer, Tasks};

/// Who is measured.
#[derive(Debug, Clone)]
pub(crate) enum Contender {
    /// The least that an answer costs.
    Bare,
    Roundsman {
        target: Target,
        class: Class,
    },
    Peer(Tasks),
}

/// What is run, as far as it is there.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) server: PathBuf,
    pub(crate) bare: Option<PathBuf>,
    pub(crate) python: Option<PathBuf>,
}

/// What events are about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matters {
    /// In which there is a meeting.
    pub(crate) rooms: usize,
    /// That can end.
    pub(crate) bots: usize,
}

/// Where it may run, from its start on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Everywhere,
    /// One processor is for a client that stands apart.
    BesideTheClient,
}

pub(crate) const BARE: &str = "a bare loop, nothing";

impl Contender {
    pub(crate) fn name(&self) -> String {
        match self {
            Contender::Bare => BARE.to_owned(),
            Contender::Roundsman { target, class } => {
                let class = match class {
                    Class::Nothing => "nothing",
                    Class::Participants => "participants",
                    Class::Recordings => "recordings, durable",
                    Class::Exits => "bots' exits, durable",
                };
                format!("{}, {class}", target.name())
            }
            Contender::Peer(tasks) => tasks.name().to_owned(),
        }
    }

    pub(crate) fn class(&self) -> Class {
        match self {
            Contender::Bare => Class::Nothing,
            Contender::Roundsman { class, .. } => *class,
            Contender::Peer(_) => Class::Participants,
        }
    }
}

/// Processes of one contender, which end when it is dropped.
pub(crate) enum Running {
    Bare(Bare),
    Roundsman(Box<Node>),
    Peer(Box<Peer>),
}

pub(crate) struct Node {
    class: Class,
    server: Server,
    place: Place,
    _redis: Option<RedisServer>,
    /// Who is asked about rooms for every event.
    _daily: Option<DailyStandIn>,
}

impl Running {
    pub(crate) async fn start(
        contender: &Contender,
        programs: &Programs,
        matters: Matters,
        room: Room,
    ) -> anyhow::Result<Running> {
        Ok(match contender {
            Contender::Bare => {
                let bare = programs.bare.as_deref().context("--bare is missing")?;
                Running::Bare(Bare::start(bare, room)?)
            }
            Contender::Roundsman { target, class } => {
                let node = Node::start(&programs.server, target, *class, matters, room).await?;
                Running::Roundsman(Box::new(node))
            }
            // It has as many processes as it is told, wherever it runs.
            Contender::Peer(tasks) => {
                let python = programs.python.as_deref().context("--python is missing")?;
                Running::Peer(Box::new(Peer::start(python, *tasks).await?))
            }
        })
    }

    pub(crate) fn address(&self) -> &str {
        match self {
            Running::Bare(bare) => bare.address(),
            Running::Roundsman(node) => node.server.address(),
            Running::Peer(peer) => peer.address(),
        }
    }

    /// Processor time of all that is measured.
    pub(crate) fn processor(&self) -> anyhow::Result<Duration> {
        match self {
            Running::Bare(bare) => process::processor(bare.pid()),
            Running::Roundsman(node) => process::processor(node.server.pid()),
            Running::Peer(peer) => peer.processor(),
        }
    }

    /// The process whose threads answer; of the peer there are several.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Running::Bare(bare) => Some(bare.pid()),
            Running::Roundsman(node) => Some(node.server.pid()),
            Running::Peer(_) => None,
        }
    }

    /// Processes that work for what is measured and were not started by this one.
    pub(crate) async fn others(&self) -> anyhow::Result<Vec<u32>> {
        let Running::Roundsman(node) = self else { return Ok(Vec::new()) };
        let Some(client) = node.place.postgres().await? else { return Ok(Vec::new()) };
        let rows = client.query("SELECT pid FROM pg_stat_activity", &[]).await?;
        rows.iter().map(|row| Ok(u32::try_from(row.get::<_, i32>(0))?)).collect()
    }

    /// Of what was asked so far: answers, and those that took no more than a millisecond from the head
    /// of the request to the answer, by the server's own clock. Others do not tell.
    pub(crate) async fn answered(&self) -> anyhow::Result<Option<(f64, f64)>> {
        let Running::Roundsman(node) = self else { return Ok(None) };
        let Route { method, path } = node.class.route();
        let labels = format!("route=\"{path}\",method=\"{method}\",status=\"2xx\"");
        let name = "roundsman_http_request_seconds";
        let all = node.server.metric(&format!("{name}_count{{{labels}}}")).await?;
        // A bucket ends there.
        let soon = format!("{name}_bucket{{le=\"0.001\",{labels}}}");
        Ok(Some((all, node.server.metric(&soon).await?)))
    }

    /// Nothing of what was sent before is still to be done.
    pub(crate) async fn settled(&mut self) -> anyhow::Result<()> {
        match self {
            // Rooms are looked at by and by, no faster than the provider allows.
            Running::Roundsman(_) | Running::Bare(_) => Ok(()),
            Running::Peer(peer) => peer.drained().await,
        }
    }

    /// Ends it and fails if something that was answered was not taken.
    pub(crate) async fn check(self, sent: i64) -> anyhow::Result<()> {
        match self {
            Running::Bare(_) => Ok(()),
            Running::Roundsman(node) => node.check(sent).await,
            Running::Peer(mut peer) => {
                peer.drained().await?;
                let taken = peer.taken().await?;
                ensure!(i64::try_from(taken)? == sent, "{taken} events of {sent} were taken");
                Ok(())
            }
        }
    }
}

impl Node {
    async fn start(
        binary: &Path,
        target: &Target,
        class: Class,
        Matters { rooms, bots }: Matters,
        room: Room,
    ) -> anyhow::Result<Node> {
        // PostgreSQL has a Redis, as several nodes would.
        let redis = match target {
            Target::Sqlite { .. } => None,
            Target::Postgres { .. } => Some(RedisServer::start().await?),
        };
        let url = redis.as_ref().map(RedisServer::url);
        let place = Place::open(target, url, "webhooks").await?;
        // The first start makes the tables; meetings are filled in while nobody runs.
        let first = Server::start(binary, &place, &[])?;
        let (user, _) = first.user().await?;
        drop(first);
        match class {
            Class::Exits => meetings::fill(&place, user, bots).await?,
            _ => rooms::fill(&place, user, rooms, 0).await?,
        }
        let mut settings = vec![("ROUNDSMAN_DAILY_WEBHOOK_SECRET", WEBHOOK_SECRET.to_owned())];
        let mut daily = None;
        if class.is_durable() {
            // What follows from them is work that takes as long as it takes: here only taking them
            // is measured.
            settings.push(("ROUNDSMAN_SERVER_ROLES", "api".to_owned()));
        } else {
            let started = DailyStandIn::start(Arc::new(DatabaseClock::start())).await?;
            (1..=i64::try_from(rooms)?).for_each(|id| started.add_room(&rooms::room(id)));
            settings.push(("ROUNDSMAN_DAILY_API_URL", started.api_url()));
            settings.push(("ROUNDSMAN_DAILY_API_KEY", started.api_key().to_owned()));
            daily = Some(started);
        }
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let server = match room {
            Room::Everywhere => Server::start(binary, &place, &settings)?,
            Room::BesideTheClient => Server::start_beside(binary, &place, &settings)?,
        };
        Ok(Node { class, server, place, _redis: redis, _daily: daily })
    }

    async fn check(self: Box<Self>, sent: i64) -> anyhow::Result<()> {
        let Node { class, server, place, .. } = *self;
        match class {
            Class::Nothing => Ok(()),
            Class::Participants => {
                let name = "roundsman_presence_events_total{outcome=\"taken\"}";
                let taken = server.metric(name).await?;
                let all = f64::from(u32::try_from(sent)?);
                ensure!((taken - all).abs() < 0.5, "{taken} events of {sent} were taken");
                Ok(())
            }
            Class::Recordings | Class::Exits => {
                // As a crash would end it: what was answered is there nevertheless.
                drop(server);
                let stored = stored(&place, class).await?;
                ensure!(stored == sent, "{stored} of {sent} were stored");
                Ok(())
            }
        }
    }
}

/// How many of the class the database has.
async fn stored(place: &Place, class: Class) -> anyhow::Result<i64> {
    let (sqlite, postgres) = match class {
        Class::Exits => (
            "SELECT count(*) FROM bots WHERE live = 0",
            "SELECT count(*) FROM roundsman.bots WHERE NOT live",
        ),
        _ => ("SELECT count(*) FROM recordings", "SELECT count(*) FROM roundsman.recordings"),
    };
    Ok(match place.postgres().await? {
        Some(client) => client.query_one(postgres, &[]).await?.get(0),
        None => place.sqlite()?.query_row(sqlite, [], |row| row.get(0))?,
    })
}
