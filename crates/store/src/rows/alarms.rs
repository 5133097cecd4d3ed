//! What both adapters must know of alarms.

use roundsman_core::alarms::Alarm;
use roundsman_core::rooms::ProjectId;

/// Where the keys of a project's alarms begin, and before what they end. Those of a project whose name
/// begins with this one and a slash lie between, too.
pub(crate) fn keys_of_project(project: &ProjectId) -> (String, String) {
    // The character after the slash.
    (format!("{project}/"), format!("{project}0"))
}

pub(crate) fn in_order_of_time(mut alarms: Vec<Alarm>, rows_max: u32) -> Vec<Alarm> {
    alarms.sort_by(|a, b| (a.at, &a.name, a.is_firing).cmp(&(b.at, &b.name, b.is_firing)));
    alarms.truncate(rows_max as usize);
    alarms
}
