//! The built command as a person meets it: what it prints, where, and with which exit code.

use std::process::{Command, Output};

use tempfile::TempDir;

/// Runs the command in an empty folder with nothing in the environment but `variables`.
fn roundsman(folder: &TempDir, args: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roundsman"))
        .args(args.split_whitespace())
        .current_dir(folder.path())
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .expect("the command was built for this test")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("the command prints UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("the command prints UTF-8")
}

#[test]
fn alone_it_prints_help() {
    let output = roundsman(&tempfile::tempdir().unwrap(), "", &[]);
    assert_eq!(output.status.code(), Some(2));
    for word in ["serve", "migrate", "config", "openapi", "token", "Examples:"] {
        assert!(stderr(&output).contains(word), "{word} is not in the help");
    }
}

#[test]
fn help_and_version_are_results() {
    let folder = tempfile::tempdir().unwrap();
    for args in ["--help", "serve --help", "token create --help", "--version"] {
        let output = roundsman(&folder, args, &[]);
        assert!(output.status.success(), "{args}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args}");
    }
}

#[test]
fn the_default_file_is_a_valid_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let default = roundsman(&folder, "config --default", &[]);
    std::fs::write(folder.path().join("roundsman.toml"), &default.stdout).unwrap();
    let effective = roundsman(&folder, "config", &[]);
    assert!(effective.status.success(), "{}", stderr(&effective));
    assert!(stdout(&effective).contains("# file roundsman.toml:"), "{}", stdout(&effective));
    assert!(!stdout(&effective).contains("# default"), "{}", stdout(&effective));
}

#[test]
fn the_effective_configuration_comes_from_all_layers() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("other.toml"), "[jobs]\nslots = 8\n").unwrap();
    let variables = [("ROUNDSMAN_ADMIN_TOKEN", "canary"), ("ROUNDSMAN_JOBS_POLL_SECS", "1")];
    let args = "config --json --config other.toml --listen 127.0.0.1:9 --data here";
    let output = roundsman(&folder, args, &variables);
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["jobs"]["slots"]["from"], "file other.toml:2");
    assert_eq!(shown["jobs"]["poll_secs"]["from"], "environment ROUNDSMAN_JOBS_POLL_SECS");
    assert_eq!(shown["server"]["listen"]["from"], "flag --listen");
    assert_eq!(shown["server"]["data"]["value"], "here");
    assert_eq!(shown["admin"]["token"]["value"], "<set>");
    assert!(!stdout(&output).contains("canary") && !stderr(&output).contains("canary"));
}

#[test]
fn a_bad_configuration_stops_every_command_with_all_its_problems() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [("ROUNDSMAN_JOBS_SLOTS", "0"), ("ROUNDSMAN_TYPO", "1")];
    for args in ["serve", "migrate", "token list", "config"] {
        let output = roundsman(&folder, args, &variables);
        assert_eq!(output.status.code(), Some(2), "{args}");
        assert!(output.stdout.is_empty(), "{args}");
        assert!(stderr(&output).contains("2 problems"), "{args}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was created");
}

#[test]
fn a_reachable_server_without_a_token_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let output = roundsman(&folder, "serve --listen 0.0.0.0:0", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("ROUNDSMAN_ADMIN_TOKEN"), "{}", stderr(&output));
}

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = roundsman(&folder, &format!("completions {shell}"), &[]);
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}");
        for word in ["roundsman", "doctor", "restore", "verify"] {
            assert!(stdout(&output).contains(word), "{word} is not in the script for {shell}");
        }
    }
    assert!(!roundsman(&folder, "completions csh", &[]).status.success());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was created");
}
