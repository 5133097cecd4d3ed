//! What a robots.txt says (RFC 9309): who may ask for what.
//!
//! Deviations are none but limits: more than [`BYTES_MAX`] is not read, and what is no line of the
//! format is passed over. A crawl delay is no part of the RFC and is not heeded: the pace at which a
//! host is asked is the operator's setting.

/// The RFC asks for 500 KiB at least.
pub const BYTES_MAX: usize = 512 * 1024;
/// A longer pattern can match no URL that is asked for.
const PATTERN_BYTES_MAX: usize = 4096;
const SITEMAPS_MAX: usize = 64;

/// A robots.txt that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Robots {
    groups: Vec<Group>,
    sitemaps: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Group {
    /// In lower case.
    agents: Vec<String>,
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    allows: bool,
    /// In its normal form.
    pattern: Vec<u8>,
}

/// How an attempt to get a robots.txt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RobotsAnswer {
    /// It is there and its rules hold.
    Rules,
    /// There is none (4xx): everything is allowed.
    Unavailable,
    /// Nobody knows what it says (5xx): nothing is allowed.
    Unreachable,
}

impl RobotsAnswer {
    /// What the status of the last answer, after redirects, means. A redirect that led nowhere is
    /// like a robots.txt that is not there.
    pub fn of_status(status: u16) -> Self {
        match status {
            200..300 => RobotsAnswer::Rules,
            500.. => RobotsAnswer::Unreachable,
            _ => RobotsAnswer::Unavailable,
        }
    }
}

impl Robots {
    /// Reads what it can; never fails.
    pub fn parse(text: &[u8]) -> Self {
        let text = &text[..text.len().min(BYTES_MAX)];
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut robots = Robots::default();
        // A line about agents after a rule begins another group.
        let mut takes_agents = false;
        for line in text.split(|byte| matches!(byte, b'\n' | b'\r')) {
            let Some((key, value)) = key_and_value(line) else { continue };
            match key.to_ascii_lowercase().as_slice() {
                b"user-agent" => {
                    if !takes_agents {
                        robots.groups.push(Group::default());
                        takes_agents = true;
                    }
                    if let Some(group) = robots.groups.last_mut() {
                        group.agents.push(product(value));
                    }
                }
                key @ (b"allow" | b"disallow") => {
                    takes_agents = false;
                    // Rules before the first group are nobody's; an empty one matches nothing.
                    if let Some(group) = robots.groups.last_mut().filter(|_| !value.is_empty())
                        && value.len() <= PATTERN_BYTES_MAX
                    {
                        let allows = key == b"allow";
                        group.rules.push(Rule { allows, pattern: normal(value) });
                    }
                }
                b"sitemap" if robots.sitemaps.len() < SITEMAPS_MAX => {
                    robots.sitemaps.push(String::from_utf8_lossy(value).into_owned());
                }
                _ => {}
            }
        }
        robots
    }

    /// Whether an agent of this name may ask for a path with its query. The longest pattern that
    /// matches decides; of two that are as long, the one that allows.
    pub fn allows(&self, agent: &str, path_and_query: &str) -> bool {
        let path = normal(path_and_query.as_bytes());
        if path == b"/robots.txt" {
            return true;
        }
        let agent = agent.to_ascii_lowercase();
        let mut strongest: Option<(usize, bool)> = None;
        for rule in self.rules_for(&agent).filter(|rule| matches(&rule.pattern, &path)) {
            strongest = strongest.max(Some((rule.pattern.len(), rule.allows)));
        }
        strongest.is_none_or(|(_, allows)| allows)
    }

    /// Where the site says that its sitemaps are, as it says it.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }

    /// All groups that name the agent together or, if there is none, all that are for everybody.
    fn rules_for(&self, agent: &str) -> impl Iterator<Item = &Rule> {
        let names = |group: &Group, agent: &str| group.agents.iter().any(|named| named == agent);
        let is_named = self.groups.iter().any(|group| names(group, agent));
        let wanted = if is_named { agent.to_owned() } else { "*".to_owned() };
        self.groups
            .iter()
            .filter(move |group| names(group, &wanted))
            .flat_map(|group| group.rules.iter())
    }
}

fn key_and_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.split(|byte| *byte == b'#').next()?;
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
}

/// `Roundsman/1.0 (…)` is meant for `roundsman`.
fn product(value: &[u8]) -> String {
    if value.first() == Some(&b'*') {
        return "*".to_owned();
    }
    let is_part = |byte: &&u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
    value.iter().take_while(is_part).map(|byte| char::from(byte.to_ascii_lowercase())).collect()
}

/// The same octets are written in the same way: what may stand as it is does, the rest is encoded
/// in capitals.
fn normal(text: &[u8]) -> Vec<u8> {
    let mut normal = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let encoded = match after {
            [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match encoded {
            Some((high, low)) => {
                rest = &after[2..];
                let octet = high * 16 + low;
                if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
                    normal.push(octet);
                } else {
                    encode(&mut normal, octet);
                }
            }
            None if first.is_ascii_graphic() => normal.push(*first),
            None => encode(&mut normal, *first),
        }
    }
    normal
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn encode(to: &mut Vec<u8>, octet: u8) {
    to.extend_from_slice(format!("%{octet:02X}").as_bytes());
}

/// A pattern matches from the beginning; `*` is anything, `$` at the end is the end.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let (pattern, to_end) = match pattern.strip_suffix(b"$") {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split(|byte| *byte == b'*');
    let Some(mut rest) = parts.next().and_then(|first| path.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return !to_end || rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() && to_end {
            return rest.ends_with(part);
        }
        let found = find(rest, part);
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::RobotsAnswer::{Rules, Unavailable, Unreachable};
    use super::*;

    fn check(text: &str, agent: &str, allowed: &[&str], forbidden: &[&str]) {
        let robots = Robots::parse(text.as_bytes());
        for path in allowed {
            assert!(robots.allows(agent, path), "{text:?} allows {path}");
        }
        for path in forbidden {
            assert!(!robots.allows(agent, path), "{text:?} forbids {path}");
        }
    }

    #[test]
    fn groups_are_found_by_their_names() {
        let text = "User-agent: *\nDisallow: /\n\nUser-Agent: Other\nUser-agent: ROUNDSMAN/2.0 (x)\n\
                    Crawl-delay: 9\nDisallow: /a\n\nuser-agent: roundsman\ndisallow: /b # why\n";
        check(text, "Roundsman", &["/", "/c"], &["/a", "/ab", "/b"]);
        check(text, "other", &["/b"], &["/a"]);
        check(text, "third", &["/robots.txt"], &["/", "/c"]);
        check("", "roundsman", &["/"], &[]);
        check("Disallow: /\n", "roundsman", &["/"], &[]);
        check("User-agent: *\nDisallow:\n", "roundsman", &["/"], &[]);
        check("\u{feff}User-agent: *\r\rDisallow : /x\r\n", "roundsman", &["/"], &["/x"]);
        // A name that begins like ours is another's.
        check("User-agent: round\nDisallow: /\n", "roundsman", &["/"], &[]);
    }

    #[test]
    fn the_longest_pattern_decides_and_a_tie_allows() {
        let text = "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /t\nAllow: /t\n";
        check(text, "x", &["/a/b", "/a/b/c", "/t"], &["/a", "/a/c"]);
        let text = "User-agent: *\nAllow: /p\nDisallow: /*.php$\nDisallow: /q?*id=\n";
        check(text, "x", &["/p", "/p/x.php5", "/q?", "/x.php?y"], &["/long/x.php", "/q?a=1&id=2"]);
        check("User-agent: *\nDisallow: *\n", "x", &[], &["/", "/a"]);
        check("User-agent: *\nDisallow: /$\n", "x", &["/a"], &["/"]);
        check("User-agent: *\nDisallow: /a*b*a$\n", "x", &["/ab", "/aba/"], &["/aba", "/axbxbxa"]);
    }

    #[test]
    fn the_same_octets_match_however_they_are_written() {
        let text = "User-agent: *\nDisallow: /%7ejoe\nDisallow: /é\nDisallow: /a%2Fb\n";
        check(text, "x", &["/a/b"], &["/~joe/x", "/%7Ejoe", "/%C3%A9t", "/%c3%a9", "/a%2fb"]);
    }

    #[test]
    fn sitemaps_are_of_no_group_and_odd_input_does_no_harm() {
        let text =
            "Sitemap: https://a.example/s.xml\nUser-agent: *\nSITEMAP:/t.xml\nDisallow: /x\n";
        let robots = Robots::parse(text.as_bytes());
        assert_eq!(robots.sitemaps(), ["https://a.example/s.xml", "/t.xml"]);
        let odd = [&[0xff, b':', 0xff, b'\n'][..], b"user-agent\n:\n::\ndisallow: %\n%4"].concat();
        assert!(Robots::parse(&odd).allows("x", "/%"));
        let long = "User-agent: *\n".to_owned() + &"Disallow: /*a*a*a*a$\n".repeat(30_000);
        assert!(Robots::parse(long.as_bytes()).allows("x", &"/a".repeat(3)));
        let statuses = [200, 301, 404, 429, 503].map(RobotsAnswer::of_status);
        assert_eq!(statuses, [Rules, Unavailable, Unavailable, Unavailable, Unreachable]);
    }
}
