//! Runs the command that was asked for: loads what it needs, and leaves the work to its module.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::{Cli, Command, CommonArgs, ConfigArgs, DocsCommand, ServerArgs};
use crate::config::{self, Config, Environment, Flags, Inputs, Loaded, Problems, Purpose};
use crate::{audit, bot, logging, migrate, openapi, output, serve, state_machines, token, upkeep};

/// The configuration file in the working directory.
const CONFIG_FILE: &str = "roundsman.toml";

pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    // A bot's exit code says how it ended; every other command succeeds or fails.
    if matches!(cli.command, Command::Bot) {
        return Ok(bot::run());
    }
    run_command(cli).map(|()| ExitCode::SUCCESS)
}

fn run_command(cli: Cli) -> anyhow::Result<()> {
    let common = &cli.common;
    match cli.command {
        Command::Bot => Ok(()),
        Command::Serve(args) => block_on(serve::run(start(common, Some(&args))?)),
        Command::Migrate(args) => block_on(migrate::run(start(common, None)?, args)),
        Command::Audit(args) => block_on(audit::run(start(common, None)?, args)),
        Command::Token(command) => block_on(token::run(start(common, None)?, command)),
        Command::Backup(args) => block_on(upkeep::backup(start(common, None)?, args)),
        Command::Restore(args) => block_on(upkeep::restore(start(common, None)?, args)),
        Command::Check(args) => block_on(upkeep::check(start(common, None)?, args)),
        Command::Doctor(args) => {
            let loaded = load(common, Some(&args.server))?;
            logging::init(&loaded.config.log)?;
            block_on(upkeep::doctor(loaded.config, loaded.hints, args))
        }
        Command::Completions { shell } => completions(shell),
        Command::Openapi => openapi::run(),
        Command::Config(args) => show_config(common, &args),
        Command::Docs(DocsCommand::Config) => Ok(output::print(&config::reference())?),
        Command::Docs(DocsCommand::States) => Ok(output::print(&state_machines::document())?),
    }
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "roundsman", &mut script);
    Ok(output::print(&String::from_utf8_lossy(&script))?)
}

/// Loads the configuration and starts logging with it.
fn start(common: &CommonArgs, server: Option<&ServerArgs>) -> anyhow::Result<Config> {
    let loaded = load(common, server)?;
    logging::init(&loaded.config.log)?;
    for hint in &loaded.hints {
        tracing::warn!("{hint}");
    }
    Ok(loaded.config)
}

fn show_config(common: &CommonArgs, args: &ConfigArgs) -> anyhow::Result<()> {
    if args.default {
        return Ok(output::print(config::DEFAULT_TOML)?);
    }
    let loaded = load(common, Some(&args.server))?;
    for hint in &loaded.hints {
        output::note(&format!("hint: {hint}"));
    }
    let text = if args.json {
        serde_json::to_string_pretty(&loaded.settings.to_json())?
    } else {
        loaded.settings.to_toml()
    };
    Ok(output::print(&text)?)
}

/// With a server's arguments the configuration has to be fit for serving.
fn load(common: &CommonArgs, server: Option<&ServerArgs>) -> Result<Loaded, Problems> {
    let purpose = if server.is_some() { Purpose::Serving } else { Purpose::Maintenance };
    config::load(&Inputs {
        purpose,
        environment: Environment::of_process(),
        config: common.config.clone(),
        default_file: PathBuf::from(CONFIG_FILE),
        flags: Flags {
            data: common.data.clone(),
            listen: server.and_then(|server| server.listen.clone()),
            roles: server.and_then(|server| server.roles.clone()),
        },
    })
}

fn block_on(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    let result = runtime.block_on(command);
    // Whoever ends at once does not wait for what is still running on other threads.
    runtime.shutdown_background();
    result
}
