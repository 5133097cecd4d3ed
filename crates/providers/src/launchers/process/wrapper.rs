//! The script that runs around a bot: it keeps the exit code where the next server finds it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Stdio;

use roundsman_core::ports::LaunchSpec;
use tokio::process::Command;

use super::files::Files;
use super::{MARK, ProcessOptions};

/// Called as `sh -c SCRIPT NAME STARTED_FILE EXIT_FILE PROGRAM ARGUMENTS…`.
///
/// - The first file says that there was a start, should nobody live to write the second.
/// - A TERM is passed on to the bot alone, as a container's runtime would: a bot that leaves a
///   meeting still needs its browser. One that comes before the bot is known is passed on then.
/// - A wait that was interrupted by a signal is repeated. When the bot's code had been collected
///   just before, the repeated wait knows nothing (127) and the code stands.
/// - At the end, whatever the bot has left running in its group is killed, as in a container.
const SCRIPT: &str = r#"
started=$1 ended=$2
shift 2
: >"$started" || exit 125
bot= signals=0
trap 'signals=$((signals + 1)); [ -z "$bot" ] || kill -TERM "$bot" 2>/dev/null' TERM
trap : HUP INT QUIT
"$@" &
bot=$!
[ "$signals" = 0 ] || kill -TERM "$bot" 2>/dev/null
code=
while :; do
    seen=$signals
    wait "$bot"
    now=$?
    [ "$now" = 127 ] && [ -n "$code" ] || code=$now
    [ "$seen" = "$signals" ] && break
done
printf '%s\n' "$code" >"$ended.new" && command -p mv -f "$ended.new" "$ended"
kill -s KILL -- "-$$"
"#;

/// The whole command but for where its output goes.
pub(super) fn command(
    program: &Path,
    options: &ProcessOptions,
    files: &Files,
    name: &str,
    spec: &LaunchSpec,
) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT, name]);
    command.arg(files.started(name)).arg(files.exit(name));
    command.arg(program).args(options.command.iter().skip(1));
    command.current_dir(files.folder()).env_clear();
    let env = options.env.iter().chain(&spec.env);
    command.envs(env.map(|(key, value)| (key, value))).env(MARK, name);
    // A group of its own: a signal to the server's group, as from a terminal, is not for the bot.
    command.process_group(0);
    command
}

pub(super) fn attach(command: &mut Command, log: File) -> io::Result<()> {
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(())
}
