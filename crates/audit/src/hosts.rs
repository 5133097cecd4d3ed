//! Whose host is whose.

use url::{Host, Url};

/// The part of a host that somebody registered: `example.co.uk` of `www.example.co.uk`. An address or a
/// name without a suffix stands for itself.
pub(crate) fn registrable(host: &str) -> &str {
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.parse::<std::net::IpAddr>().is_ok() || host.starts_with('[') {
        return host;
    }
    psl::domain_str(host).unwrap_or(host)
}

/// The host of a link, in lower case, as the page's own words have it.
pub(crate) fn host_of(url: &Url) -> Option<String> {
    match url.host()? {
        Host::Domain(name) => Some(name.trim_end_matches('.').to_ascii_lowercase()),
        Host::Ipv4(address) => Some(address.to_string()),
        Host::Ipv6(address) => Some(address.to_string()),
    }
}

/// Whether `host` is `domain` or below it.
pub(crate) fn is_below(host: &str, domain: &str) -> bool {
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

pub(crate) fn is_same_site(one: &Url, other: &Url) -> bool {
    match (host_of(one), host_of(other)) {
        (Some(one), Some(other)) => registrable(&one) == registrable(&other),
        _ => false,
    }
}

/// Suffixes whose owners had all names below them put on the browsers' list of hosts that are only
/// asked over https. The list of single hosts is too large and too quick to go stale to be carried here.
const PRELOADED_SUFFIXES: [&str; 31] = [
    "android",
    "app",
    "bank",
    "bing",
    "boo",
    "chrome",
    "dad",
    "day",
    "dev",
    "eat",
    "esq",
    "fly",
    "foo",
    "gle",
    "google",
    "hangout",
    "hotmail",
    "ing",
    "insurance",
    "meet",
    "meme",
    "microsoft",
    "mov",
    "new",
    "nexus",
    "office",
    "page",
    "phd",
    "play",
    "prof",
    "rsvp",
];

pub(crate) fn is_hsts_preloaded(host: &str) -> bool {
    host.rsplit('.').next().is_some_and(|suffix| PRELOADED_SUFFIXES.contains(&suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_compared_by_who_registered_them() {
        for (host, owner) in [
            ("www.example.co.uk", "example.co.uk"),
            ("example.com", "example.com"),
            ("a.b.github.io", "b.github.io"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("x.com.", "x.com"),
            ("netflix.com", "netflix.com"),
        ] {
            assert_eq!(registrable(host), owner);
        }
        assert!(is_below("me.github.io", "github.io"));
        assert!(!is_below("notgithub.io", "github.io"));
        assert!(is_hsts_preloaded("example.dev"));
        assert!(!is_hsts_preloaded("dev.example.com"));
    }
}
