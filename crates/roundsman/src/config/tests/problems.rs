//! What is refused, and whether the message is enough to repair it.

use super::*;

#[test]
fn unknown_names_are_errors_with_a_suggestion() {
    let cases = [
        ("[jobs]\npol_secs = 5", "jobs.pol_secs", "did you mean jobs.poll_secs?"),
        ("[server]\npoll_secs = 5", "server.poll_secs", "did you mean jobs.poll_secs?"),
        ("[job]\nslots = 5", "job.slots", "no such section; did you mean [jobs]?"),
        ("[kitchen]\nsink = 5", "kitchen.sink", "no such section; there are [server], [database]"),
        ("\nslots = 5", "slots", "put it under [jobs]"),
        ("\njobs = 5", "jobs", "write [jobs] on a line of its own"),
        ("[jobs.more]\nx = 5", "jobs.more", "no such setting; remove it"),
    ];
    for (text, name, advice) in cases {
        let problem = given().file(text).problem();
        assert!(problem.starts_with(&format!("{name} (file roundsman.toml:")), "{problem}");
        assert!(problem.contains(advice), "{problem}");
    }

    let cases = [
        ("ROUNDSMAN_JOBS_POL_SECS", "did you mean ROUNDSMAN_JOBS_POLL_SECS?"),
        ("ROUNDSMAN_ADMIN_TOKEN_FIL", "did you mean ROUNDSMAN_ADMIN_TOKEN_FILE?"),
        ("ROUNDSMAN_COMPLETELY_UNRELATED_VARIABLE", "remove it"),
        ("ROUNDSMAN_LOG", "remove it"),
        ("ROUNDSMAN_LISTEN", "did you mean ROUNDSMAN_SERVER_LISTEN?"),
        // Only what may be secret can stand in a file of its own.
        ("ROUNDSMAN_JOBS_POLL_SECS_FILE", "did you mean ROUNDSMAN_JOBS_POLL_SECS?"),
    ];
    for (name, advice) in cases {
        let problem = given().env(name, "canary").problem();
        assert!(problem.starts_with(&format!("environment {name}: no such setting")), "{problem}");
        assert!(problem.contains(advice) && !problem.contains("canary"), "{problem}");
    }
}

/// Section, assignment, and what the message must advise.
const REFUSED: &str = r#"
jobs | slots = "many" | expected a whole number
jobs | slots = 1.5 | expected a whole number
jobs | slots = 0 | set it to 1 to 10000
jobs | slots = -9 | set it to 1 to 10000
jobs | poll_secs = true | expected a number
jobs | poll_secs = 1000000000.0 | set it to 0.01 to 3600
jobs | idempotency_hours = -1 | set it to 0.01 to 720
server | roles = [] | any of `api`, `worker`, `scheduler`
server | roles = ["cook"] | any of `api`, `worker`, `scheduler`
server | roles = "api" | expected a list of texts
server | listen = "here" | such as 127.0.0.1:8080
server | data = "" | name a folder
database | durability = "ok" | set it to `full`, `relaxed`
database | url = "mysql://db" | sqlite://PATH or postgres://
database | url = "sqlite://:memory:" | name a file
redis | url = "rediss://cache" | without TLS
log | level = "inof" | write error, warn, info
log | level = "info,=debug" | write error, warn, info
"#;

#[test]
fn a_wrong_value_is_named_with_its_place_and_the_fix() {
    for row in REFUSED.trim().lines() {
        let [section, assignment, fix] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("three columns: {row}");
        };
        let problem = given().file(&format!("[{section}]\n{assignment}")).problem();
        let start = format!("{section}.{assignment} (file roundsman.toml:2): ");
        assert!(problem.starts_with(&start), "{problem}");
        assert!(problem.contains(fix), "{problem}");
    }

    let problem = given().env("ROUNDSMAN_JOBS_SLOTS", "many").problem();
    assert_eq!(
        problem,
        "jobs.slots = \"many\" (environment ROUNDSMAN_JOBS_SLOTS): \
         expected a whole number; the default is 64"
    );
    let problem = given().file("[meeting_token]\nsecret = 'short'").problem();
    assert!(problem.starts_with("meeting_token.secret = \"<set>\" (file "), "{problem}");
    assert!(problem.contains("at least 24 bytes"), "{problem}");
    let problem = given().file("[jobs\nslots = 1").problem();
    assert!(problem.starts_with("the configuration file roundsman.toml, line 1: "), "{problem}");
}

#[test]
fn all_problems_are_reported_and_none_twice() {
    let problems = given()
        .file("[jobs]\nslots = 0\npoll_secs = 'x'\nheartbeat_secs = 'y'\n[log]\ncolour = 1\n")
        .env("ROUNDSMAN_NONSENSE", "1")
        .flags(listen("nowhere"))
        .problems();
    let starts = [
        "jobs.poll_secs = ",
        "jobs.heartbeat_secs = ",
        "log.colour ",
        "environment ROUNDSMAN_NONSENSE",
        "server.listen = ",
        "jobs.slots = ",
    ];
    assert_eq!(problems.len(), starts.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem}");
    }
}

#[test]
fn one_problem_is_a_line_and_several_are_a_list() {
    let one = given().env("ROUNDSMAN_JOBS_SLOTS", "0").load().unwrap_err().to_string();
    assert!(one.starts_with("the configuration is not usable: jobs.slots"), "{one}");
    let two = given().env("ROUNDSMAN_JOBS_SLOTS", "0").env("ROUNDSMAN_LOG_LEVEL", "x");
    let two = two.load().unwrap_err().to_string();
    assert!(two.contains("2 problems:\n  - jobs.slots = 0"), "{two}");
}

#[test]
fn relations_between_settings_are_checked() {
    let problem = given().file("[jobs]\nheartbeat_secs = 100").problem();
    let expected = "jobs.heartbeat_secs = 100 (file roundsman.toml:2) and \
                    jobs.stalled_secs = 300 (default): ";
    assert!(
        problem.starts_with(expected) && problem.contains("more than three times"),
        "{problem}"
    );
    given().file("[jobs]\nheartbeat_secs = 99.9").load().unwrap();

    let cases = [
        ("[jobs]\nbackoff_cap_secs = 1.9", "jobs.backoff_base_ms = 2000 (default) and "),
        ("[jobs]\npayload_bytes_max = 2000000", "jobs.payload_bytes_max = 2000000 "),
        ("[jobs]\nresult_bytes_max = 1048577", "jobs.result_bytes_max = 1048577 "),
    ];
    for (text, start) in cases {
        let problem = given().file(text).problem();
        assert!(problem.starts_with(start), "{problem}");
    }
}

#[test]
fn a_reachable_server_needs_an_admin_token() {
    for address in ["0.0.0.0:80", "[::]:80", "192.168.1.7:80", "[::ffff:10.0.0.1]:80"] {
        let problem = given().flags(listen(address)).problem();
        assert!(problem.contains("set ROUNDSMAN_ADMIN_TOKEN"), "{problem}");
        let short = given().flags(listen(address)).env("ROUNDSMAN_ADMIN_TOKEN", "canary");
        let problem = short.problem();
        assert!(problem.contains("at least 16") && !problem.contains("canary"), "{problem}");
        let long = given().flags(listen(address)).env("ROUNDSMAN_ADMIN_TOKEN", "0123456789abcdef");
        assert!(!long.load().unwrap().config.server.is_local());
        // The same configuration must not keep a migration from running.
        given().flags(listen(address)).purpose(Purpose::Maintenance).load().unwrap();
    }
    for address in ["127.0.0.1:0", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
        assert!(given().flags(listen(address)).load().unwrap().config.server.is_local());
    }
}

#[test]
fn hints_tell_what_is_seldom_meant() {
    let cases = [
        (given().env("ROUNDSMAN_SERVER_ROLES", "api"), "belongs to this node alone"),
        (given().env("ROUNDSMAN_DATABASE_DURABILITY", "relaxed"), "loss of power"),
        (given().env("ROUNDSMAN_SERVER_REQUEST_SECS_MAX", "10"), "while their statement"),
        (given().env("ROUNDSMAN_JOBS_SWEEP_SECS", "301"), "noticed late"),
    ];
    for (case, part) in cases {
        let hints = case.load().unwrap().hints;
        assert!(hints.len() == 1 && hints[0].contains(part), "{hints:?}");
    }
    let shared = given()
        .env("ROUNDSMAN_SERVER_ROLES", "api")
        .env("ROUNDSMAN_DATABASE_URL", "postgres://db/app");
    assert_eq!(shared.load().unwrap().hints, Vec::<String>::new());
}
