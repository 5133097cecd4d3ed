//! Which layer decides, and what the result says about it.

use super::*;

#[test]
fn the_defaults_are_valid_and_without_hints() {
    let loaded = given().load().unwrap();
    assert_eq!(loaded.hints, Vec::<String>::new());
    let config = loaded.config;
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.jobs.poll, Duration::from_secs(5));
    assert_eq!(config.jobs.backoff_base, Duration::from_secs(2));
    assert_eq!(config.jobs.retention_failed, Duration::from_hours(168));
    assert!(config.server.roles.is_complete());
    assert!(config.admin.token.is_none() && config.redis.url.is_none());
    let DatabaseTarget::Sqlite(path) = config.database.target else {
        panic!("the default is embedded")
    };
    assert_eq!(path, PathBuf::from("./roundsman-data/roundsman.db"));
}

/// Each row turns one more layer on; the last one wins and says so.
#[test]
fn flags_over_environment_over_file_over_defaults() {
    const FILE: &str = "[server]\nlisten = '127.0.0.1:2'\n";
    const ENV: (&str, &str) = ("ROUNDSMAN_SERVER_LISTEN", "127.0.0.1:3");
    let in_file = || given().file(FILE);
    let cases = [
        (given(), 8080, "default"),
        (in_file(), 2, "file roundsman.toml:2"),
        (in_file().env(ENV.0, ENV.1), 3, "environment ROUNDSMAN_SERVER_LISTEN"),
        (in_file().env(ENV.0, ENV.1).flags(listen("127.0.0.1:4")), 4, "flag --listen"),
        (in_file().env(ENV.0, ""), 2, "file roundsman.toml:2"),
        (given().env(ENV.0, ENV.1), 3, "environment ROUNDSMAN_SERVER_LISTEN"),
        (given().flags(listen("localhost:4")), 4, "flag --listen"),
    ];
    for (case, port, source) in cases {
        let folder = format!("{}/", case.folder.path().display());
        let loaded = case.load().unwrap();
        assert_eq!(loaded.config.server.listen.port(), port);
        let shown = loaded.settings.get("server.listen").source.to_string();
        assert_eq!(shown.replace(&folder, ""), source);
    }
}

#[test]
fn every_setting_has_its_variable() {
    let loaded = given()
        .env("ROUNDSMAN_JOBS_POLL_SECS", "0.25")
        .env("ROUNDSMAN_JOBS_SLOTS", "3")
        .env("ROUNDSMAN_SERVER_ROLES", "worker, api")
        .env("ROUNDSMAN_LOG_FORMAT", "json")
        .env("ROUNDSMAN_DATABASE_URL", "postgres://me:pw@db/app")
        .env("ROUNDSMAN_REDIS_URL", "redis://cache")
        .env("ROUNDSMAN_ADMIN_TOKEN", "admin-admin-admin")
        .env("ROUNDSMAN_MEETING_TOKEN_SECRET", "0123456789abcdef01234567")
        .load()
        .unwrap();
    let config = loaded.config;
    assert_eq!(config.jobs.poll, Duration::from_millis(250));
    assert_eq!(config.jobs.slots, 3);
    assert!(config.server.roles.has(Role::Worker) && !config.server.roles.has(Role::Scheduler));
    assert_eq!(config.log.format, LogFormat::Json);
    let DatabaseTarget::Postgres(url) = config.database.target else { panic!("PostgreSQL") };
    assert_eq!(url.expose_secret(), "postgres://me:pw@db/app");
    assert_eq!(config.redis.url.unwrap().expose_secret(), "redis://cache");
    assert_eq!(config.admin.token.unwrap().expose_secret(), "admin-admin-admin");
    assert!(config.meeting_token.secret.is_some());
}

#[test]
fn the_file_is_the_one_that_is_named() {
    let case = given().file("[jobs]\nslots = 1\n");
    let by_variable = case.write("variable.toml", "[jobs]\nslots = 2\n");
    let by_flag = case.write("flag.toml", "[jobs]\nslots = 3\n");
    let mut case = case.env("ROUNDSMAN_CONFIG", by_variable.to_str().unwrap());
    case.inputs.environment = Environment::from_pairs(case.variables.clone());
    assert_eq!(load(&case.inputs).unwrap().config.jobs.slots, 2);
    case.inputs.config = Some(by_flag);
    assert_eq!(load(&case.inputs).unwrap().config.jobs.slots, 3);

    // A file that was named has to exist.
    case.inputs.config = Some(case.folder.path().join("absent.toml"));
    let problem = case.problem();
    assert!(problem.starts_with("the configuration file absent.toml: "), "{problem}");
}

#[test]
fn log_levels_may_differ_by_module() {
    let level = "info, roundsman_engine=debug,tokio_postgres=off";
    let loaded = given().env("ROUNDSMAN_LOG_LEVEL", level).load().unwrap();
    let targets = loaded.config.log.level;
    assert!(targets.would_enable("roundsman_engine::jobs", &tracing::Level::DEBUG));
    assert!(!targets.would_enable("roundsman_web", &tracing::Level::DEBUG));
    assert!(!targets.would_enable("tokio_postgres", &tracing::Level::ERROR));
}

#[test]
fn the_effective_configuration_says_where_from() {
    let case = given()
        .file("[jobs]\nslots = 8\n")
        .env("ROUNDSMAN_ADMIN_TOKEN", "canary")
        .env("ROUNDSMAN_DATABASE_URL", "postgres://me:canary@db/app")
        .flags(Flags { data: Some("/srv/data".to_owned()), ..Flags::default() });
    let folder = format!("{}/", case.folder.path().display());
    let settings = case.load().unwrap().settings;

    let text = settings.to_toml().replace(&folder, "");
    let line = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("listen"), "listen = \"127.0.0.1:8080\" # default");
    assert_eq!(line("data"), "data = \"/srv/data\" # flag --data");
    assert_eq!(line("slots"), "slots = 8 # file roundsman.toml:2");
    assert_eq!(line("token"), "token = \"<set>\" # environment ROUNDSMAN_ADMIN_TOKEN");
    assert_eq!(line("secret"), "secret = \"\" # default");
    assert_eq!(
        line("url"),
        "url = \"postgres://me:<set>@db/app\" # environment ROUNDSMAN_DATABASE_URL"
    );
    // What is shown is itself a configuration file, with every setting in it.
    let table: toml::Table = text.parse().unwrap();
    let count = table.values().map(|section| section.as_table().unwrap().len()).sum::<usize>();
    assert_eq!(count, settings.iter().count());

    let json = settings.to_json();
    assert_eq!(json["admin"]["token"]["value"], "<set>");
    assert_eq!(json["admin"]["token"]["from"], "environment ROUNDSMAN_ADMIN_TOKEN");
    assert_eq!(json["jobs"]["slots"]["value"], 8);
    assert_eq!(json["server"]["roles"]["value"][0], "api");
    assert!(!text.contains("canary") && !json.to_string().contains("canary"));
}
