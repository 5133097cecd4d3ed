//! The addresses of websites, in one form each: the history of a page goes by it.

use url::{Host, Url};

/// A website's address is at most this long; it is part of an index.
pub const URL_BYTES_MAX: usize = 2048;

/// The text is no address of a website.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    #[error("must be 1 to {URL_BYTES_MAX} bytes")]
    Length,
    #[error("must be an address such as https://example.org/page")]
    Syntax,
    #[error("must begin with http:// or https://")]
    Scheme,
    #[error("must not contain a name and password")]
    Credentials,
}

/// The one form of an address. Without a scheme it is https; what comes after `#` is the browser's
/// business. Whether the address may be asked is decided when it is.
pub fn normal_url(text: &str) -> Result<String, InvalidUrl> {
    let text = text.trim();
    if text.is_empty() || text.len() > URL_BYTES_MAX {
        return Err(InvalidUrl::Length);
    }
    if text.chars().any(char::is_control) {
        return Err(InvalidUrl::Syntax);
    }
    let mut url = if text.contains("://") {
        Url::parse(text)
    } else {
        Url::parse(&format!("https://{text}"))
    }
    .map_err(|_| InvalidUrl::Syntax)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(InvalidUrl::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(InvalidUrl::Credentials);
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(InvalidUrl::Syntax);
    }
    url.set_fragment(None);
    let normal = String::from(url);
    if normal.len() > URL_BYTES_MAX { Err(InvalidUrl::Length) } else { Ok(normal) }
}

/// The host of an address in lower case, without the dot at its end.
pub fn domain_of(url: &str) -> Option<String> {
    match Url::parse(url).ok()?.host()? {
        Host::Domain(name) => Some(name.trim_end_matches('.').to_ascii_lowercase()),
        Host::Ipv4(address) => Some(address.to_string()),
        Host::Ipv6(address) => Some(address.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_has_one_address() {
        for (given, normal) in [
            ("example.org", "https://example.org/"),
            ("  HTTP://Example.ORG:80/a#b ", "http://example.org/a"),
            ("example.org:8443/x?y=1", "https://example.org:8443/x?y=1"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ] {
            assert_eq!(normal_url(given), Ok(normal.to_owned()), "{given}");
        }
    }

    #[test]
    fn what_is_no_website_is_refused() {
        let long = format!("https://example.org/{}", "a".repeat(URL_BYTES_MAX));
        let umlauts = format!("https://example.org/{}", "ü".repeat(URL_BYTES_MAX / 4));
        for (given, reason) in [
            ("", InvalidUrl::Length),
            (long.as_str(), InvalidUrl::Length),
            (umlauts.as_str(), InvalidUrl::Length),
            ("https://", InvalidUrl::Syntax),
            ("exa mple", InvalidUrl::Syntax),
            ("a\0b", InvalidUrl::Syntax),
            ("ftp://example.org/", InvalidUrl::Scheme),
            ("file:///etc/passwd", InvalidUrl::Scheme),
            ("https://ada:secret@example.org/", InvalidUrl::Credentials),
        ] {
            assert_eq!(normal_url(given), Err(reason), "{given}");
        }
        assert_eq!(domain_of("https://WWW.Example.org./x"), Some("www.example.org".to_owned()));
    }
}
