//! The sections about bots: how long they may take, where they run, whom they tell.

use std::path::PathBuf;
use std::time::Duration;

use roundsman_providers::egress::{Cidr, InvalidCidr};
use roundsman_providers::launchers::DockerAddress;
use secrecy::SecretString;

use super::reader::Reader;
use super::sections::{hours, ms, parse_redis_url, secs};

#[derive(Debug, Clone)]
pub(crate) struct Bots {
    pub(crate) heartbeat: Duration,
    pub(crate) sweep: Duration,
    pub(crate) reserved_max: Duration,
    pub(crate) starting_max: Duration,
    pub(crate) active_silence_max: Duration,
    pub(crate) stopping_max: Duration,
    /// Zero: not looked at.
    pub(crate) media_silence_max: Duration,
    pub(crate) lifetime_max: Duration,
    pub(crate) leave_grace: Duration,
    pub(crate) kill_grace: Duration,
    pub(crate) launches_at_once_max: usize,
    pub(crate) sweep_rows_max: usize,
    pub(crate) waiting_room_max: Duration,
    pub(crate) no_one_joined_max: Duration,
    pub(crate) everyone_left_max: Duration,
    pub(crate) callback_url: Option<String>,
    pub(crate) redis_url: Option<SecretString>,
    pub(crate) whisper_live_url: Option<String>,
    pub(crate) log_level: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LauncherKind {
    Process,
    Docker,
    Nomad,
}

#[derive(Debug, Clone)]
pub(crate) struct Launcher {
    pub(crate) kind: LauncherKind,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) process_command: Vec<String>,
    pub(crate) process_logs_kept_max: usize,
    pub(crate) docker_host: DockerAddress,
    pub(crate) docker_image: String,
    pub(crate) docker_command: Vec<String>,
    pub(crate) docker_network: Option<String>,
    pub(crate) docker_memory_mib_max: u32,
    pub(crate) docker_millicpus_max: u32,
    pub(crate) docker_pids_max: u32,
    pub(crate) nomad_addr: String,
    pub(crate) nomad_job: String,
    pub(crate) nomad_namespace: Option<String>,
    pub(crate) nomad_token: Option<SecretString>,
}

#[derive(Debug, Clone)]
pub(crate) struct Webhooks {
    pub(crate) request_max: Duration,
    pub(crate) retention: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct Egress {
    pub(crate) allow: Vec<Cidr>,
}

impl Bots {
    pub(super) fn read(reader: &mut Reader<'_>) -> Bots {
        let hour = hours(1);
        Bots {
            heartbeat: reader.duration("bots.heartbeat_secs", secs(1)..=hour),
            sweep: reader.duration("bots.sweep_secs", ms(100)..=hour),
            reserved_max: reader.duration("bots.reserved_secs_max", ms(100)..=hours(24)),
            starting_max: reader.duration("bots.starting_secs_max", ms(100)..=hours(24)),
            active_silence_max: reader
                .duration("bots.active_silence_secs_max", ms(100)..=hours(24)),
            stopping_max: reader.duration("bots.stopping_secs_max", ms(100)..=hours(24)),
            media_silence_max: reader.duration("bots.media_silence_secs_max", secs(0)..=hours(24)),
            lifetime_max: reader.duration("bots.lifetime_hours_max", secs(1)..=hours(720)),
            leave_grace: reader.duration("bots.leave_grace_secs", secs(0)..=hour),
            kill_grace: reader.duration("bots.kill_grace_secs", secs(0)..=hour),
            launches_at_once_max: reader.number("bots.launches_at_once_max", 1..=1000),
            sweep_rows_max: reader.number("bots.sweep_rows_max", 1..=1_000_000),
            waiting_room_max: reader.duration("bots.waiting_room_secs_max", secs(0)..=hours(24)),
            no_one_joined_max: reader.duration("bots.no_one_joined_secs_max", secs(0)..=hours(24)),
            everyone_left_max: reader.duration("bots.everyone_left_secs_max", secs(0)..=hours(24)),
            callback_url: reader.text("bots.callback_url", None, parse_url),
            redis_url: reader.text("bots.redis_url", None, parse_redis_url),
            whisper_live_url: reader.text("bots.whisper_live_url", None, |text| Ok(some(text))),
            log_level: reader.text("bots.log_level", String::new(), |text| Ok(text.to_owned())),
        }
    }
}

impl Launcher {
    pub(super) fn read(reader: &mut Reader<'_>) -> Launcher {
        let word = |text: &str| Ok(text.to_owned());
        let nowhere = DockerAddress::Unix(PathBuf::new());
        Launcher {
            kind: reader.choice(
                "launcher.kind",
                &[
                    ("process", LauncherKind::Process),
                    ("docker", LauncherKind::Docker),
                    ("nomad", LauncherKind::Nomad),
                ],
            ),
            env: reader.texts("launcher.env", parse_variable),
            process_command: reader.texts("launcher.process_command", word),
            process_logs_kept_max: reader.number("launcher.process_logs_kept_max", 0..=1_000_000),
            docker_host: reader.text("launcher.docker_host", nowhere, |text| {
                DockerAddress::parse(text).map_err(|error| error.to_string())
            }),
            docker_image: reader.text("launcher.docker_image", String::new(), word),
            docker_command: reader.texts("launcher.docker_command", word),
            docker_network: reader.text("launcher.docker_network", None, |text| Ok(some(text))),
            docker_memory_mib_max: reader.number("launcher.docker_memory_mib_max", 0..=1 << 20),
            docker_millicpus_max: reader.number("launcher.docker_millicpus_max", 0..=1 << 20),
            docker_pids_max: reader.number("launcher.docker_pids_max", 0..=1 << 20),
            nomad_addr: reader.text("launcher.nomad_addr", String::new(), |text| {
                parse_url(text)?.ok_or_else(|| "write http://HOST:4646".to_owned())
            }),
            nomad_job: reader.text("launcher.nomad_job", String::new(), word),
            nomad_namespace: reader.text("launcher.nomad_namespace", None, |text| Ok(some(text))),
            nomad_token: reader.secret("launcher.nomad_token", 1),
        }
    }
}

impl Webhooks {
    pub(super) fn read(reader: &mut Reader<'_>) -> Webhooks {
        Webhooks {
            request_max: reader.duration("webhooks.request_secs_max", ms(100)..=secs(60)),
            retention: reader.duration("webhooks.retention_hours", hours(1)..=hours(87_600)),
        }
    }
}

impl Egress {
    pub(super) fn read(reader: &mut Reader<'_>) -> Egress {
        let network = |text: &str| text.parse().map_err(|error: InvalidCidr| error.to_string());
        Egress { allow: reader.texts("egress.allow", network) }
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

pub(super) fn parse_url(text: &str) -> Result<Option<String>, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        None if text.is_empty() => Ok(None),
        Some(rest) if !rest.is_empty() && !text.contains(char::is_whitespace) => {
            Ok(Some(text.trim_end_matches('/').to_owned()))
        }
        _ => Err("write http://HOST:PORT or https://HOST".to_owned()),
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("write each as NAME=value".to_owned()),
    }
}
