//! What must hold between settings that are each right by themselves.

use super::layers::Settings;
use super::problem::Problems;
use super::sections::{Config, DatabaseTarget, Durability};
use super::{LauncherKind, Purpose, Role};

/// A token that guards a reachable server must not be guessable.
const ADMIN_TOKEN_BYTES_MIN: usize = 16;

/// Adds a problem for each relation that does not hold. A relation to a setting that is wrong by
/// itself is not looked at.
pub(super) fn check(
    config: &Config,
    settings: &Settings,
    purpose: Purpose,
    problems: &mut Problems,
) {
    if purpose == Purpose::Serving {
        config.executors.check(problems);
    }
    let jobs = &config.jobs;
    let mut require = |holds: bool, first: &str, second: &str, fix: &str| {
        if !holds && !problems.is_spoiled(first) && !problems.is_spoiled(second) {
            let (first, second) = (settings.get(first), settings.get(second));
            problems.add(format!("{first} and {second}: {fix}"));
        }
    };
    require(
        jobs.heartbeat * 3 < jobs.stalled,
        "jobs.heartbeat_secs",
        "jobs.stalled_secs",
        "one lost heartbeat must not look like a dead worker; \
         set stalled_secs to more than three times heartbeat_secs",
    );
    require(
        jobs.backoff_base <= jobs.backoff_cap,
        "jobs.backoff_base_ms",
        "jobs.backoff_cap_secs",
        "the first wait must not be over the cap; lower the base (it is in milliseconds) \
         or raise the cap",
    );
    require(
        jobs.payload_bytes_max <= config.server.body_bytes_max,
        "jobs.payload_bytes_max",
        "server.body_bytes_max",
        "such a payload could never arrive; set payload_bytes_max to at most body_bytes_max",
    );
    require(
        jobs.result_bytes_max <= config.server.body_bytes_max,
        "jobs.result_bytes_max",
        "server.body_bytes_max",
        "such a result could never arrive; set result_bytes_max to at most body_bytes_max",
    );
    let bots = &config.bots;
    require(
        bots.heartbeat * 3 < bots.active_silence_max,
        "bots.heartbeat_secs",
        "bots.active_silence_secs_max",
        "one lost heartbeat must not look like a dead bot; \
         set active_silence_secs_max to more than three times heartbeat_secs",
    );
    require(
        bots.waiting_room_max < bots.starting_max,
        "bots.waiting_room_secs_max",
        "bots.starting_secs_max",
        "a bot that waits in a lobby must not be given up before it gives up itself; \
         set starting_secs_max to more than waiting_room_secs_max",
    );
    require(
        config.launcher.kind != LauncherKind::Docker || !config.launcher.docker_image.is_empty(),
        "launcher.kind",
        "launcher.docker_image",
        "name the image that is to be run",
    );
    if purpose == Purpose::Serving && !config.server.is_local() {
        let fix = weak_admin_token(config.admin.token_bytes());
        require(fix.is_none(), "server.listen", "admin.token", &fix.unwrap_or_default());
    }
}

/// What to do about an admin token of so many bytes when others can reach the server.
fn weak_admin_token(bytes: usize) -> Option<String> {
    match bytes {
        0 => Some(
            "others can reach this address, so set ROUNDSMAN_ADMIN_TOKEN (for example to the \
             output of `openssl rand -hex 32`) or listen on 127.0.0.1"
                .to_owned(),
        ),
        1..ADMIN_TOKEN_BYTES_MIN => Some(format!(
            "others can reach this address, so use a token of at least {ADMIN_TOKEN_BYTES_MIN} \
             characters, or listen on 127.0.0.1"
        )),
        _ => None,
    }
}

/// What is allowed, but seldom meant.
pub(super) fn hints(config: &Config) -> Vec<String> {
    let mut hints = Vec::new();
    let mut hint = |applies: bool, text: &str| {
        if applies {
            hints.push(text.to_owned());
        }
    };
    let roles = &config.server.roles;
    let embedded = matches!(config.database.target, DatabaseTarget::Sqlite(_));
    hint(
        embedded && !roles.is_complete(),
        "server.roles leaves out a role, but an SQLite database belongs to this node alone: what \
         the role does will not be done; add it, or share a PostgreSQL between nodes",
    );
    hint(
        embedded && config.database.durability == Durability::Relaxed,
        "database.durability is relaxed: a loss of power may undo the last acknowledged changes",
    );
    hint(
        !embedded && roles.has(Role::Worker) && config.database.pool_max < 4,
        "database.pool_max is below 4: claims, heartbeats and requests will wait for each other",
    );
    hint(
        config.jobs.sweep > config.jobs.stalled,
        "jobs.sweep_secs is longer than jobs.stalled_secs: stalled jobs are noticed late",
    );
    hint(
        config.database.statement_max >= config.jobs.stalled,
        "database.statement_secs_max is not below jobs.stalled_secs: a worker whose heartbeat hangs \
         loses its jobs before it can try again",
    );
    hint(
        config.database.statement_max > config.server.request_max,
        "database.statement_secs_max is longer than server.request_secs_max: requests are answered \
         with 503 while their statement still runs",
    );
    hints
}
