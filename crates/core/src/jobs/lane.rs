//! Where jobs wait: a lane per kind, per user for kinds of users, and per tenant for jobs that name one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::KindName;
use crate::limits::TENANT_BYTES_MAX;
use crate::users::UserId;

/// For whom a job is, in the words of whoever enqueues it: a customer, a host, a region. Tenants of one
/// kind are served in turn, and limits can be set for each.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tenant(String);

/// The text names no tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tenant is 1 to {TENANT_BYTES_MAX} bytes without control characters")]
pub struct InvalidTenant;

impl Tenant {
    pub fn new(text: &str) -> Result<Self, InvalidTenant> {
        if text.is_empty() || text.len() > TENANT_BYTES_MAX || text.chars().any(char::is_control) {
            return Err(InvalidTenant);
        }
        Ok(Tenant(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a job waits to be claimed. Built-in kinds have one lane for all users; any other kind has
/// a lane per user, so that a worker never looks at, or past, the jobs of somebody else. Jobs that
/// name a tenant wait in lanes of their own beside it, which only gated claims look at.
///
/// As text: `kind`, `42/kind`, `kind/tenant` or `42/kind/tenant`. Kinds begin with a letter and hold
/// no slash, users are numbers, so that it can be taken apart again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lane(String);

impl Lane {
    pub fn of(user: UserId, kind: &KindName) -> Self {
        if kind.is_reserved() {
            Lane(kind.as_str().to_owned())
        } else {
            Lane(format!("{}/{kind}", user.get()))
        }
    }

    /// The lane of a tenant beside this one, or this one.
    #[must_use]
    pub fn of_tenant(self, tenant: Option<&Tenant>) -> Self {
        match tenant {
            Some(tenant) => Lane(format!("{}/{tenant}", self.0)),
            None => self,
        }
    }

    /// Takes a lane that was stored or sent by another node.
    pub fn from_stored(text: String) -> Self {
        Lane(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without the tenant: the lane that workers ask for.
    #[must_use]
    pub fn base(&self) -> Lane {
        Lane(self.0[..self.base_bytes()].to_owned())
    }

    /// The tenant whose lane it is.
    pub fn tenant(&self) -> Option<Tenant> {
        let rest = self.0.get(self.base_bytes() + 1..)?;
        Tenant::new(rest).ok()
    }

    /// The user whose lane it is; `None` if all users share it.
    pub fn user(&self) -> Option<UserId> {
        let (user, _) = self.0.split_once('/')?;
        user.parse().ok().map(UserId::new)
    }

    /// The kind that waits here, as text.
    pub fn kind(&self) -> &str {
        let mut parts = self.0.split('/');
        let first = parts.next().unwrap_or_default();
        if first.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            parts.next().unwrap_or_default()
        } else {
            first
        }
    }

    fn base_bytes(&self) -> usize {
        let slashes = usize::from(self.0.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
        self.0.match_indices('/').nth(slashes).map_or(self.0.len(), |(at, _)| at)
    }
}

/// Lanes from `from`, inclusive, to `to`, exclusive, in the order of their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneRange {
    pub from: String,
    pub to: String,
}

impl LaneRange {
    pub fn holds(&self, lane: &Lane) -> bool {
        self.from.as_str() <= lane.as_str() && lane.as_str() < self.to.as_str()
    }
}

/// All lanes of `base`, its own first and those of its tenants after it, once around the circle
/// from `start`. No letter of a kind lies before `!` or between `/` and `0`.
pub fn ranges_from(base: &Lane, start: Option<&Lane>) -> Vec<LaneRange> {
    let range = |from: String, to: String| LaneRange { from, to };
    let own = || range(base.0.clone(), format!("{}!", base.0));
    let (first, end) = (format!("{}/", base.0), format!("{}0", base.0));
    match start.filter(|start| start.0 > first && start.0 < end) {
        None => vec![own(), range(first, end)],
        Some(start) => vec![range(start.0.clone(), end), own(), range(first, start.0.clone())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(user: i64, kind: &str, tenant: Option<&str>) -> Lane {
        let tenant = tenant.map(|tenant| Tenant::new(tenant).unwrap());
        Lane::of(UserId::new(user), &KindName::new(kind).unwrap()).of_tenant(tenant.as_ref())
    }

    #[test]
    fn users_share_lanes_of_built_in_kinds_only() {
        assert_eq!(lane(1, "presence.poll", None), lane(2, "presence.poll", None));
        assert_ne!(lane(1, "render", None), lane(2, "render", None));
    }

    #[test]
    fn a_lane_can_be_taken_apart() {
        for user in [0, 1, 42] {
            for kind in ["render", "render-2.x", "presence.poll"] {
                for tenant in [None, Some("7"), Some("a/b//c"), Some("ä !0/")] {
                    let lane = lane(user, kind, tenant);
                    assert_eq!(lane.kind(), kind, "{lane:?}");
                    assert_eq!(lane.tenant().as_ref().map(Tenant::as_str), tenant, "{lane:?}");
                    let base = super::tests::lane(user, kind, None);
                    assert_eq!(lane.base(), base);
                    assert_eq!(base.base(), base);
                    let owner = (kind != "presence.poll").then(|| UserId::new(user));
                    assert_eq!(base.user(), owner, "{lane:?}");
                }
            }
        }
        for bad in ["", "a\nb"] {
            assert_eq!(Tenant::new(bad), Err(InvalidTenant));
        }
    }

    #[test]
    fn the_ranges_of_a_lane_hold_its_tenants_once_and_nobody_elses_lanes() {
        let base = lane(4, "a", None);
        let ours = [base.clone(), lane(4, "a", Some("!")), lane(4, "a", Some("x/ü"))];
        let others = ["a-b", "a.b", "a0", "a_b", "ab"].map(|kind| lane(4, kind, Some("x")));
        let plain = ["a-b", "a.b", "a0", "a_b", "ab"].map(|kind| lane(4, kind, None));
        for start in [None, Some(&ours[0]), Some(&ours[1]), Some(&ours[2]), Some(&others[0])] {
            let ranges = ranges_from(&base, start);
            let held = |lane: &Lane| ranges.iter().filter(|range| range.holds(lane)).count();
            assert!(ours.iter().all(|lane| held(lane) == 1), "{ranges:?}");
            assert!(others.iter().chain(&plain).all(|lane| held(lane) == 0), "{ranges:?}");
        }
    }
}
