//! The defects of the original system that are about judging, each as it was reported.

use serde_json::json;

use roundsman_core::audits::observed::{Observed, Seen};

use super::*;
use crate::verdict::Category;
use crate::verdict::Outcome::{Failed, Passed};

fn value(seen: &Observed, key: &str) -> serde_json::Value {
    verdict(seen).raw_data.checks[key].value.clone()
}

fn page_with(body: &str) -> Observed {
    seen(&format!("<!doctype html><title>x</title><body>{body}"))
}

#[test]
fn defect_11_pinterest_and_reddit_are_not_twitter() {
    for (links, expected) in [
        ("<a href=https://pinterest.com/us>a</a>", 1),
        ("<a href=https://www.reddit.com/r/us>a</a>", 1),
        ("<a href=https://t.co/abc>a</a>", 1),
        ("<a href=https://pinterest.com/us>a</a><a href=https://reddit.com/us>a</a>", 2),
    ] {
        assert_eq!(
            value(&page_with(links), "presence_social_media_links"),
            json!(expected),
            "{links}"
        );
    }
}

#[test]
fn defect_11_hosts_that_end_in_x_com_are_not_x() {
    for host in [
        "netflix.com",
        "fedex.com",
        "dropbox.com",
        "wix.com",
        "notfacebook.com",
        "facebook.com.evil.example",
    ] {
        let page = page_with(&format!("<a href=https://www.{host}/us>us</a>"));
        assert_eq!(value(&page, "presence_social_media_links"), json!(0), "{host}");
    }
    for host in ["x.com", "mobile.twitter.com", "de-de.facebook.com"] {
        let page = page_with(&format!("<a href=https://{host}/us>us</a>"));
        assert_eq!(value(&page, "presence_social_media_links"), json!(1), "{host}");
    }
}

#[test]
fn defect_11_a_country_is_nothing_to_try() {
    for text in ["Country", "Our industry", "Rejoinder", "Workshops in spring", "Entry"] {
        let page = page_with(&format!("<a href=/x>{text}</a>"));
        assert_eq!(outcome(&page, "conversion_cta_buttons"), Failed, "{text}");
    }
    for text in ["Try it", "JOIN us", "Free trial!", "Get  started", "Contact"] {
        let page = page_with(&format!("<a href=/x>{text}</a>"));
        assert_eq!(outcome(&page, "conversion_cta_buttons"), Passed, "{text}");
    }
}

#[test]
fn defect_11_titles_of_pictures_are_not_the_page_s() {
    let both = seen("<!doctype html><title>Bright</title><body><svg><title>Icon</title></svg>");
    assert_eq!(value(&both, "seo_title_tag"), json!("Bright"));
    let only = seen("<!doctype html><body><svg><title>Icon</title></svg>");
    assert_eq!(outcome(&only, "seo_title_tag"), Failed);
}

/// Whether it was asked for by HEAD or GET is the fetcher's; what counts is that an answer with a body
/// counts, wherever robots.txt says that it is.
#[test]
fn defect_11_a_sitemap_is_found_by_get_wherever_it_is() {
    let mut seen = seen(SOUND);
    seen.sitemaps = vec![
        Seen::Missing("404".to_owned()),
        Seen::Seen(fetched("https://bright.example/map.xml.gz", 200, &[], "")),
    ];
    assert_eq!(value(&seen, "seo_sitemap"), json!(true));
    seen.sitemaps = vec![Seen::Seen(fetched("https://bright.example/sitemap.xml", 403, &[], ""))];
    assert_eq!(value(&seen, "seo_sitemap"), json!(false));
}

#[test]
fn defect_11_a_certificate_that_is_not_trusted_is_not_secure() {
    let mut seen = seen(SOUND);
    seen.page.tls.as_mut().unwrap().problem = Some("expired".to_owned());
    assert_eq!(outcome(&seen, "performance_https_security"), Failed);
}

#[test]
fn defect_10_the_foreign_page_is_not_stored() {
    let page = page_with("<p>words that only this page has</p>");
    let stored = serde_json::to_string(&verdict(&page)).unwrap();
    assert!(!stored.contains("words that only this page has"));
    assert!(!stored.contains("html_snippet"));
}

/// The original had 50 for every page without a key of an outside service.
#[test]
fn speed_is_never_a_constant() {
    let fast = verdict(&seen(SOUND));
    let mut slow = seen(SOUND);
    slow.page.timing.wait = Duration::from_secs(4);
    let slow = verdict(&slow);
    let score = |verdict: &Verdict| verdict.raw_data.checks["performance_page_speed_mobile"].score;
    assert!(score(&fast) > 90 && score(&slow) < 80, "{} {}", score(&fast), score(&slow));
    assert_eq!(fast.raw_data.checks["performance_page_speed_mobile"].value, json!(score(&fast)));
    assert!(finding(&fast, "performance_page_speed_mobile").explanation.contains("estimated"));
}

#[test]
fn the_fourteen_have_the_original_s_keys_and_form() {
    let verdict = verdict(&seen(SOUND));
    let stored = serde_json::to_value(&verdict.raw_data).unwrap();
    let checks = stored["checks"].as_object().unwrap();
    let keys: Vec<&str> = checks.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "branding_logo_presence",
            "branding_professional_domain",
            "conversion_contact_method",
            "conversion_cta_buttons",
            "conversion_form_presence",
            "performance_https_security",
            "performance_page_speed_mobile",
            "presence_google_presence",
            "presence_social_media_links",
            "seo_h1_heading",
            "seo_image_alt_text",
            "seo_meta_description",
            "seo_sitemap",
            "seo_title_tag",
        ]
    );
    for check in checks.values() {
        let fields: Vec<&str> = check.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, ["passed", "score", "value"]);
    }
}

#[test]
fn categories_follow_the_original_s_formulas() {
    let scores = |seen: &Observed| {
        let verdict = verdict(seen);
        [
            Category::Performance,
            Category::Seo,
            Category::Conversion,
            Category::Branding,
            Category::Presence,
        ]
        .map(|it| verdict.score(it))
    };
    let mut bare = seen("<!doctype html><title>x</title><a href=https://facebook.com/x>x</a>");
    bare.page.url = "http://bare.blogspot.com/".to_owned();
    bare.page.tls = None;
    bare.sitemaps.clear();
    let speed = f64::from(verdict(&bare).raw_data.checks["performance_page_speed_mobile"].score);
    // Title and images pass; a single platform is half of half.
    assert_eq!(scores(&bare), [crate::finding::rounded(0.7 * speed), 40, 0, 0, 25]);
}
