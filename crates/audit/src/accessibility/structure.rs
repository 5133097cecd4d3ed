//! Whether one finds one's way through the page without seeing it.

use std::collections::HashMap;

use super::{CRITICAL, MODERATE, SERIOUS, rule};
use crate::dom::Element;
use crate::finding::Rule;
use crate::mobile::forbids_zoom;
use crate::page::Page;
use crate::search::is_language;
use crate::verdict::Finding;

/// Whoever is sent on after more than this long has time enough to read: axe's limit.
const REFRESH_SECS_MIN: u64 = 72_000;

const REFRESH: Rule = rule(
    "accessibility_meta_refresh",
    "meta_refresh",
    CRITICAL,
    [
        "The page stays until visitors leave it",
        "The page reloads or leaves by itself",
        "People who read slowly or with a screen reader are torn away in the middle of a sentence.",
        "Remove <meta http-equiv=\"refresh\">; redirect on the server instead.",
    ],
);
const ZOOM: Rule = rule(
    "accessibility_meta_viewport",
    "zoom",
    CRITICAL,
    [
        "Visitors may zoom",
        "Visitors may not zoom",
        "People who see less well need to enlarge what they read.",
        "Remove user-scalable=no and maximum-scale from the viewport.",
    ],
);
const DUPLICATE_IDS: Rule = rule(
    "accessibility_duplicate_id_aria",
    "duplicate_ids",
    CRITICAL,
    [
        "Ids that labels refer to are unique",
        "Ids that labels refer to are there several times",
        "A label that fits two fields names only the first.",
        "Give each element an id of its own.",
    ],
);
const CAPTIONS: Rule = rule(
    "accessibility_video_caption",
    "captions",
    CRITICAL,
    [
        "Videos have captions",
        "Videos have no captions",
        "Who cannot hear, or may not make noise, reads along.",
        "Add <track kind=\"captions\" src=\"…\"> to the video.",
    ],
);
const TITLE: Rule = rule(
    "accessibility_document_title",
    "title",
    SERIOUS,
    [
        "The page has a title",
        "The page has no title",
        "The title is the first thing that a screen reader says.",
        "Add a <title> that says what is on this page.",
    ],
);
const HAS_LANG: Rule = rule(
    "accessibility_html_has_lang",
    "lang",
    SERIOUS,
    [
        "The page says its language",
        "The page does not say its language",
        "Screen readers choose the voice by it, browsers offer to translate by it.",
        "Add lang=\"en\" (or the language it is) to <html>.",
    ],
);
const VALID_LANG: Rule = rule(
    "accessibility_html_lang_valid",
    "lang",
    SERIOUS,
    [
        "The page's language is a valid code",
        "The page's language is not a valid code",
        "A language that no screen reader knows is read in the wrong voice.",
        "Use a code such as en, de or pt-BR.",
    ],
);
const LISTS: Rule = rule(
    "accessibility_list",
    "list",
    SERIOUS,
    [
        "Lists hold only entries",
        "Lists hold something else than entries",
        "Screen readers say how many entries a list has, and count wrong.",
        "Put only <li> (and scripts and templates) directly into <ul> and <ol>.",
    ],
);
const LIST_ITEMS: Rule = rule(
    "accessibility_listitem",
    "listitem",
    SERIOUS,
    [
        "List entries are in lists",
        "List entries are outside of lists",
        "Outside of a list an entry is no entry to a screen reader.",
        "Put every <li> into a <ul>, <ol> or <menu>.",
    ],
);
const BYPASS: Rule = rule(
    "accessibility_bypass",
    "bypass",
    SERIOUS,
    [
        "One can jump to the content",
        "One cannot jump to the content",
        "Who uses the keyboard has to go through the whole menu on every page otherwise.",
        "Mark the content with <main>, use headings, or begin with a link to it.",
    ],
);
const TABINDEX: Rule = rule(
    "accessibility_tabindex",
    "tabindex",
    SERIOUS,
    [
        "The keyboard goes through the page in its order",
        "The keyboard jumps through the page",
        "A tabindex above zero comes before everything else, wherever it stands.",
        "Use tabindex=\"0\" or -1 only, and order the source as it is to be read.",
    ],
);
const HEADINGS: Rule = rule(
    "accessibility_heading_order",
    "heading_order",
    MODERATE,
    [
        "Headings do not skip a level",
        "Headings skip a level",
        "Headings are the table of contents that screen readers offer.",
        "After an <h2> comes an <h3>, not an <h4>; change the size by CSS.",
    ],
);
const MAIN: Rule = rule(
    "accessibility_landmark_one_main",
    "main",
    MODERATE,
    [
        "The main content is marked",
        "The main content is not marked",
        "Screen readers can jump to it by one key.",
        "Put the content into one <main>.",
    ],
);
const SKIP_LINK: Rule = rule(
    "accessibility_skip_link",
    "skip_link",
    MODERATE,
    [
        "Links to parts of the page lead somewhere",
        "The link to the content leads nowhere",
        "A skip link without its target does nothing.",
        "Give the content the id that the link names.",
    ],
);

pub(super) fn check(page: &Page<'_>) -> Vec<Finding> {
    let title = page.dom.first("title").map(Element::raw_text).unwrap_or_default();
    vec![
        refresh(page),
        zoom(page),
        duplicate_ids(page),
        captions(page),
        TITLE.passed_if(!title.trim().is_empty()),
        has_lang(page),
        valid_lang(page),
        lists(page),
        list_items(page),
        bypass(page),
        tabindex(page),
        headings(page),
        main(page),
        skip_link(page),
    ]
}

fn refresh(page: &Page<'_>) -> Finding {
    let all: Vec<_> =
        page.dom.named("meta").filter(|it| it.attr_is("http-equiv", "refresh")).collect();
    let leaves = |it: &Element<'_>| {
        let content = it.attr("content").unwrap_or_default().trim();
        let digits: String = content.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().is_ok_and(|secs| secs > 0 && secs < REFRESH_SECS_MIN)
    };
    let leaving: Vec<_> = all.iter().copied().filter(leaves).collect();
    REFRESH.without(all.len(), &leaving)
}

fn zoom(page: &Page<'_>) -> Finding {
    let all: Vec<_> = page.metas("viewport").collect();
    let forbidding: Vec<_> = all.iter().copied().filter(|it| forbids_zoom(*it)).collect();
    ZOOM.without(all.len(), &forbidding)
}

/// Only ids that something refers to: others may repeat without anybody noticing.
fn duplicate_ids(page: &Page<'_>) -> Finding {
    let mut referred: Vec<&str> = Vec::new();
    for element in page.dom.elements() {
        let names = ["aria-labelledby", "aria-describedby", "aria-controls", "aria-owns"];
        let ids = names.iter().filter_map(|name| element.attr(name));
        referred.extend(ids.flat_map(str::split_ascii_whitespace));
        referred.extend(element.filled("for").filter(|_| element.is("label")));
    }
    let mut by_id: HashMap<&str, Vec<Element<'_>>> = HashMap::new();
    for (id, element) in page.dom.elements().filter_map(|it| Some((it.filled("id")?, it))) {
        by_id.entry(id).or_default().push(element);
    }
    referred.sort_unstable();
    referred.dedup();
    let known: Vec<_> = referred.iter().filter_map(|id| by_id.get(id)).collect();
    let repeated: Vec<_> =
        known.iter().filter(|it| it.len() > 1).flat_map(|it| it.iter().copied()).collect();
    DUPLICATE_IDS.without(known.len(), &repeated)
}

fn captions(page: &Page<'_>) -> Finding {
    let is_silent = |it: &Element<'_>| it.attr("muted").is_some();
    let videos: Vec<_> = page.dom.named("video").filter(|it| !is_silent(it)).collect();
    let has_captions = |it: &Element<'_>| {
        it.descendants().any(|it| it.is("track") && it.attr_is("kind", "captions"))
    };
    let without: Vec<_> = videos.iter().copied().filter(|it| !has_captions(it)).collect();
    CAPTIONS.without(videos.len(), &without)
}

fn html_lang<'a>(page: &'a Page<'_>) -> Option<&'a str> {
    page.dom.first("html").and_then(|it| it.filled("lang"))
}

fn has_lang(page: &Page<'_>) -> Finding {
    let html = page.dom.first("html");
    HAS_LANG.passed_if(html_lang(page).is_some()).seen_at(html.as_slice())
}

fn valid_lang(page: &Page<'_>) -> Finding {
    let html = page.dom.first("html");
    match html_lang(page) {
        None => VALID_LANG.not_applicable(),
        Some(lang) => {
            VALID_LANG.passed_if(is_language(&lang.to_ascii_lowercase())).seen_at(html.as_slice())
        }
    }
}

fn lists(page: &Page<'_>) -> Finding {
    let lists: Vec<_> = page
        .dom
        .elements()
        .filter(|it| it.is_one_of(&["ul", "ol"]) && it.attr("role").is_none_or(|it| it == "list"))
        .collect();
    let holds_other = |it: &Element<'_>| {
        it.children().any(|it| !it.is_one_of(&["li", "script", "template", "style"]))
    };
    let other: Vec<_> = lists.iter().copied().filter(holds_other).collect();
    LISTS.without(lists.len(), &other)
}

fn list_items(page: &Page<'_>) -> Finding {
    let items: Vec<_> = page.dom.named("li").filter(|it| it.attr("role").is_none()).collect();
    let is_lost = |it: &Element<'_>| {
        !it.parent()
            .is_some_and(|it| it.is_one_of(&["ul", "ol", "menu"]) || it.attr_is("role", "list"))
    };
    let lost: Vec<_> = items.iter().copied().filter(is_lost).collect();
    LIST_ITEMS.without(items.len(), &lost)
}

fn is_main(element: &Element<'_>) -> bool {
    element.is("main") || element.attr_is("role", "main")
}

fn level(element: Element<'_>) -> Option<u32> {
    if element.attr_is("role", "heading") {
        return element.filled("aria-level")?.parse().ok();
    }
    let is_heading = element.is_one_of(&["h1", "h2", "h3", "h4", "h5", "h6"]);
    element.name().chars().nth(1).filter(|_| is_heading)?.to_digit(10)
}

fn bypass(page: &Page<'_>) -> Finding {
    let can_jump = page.dom.elements().any(|it| is_main(&it) || level(it).is_some())
        || skip_links(page).any(|(_, has_target)| has_target);
    BYPASS.passed_if(can_jump)
}

fn tabindex(page: &Page<'_>) -> Finding {
    let all: Vec<_> = page.dom.elements().filter(|it| it.attr("tabindex").is_some()).collect();
    let is_early = |it: &Element<'_>| {
        it.attr("tabindex").and_then(|it| it.trim().parse::<i64>().ok()).is_some_and(|it| it > 0)
    };
    let early: Vec<_> = all.iter().copied().filter(is_early).collect();
    TABINDEX.without(all.len(), &early)
}

fn headings(page: &Page<'_>) -> Finding {
    let all: Vec<_> = page.dom.elements().filter_map(|it| Some((it, level(it)?))).collect();
    let pairs = all.iter().zip(all.iter().skip(1));
    let skipping: Vec<_> = pairs
        .filter(|((_, before), (_, after))| *after > before + 1)
        .map(|(_, (it, _))| *it)
        .collect();
    HEADINGS.without(all.len(), &skipping)
}

fn main(page: &Page<'_>) -> Finding {
    let mains: Vec<_> = page.dom.elements().filter(is_main).collect();
    MAIN.passed_if(mains.len() == 1).seen_at(&mains)
}

/// Links at the beginning of the page to a place within it, and whether that place exists.
fn skip_links<'a>(page: &'a Page<'_>) -> impl Iterator<Item = (Element<'a>, bool)> {
    const LINKS_LOOKED_AT: usize = 3;
    let links = page.dom.named("a").take(LINKS_LOOKED_AT);
    links.filter_map(move |link| {
        let target = link.attr("href")?.trim().strip_prefix('#').filter(|it| !it.is_empty())?;
        let text = link.words().to_lowercase();
        let is_skip = ["skip", "jump to", "main content"].iter().any(|it| text.contains(it));
        let is_target =
            |it: Element<'_>| it.attr("id") == Some(target) || it.attr("name") == Some(target);
        is_skip.then(|| (link, page.dom.elements().any(is_target)))
    })
}

fn skip_link(page: &Page<'_>) -> Finding {
    let all: Vec<_> = skip_links(page).collect();
    let lost: Vec<_> =
        all.iter().filter(|(_, has_target)| !has_target).map(|(it, _)| *it).collect();
    SKIP_LINK.without(all.len(), &lost)
}
