//! Each check has a page that trips it; the sound page trips none.

use roundsman_core::audits::observed::{ImageSeen, Observed, ResourceKind, Seen};

use super::*;
use crate::verdict::Outcome::{Failed, NotApplicable, Passed};

fn page_headers(name: &str, value: &str) -> Observed {
    let mut seen = seen(SOUND);
    seen.page.headers.0.retain(|(known, _)| known != name);
    if !value.is_empty() {
        seen.page.headers.0.push((name.to_owned(), value.to_owned()));
    }
    seen
}

fn change(change: impl FnOnce(&mut Observed)) -> Observed {
    let mut seen = seen(SOUND);
    change(&mut seen);
    seen
}

fn with_resource(kind: ResourceKind, bytes: u64, alter: impl FnOnce(&mut Resource)) -> Observed {
    change(|seen| {
        let mut extra = resource("https://bright.example/extra", kind, bytes);
        alter(&mut extra);
        seen.resources.push(extra);
    })
}

fn answer(resource: &mut Resource) -> &mut ResourceAnswer {
    match &mut resource.answer {
        Seen::Seen(answer) => answer,
        Seen::Missing(_) => panic!("it was answered"),
    }
}

fn robots(text: &str) -> Observed {
    let robots = fetched("https://bright.example/robots.txt", 200, &[], text);
    change(|seen| seen.robots = Seen::Seen(robots))
}

#[test]
fn a_sound_page_trips_nothing() {
    let verdict = verdict(&seen(SOUND));
    let failed: Vec<_> =
        verdict.checks.iter().filter(|it| it.outcome == Failed).map(|it| &it.key).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(verdict.overall, 100);
    assert_eq!(verdict.security_grade, "A+");
    assert_eq!(verdict.security_points, 150, "every bonus but those for HSTS and SRI");
}

#[test]
fn the_fourteen_are_tripped() {
    for (key, seen) in vec![
        ("performance_page_speed_mobile", change(|it| it.page.transfer_bytes = 4_000_000)),
        (
            "performance_https_security",
            change(|it| it.page.url = "http://bright.example/".to_owned()),
        ),
        (
            "seo_title_tag",
            changed("<title>Bright Bikes: repair and rental in Ghent</title>", "<title> </title>"),
        ),
        ("seo_meta_description", changed("name=\"description\"", "name=\"other\"")),
        ("seo_h1_heading", with("<h1>Another</h1>")),
        ("seo_image_alt_text", changed("alt=\"Bright Bikes\"", "alt")),
        ("seo_sitemap", change(|it| it.sitemaps = vec![Seen::Missing("timeout".to_owned())])),
        ("conversion_cta_buttons", changed("Get started", "Send")),
        ("conversion_form_presence", seen("<p>nothing</p>")),
        ("conversion_contact_method", seen("<p>nothing</p>")),
        ("branding_logo_presence", seen("<p>nothing</p><img src=a alt=b>")),
        (
            "branding_professional_domain",
            change(|it| it.page.url = "https://bright.github.io/".to_owned()),
        ),
        (
            "presence_social_media_links",
            changed("https://www.facebook.com/bright\">Bright Bikes at Facebook", "/\">us"),
        ),
        (
            "presence_google_presence",
            changed("https://maps.google.com/?cid=1\">Directions to", "/way\">The way to"),
        ),
    ] {
        assert_eq!(outcome(&seen, key), Failed, "{key}");
    }
}

#[test]
fn performance_is_tripped() {
    for (key, seen) in vec![
        (
            "performance_first_contentful_paint",
            change(|it| it.page.timing.wait = Duration::from_secs(3)),
        ),
        (
            "performance_largest_contentful_paint",
            with_resource(ResourceKind::Image, 900_000, |_| {}),
        ),
        ("performance_speed_index", change(|it| it.page.timing.wait = Duration::from_secs(5))),
        ("performance_layout_shift", with(&"<img src=/a.png alt=a>".repeat(5))),
        (
            "performance_server_response",
            change(|it| it.page.timing.wait = Duration::from_millis(800)),
        ),
        (
            "performance_redirects",
            change(|it| {
                it.hops.push(hop("https://bright.example/old", Some("https://bright.example/")));
            }),
        ),
        (
            "performance_render_blocking",
            with_resource(ResourceKind::Script, 10, |it| it.placement.is_blocking = true),
        ),
        ("performance_http2", change(|it| it.page.http_version = HttpVersion::Http11)),
        ("performance_total_bytes", with_resource(ResourceKind::Media, 5_000_000, |_| {})),
        ("performance_script_bytes", with_resource(ResourceKind::Script, 600_000, |_| {})),
        ("performance_dom_size", with(&"<i></i>".repeat(1_500))),
    ] {
        assert_eq!(outcome(&seen, key), Failed, "{key}");
    }
}

#[test]
fn wasteful_files_are_tripped() {
    let no_header = |name: &'static str| {
        move |it: &mut Resource| answer(it).headers.0.retain(|(known, _)| known != name)
    };
    for (key, seen) in [
        (
            "performance_broken_resources",
            with_resource(ResourceKind::Image, 10, |it| answer(it).status = 404),
        ),
        (
            "performance_compression",
            with_resource(ResourceKind::Script, 50_000, no_header("content-encoding")),
        ),
        (
            "performance_caching",
            with_resource(ResourceKind::Script, 10, no_header("cache-control")),
        ),
        (
            "performance_minified",
            with_resource(ResourceKind::Script, 10, |it| {
                answer(it).body = Some(b"var a = 1 ;\n".repeat(500));
            }),
        ),
        (
            "performance_font_display",
            with_resource(ResourceKind::Stylesheet, 10, |it| {
                answer(it).body = Some(b"@font-face { font-family: x; src: url(x) }".to_vec());
            }),
        ),
        ("performance_image_dimensions", with("<img src=/a.png alt=a>")),
        (
            "performance_image_formats",
            with_resource(ResourceKind::Image, 90_000, |it| {
                answer(it).image = Some(ImageSeen {
                    format: "png".to_owned(),
                    width_px: Some(9),
                    height_px: Some(9),
                });
            }),
        ),
        ("performance_image_weight", with_resource(ResourceKind::Image, 600_000, |_| {})),
    ] {
        assert_eq!(outcome(&seen, key), Failed, "{key}");
    }
}

#[test]
fn search_is_tripped() {
    for (key, seen) in vec![
        (
            "search_is_crawlable",
            changed("<meta charset", "<meta name=\"Robots\" content=\"noindex\"><meta charset"),
        ),
        ("search_is_crawlable", page_headers("x-robots-tag", "noindex")),
        ("search_is_crawlable", robots("User-agent: *\nDisallow: /")),
        (
            "search_document_title",
            changed("<title>Bright Bikes: repair and rental in Ghent</title>", ""),
        ),
        ("search_meta_description", changed("name=\"description\"", "name=\"other\"")),
        ("search_http_status", change(|it| it.page.status = 404)),
        ("search_link_text", with("<a href=/prices>Click here</a>")),
        ("search_crawlable_anchors", with("<a href=\"javascript:void(0)\">Prices</a>")),
        ("search_robots_txt", robots("<html>")),
        ("search_image_alt", with("<img src=/a.png width=1 height=1>")),
        (
            "search_hreflang",
            changed(
                "<link rel",
                "<link rel=alternate hreflang=english href=https://bright.example/en><link rel",
            ),
        ),
        (
            "search_canonical",
            changed(
                "<link rel=\"canonical\" href=\"https://bright.example/\">",
                "<link rel=canonical href=/here>",
            ),
        ),
        (
            "search_structured_data",
            with("<script type=\"application/ld+json\">{\"@type\": \"Bike\",}</script>"),
        ),
    ] {
        assert_eq!(outcome(&seen, key), Failed, "{key}");
    }
    let other_robot = page_headers("x-robots-tag", "otherbot: noindex");
    assert_eq!(outcome(&other_robot, "search_is_crawlable"), Passed);
    let sound = with(
        "<script type=\"application/ld+json\">{\"@context\": \"https://schema.org\", \"@type\": \"Bike\"}</script>",
    );
    assert_eq!(outcome(&sound, "search_structured_data"), Passed);
}

#[test]
fn security_is_tripped() {
    for (key, seen) in vec![
        ("security_csp", page_headers("content-security-policy", "")),
        ("security_cookies", page_headers("set-cookie", "SESSION=1")),
        (
            "security_cors",
            change(|it| {
                it.foreign_origin = Seen::Seen(headers(&[
                    (
                        "access-control-allow-origin",
                        roundsman_core::audits::observed::FOREIGN_ORIGIN,
                    ),
                    ("access-control-allow-credentials", "true"),
                ]));
            }),
        ),
        (
            "security_redirection",
            change(|it| it.plain_http = Seen::Seen(vec![hop("http://bright.example/", None)])),
        ),
        ("security_referrer_policy", page_headers("referrer-policy", "unsafe-url")),
        ("security_hsts", page_headers("strict-transport-security", "")),
        (
            "security_subresource_integrity",
            with("<script src=https://cdn.example.net/a.js></script>"),
        ),
        ("security_content_type_options", page_headers("x-content-type-options", "")),
        ("security_frame_options", page_headers("content-security-policy", "default-src 'none'")),
        ("security_resource_policy", page_headers("cross-origin-resource-policy", "everybody")),
        ("security_embedder_policy", page_headers("cross-origin-embedder-policy", "everybody")),
        ("security_opener_policy", page_headers("cross-origin-opener-policy", "everybody")),
        (
            "security_tls_version",
            change(|it| it.page.tls.as_mut().unwrap().version = "1.1".to_owned()),
        ),
        (
            "security_certificate",
            change(|it| {
                it.page.tls.as_mut().unwrap().valid_until = Some(NOW + Duration::from_secs(86_400));
            }),
        ),
        (
            "security_certificate",
            change(|it| it.page.tls.as_mut().unwrap().problem = Some("self-signed".to_owned())),
        ),
        (
            "security_mixed_content",
            with("<img src=http://bright.example/a.png alt=a width=1 height=1>"),
        ),
    ] {
        assert_eq!(outcome(&seen, key), Failed, "{key}");
    }
}

#[test]
fn subresource_integrity_has_the_published_modifiers() {
    let foreign = "https://cdn.example.net/a.js";
    for (html, expected) in [
        (String::new(), 0),
        ("<script>1</script>".to_owned(), 0),
        ("<script src=/a.js></script>".to_owned(), 0),
        ("<script src=https://static.bright.example/a.js></script>".to_owned(), 0),
        ("<script src=/a.js integrity=sha384-x></script>".to_owned(), 5),
        (format!("<script src={foreign} integrity=sha384-x></script>"), 5),
        (format!("<script src={foreign}></script>"), -5),
        ("<script src=http://cdn.example.net/a.js integrity=sha384-x></script>".to_owned(), -20),
        ("<script src=//cdn.example.net/a.js></script>".to_owned(), -50),
        ("<script src=http://cdn.example.net/a.js></script>".to_owned(), -50),
        (
            format!(
                "<script src=/a.js integrity=sha384-x></script><script src={foreign}></script>"
            ),
            -5,
        ),
    ] {
        let verdict = verdict(&with(&html));
        assert_eq!(
            finding(&verdict, "security_subresource_integrity").modifier,
            Some(expected),
            "{html}"
        );
    }
    let mut binary = seen(SOUND);
    binary.page.body = b"\x89PNG\0\0\0".to_vec();
    let verdict = verdict(&binary);
    assert_eq!(finding(&verdict, "security_subresource_integrity").modifier, Some(-20));
}

#[test]
fn frame_options_have_the_decided_modifiers() {
    for (policy, options, expected) in [
        ("default-src 'none'; frame-ancestors 'none'", "", 5),
        ("default-src 'none'", "DENY", 5),
        ("default-src 'none'", "sameorigin", 5),
        ("default-src 'none'", "ALLOW-FROM https://a.test", 0),
        ("default-src 'none'", "nonsense", -20),
        ("default-src 'none'", "", -20),
    ] {
        let mut seen = page_headers("content-security-policy", policy);
        if !options.is_empty() {
            seen.page.headers.0.push(("x-frame-options".to_owned(), options.to_owned()));
        }
        let verdict = verdict(&seen);
        assert_eq!(
            finding(&verdict, "security_frame_options").modifier,
            Some(expected),
            "{options}"
        );
    }
    // What the page says of frames itself does not count.
    let mut seen = page_headers("content-security-policy", "default-src 'none'");
    seen.page.body = SOUND
        .replace("<title>", "<meta http-equiv=\"Content-Security-Policy\" content=\"frame-ancestors 'none'\"><title>")
        .into_bytes();
    assert_eq!(outcome(&seen, "security_frame_options"), Failed);
}

#[test]
fn accessibility_is_tripped() {
    for (key, seen) in vec![
        ("accessibility_image_alt", with("<img src=/a.png width=1 height=1>")),
        ("accessibility_input_image_alt", with("<input type=image src=/a.png>")),
        ("accessibility_label", with("<input name=x placeholder=x>")),
        ("accessibility_select_name", with("<select><option>1</select>")),
        ("accessibility_button_name", with("<button><svg></svg></button>")),
        (
            "accessibility_link_name",
            with("<a href=/x><img src=/a.png alt=\"\" width=1 height=1></a>"),
        ),
        ("accessibility_frame_title", with("<iframe src=/x></iframe>")),
        (
            "accessibility_meta_refresh",
            changed("<title>", "<meta http-equiv=refresh content=\"5; url=/x\"><title>"),
        ),
        ("accessibility_meta_viewport", changed("initial-scale=1", "user-scalable=no")),
        ("accessibility_duplicate_id_aria", with("<p id=mail>x</p>")),
        ("accessibility_video_caption", with("<video src=/a.mp4></video>")),
        (
            "accessibility_document_title",
            changed("<title>Bright Bikes: repair and rental in Ghent</title>", ""),
        ),
        ("accessibility_html_has_lang", changed("<html lang=\"en\">", "<html>")),
        ("accessibility_html_lang_valid", changed("lang=\"en\"", "lang=\"english\"")),
        ("accessibility_list", with("<ul><div>x</div></ul>")),
        ("accessibility_listitem", with("<div><li>x</li></div>")),
        ("accessibility_bypass", seen("<p>nothing</p>")),
        ("accessibility_tabindex", with("<p tabindex=3>x</p>")),
        ("accessibility_heading_order", with("<h4>x</h4>")),
        ("accessibility_landmark_one_main", seen("<p>nothing</p>")),
        ("accessibility_skip_link", changed("id=\"content\"", "id=\"other\"")),
        ("accessibility_color_contrast", with("<p style=\"color: #999; background: #fff\">x</p>")),
    ] {
        assert_eq!(outcome(&seen, key), Failed, "{key}");
    }
    for (key, html) in [
        ("accessibility_label", "<label>Name <input name=x></label>"),
        ("accessibility_select_name", "<select aria-label=\"Size\"><option>1</select>"),
        ("accessibility_button_name", "<button><svg><title>Close</title></svg></button>"),
        (
            "accessibility_link_name",
            "<a href=/x><img src=/a.png alt=\"Home\" width=30 height=30></a>",
        ),
        ("accessibility_frame_title", "<iframe src=/x title=Map></iframe>"),
        (
            "accessibility_video_caption",
            "<video src=/a.mp4><track kind=captions src=/a.vtt></video>",
        ),
        ("accessibility_list", "<ul><li>x</li></ul>"),
        ("accessibility_tabindex", "<p tabindex=0>x</p>"),
        ("accessibility_color_contrast", "<p style=\"color: #333; background: #fff\">x</p>"),
        ("accessibility_image_alt", "<img src=/a.png alt=\"\" width=1 height=1>"),
    ] {
        assert_eq!(outcome(&with(html), key), Passed, "{key}");
    }
}

#[test]
fn best_practices_and_mobile_are_tripped() {
    let distorted = change(|it| {
        it.page.body = SOUND
            .replace("<p>Repair", "<img src=/extra alt=a width=100 height=100><p>Repair")
            .into_bytes();
        let mut image = resource("https://bright.example/extra", ResourceKind::Image, 10);
        answer(&mut image).image = Some(ImageSeen {
            format: "webp".to_owned(),
            width_px: Some(400),
            height_px: Some(100),
        });
        it.resources.push(image);
    });
    for (key, seen) in vec![
        ("best_practices_is_on_https", with("<script src=http://a.example/x.js></script>")),
        (
            "best_practices_redirects_http",
            change(|it| it.plain_http = Seen::Seen(vec![hop("http://bright.example/", None)])),
        ),
        ("best_practices_doctype", changed("<!doctype html>", "")),
        (
            "best_practices_charset",
            change(|it| {
                it.page.headers.0.retain(|(name, _)| name != "content-type");
                it.page.body = SOUND.replace("<meta charset=\"utf-8\">", "").into_bytes();
            }),
        ),
        (
            "best_practices_paste",
            with("<input type=password aria-label=x onpaste=\"return false\">"),
        ),
        ("best_practices_image_aspect_ratio", distorted),
        ("mobile_viewport", changed("width=device-width, initial-scale=1", "width=1024")),
        ("mobile_zoom", changed("initial-scale=1", "maximum-scale=1")),
        ("mobile_font_sizes", with("<p style=\"font-size: 9px\">x</p>")),
        ("mobile_tap_targets", with("<a href=/x style=\"width: 10px; height: 10px\">x</a>")),
        ("mobile_fixed_widths", with("<table width=900><tr><td>x</table>")),
        ("mobile_input_types", changed("type=\"email\"", "type=\"text\"")),
    ] {
        assert_eq!(outcome(&seen, key), Failed, "{key}");
    }
    assert_eq!(outcome(&seen(SOUND), "mobile_font_sizes"), NotApplicable);
    assert_eq!(outcome(&with("<p style=\"font-size: 16px\">x</p>"), "mobile_font_sizes"), Passed);
}
