use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    Timestamp::parse_rfc3339(text).unwrap()
}

fn times(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let cron = Cron::parse(cron).unwrap();
    let zone = time_zone(zone).unwrap();
    cron.after(at(after), zone).take(count).map(|time| time.to_string()[..16].to_owned()).collect()
}

#[test]
fn expressions_mean_what_they_mean_in_every_crontab() {
    let after = "2026-01-30T12:00:00Z"; // a Friday
    for (cron, expected) in [
        ("*/20 * * * *", ["2026-01-30T12:20", "2026-01-30T12:40", "2026-01-30T13:00"]),
        ("5/25 9-10 * * MON-FRI", ["2026-02-02T09:05", "2026-02-02T09:30", "2026-02-02T09:55"]),
        ("0 0 31 * *", ["2026-01-31T00:00", "2026-03-31T00:00", "2026-05-31T00:00"]),
        ("0 0 29 2 *", ["2028-02-29T00:00", "2032-02-29T00:00", "2036-02-29T00:00"]),
        // Either day, because both are named.
        ("0 12 1 * sun", ["2026-02-01T12:00", "2026-02-08T12:00", "2026-02-15T12:00"]),
        ("0 12 1 feb,Mar 7", ["2026-02-01T12:00", "2026-02-08T12:00", "2026-02-15T12:00"]),
        ("@monthly", ["2026-02-01T00:00", "2026-03-01T00:00", "2026-04-01T00:00"]),
        ("59 23 31 12 *", ["2026-12-31T23:59", "2027-12-31T23:59", "2028-12-31T23:59"]),
    ] {
        assert_eq!(times(cron, "UTC", after, 3), expected, "{cron}");
    }
    assert_eq!(times("0 9 * * *", "Asia/Kolkata", after, 1), ["2026-01-31T03:30"]);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for bad in [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "a * * * *",
        "*/0 * * * *",
        "5-1 * * * *",
        "1,,2 * * * *",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "@reboot",
        "-1 * * * *",
        "1-2-3 * * * *",
    ] {
        assert!(Cron::parse(bad).is_err(), "{bad:?}");
    }
    assert!(Cron::parse(&"1,".repeat(500)).is_err());
    assert!(time_zone("Europe/Nowhere").is_none());
}

#[test]
fn a_time_that_clocks_jump_over_comes_once_when_they_have_jumped() {
    // Berlin: 2026-03-29, from 02:00 to 03:00 (01:00 UTC).
    let after = "2026-03-28T12:00:00Z";
    let expected = ["2026-03-29T01:00", "2026-03-30T00:30"];
    assert_eq!(times("30 2 * * *", "Europe/Berlin", after, 2), expected);
    let expected = ["2026-03-29T01:00", "2026-03-30T00:00", "2026-03-30T00:15"];
    assert_eq!(times("*/15 2 * * *", "Europe/Berlin", after, 3), expected, "once, not four times");
    let minutes = times("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:29:00Z", 4);
    let expected = ["2026-03-29T00:30", "2026-03-29T01:00", "2026-03-29T01:30", "2026-03-29T02:00"];
    assert_eq!(minutes, expected, "every half hour stays every half hour");
    // Santiago jumps at midnight: the day has no 00:30.
    let expected = ["2026-09-06T04:00", "2026-09-07T03:30"];
    assert_eq!(times("30 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", 2), expected);
}

#[test]
fn a_time_that_clocks_show_twice_comes_the_first_time() {
    // Berlin: 2026-10-25, 03:00 is 02:00 once more (01:00 UTC).
    let after = "2026-10-24T12:00:00Z";
    let expected = ["2026-10-25T00:30", "2026-10-26T01:30"];
    assert_eq!(times("30 2 * * *", "Europe/Berlin", after, 2), expected);
    let minutes = times("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 4);
    let expected = ["2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-25T02:00"];
    assert_eq!(minutes, expected, "every half hour stays every half hour");
}

proptest! {
    /// In any zone and at any time: moments only grow, each shows the right minute on the clock of
    /// its place or ends a jump, and asking again from a moment goes on with the next.
    #[test]
    fn moments_grow_and_show_what_was_asked_for(
        zone in prop::sample::select(vec![
            "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia",
            "America/Santiago", "Asia/Kathmandu", "Africa/Casablanca",
        ]),
        minute in 0u32..60, hour in prop::option::of(0u32..24), weekday in prop::option::of(0u32..7),
        start_secs in 0i64..2_000_000_000,
    ) {
        let star = |field: Option<u32>| field.map_or("*".to_owned(), |value| value.to_string());
        let text = format!("{minute} {} * * {}", star(hour), star(weekday));
        let cron = Cron::parse(&text).unwrap();
        let zone = time_zone(zone).unwrap();
        let start = Timestamp::from_micros(start_secs * 1_000_000);
        let moments: Vec<Timestamp> = cron.after(start, zone.clone()).take(12).collect();
        prop_assert_eq!(moments.len(), 12);
        let mut before = start;
        for moment in &moments {
            prop_assert!(*moment > before);
            prop_assert_eq!(cron.after(before, zone.clone()).next(), Some(*moment));
            prop_assert_eq!(cron.after(*moment - Duration::from_micros(1), zone.clone()).next(), Some(*moment));
            let instant = jiff::Timestamp::from_microsecond(moment.as_micros()).unwrap();
            let shown = zone.to_datetime(instant);
            let exact = shown.minute().unsigned_abs() == u8::try_from(minute).unwrap()
                && hour.is_none_or(|hour| shown.hour().unsigned_abs() == u8::try_from(hour).unwrap());
            let jumped = zone.preceding(instant + jiff::SignedDuration::from_micros(1)).next()
                .is_some_and(|jump| jump.timestamp() == instant);
            prop_assert!(exact || jumped, "{} in {:?} is {}", text, zone.iana_name(), shown);
            before = *moment;
        }
    }
}
