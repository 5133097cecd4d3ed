//! The launcher that fits the configuration.

use std::sync::Arc;

use anyhow::Context;
use roundsman_core::ports::Launcher;
use roundsman_providers::launchers::{
    DockerLauncher, DockerOptions, Installation, NomadLauncher, NomadOptions, ProcessLauncher,
    ProcessOptions,
};

use crate::config::{Config, LauncherKind};

/// The folder of the process launcher in the data folder.
const PROCESS_FOLDER: &str = "bots";
/// Where a bot's programs are looked for, unless the configuration says otherwise.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const MIB: i64 = 1 << 20;

pub(super) fn launcher(
    config: &Config,
    installation: Installation,
) -> anyhow::Result<Arc<dyn Launcher>> {
    match config.launcher.kind {
        LauncherKind::Process => process(config, installation),
        LauncherKind::Docker => Ok(docker(config, installation)),
        LauncherKind::Nomad => nomad(config, installation),
    }
}

fn process(config: &Config, installation: Installation) -> anyhow::Result<Arc<dyn Launcher>> {
    let settings = &config.launcher;
    let command = if settings.process_command.is_empty() {
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        let own = own.into_os_string().into_string();
        let own = own.map_err(|_| anyhow::anyhow!("this program's path is not UTF-8"))?;
        vec![own, "bot".to_owned()]
    } else {
        settings.process_command.clone()
    };
    let folder = config.server.data.join(PROCESS_FOLDER);
    let options = ProcessOptions {
        env: environment(&settings.env),
        logs_kept_max: settings.process_logs_kept_max,
        ..ProcessOptions::new(installation, command, folder)
    };
    let launcher = ProcessLauncher::new(options).context("cannot make the bots' folder")?;
    Ok(Arc::new(launcher))
}

/// Bots inherit nothing of the server's environment, which may hold secrets; but programs want to
/// be found.
fn environment(configured: &[(String, String)]) -> Vec<(String, String)> {
    let mut env = configured.to_vec();
    if !env.iter().any(|(name, _)| name == "PATH") {
        env.push(("PATH".to_owned(), PATH.to_owned()));
    }
    env
}

fn docker(config: &Config, installation: Installation) -> Arc<dyn Launcher> {
    let settings = &config.launcher;
    let some = |number: i64| (number > 0).then_some(number);
    let cpus = f64::from(settings.docker_millicpus_max) / 1000.0;
    let command = settings.docker_command.clone();
    let address = settings.docker_host.clone();
    let options = DockerOptions {
        command: (!command.is_empty()).then_some(command),
        network: settings.docker_network.clone(),
        memory_bytes_max: some(i64::from(settings.docker_memory_mib_max) * MIB),
        cpus_max: (cpus > 0.0).then_some(cpus),
        pids_max: some(i64::from(settings.docker_pids_max)),
        env: settings.env.clone(),
        ..DockerOptions::new(installation, address, settings.docker_image.clone())
    };
    Arc::new(DockerLauncher::new(options))
}

fn nomad(config: &Config, installation: Installation) -> anyhow::Result<Arc<dyn Launcher>> {
    let settings = &config.launcher;
    let options = NomadOptions {
        token: settings.nomad_token.clone(),
        namespace: settings.nomad_namespace.clone(),
        env: settings.env.clone(),
        ..NomadOptions::new(installation, settings.nomad_addr.clone(), settings.nomad_job.clone())
    };
    Ok(Arc::new(NomadLauncher::new(options)?))
}
