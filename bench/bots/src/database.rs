//! A fresh database to measure on, and live bots in it that nobody had to launch.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use tempfile::TempDir;

/// What is measured.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Sqlite { folder: PathBuf },
    Postgres { url: String, redis: Option<String> },
}

impl Target {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Target::Sqlite { .. } => "SQLite (FULL)",
            Target::Postgres { .. } => "PostgreSQL",
        }
    }
}

/// The place of one server and its database.
pub(crate) struct Bench {
    folder: TempDir,
    postgres: Option<Postgres>,
}

struct Postgres {
    config: tokio_postgres::Config,
    url: String,
    redis: Option<String>,
}

/// Live bots to be filled in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    pub(crate) bots: usize,
    /// So many of them were last heard an hour ago.
    pub(crate) overdue: usize,
    /// The others will have been heard in so many hours: whoever sends no heartbeats is then not
    /// overdue however long a measurement takes.
    pub(crate) others_heard_in_hours: u32,
}

impl Bench {
    pub(crate) async fn open(target: &Target) -> anyhow::Result<Bench> {
        let prefix = "bench-bots-";
        match target {
            Target::Sqlite { folder } => {
                let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(folder)?;
                Ok(Bench { folder, postgres: None })
            }
            Target::Postgres { url, redis } => {
                let folder = tempfile::Builder::new().prefix(prefix).tempdir()?;
                let (config, url) = fresh_database(url).await?;
                let postgres = Some(Postgres { config, url, redis: redis.clone() });
                Ok(Bench { folder, postgres })
            }
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The settings that lead the server here.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let Some(postgres) = &self.postgres else { return Vec::new() };
        let mut variables = vec![("ROUNDSMAN_DATABASE_URL", postgres.url.clone())];
        variables.extend(postgres.redis.clone().map(|url| ("ROUNDSMAN_REDIS_URL", url)));
        variables
    }

    /// The name of the connection of a bot that was filled in; its meeting has its number.
    pub(crate) fn connection_of(number: usize) -> String {
        format!("bench-{number}")
    }

    /// Fills in bots that are in their meetings, numbered from one, while no server runs.
    pub(crate) async fn fill(&self, fill: Fill) -> anyhow::Result<()> {
        match &self.postgres {
            Some(postgres) => fill_postgres(&postgres.config, fill).await,
            None => self.fill_sqlite(fill),
        }
    }

    fn fill_sqlite(&self, fill: Fill) -> anyhow::Result<()> {
        let path = self.data().join("roundsman.db");
        let mut file = rusqlite::Connection::open(path).context("no database to fill")?;
        let now = DatabaseClock::start().now().as_micros();
        let hour = 3_600_000_000;
        let later = now + hour * i64::from(fill.others_heard_in_hours);
        let transaction = file.transaction()?;
        transaction.execute(
            "INSERT INTO users (email, max_concurrent_bots, data, created_at)
             VALUES ('bench@example.org', 10000, '{}', ?1)",
            [now],
        )?;
        let user = transaction.last_insert_rowid();
        for number in 1..=fill.bots {
            let id = i64::try_from(number)?;
            let (entered, heard) =
                if number <= fill.overdue { (now - hour, now - hour) } else { (now, later) };
            transaction
                .prepare_cached(
                    "INSERT INTO meetings (id, user_id, platform, platform_specific_id, status,
                                           start_time, data, created_at, updated_at)
                     VALUES (?1, ?2, 'teams', ?3, 'active', ?4, '{}', ?4, ?4)",
                )?
                .execute((id, user, format!("{id:012}"), entered))?;
            transaction
                .prepare_cached(
                    "INSERT INTO bots (meeting_id, user_id, connection_id, attempt, live,
                        was_active, beats, reserved_at, entered_at, heartbeat_at, missed,
                        config_version, config_applied, wish)
                     VALUES (?1, ?2, ?3, 1, 1, 1, 1, ?4, ?4, ?5, 0, 0, 0, '{}')",
                )?
                .execute((id, user, Bench::connection_of(number), entered, heard))?;
        }
        transaction.commit()?;
        Ok(())
    }
}

async fn fill_postgres(config: &tokio_postgres::Config, fill: Fill) -> anyhow::Result<()> {
    let Fill { bots, overdue, others_heard_in_hours: hours } = fill;
    let client = connect(config).await?;
    client
        .batch_execute(&format!(
            "INSERT INTO public.users (email, max_concurrent_bots)
             VALUES ('bench@example.org', 10000);
             INSERT INTO public.meetings (id, user_id, platform, platform_specific_id, status,
                                          start_time, created_at, updated_at)
             SELECT n, u.id, 'teams', lpad(n::text, 12, '0'), 'active', t.at, t.at, t.at
               FROM public.users u, generate_series(1, {bots}) n,
                    LATERAL (SELECT (now() AT TIME ZONE 'UTC') - CASE WHEN n <= {overdue}
                             THEN interval '1 hour' ELSE interval '0' END AS at) t;
             SELECT setval('public.meetings_id_seq', {bots});
             INSERT INTO roundsman.bots (meeting_id, user_id, connection_id, attempt, live,
                was_active, beats, reserved_at, entered_at, heartbeat_at, missed,
                config_version, config_applied, wish)
             SELECT id, user_id, 'bench-' || id, 1, true, true, true,
                    created_at AT TIME ZONE 'UTC', created_at AT TIME ZONE 'UTC',
                    now() + CASE WHEN id <= {overdue} THEN interval '-1 hour'
                            ELSE interval '{hours} hours' END,
                    0, 0, 0, '{{}}'
               FROM public.meetings;"
        ))
        .await?;
    client.batch_execute("VACUUM ANALYZE").await?;
    Ok(())
}

/// One connection of its own, driven by a task that ends with it.
async fn connect(config: &tokio_postgres::Config) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
    #[expect(clippy::disallowed_methods, reason = "ends when the client is dropped")]
    tokio::spawn(connection);
    Ok(client)
}

async fn fresh_database(url: &str) -> anyhow::Result<(tokio_postgres::Config, String)> {
    let mut config = tokio_postgres::Config::from_str(url).context("--postgres is no URL")?;
    let name = "bench_bots";
    let client = connect(&config).await?;
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
    client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
    config.dbname(name);
    let server = url.rsplit_once('/').context("--postgres names no database")?.0;
    Ok((config, format!("{server}/{name}")))
}
