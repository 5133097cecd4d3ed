//! The clean page with one thing changed.

/// Name, what the clean page has, and what the page of that name has in its place. Served at
/// `/defect/{name}`.
pub const DEFECTS: [(&str, &str, &str); 31] = [
    ("no-doctype", "<!doctype html>\n", ""),
    ("no-lang", "<html lang=\"en\">", "<html>"),
    ("odd-lang", "<html lang=\"en\">", "<html lang=\"english please\">"),
    ("no-charset", "<meta charset=\"utf-8\">\n", ""),
    (
        "no-viewport",
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
        "",
    ),
    ("no-zoom", "initial-scale=1\">", "initial-scale=1, user-scalable=no\">"),
    ("no-title", "<title>Harbour Bakery: fresh bread from the old port</title>\n", ""),
    ("no-description", "<meta name=\"description\"", "<meta name=\"nothing\""),
    ("no-canonical", "<link rel=\"canonical\" href=\"/\">\n", ""),
    (
        "noindex",
        "<link rel=\"canonical\"",
        "<meta name=\"robots\" content=\"noindex\"><link rel=\"canonical\"",
    ),
    ("broken-structured-data", "\"@type\": \"Bakery\",", "\"@type\": \"Bakery\"\","),
    ("two-h1", "<h2>Today</h2>", "<h1>Today</h1>"),
    ("no-h1", "<h1>Bread from the old port</h1>", "<p>Bread from the old port</p>"),
    ("skipped-heading", "<h2>Write to us</h2>", "<h4>Write to us</h4>"),
    ("no-alt", " alt=\"A loaf of rye bread on a wooden table\"", ""),
    ("no-dimensions", "on a wooden table\" width=\"64\" height=\"48\"", "on a wooden table\""),
    ("old-image-format", "/img/hero.avif", "/img/photo.jpg"),
    ("missing-image", "/img/hero.avif", "/img/missing.png"),
    ("no-label", "<label for=\"email\">Your e-mail address</label>", "Your e-mail address"),
    (
        "no-button-name",
        "<button type=\"submit\">Send the message</button>",
        "<button type=\"submit\"></button>",
    ),
    ("empty-link", "<a href=\"/bread\">Our bread</a>", "<a href=\"/bread\"></a>"),
    ("generic-link", "<a href=\"/bread\">Our bread</a>", "<a href=\"/bread\">click here</a>"),
    (
        "low-contrast",
        "<p>We bake",
        "<p style=\"color: #bbbbbb; background-color: #ffffff\">We bake",
    ),
    ("tiny-text", "<p>We bake", "<p style=\"font-size: 7px\">We bake"),
    ("frame-without-title", "<h2>Today</h2>", "<h2>Today</h2><iframe src=\"/frame\"></iframe>"),
    ("blocking-script", " defer></script>", "></script>"),
    ("mixed-content", "src=\"/img/hero.avif\"", "src=\"http://127.0.0.1:9/hero.avif\""),
    (
        "foreign-script",
        "</head>",
        "<script src=\"https://127.0.0.1:9/foreign.js\"></script></head>",
    ),
    ("no-paste", "autocomplete=\"email\"", "autocomplete=\"email\" onpaste=\"return false\""),
    (
        "refresh",
        "<link rel=\"canonical\"",
        "<meta http-equiv=\"refresh\" content=\"30\"><link rel=\"canonical\"",
    ),
    ("no-main", "<main id=\"content\">", "<div id=\"content\">"),
];

/// The clean page, or the page of that defect.
pub(super) fn page(defect: Option<&str>) -> Option<String> {
    const CLEAN: &str = include_str!("assets/clean.html");
    let Some(defect) = defect else { return Some(CLEAN.to_owned()) };
    let (_, from, to) = DEFECTS.iter().find(|(name, _, _)| *name == defect)?;
    Some(CLEAN.replacen(from, to, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defect_changes_the_clean_page() {
        let clean = page(None).unwrap();
        for (name, from, _) in DEFECTS {
            assert_eq!(clean.matches(from).count(), 1, "{name}");
            assert_ne!(page(Some(name)).unwrap(), clean, "{name}");
        }
        assert_eq!(page(Some("unknown")), None);
    }
}
