//! What links say and where they lead.

use super::rule;
use crate::dom::Element;
use crate::finding::Rule;
use crate::page::Page;
use crate::text::starts_with_ignoring_case;
use crate::verdict::Finding;

const TEXTS: Rule = rule(
    "search_link_text",
    "link_text",
    1.0,
    [
        "Links say where they lead",
        "Links do not say where they lead",
        "Search engines and people who only hear the links learn nothing from \"click here\".",
        "Let the link's text name what is behind it: \"our prices\" instead of \"more\".",
    ],
);

const CRAWLABLE: Rule = rule(
    "search_crawlable_anchors",
    "crawlable_anchors",
    1.0,
    [
        "Links can be followed",
        "Some links cannot be followed",
        "Search engines follow addresses, not scripts.",
        "Give the link a real address in href; make what does something on the page a <button>.",
    ],
);

/// Texts that say nothing, in the languages that Lighthouse knows them in.
const EMPTY_TEXTS: [&str; 66] = [
    "click here",
    "click this",
    "go",
    "here",
    "information",
    "learn more",
    "more",
    "more info",
    "more information",
    "right here",
    "read more",
    "see more",
    "start",
    "this",
    "ここをクリック",
    "こちらをクリック",
    "リンク",
    "続きを読む",
    "続く",
    "全文表示",
    "click aquí",
    "click aqui",
    "clicka aquí",
    "clicka aqui",
    "pincha aquí",
    "pincha aqui",
    "aquí",
    "aqui",
    "más",
    "mas",
    "más información",
    "más informacion",
    "mas información",
    "mas informacion",
    "este",
    "enlace",
    "este enlace",
    "empezar",
    "clique aqui",
    "inicio",
    "início",
    "ir",
    "mais informação",
    "mais informações",
    "mais",
    "veja mais",
    "saiba mais",
    "여기",
    "여기를 클릭",
    "클릭",
    "링크",
    "자세히",
    "자세히 보기",
    "계속",
    "이동",
    "전체 보기",
    "här",
    "klicka här",
    "läs mer",
    "mer",
    "mer info",
    "mer information",
    "klicke hier",
    "hier klicken",
    "mehr",
    "mehr erfahren",
];

fn leads_away(page: &Page<'_>, link: Element<'_>) -> bool {
    let Some(href) = link.filled("href") else { return false };
    let is_code = ["javascript:", "mailto:", "tel:", "#"]
        .iter()
        .any(|it| starts_with_ignoring_case(href, it));
    let same = |url: url::Url| {
        let bare = |mut url: url::Url| {
            url.set_fragment(None);
            url
        };
        bare(url) == bare(page.url.clone())
    };
    !is_code && !page.resolve(href).is_some_and(same)
}

pub(super) fn texts(page: &Page<'_>) -> Finding {
    let links: Vec<_> = page.dom.named("a").filter(|it| leads_away(page, *it)).collect();
    let says_nothing = |link: &Element<'_>| {
        let text = link.words().to_lowercase();
        EMPTY_TEXTS.contains(&text.trim_end_matches(['.', '…', '!', '»', '→', ' ']))
    };
    let empty: Vec<_> = links
        .iter()
        .copied()
        .filter(|it| !it.has_word("rel", "nofollow") && says_nothing(it))
        .collect();
    TEXTS.without(links.len(), &empty)
}

pub(super) fn crawlable(page: &Page<'_>) -> Finding {
    let links: Vec<_> = page.dom.named("a").collect();
    let cannot = |link: &Element<'_>| {
        let is_target = link.filled("id").is_some() || link.filled("name").is_some();
        match link.attr("href").map(str::trim) {
            None => !is_target && !link.attr_is("role", "button") && link.attr("onclick").is_some(),
            Some("") => !is_target,
            Some(href) => {
                starts_with_ignoring_case(href, "javascript:")
                    || starts_with_ignoring_case(href, "file:")
                    || page.resolve(href).is_none()
            }
        }
    };
    let lost: Vec<_> = links.iter().copied().filter(cannot).collect();
    CRAWLABLE.without(links.len(), &lost)
}
