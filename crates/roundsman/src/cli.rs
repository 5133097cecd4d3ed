//! The command line: which commands and flags there are, and what their help says.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  roundsman serve                                  start on 127.0.0.1:8080 with SQLite in ./roundsman-data
  ROUNDSMAN_DATABASE_URL=postgres://me@db/app roundsman serve --roles worker
                                                   one more worker on a shared PostgreSQL
  roundsman config                                 show every setting and where its value came from
  roundsman config --default > roundsman.toml      a commented file to start from
  roundsman token create --user me@example.com     a user's API token, shown once
  roundsman audit example.org --html report.html   audit a website here and now

Every setting is also an environment variable: [jobs] poll_secs is ROUNDSMAN_JOBS_POLL_SECS.";

const SERVE_EXAMPLES: &str = "\
Examples:
  roundsman serve --data /var/lib/roundsman
  roundsman serve --listen 0.0.0.0:8080            requires ROUNDSMAN_ADMIN_TOKEN
  roundsman serve --roles api                      a node that runs no jobs; needs PostgreSQL

The first signal (INT or TERM) lets running jobs finish, the second one exits at once.";

const TOKEN_EXAMPLES: &str = "\
Examples:
  roundsman token create --user me@example.com
  roundsman token create --user ci@example.com --scope jobs --expires-in 30d
  roundsman token list --user me@example.com
  roundsman token revoke 17";

const AUDIT_EXAMPLES: &str = "\
Examples:
  roundsman audit example.org
  roundsman audit https://example.org/ --html report.html --pdf report.pdf
  roundsman audit http://localhost:3000 --allow-private --browser --json

Needs no server. Fails, and says why, if the page cannot be looked at.";

const BACKUP_EXAMPLES: &str = "\
Examples:
  roundsman backup /backups/monday.db              SQLite: a file of its own; PostgreSQL: pg_dump's
  roundsman restore --dry-run /backups/monday.db   is it sound, and what is in it?
  roundsman restore --verify /backups/monday.db    what was there before is kept beside it";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(roundsman completions bash)
  roundsman completions zsh > ~/.zfunc/_roundsman";

/// Keeps your database true about work that happens somewhere else.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command needs to find its database.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Configuration file, also `ROUNDSMAN_CONFIG` [default: roundsman.toml if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Data folder [default: ./roundsman-data]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServerArgs),
    /// Bring the database's schema up to date, as `serve` does at its start, and exit
    Migrate(MigrateArgs),
    /// Copy one moment of the database into a file; a server may run meanwhile
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup(BackupArgs),
    /// Put a copy in the place of the database; no server may run
    #[command(after_help = BACKUP_EXAMPLES)]
    Restore(RestoreArgs),
    /// Look whether the database is sound and everything in it can be true
    Check(CheckArgs),
    /// Say what is configured, what of it can be reached, what is wrong and what to do
    Doctor(DoctorArgs),
    /// Show the effective configuration and where each value came from
    Config(ConfigArgs),
    /// Print the description of the HTTP interface (OpenAPI 3.1, JSON)
    Openapi,
    /// Create, list and revoke users' API tokens
    #[command(subcommand, after_help = TOKEN_EXAMPLES)]
    Token(TokenCommand),
    /// Audit a website and print what was found
    #[command(after_help = AUDIT_EXAMPLES)]
    Audit(AuditArgs),
    /// Attend the meeting that the variable `BOT_CONFIG` describes: the reference bot, which the
    /// process launcher starts
    Bot,
    /// Print a script that completes this command in a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print generated parts of the documentation
    #[command(subcommand, hide = true)]
    Docs(DocsCommand),
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to make; one that exists is left alone
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A file that `roundsman backup` has made
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Look at everything in it as `roundsman check` does, and refuse what is not sound
    #[arg(long)]
    pub(crate) verify: bool,
    /// Only look at it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of a server that are often given by flag.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,
    /// What this node does, separated by commas [default: api,worker,scheduler]
    #[arg(long, value_name = "ROLES")]
    pub(crate) roles: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print JSON instead of TOML
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the commented default configuration, a file to start from
    #[arg(long, conflicts_with_all = ["json", "listen", "roles"])]
    pub(crate) default: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token for a user, who is created if there is none; it is shown once
    Create(TokenCreateArgs),
    /// List tokens: id, user, scopes, when they expire and were last used
    List(TokenListArgs),
    /// Revoke a token; a running server may trust it for `[auth] token_cache_secs` longer
    Revoke(TokenRevokeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// The user's e-mail address
    #[arg(long, value_name = "EMAIL")]
    pub(crate) user: String,
    /// What the token may do; may be repeated or separated by commas [default: everything]
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
    pub(crate) scopes: Vec<String>,
    /// How long it is valid, such as 12h, 30d or 52w [default: until revoked]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) expires_in: Option<Duration>,
    /// Print all about it as JSON instead of the token alone
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TokenListArgs {
    /// Only this user's
    #[arg(long, value_name = "EMAIL")]
    pub(crate) user: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TokenRevokeArgs {
    /// The token's id, as `token list` shows it
    pub(crate) id: i64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// One audit in the terminal.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command")]
pub(crate) struct AuditArgs {
    /// The page; https unless it says otherwise
    pub(crate) url: String,
    /// Print all that was found as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the report as a page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the report as a PDF file
    #[arg(long, value_name = "FILE")]
    pub(crate) pdf: Option<PathBuf>,
    /// Measure in a browser too, which must be on this machine
    #[arg(long)]
    pub(crate) browser: bool,
    /// Allow addresses that are not public, for a site on your own machine
    #[arg(long)]
    pub(crate) allow_private: bool,
    /// Look at the page even if its robots.txt forbids it
    #[arg(long)]
    pub(crate) ignore_robots: bool,
    /// Do not say how far it is
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DocsCommand {
    /// The reference of all settings (docs/configuration.md)
    Config,
    /// The state machines (docs/state-machines.md)
    States,
}

/// A whole number and a unit: 90s, 15m, 12h, 30d, 52w.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let usage = || "write a whole number and a unit, such as 90s, 15m, 12h, 30d or 52w".to_owned();
    let (unit_start, unit) = text.char_indices().next_back().ok_or_else(usage)?;
    let unit_secs: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(usage()),
    };
    let count: u64 = text[..unit_start].parse().map_err(|_| usage())?;
    let secs = count.checked_mul(unit_secs).filter(|secs| *secs > 0).ok_or_else(usage)?;
    Ok(Duration::from_secs(secs))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_a_unit() {
        let cases = [
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("2w", Some(1_209_600)),
            ("30", None),
            ("0d", None),
            ("-1d", None),
            ("1.5h", None),
            ("d", None),
            ("", None),
            ("9ü", None),
            ("18446744073709551615w", None),
        ];
        for (text, secs) in cases {
            assert_eq!(parse_duration(text).ok(), secs.map(Duration::from_secs), "{text:?}");
        }
    }

    #[test]
    fn flags_may_stand_on_either_side_of_the_command() {
        for args in [["--data", "x", "serve"], ["serve", "--data", "x"]] {
            let cli = Cli::try_parse_from(["roundsman"].iter().chain(&args)).unwrap();
            assert_eq!(cli.common.data.as_deref(), Some("x"));
        }
    }

    #[test]
    fn a_token_is_described_by_flags() {
        let cli = Cli::try_parse_from(
            "roundsman token create --user a@b.c --scope jobs,bots --scope rooms --expires-in 1d"
                .split(' '),
        );
        let Command::Token(TokenCommand::Create(args)) = cli.unwrap().command else {
            panic!("parsed as another command");
        };
        assert_eq!(args.user, "a@b.c");
        assert_eq!(args.scopes, ["jobs", "bots", "rooms"]);
        assert_eq!(args.expires_in, Some(Duration::from_hours(24)));
    }

    /// Those whose result is a file, a script or a document of its own, or that have none.
    const WITHOUT_JSON: [&str; 7] =
        ["serve", "openapi", "bot", "completions", "docs", "help", "token"];

    #[test]
    fn every_command_with_a_result_prints_it_as_json_too() {
        let cli = Cli::command();
        let commands: Vec<_> = cli.get_subcommands().collect();
        let of_tokens = commands.iter().filter(|command| command.get_name() == "token");
        let of_tokens = of_tokens.flat_map(|command| command.get_subcommands());
        let others = commands.iter().copied().filter(|one| !WITHOUT_JSON.contains(&one.get_name()));
        let mut seen = Vec::new();
        for command in others.chain(of_tokens) {
            let mut flags = command.get_arguments().filter_map(clap::Arg::get_long);
            assert!(flags.any(|flag| flag == "json"), "{} has no --json", command.get_name());
            seen.push(command.get_name());
        }
        for name in ["migrate", "backup", "restore", "check", "doctor", "config", "revoke"] {
            assert!(seen.contains(&name), "{name} is not among {seen:?}");
        }
    }
}
