//! A request's path as it may be written down: a stock bot's callback address has its token in it,
//! and a shared link is its secret.

/// Before the token, if there is one.
const CALLBACKS: &str = "/bots/internal/callback/";
/// Before the secret of a link.
pub(crate) const PUBLIC_TRANSCRIPTS: &str = "/public/transcripts/";
/// What else may follow there.
const EVENTS: [&str; 5] = ["exited", "started", "joining", "awaiting_admission", "status_change"];
/// Begin the tokens of bots and of users.
const TOKEN_PREFIXES: [&str; 2] = ["rmb_", "rmt_"];
/// What is as long as a key and written with a key's letters is one, wherever it stands: nothing
/// else in a path of ours is.
const SECRET_CHARS_MIN: usize = 40;
const HIDDEN: &str = "{token}";

/// The path without any token. Under the callbacks and the links nothing is shown but known words,
/// because there even what looks like no token may be one that was sent in another spelling.
pub(crate) fn shown_path(path: &str) -> String {
    if let Some(rest) = path.strip_prefix(CALLBACKS) {
        let known = |step: &str| EVENTS.contains(&step);
        return format!("{CALLBACKS}{}", hide(rest, |step| !known(step)));
    }
    if let Some(rest) = path.strip_prefix(PUBLIC_TRANSCRIPTS) {
        return format!("{PUBLIC_TRANSCRIPTS}{}", hide(rest, |_| true));
    }
    hide(path, looks_secret)
}

fn looks_secret(step: &str) -> bool {
    let word = step.split('.').next().unwrap_or_default();
    let long = word.len() >= SECRET_CHARS_MIN
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    long || TOKEN_PREFIXES.iter().any(|prefix| step.starts_with(prefix))
}

fn hide(path: &str, is_secret: impl Fn(&str) -> bool) -> String {
    let shown = path.split('/').map(|step| match step {
        "" => "",
        step if is_secret(step) => HIDDEN,
        step => step,
    });
    shown.collect::<Vec<&str>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_hidden_wherever_it_stands() {
        let secret = "A1-_".repeat(11);
        let cases = [
            ("/jobs/17/complete", "/jobs/17/complete"),
            ("/", "/"),
            ("/bots/internal/callback/exited", "/bots/internal/callback/exited"),
            ("/bots/internal/callback/rmb_7_1_ab/exited", "/bots/internal/callback/{token}/exited"),
            ("/bots/internal/callback/%72mb_7/exited", "/bots/internal/callback/{token}/exited"),
            ("/bots/internal/callback/a/b/", "/bots/internal/callback/{token}/{token}/"),
            ("//bots/internal/callback/rmb_7/x", "//bots/internal/callback/{token}/x"),
            ("/callback/rmb_7_1_ab", "/callback/{token}"),
            ("/jobs/rmt_1_ab", "/jobs/{token}"),
            ("/public/transcripts/abc.txt", "/public/transcripts/{token}"),
            (&format!("/public/transcripts/{secret}.txt"), "/public/transcripts/{token}"),
            (&format!("//public/transcripts/{secret}.txt"), "//public/transcripts/{token}"),
            (&format!("/public/{secret}/x"), "/public/{token}/x"),
            (
                "/user/webhook/deliveries/evt_0123456789abcdef0123456789abcdef/replay",
                "/user/webhook/deliveries/evt_0123456789abcdef0123456789abcdef/replay",
            ),
        ];
        for (path, shown) in cases {
            assert_eq!(shown_path(path), shown);
        }
    }
}
