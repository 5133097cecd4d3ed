//! The cookies that the page and the redirects to it set.

use super::transport::Hsts;
use super::{Result, graded, rule};
use crate::finding::Rule;
use crate::page::Page;
use crate::verdict::{EvidenceKind, Finding};

const RULE: Rule = rule(
    "security_cookies",
    "cookies",
    [
        "Cookies are protected",
        "Cookies are not protected",
        "A cookie without Secure can be read on the way, one without HttpOnly by any script, one without SameSite is sent along with requests that other sites make.",
        "Set every cookie with Secure and SameSite=Lax (or Strict), and session cookies with HttpOnly.",
    ],
);

const ALL_PROTECTED: Result =
    Result::new(5, "All cookies are Secure with SameSite, and session cookies are HttpOnly.");
const SECURE: Result = Result::new(0, "All cookies are Secure, and session cookies are HttpOnly.");
const NONE: Result = Result::new(0, "No cookies are set.");

/// From bad to worst: the worst of a page counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    NotSecureButHsts,
    NotSecure,
    SessionNotSecureButHsts,
    BadSameSite,
    TokenWithoutSameSite,
    SessionNotHttpOnly,
    SessionNotSecure,
}

impl Fault {
    const fn result(self) -> Result {
        match self {
            Fault::NotSecureButHsts => Result::new(
                -5,
                "A cookie is not Secure; that the site insists on https protects it for now.",
            ),
            Fault::NotSecure => Result::new(-20, "A cookie is not Secure."),
            Fault::SessionNotSecureButHsts => Result::new(
                -10,
                "A session cookie is not Secure; that the site insists on https protects it for now.",
            ),
            Fault::BadSameSite => Result::new(
                -20,
                "A cookie's SameSite is none of Strict, Lax and None, or is None without Secure.",
            ),
            Fault::TokenWithoutSameSite => {
                Result::new(-20, "A cookie against forged requests has no SameSite.")
            }
            Fault::SessionNotHttpOnly => Result::new(-30, "A session cookie is not HttpOnly."),
            Fault::SessionNotSecure => Result::new(-40, "A session cookie is not Secure."),
        }
    }
}

/// A load balancer's, which sites cannot change.
const PASSED_OVER: [&str; 1] = ["heroku-session-affinity"];
const COOKIES_MAX: usize = 200;

pub(super) struct Cookie<'a> {
    name: &'a str,
    is_secure: bool,
    is_http_only: bool,
    same_site: Option<&'a str>,
}

impl<'a> Cookie<'a> {
    pub(super) fn read(header: &'a str) -> Option<Self> {
        let mut parts = header.split(';');
        let (name, _) = parts.next()?.split_once('=')?;
        let name = name.trim();
        let mut cookie = Cookie { name, is_secure: false, is_http_only: false, same_site: None };
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key.trim().to_ascii_lowercase().as_str() {
                "secure" => cookie.is_secure = true,
                "httponly" => cookie.is_http_only = true,
                "samesite" => cookie.same_site = Some(value.trim()),
                _ => {}
            }
        }
        (!name.is_empty()).then_some(cookie)
    }

    fn faults(&self, has_hsts: bool) -> impl Iterator<Item = Fault> {
        let name = self.name.to_lowercase();
        let is_session = ["login", "sess"].iter().any(|it| name.contains(it));
        let same_site = self.same_site.map(str::to_ascii_lowercase);
        let is_bad = match same_site.as_deref() {
            None | Some("lax" | "strict") => false,
            Some("none") => !self.is_secure,
            Some(_) => true,
        };
        let is_open = !self.is_secure;
        [
            (is_bad, Fault::BadSameSite),
            (is_open && has_hsts, Fault::NotSecureButHsts),
            (is_open && !has_hsts, Fault::NotSecure),
            (name.contains("csrf") && same_site.is_none(), Fault::TokenWithoutSameSite),
            (is_session && is_open && has_hsts, Fault::SessionNotSecureButHsts),
            (is_session && is_open && !has_hsts, Fault::SessionNotSecure),
            (is_session && !self.is_http_only, Fault::SessionNotHttpOnly),
        ]
        .into_iter()
        .filter_map(|(is_so, fault)| is_so.then_some(fault))
    }

    /// For people, without its value.
    pub(super) fn described(&self) -> String {
        let mut text = format!("set-cookie: {}=…", self.name);
        if self.is_secure {
            text.push_str("; Secure");
        }
        if self.is_http_only {
            text.push_str("; HttpOnly");
        }
        if let Some(same_site) = self.same_site {
            text.push_str("; SameSite=");
            text.push_str(same_site);
        }
        text
    }
}

pub(super) fn check(page: &Page<'_>, hsts: &Hsts) -> Finding {
    let all = page.seen.hops.iter().map(|hop| &hop.headers).chain([&page.seen.page.headers]);
    let cookies: Vec<Cookie<'_>> = all
        .flat_map(|headers| headers.all("set-cookie"))
        .filter_map(Cookie::read)
        .filter(|it| !PASSED_OVER.contains(&it.name))
        .take(COOKIES_MAX)
        .collect();
    let result = result(&cookies, hsts.is_good());
    let shown = cookies
        .iter()
        .filter(|it| result.modifier >= 0 || it.faults(hsts.is_good()).next().is_some());
    shown.fold(graded(&RULE, &result), |it, cookie| {
        it.with(EvidenceKind::Header, &cookie.described(), None)
    })
}

fn result(cookies: &[Cookie<'_>], has_hsts: bool) -> Result {
    let worst = cookies.iter().flat_map(|it| it.faults(has_hsts)).max();
    match worst {
        Some(fault) => fault.result(),
        None if cookies.is_empty() => NONE,
        None if cookies.iter().all(|it| it.same_site.is_some()) => ALL_PROTECTED,
        None => SECURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_have_the_published_modifiers() {
        for (headers, has_hsts, expected) in [
            (&[][..], false, 0),
            (&["SESSID=1; Secure; HttpOnly; SameSite=Lax"], false, 5),
            (&["SESSID=1; Secure; HttpOnly"], false, 0),
            (&["theme=dark"], true, -5),
            (&["SESSID=1; HttpOnly"], true, -10),
            (&["theme=dark"], false, -20),
            (&["theme=dark; Secure; SameSite=Perhaps"], false, -20),
            (&["theme=dark; SameSite=None"], true, -20),
            (&["csrftoken=1; Secure"], false, -20),
            (&["SESSID=1; Secure"], false, -30),
            (&["login=1; HttpOnly"], false, -40),
            (&["theme=1; Secure; SameSite=Lax", "SESSID=1"], false, -40),
        ] {
            let cookies: Vec<_> = headers.iter().filter_map(|it| Cookie::read(it)).collect();
            assert_eq!(result(&cookies, has_hsts).modifier, expected, "{headers:?} {has_hsts}");
        }
    }
}
