//! What of a secret may be shown: whether it is set, and where a URL points.
//!
//! Invariant: text from inside a password never comes out, however odd the URL is. Where it is not
//! clear what is password and what is not, more is hidden.

/// Stands where a secret is.
pub(super) const HIDDEN: &str = "<set>";

/// Parameters of a connection URL that are known to carry no secret.
const OPEN_PARAMETERS: [&str; 5] =
    ["sslmode", "application_name", "connect_timeout", "target_session_attrs", "protocol"];

/// Whether there is a secret, without the secret.
pub(super) fn secret(text: &str) -> String {
    if text.is_empty() { String::new() } else { HIDDEN.to_owned() }
}

/// The URL without its password and without parameters that could hold one.
pub(super) fn url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        // Not a URL at all: it may well be a password in the wrong place.
        return secret(text);
    };
    // An unescaped `@`, `/` or `?` in a password moves the end of it, so the last `@` counts.
    let (user, place) = match rest.rsplit_once('@') {
        Some((login, place)) => (hide_password(login) + "@", place),
        None => (String::new(), rest),
    };
    let (address, parameters) = match place.split_once('?') {
        Some((address, parameters)) => (address, format!("?{}", hide_parameters(parameters))),
        None => (place, String::new()),
    };
    format!("{scheme}://{user}{address}{parameters}")
}

fn hide_password(login: &str) -> String {
    match login.split_once(':') {
        Some((user, _)) => format!("{user}:{HIDDEN}"),
        // Without a colon it is a user's name, unless it has signs that no name has.
        None if login.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c)) => login.to_owned(),
        None => HIDDEN.to_owned(),
    }
}

fn hide_parameters(parameters: &str) -> String {
    let shown = parameters.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if !OPEN_PARAMETERS.contains(&name) => format!("{name}={HIDDEN}"),
        Some(_) => pair.to_owned(),
        None => HIDDEN.to_owned(),
    });
    shown.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_shows_where_it_points_and_no_password() {
        let cases = [
            ("", ""),
            ("postgres://db.example/app", "postgres://db.example/app"),
            ("postgres://me@db/app", "postgres://me@db/app"),
            ("postgres://me:canary@db:5432/app", "postgres://me:<set>@db:5432/app"),
            ("redis://:canary@cache:6379/0", "redis://:<set>@cache:6379/0"),
            ("postgres://me:can@ary@db/app", "postgres://me:<set>@db/app"),
            ("postgres://me:can/?ary@db/app", "postgres://me:<set>@db/app"),
            (
                "postgres://db/app?sslmode=disable&password=canary",
                "postgres://db/app?sslmode=disable&password=<set>",
            ),
            ("postgres://db/app?canary", "postgres://db/app?<set>"),
            ("canary", "<set>"),
            ("sqlite:///var/lib/roundsman.db", "sqlite:///var/lib/roundsman.db"),
        ];
        for (given, shown) in cases {
            assert_eq!(url(given), shown);
        }
    }

    #[test]
    fn a_secret_shows_only_whether_it_is_set() {
        assert_eq!(secret(""), "");
        assert_eq!(secret("canary"), HIDDEN);
    }
}
