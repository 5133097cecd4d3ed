//! The configuration as the program sees it: one struct per section, in types that need no more
//! checking. A field is called like its setting without the unit, which its type has.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use roundsman_core::jobs::KindName;
use secrecy::{ExposeSecret, SecretString};
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::audits::Audits;
use super::bots::{Bots, Egress, Launcher, Webhooks};
use super::executors::Executors;
use super::presence::{Daily, Presence, Recordings, Transcriber};
use super::reader::Reader;
use super::rooms::Rooms;
use super::tasks::Tasks;
use super::transcripts::{Live, Transcripts};

/// The file name of the embedded database in the data folder.
const SQLITE_FILE: &str = "roundsman.db";

pub(super) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(super) const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(super) const fn hours(count: u64) -> Duration {
    Duration::from_hours(count)
}

/// A valid configuration.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) server: Server,
    pub(crate) database: Database,
    pub(crate) redis: Redis,
    pub(crate) admin: Admin,
    pub(crate) auth: Auth,
    pub(crate) jobs: Jobs,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
    pub(crate) bots: Bots,
    pub(crate) launcher: Launcher,
    pub(crate) webhooks: Webhooks,
    pub(crate) egress: Egress,
    pub(crate) meeting_token: MeetingToken,
    pub(crate) transcripts: Transcripts,
    pub(crate) live: Live,
    pub(crate) daily: Daily,
    pub(crate) presence: Presence,
    pub(crate) recordings: Recordings,
    pub(crate) rooms: Rooms,
    pub(crate) transcriber: Transcriber,
    pub(crate) audits: Audits,
    pub(crate) tasks: Tasks,
    pub(crate) executors: Executors,
    /// From `ROUNDSMAN_FAILPOINTS`; for tests, and no setting.
    pub(crate) failpoints: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) listen: SocketAddr,
    pub(crate) public_url: Option<String>,
    pub(crate) data: PathBuf,
    pub(crate) roles: Roles,
    pub(crate) shutdown_grace: Duration,
    pub(crate) request_max: Duration,
    pub(crate) body_bytes_max: usize,
    pub(crate) header_bytes_max: usize,
    pub(crate) connections_max: usize,
    pub(crate) requests_at_once_max: usize,
    pub(crate) cors_origins: Vec<String>,
    pub(crate) jobs_per_request_max: usize,
}

/// What a node may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Api,
    Worker,
    Scheduler,
}

/// The roles of this node; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Roles(Vec<Role>);

#[derive(Debug, Clone)]
pub(crate) struct Database {
    pub(crate) target: DatabaseTarget,
    pub(crate) pool_max: usize,
    pub(crate) readers: usize,
    pub(crate) durability: Durability,
    pub(crate) statement_max: Duration,
    pub(crate) connect_max: Duration,
    pub(crate) process_lock: bool,
}

/// Which database, and where.
#[derive(Debug, Clone)]
pub(crate) enum DatabaseTarget {
    Sqlite(PathBuf),
    /// The URL, which may hold a password.
    Postgres(SecretString),
}

/// What a commit in SQLite survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    Full,
    Relaxed,
}

#[derive(Debug, Clone)]
pub(crate) struct Redis {
    pub(crate) url: Option<SecretString>,
}

#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) token: Option<SecretString>,
}

#[derive(Debug, Clone)]
pub(crate) struct Auth {
    pub(crate) token_cache: Duration,
    pub(crate) requests_per_sec_max: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Jobs {
    pub(crate) poll: Duration,
    pub(crate) slots: usize,
    pub(crate) heartbeat: Duration,
    pub(crate) stalled: Duration,
    pub(crate) sweep: Duration,
    pub(crate) attempts_max: u32,
    pub(crate) backoff_base: Duration,
    pub(crate) backoff_cap: Duration,
    pub(crate) payload_bytes_max: usize,
    pub(crate) result_bytes_max: usize,
    pub(crate) claim_max: usize,
    pub(crate) wait_max: Duration,
    pub(crate) idempotency: Duration,
    pub(crate) retention_completed: Duration,
    pub(crate) retention_failed: Duration,
    pub(crate) retention_failed_kinds: Vec<(KindName, Duration)>,
    pub(crate) retention_cancelled: Duration,
    pub(crate) prune: Duration,
    pub(crate) prune_rows_max: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) level: Targets,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pub(crate) sample: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct MeetingToken {
    pub(crate) secret: Option<SecretString>,
    pub(crate) secrets_accepted: Vec<SecretString>,
}

impl Config {
    pub(super) fn read(reader: &mut Reader<'_>, failpoints: Option<String>) -> Config {
        let server = Server::read(reader);
        Config {
            database: Database::read(reader, &server.data),
            server,
            redis: Redis { url: reader.text("redis.url", None, parse_redis_url) },
            admin: Admin { token: reader.secret("admin.token", 1) },
            auth: Auth {
                token_cache: reader.duration("auth.token_cache_secs", secs(0)..=secs(300)),
                requests_per_sec_max: reader.number("auth.requests_per_sec_max", 0..=1_000_000),
            },
            jobs: Jobs::read(reader),
            log: Log {
                format: reader
                    .choice("log.format", &[("text", LogFormat::Text), ("json", LogFormat::Json)]),
                level: reader.text("log.level", Targets::new(), parse_level),
            },
            metrics: Metrics {
                sample: reader.duration("metrics.sample_secs", secs(1)..=secs(3600)),
            },
            bots: Bots::read(reader),
            launcher: Launcher::read(reader),
            webhooks: Webhooks::read(reader),
            egress: Egress::read(reader),
            meeting_token: MeetingToken {
                secret: reader.secret("meeting_token.secret", 24),
                secrets_accepted: reader.secrets("meeting_token.secrets_accepted", 24),
            },
            transcripts: Transcripts::read(reader),
            live: Live::read(reader),
            daily: Daily::read(reader),
            presence: Presence::read(reader),
            recordings: Recordings::read(reader),
            rooms: Rooms::read(reader),
            transcriber: Transcriber::read(reader),
            audits: Audits::read(reader),
            tasks: Tasks::read(reader),
            executors: reader.executors(),
            failpoints,
        }
    }
}

impl Server {
    /// Whether only this machine can reach the server.
    pub(crate) fn is_local(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }

    fn read(reader: &mut Reader<'_>) -> Server {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Server {
            listen: reader.text("server.listen", nowhere, parse_listen),
            public_url: reader.text("server.public_url", None, parse_public_url),
            data: reader.text("server.data", PathBuf::new(), parse_path),
            roles: Roles::new(reader.choices(
                "server.roles",
                &[("api", Role::Api), ("worker", Role::Worker), ("scheduler", Role::Scheduler)],
            )),
            shutdown_grace: reader.duration("server.shutdown_grace_secs", secs(0)..=secs(3600)),
            request_max: reader.duration("server.request_secs_max", ms(100)..=secs(3600)),
            body_bytes_max: reader.number("server.body_bytes_max", 1024..=1 << 30),
            header_bytes_max: reader.number("server.header_bytes_max", 8192..=1 << 20),
            connections_max: reader.number("server.connections_max", 1..=1_000_000),
            requests_at_once_max: reader.number("server.requests_at_once_max", 1..=100_000),
            cors_origins: reader.texts("server.cors_origins", parse_origin),
            jobs_per_request_max: reader.number("server.jobs_per_request_max", 1..=100_000),
        }
    }
}

impl Database {
    fn read(reader: &mut Reader<'_>, data: &Path) -> Database {
        let embedded = DatabaseTarget::Sqlite(data.join(SQLITE_FILE));
        Database {
            target: reader.text("database.url", embedded.clone(), |url| {
                if url.is_empty() { Ok(embedded) } else { parse_database_url(url) }
            }),
            pool_max: reader.number("database.pool_max", 1..=1000),
            readers: reader.number("database.readers", 1..=64),
            durability: reader.choice(
                "database.durability",
                &[("full", Durability::Full), ("relaxed", Durability::Relaxed)],
            ),
            statement_max: reader.duration("database.statement_secs_max", ms(100)..=secs(3600)),
            connect_max: reader.duration("database.connect_secs_max", ms(100)..=secs(600)),
            process_lock: reader.flag("database.process_lock"),
        }
    }
}

impl Admin {
    /// How long the token is, which is all that checks need to know about it.
    pub(super) fn token_bytes(&self) -> usize {
        self.token.as_ref().map_or(0, |token| token.expose_secret().len())
    }
}

impl Jobs {
    fn read(reader: &mut Reader<'_>) -> Jobs {
        Jobs {
            poll: reader.duration("jobs.poll_secs", ms(10)..=hours(1)),
            slots: reader.number("jobs.slots", 1..=10_000),
            heartbeat: reader.duration("jobs.heartbeat_secs", ms(100)..=hours(1)),
            stalled: reader.duration("jobs.stalled_secs", secs(1)..=hours(24)),
            sweep: reader.duration("jobs.sweep_secs", ms(100)..=hours(1)),
            attempts_max: reader.number("jobs.attempts_max", 1..=1000),
            backoff_base: reader.duration("jobs.backoff_base_ms", ms(0)..=hours(1)),
            backoff_cap: reader.duration("jobs.backoff_cap_secs", secs(0)..=hours(24)),
            payload_bytes_max: reader.number("jobs.payload_bytes_max", 2..=64 << 20),
            result_bytes_max: reader.number("jobs.result_bytes_max", 2..=64 << 20),
            claim_max: reader.number("jobs.claim_max", 1..=10_000),
            wait_max: reader.duration("jobs.wait_secs_max", secs(0)..=secs(300)),
            idempotency: reader.duration("jobs.idempotency_hours", secs(36)..=hours(720)),
            retention_completed: reader
                .duration("jobs.retention_completed_hours", secs(0)..=hours(87_600)),
            retention_failed: reader
                .duration("jobs.retention_failed_hours", secs(0)..=hours(87_600)),
            retention_failed_kinds: reader.texts("jobs.retention_failed_kinds", kept_for),
            retention_cancelled: reader
                .duration("jobs.retention_cancelled_hours", secs(0)..=hours(87_600)),
            prune: reader.duration("jobs.prune_secs", ms(100)..=hours(24)),
            prune_rows_max: reader.number("jobs.prune_rows_max", 1..=100_000),
        }
    }
}

/// A kind and how long its failed jobs are kept.
fn kept_for(text: &str) -> Result<(KindName, Duration), String> {
    let fix = || "write a kind and hours, such as reports.render=720".to_owned();
    let (kind, kept) = text.split_once('=').ok_or_else(fix)?;
    let kind = KindName::new(kind.trim()).map_err(|_| fix())?;
    let kept = kept.trim().parse().ok().filter(|kept| *kept <= 87_600).ok_or_else(fix)?;
    Ok((kind, hours(kept)))
}

impl Roles {
    fn new(mut roles: Vec<Role>) -> Roles {
        roles.sort_unstable();
        roles.dedup();
        Roles(roles)
    }

    pub(crate) fn has(&self, role: Role) -> bool {
        self.0.contains(&role)
    }

    /// Whether this node alone does everything.
    pub(crate) fn is_complete(&self) -> bool {
        self.0.len() == 3
    }
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    numeric.as_deref().unwrap_or(text).parse().map_err(|_| {
        "write an IP address and a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080"
            .to_owned()
    })
}

fn parse_public_url(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let url = text.trim_end_matches('/');
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    if !is_http || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("write a URL, such as https://meetings.example.org".to_owned());
    }
    Ok(Some(url.to_owned()))
}

/// As browsers write it: a scheme and a host, perhaps a port, and nothing behind it.
fn parse_origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_origin = host.is_some_and(|host| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
    });
    if !is_origin || text.contains('*') {
        return Err("list origins, such as https://app.example.org".to_owned());
    }
    Ok(text.to_ascii_lowercase())
}

fn parse_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("name a folder, such as ./roundsman-data".to_owned());
    }
    Ok(PathBuf::from(text))
}

fn parse_database_url(url: &str) -> Result<DatabaseTarget, String> {
    match url.split_once("://") {
        Some(("sqlite", "" | ":memory:")) => {
            Err("name a file, such as sqlite://./roundsman-data/roundsman.db".to_owned())
        }
        Some(("sqlite", path)) => Ok(DatabaseTarget::Sqlite(PathBuf::from(path))),
        Some(("postgres" | "postgresql", rest)) if !rest.is_empty() => {
            Ok(DatabaseTarget::Postgres(SecretString::from(url)))
        }
        _ => Err("write sqlite://PATH or postgres://USER:PASSWORD@HOST/DATABASE, or leave it \
                  empty for SQLite in the data folder"
            .to_owned()),
    }
}

pub(super) fn parse_redis_url(url: &str) -> Result<Option<SecretString>, String> {
    match url.split_once("://") {
        None if url.is_empty() => Ok(None),
        Some(("redis" | "redis+unix" | "unix", rest)) if !rest.is_empty() => {
            Ok(Some(SecretString::from(url)))
        }
        Some(("rediss", _)) => {
            Err("this build speaks to Redis without TLS; use redis:// on a private network"
                .to_owned())
        }
        _ => Err("write redis://HOST:PORT/DB, or leave it empty for none".to_owned()),
    }
}

/// A level, or levels per module. The filter's own parser takes a misspelt level for the name of a
/// module and then shows everything of it, so the words are checked here.
fn parse_level(text: &str) -> Result<Targets, String> {
    let usage = || {
        "write error, warn, info, debug, trace or off, or per module: info,roundsman_engine=debug"
            .to_owned()
    };
    let mut targets = Targets::new();
    for directive in text.split(',').map(str::trim) {
        let (target, word) = match directive.split_once('=') {
            Some((target, word)) => (Some(target.trim()), word.trim()),
            None => (None, directive),
        };
        let is_word = word.chars().all(|c| c.is_ascii_alphabetic());
        let level = word.parse::<LevelFilter>().ok().filter(|_| is_word).ok_or_else(usage)?;
        targets = match target {
            None => targets.with_default(level),
            Some("") => return Err(usage()),
            Some(target) => targets.with_target(target, level),
        };
    }
    Ok(targets)
}
