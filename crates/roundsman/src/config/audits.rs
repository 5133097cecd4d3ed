//! The section about audits of websites.

use std::path::PathBuf;
use std::time::Duration;

use roundsman_audit::Device;
use roundsman_core::audits::PriorityRule;
use roundsman_core::limits::PRIORITY_MAX;

use super::reader::Reader;
use super::sections::{hours, ms, secs};

#[derive(Debug, Clone)]
pub(crate) struct Audits {
    pub(crate) stalled: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) attempts_max: u32,
    pub(crate) backoff_base: Duration,
    pub(crate) backoff_cap: Duration,
    pub(crate) at_once_max: usize,
    pub(crate) look_max: Duration,
    pub(crate) host_concurrency_max: usize,
    pub(crate) host_delay: Duration,
    pub(crate) page_bytes_max: u64,
    pub(crate) redirects_max: u32,
    pub(crate) resources_max: usize,
    pub(crate) obey_robots: bool,
    pub(crate) browser: bool,
    pub(crate) chromium: Option<PathBuf>,
    pub(crate) browsers_max: usize,
    pub(crate) device: Device,
    pub(crate) unfinished_per_user_max: u32,
    pub(crate) recurring_per_user_max: u32,
    pub(crate) recurring_min: Duration,
    pub(crate) priority_asked_max: i16,
    pub(crate) priority_rules: Vec<PriorityRule>,
    pub(crate) retention: Duration,
}

impl Audits {
    pub(super) fn read(reader: &mut Reader<'_>) -> Audits {
        let devices = [("mobile", Device::Mobile), ("desktop", Device::Desktop)];
        Audits {
            stalled: reader.duration("audits.stalled_secs", secs(1)..=hours(1)),
            heartbeat: reader.duration("audits.heartbeat_secs", ms(100)..=hours(1)),
            attempts_max: reader.number("audits.attempts_max", 1..=100),
            backoff_base: reader.duration("audits.backoff_base_secs", ms(1)..=hours(1)),
            backoff_cap: reader.duration("audits.backoff_cap_secs", ms(1)..=hours(24)),
            at_once_max: reader.number("audits.at_once_max", 1..=1000),
            look_max: reader.duration("audits.look_secs_max", secs(1)..=secs(600)),
            host_concurrency_max: reader.number("audits.host_concurrency_max", 1..=100),
            host_delay: reader.duration("audits.host_delay_ms", ms(0)..=secs(60)),
            page_bytes_max: reader.number("audits.page_bytes_max", 1024..=1 << 30),
            redirects_max: reader.number("audits.redirects_max", 0..=20),
            resources_max: reader.number("audits.resources_max", 0..=1000),
            obey_robots: reader.flag("audits.obey_robots"),
            browser: reader.flag("audits.browser"),
            chromium: reader.text("audits.chromium", None, program),
            browsers_max: reader.number("audits.browsers_max", 1..=64),
            device: reader.choice("audits.device", &devices),
            unfinished_per_user_max: reader.number("audits.unfinished_per_user_max", 1..=1_000_000),
            recurring_per_user_max: reader.number("audits.recurring_per_user_max", 0..=1_000_000),
            recurring_min: reader.duration("audits.recurring_secs_min", secs(1)..=hours(720)),
            priority_asked_max: reader.number("audits.priority_asked_max", 0..=PRIORITY_MAX),
            priority_rules: reader.texts("audits.priority_rules", |rule| {
                PriorityRule::parse(rule).map_err(|error| error.to_string())
            }),
            retention: reader.duration("audits.retention_hours", hours(1)..=hours(876_000)),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the shape that the reader asks for")]
fn program(text: &str) -> Result<Option<PathBuf>, String> {
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}
