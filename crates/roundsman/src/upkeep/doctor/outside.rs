//! What is beside the database: Redis, a server that runs already, secrets, launchers, the browser.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use roundsman_bus::{RedisFacts, inspect_redis};
use secrecy::ExposeSecret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::finding::Finding;
use crate::config::{Config, LauncherKind};

/// How long something near may take to answer.
const ANSWER_SECS_MAX: u64 = 3;
const REDIS_MAJOR_MIN: u32 = 7;

pub(super) async fn look(config: &Config) -> Vec<Finding> {
    let mut findings = vec![redis(config).await, server(config.server.listen).await];
    findings.push(admin(config));
    findings.push(daily(config));
    findings.push(transcriber(config));
    findings.push(launcher(config));
    findings
}

async fn redis(config: &Config) -> Finding {
    let Some(url) = &config.redis.url else {
        return Finding::fine("redis", "not configured, and not needed");
    };
    let asked = timeout(Duration::from_secs(ANSWER_SECS_MAX), inspect_redis(url.expose_secret()));
    match asked.await {
        Ok(Ok(facts)) => redis_facts(&facts),
        Ok(Err(error)) => Finding::wrong(
            "redis",
            format!("cannot be reached: {error}"),
            "nothing is lost without it, and everything is slower: start it, or unset ROUNDSMAN_REDIS_URL",
        ),
        Err(_) => {
            Finding::wrong("redis", "does not answer", "start it, or unset ROUNDSMAN_REDIS_URL")
        }
    }
}

fn redis_facts(facts: &RedisFacts) -> Finding {
    let RedisFacts { version, eviction, role } = facts;
    let found = format!("version {version}, {role}, maxmemory-policy {eviction}");
    let major = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0u32);
    if major < REDIS_MAJOR_MIN {
        return Finding::wrong("redis", found, "streams need version 7");
    }
    if role != "master" {
        return Finding::wrong("redis", found, "a replica cannot be written to: name its primary");
    }
    if eviction.starts_with("allkeys") {
        return Finding::wrong(
            "redis",
            found,
            "it may remove a stream that nobody has read: use noeviction or volatile-ttl",
        );
    }
    Finding::fine("redis", found)
}

/// Whether somebody answers where a server would listen.
async fn server(listen: SocketAddr) -> Finding {
    let near =
        if listen.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { listen.ip() };
    let address = SocketAddr::new(near, listen.port());
    let asked = timeout(Duration::from_secs(ANSWER_SECS_MAX), status_of(address)).await;
    match asked {
        Ok(Ok(200)) => Finding::fine("server", format!("one runs on {address} and is ready")),
        Ok(Ok(503)) => Finding::wrong(
            "server",
            format!("one runs on {address} and is not ready"),
            "GET /readyz says why",
        ),
        Ok(Ok(status)) => Finding::doubtful(
            "server",
            format!("{address} answers {status}"),
            "is it another program? choose another --listen",
        ),
        Ok(Err(_)) => {
            Finding::fine("server", format!("nobody listens on {address}; one can start"))
        }
        Err(_) => Finding::wrong(
            "server",
            format!("whoever listens on {address} does not answer"),
            "look at its log, or choose another --listen",
        ),
    }
}

async fn status_of(address: SocketAddr) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n").await?;
    let mut head = [0u8; 12];
    stream.read_exact(&mut head).await?;
    Ok(std::str::from_utf8(&head[9..]).ok().and_then(|code| code.parse().ok()).unwrap_or(0))
}

fn admin(config: &Config) -> Finding {
    if config.admin.token.is_some() {
        return Finding::fine("admin token", "is set");
    }
    if config.server.is_local() {
        return Finding::fine("admin token", "is made at the first start and shown once");
    }
    Finding::wrong(
        "admin token",
        "is not set",
        "set ROUNDSMAN_ADMIN_TOKEN: all nodes need the same",
    )
}

fn daily(config: &Config) -> Finding {
    match (&config.daily.api_key, &config.daily.webhook_secret) {
        (None, None) => Finding::fine("daily", "not configured: no video rooms"),
        (Some(_), Some(_)) => Finding::fine("daily", "key and webhook secret are set"),
        (Some(_), None) => Finding::doubtful(
            "daily",
            "its events are refused with 503",
            "set ROUNDSMAN_DAILY_WEBHOOK_SECRET; until then rooms are only compared every 30 s",
        ),
        (None, Some(_)) => Finding::wrong(
            "daily",
            "a webhook secret without a key",
            "set ROUNDSMAN_DAILY_API_KEY: events are only reasons to look, and looking needs it",
        ),
    }
}

fn transcriber(config: &Config) -> Finding {
    match (&config.transcriber.url, &config.daily.api_key) {
        (Some(_), _) => Finding::fine("transcriber", "is set"),
        (None, Some(_)) => Finding::doubtful(
            "transcriber",
            "is not set",
            "recordings are kept without text; set ROUNDSMAN_TRANSCRIBER_URL",
        ),
        (None, None) => Finding::fine("transcriber", "not configured"),
    }
}

fn launcher(config: &Config) -> Finding {
    let launcher = &config.launcher;
    match launcher.kind {
        LauncherKind::Docker => {
            Finding::fine("launcher", format!("docker at {:?}", launcher.docker_host))
        }
        LauncherKind::Nomad => {
            Finding::fine("launcher", format!("nomad at {}", launcher.nomad_addr))
        }
        LauncherKind::Process => match launcher.process_command.first() {
            None => Finding::fine("launcher", "processes, with the reference bot"),
            Some(program) if is_there(program) => {
                Finding::fine("launcher", format!("processes, with {program}"))
            }
            Some(program) => Finding::wrong(
                "launcher",
                format!("{program} is not there"),
                "bots cannot be started: mend launcher.process_command",
            ),
        },
    }
}

/// A bare name is looked for by the system when it is started.
fn is_there(program: &str) -> bool {
    !program.contains('/') || Path::new(program).is_file()
}
