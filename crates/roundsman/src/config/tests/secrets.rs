//! Secrets: where they may come from, and that they stay inside.

use super::*;

#[test]
fn secrets_may_be_kept_in_files() {
    let loaded = given()
        .secret_file("ROUNDSMAN_ADMIN_TOKEN_FILE", "from-a-file\n")
        .secret_file("ROUNDSMAN_DATABASE_URL_FILE", "postgres://me:pw@db/app")
        .load()
        .unwrap();
    assert_eq!(loaded.config.admin.token.unwrap().expose_secret(), "from-a-file");
    assert!(matches!(loaded.config.database.target, DatabaseTarget::Postgres(_)));
    let source = loaded.settings.get("admin.token").source.to_string();
    assert!(source.starts_with("environment ROUNDSMAN_ADMIN_TOKEN_FILE, file "), "{source}");

    let twice = given()
        .env("ROUNDSMAN_ADMIN_TOKEN", "canary")
        .secret_file("ROUNDSMAN_ADMIN_TOKEN_FILE", "canary");
    let problem = twice.problem();
    assert!(problem.contains("remove one of them") && !problem.contains("canary"), "{problem}");

    let absent = given().env("ROUNDSMAN_ADMIN_TOKEN_FILE", "/nonexistent/token").problem();
    assert!(absent.contains("cannot read /nonexistent/token"), "{absent}");

    let two_lines = given().secret_file("ROUNDSMAN_ADMIN_TOKEN_FILE", "canary\ncanary\n").problem();
    assert!(two_lines.contains("line end") && !two_lines.contains("canary"), "{two_lines}");
}

#[test]
fn no_secret_gets_out_whatever_is_wrong() {
    let files = [
        "[admin]\ntoken = ' canary '",
        "[admin]\ntoken = ['canary']",
        "[admin]\ntoken = { canary = 'canary' }",
        "[admin]\ntoken = \"canary",
        "[admin]\ntokne = 'canary'",
        "[meeting_token]\nsecret = 'canary'",
        "[database]\nurl = 'canary'",
        "[database]\nurl = 'mysql://u:canary@h'",
        "[database]\nurl = 'host=h password=canary'",
        "[redis]\nurl = ['canary']",
        "[redis]\nurl = 'http://:canary@h'",
    ];
    for text in files {
        let problems = given().file(text).load().unwrap_err();
        assert!(!problems.to_string().contains("canary"), "{text}: {problems}");
        assert!(!format!("{problems:?}").contains("canary"), "{text}: {problems:?}");
    }

    let secret = "canary-canary-canary-canary";
    let case = given()
        .env("ROUNDSMAN_ADMIN_TOKEN", secret)
        .env("ROUNDSMAN_MEETING_TOKEN_SECRET", secret)
        .env("ROUNDSMAN_REDIS_URL", "redis://:canary@h")
        .env("ROUNDSMAN_DATABASE_URL", "postgres://u:canary@h/d?password=canary");
    let loaded = case.load().unwrap();
    assert!(!format!("{loaded:?}").contains("canary"), "{loaded:?}");
}
