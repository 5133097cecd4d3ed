//! What a page refers to: found in one pass over its source, without building a tree.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use roundsman_core::audits::observed::{Placement, ResourceKind};
use url::Url;

use super::sheets::{Letters, SheetLink, is_for_screens, links};

/// Of a page with more, these are the first.
const REFERENCES_MAX: usize = 5000;

/// Something a browser would ask for because of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) url: Url,
    pub(super) kind: ResourceKind,
    pub(super) placement: Placement,
}

/// Every reference once, in the page's order.
pub(super) fn references(source: &str, page: &Url, letters: &Letters) -> Vec<Reference> {
    let finder = Finder {
        base: RefCell::new(page.clone()),
        has_base: Cell::new(false),
        is_in_head: Cell::new(true),
        silent: RefCell::default(),
        is_in_picture: Cell::new(false),
        better: RefCell::default(),
        style: RefCell::default(),
        letters,
        found: RefCell::default(),
        known: RefCell::default(),
    };
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(source));
    let tokenizer = Tokenizer::new(finder, TokenizerOpts::default());
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();
    tokenizer.sink.found.take()
}

/// What a stylesheet at this place refers to. One that is not for screens needs no fonts here.
pub(super) fn of_sheet(
    text: &str,
    sheet: &Url,
    at: Placement,
    letters: &Letters,
) -> Vec<Reference> {
    let is_for_others = at.in_head && !at.is_blocking;
    let reference = |found: SheetLink| {
        let (link, kind, is_blocking) = match found {
            SheetLink::Import { link, is_for_screens } => {
                (link, ResourceKind::Stylesheet, at.is_blocking && is_for_screens)
            }
            SheetLink::Font { link, ranges } => {
                if is_for_others || !letters.are_in(&ranges) {
                    return None;
                }
                (link, ResourceKind::Font, false)
            }
        };
        let mut url = sheet.join(link.trim()).ok()?;
        if !matches!(url.scheme(), "http" | "https") {
            return None;
        }
        url.set_fragment(None);
        Some(Reference { url, kind, placement: Placement { is_blocking, ..at } })
    };
    links(text).into_iter().filter_map(reference).collect()
}

struct Finder<'l> {
    base: RefCell<Url>,
    has_base: Cell<bool>,
    is_in_head: Cell<bool>,
    /// Within an element whose content is not there for a browser that runs scripts.
    silent: RefCell<Option<String>>,
    is_in_picture: Cell<bool>,
    /// What a browser takes in place of the picture's image.
    better: RefCell<Option<String>>,
    /// The stylesheet that is being read within the page.
    style: RefCell<Option<(String, Placement)>>,
    letters: &'l Letters,
    found: RefCell<Vec<Reference>>,
    known: RefCell<HashMap<String, usize>>,
}

impl TokenSink for Finder<'_> {
    type Handle = ();

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<()> {
        let tag = match token {
            Token::TagToken(tag) => tag,
            Token::CharacterTokens(text) => {
                if let Some((style, _)) = &mut *self.style.borrow_mut() {
                    style.push_str(&text);
                }
                return TokenSinkResult::Continue;
            }
            _ => return TokenSinkResult::Continue,
        };
        let name = tag.name.to_string();
        match tag.kind {
            TagKind::EndTag => {
                self.end(&name);
                TokenSinkResult::Continue
            }
            TagKind::StartTag => {
                self.start(&name, &tag, u32::try_from(line).unwrap_or(u32::MAX));
                raw_text(&name)
            }
        }
    }
}

/// What is in these elements is text, whatever it looks like.
fn raw_text(name: &str) -> TokenSinkResult<()> {
    match name {
        "script" => TokenSinkResult::RawData(RawKind::ScriptData),
        "style" | "xmp" | "noembed" | "noframes" => TokenSinkResult::RawData(RawKind::Rawtext),
        "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
        "plaintext" => TokenSinkResult::Plaintext,
        _ => TokenSinkResult::Continue,
    }
}

impl Finder<'_> {
    fn end(&self, name: &str) {
        let style = self.style.borrow_mut().take();
        if let Some((text, at)) = style {
            let base = self.base.borrow().clone();
            for reference in of_sheet(&text, &base, at, self.letters) {
                self.add_url(reference);
            }
        }
        let mut silent = self.silent.borrow_mut();
        if silent.as_deref() == Some(name) {
            *silent = None;
        }
        match name {
            "head" => self.is_in_head.set(false),
            "picture" => self.picture(false),
            _ => {}
        }
    }

    fn start(&self, name: &str, tag: &Tag, line: u32) {
        let of_head = ["html", "head", "title", "base", "link", "meta", "style", "script"];
        if !of_head.contains(&name) && !["noscript", "template"].contains(&name) {
            self.is_in_head.set(false);
        }
        if self.silent.borrow().is_some() {
            return;
        }
        let at = Placement { line, in_head: self.is_in_head.get(), is_blocking: false };
        match name {
            "noscript" | "template" => *self.silent.borrow_mut() = Some(name.to_owned()),
            "base" => self.set_base(tag),
            "link" => self.link(tag, at),
            "script" => self.script(tag, at),
            "style" => {
                let is_blocking = at.in_head && media_is_for_screens(tag);
                *self.style.borrow_mut() = Some((String::new(), Placement { is_blocking, ..at }));
            }
            "picture" => self.picture(true),
            "img" => self.image(tag, at),
            "source" => self.source(tag, at),
            "iframe" | "frame" => self.add(attribute(tag, "src"), ResourceKind::Frame, at),
            "object" => self.add(attribute(tag, "data"), ResourceKind::Media, at),
            "audio" | "embed" | "track" => self.add(attribute(tag, "src"), ResourceKind::Media, at),
            "video" => {
                self.add(attribute(tag, "poster"), ResourceKind::Image, at);
                self.add(attribute(tag, "src"), ResourceKind::Media, at);
            }
            "input" if is(tag, "type", "image") => {
                self.add(attribute(tag, "src"), ResourceKind::Image, at);
            }
            // Within an SVG picture that is part of the page.
            "image" => {
                let link = attribute(tag, "href").or_else(|| attribute(tag, "xlink:href"));
                self.add(link, ResourceKind::Image, at);
            }
            _ => {}
        }
    }

    fn picture(&self, begins: bool) {
        self.is_in_picture.set(begins);
        *self.better.borrow_mut() = None;
    }

    /// The first one counts.
    fn set_base(&self, tag: &Tag) {
        let Some(link) = attribute(tag, "href").filter(|_| !self.has_base.get()) else { return };
        self.has_base.set(true);
        let joined = self.base.borrow().join(link.trim());
        if let Ok(base) = joined
            && matches!(base.scheme(), "http" | "https")
        {
            *self.base.borrow_mut() = base;
        }
    }

    fn link(&self, tag: &Tag, at: Placement) {
        let rel = attribute(tag, "rel").unwrap_or_default().to_ascii_lowercase();
        let words: Vec<&str> = rel.split_ascii_whitespace().collect();
        let has = |word: &str| words.contains(&word);
        let link = attribute(tag, "href");
        if has("stylesheet") {
            if has("alternate") || attribute(tag, "disabled").is_some() {
                return;
            }
            let is_blocking = at.in_head && media_is_for_screens(tag);
            self.add(link, ResourceKind::Stylesheet, Placement { is_blocking, ..at });
        } else if has("preload") || has("modulepreload") {
            let kind = match attribute(tag, "as").as_deref() {
                Some("font") => ResourceKind::Font,
                Some("image") => ResourceKind::Image,
                _ => ResourceKind::Preload,
            };
            self.add(link, kind, at);
        } else if has("icon") || has("apple-touch-icon") {
            self.add(link, ResourceKind::Icon, at);
        } else if has("manifest") {
            self.add(link, ResourceKind::Manifest, at);
        }
    }

    fn script(&self, tag: &Tag, at: Placement) {
        let kind = attribute(tag, "type").unwrap_or_default().trim().to_ascii_lowercase();
        let is_module = kind == "module";
        let is_script = is_module || kind.is_empty() || kind.contains("javascript");
        if !is_script || attribute(tag, "nomodule").is_some() {
            return;
        }
        let waits =
            ["async", "defer"].iter().any(|name| attribute(tag, name).is_some()) || is_module;
        let is_blocking = at.in_head && !waits;
        self.add(attribute(tag, "src"), ResourceKind::Script, Placement { is_blocking, ..at });
    }

    fn image(&self, tag: &Tag, at: Placement) {
        let better = self.better.borrow().clone();
        let first = || attribute(tag, "srcset").and_then(|set| first_candidate(&set));
        let link = better.or_else(|| attribute(tag, "src")).or_else(first);
        self.add(link, ResourceKind::Image, at);
    }

    fn source(&self, tag: &Tag, at: Placement) {
        if !self.is_in_picture.get() {
            return self.add(attribute(tag, "src"), ResourceKind::Media, at);
        }
        let mut taken = self.better.borrow_mut();
        // Which of several a size of the window would choose is not known.
        let is_for_all = attribute(tag, "media").is_none();
        if taken.is_none() && is_for_all && is_known_image(tag) {
            *taken = attribute(tag, "srcset").and_then(|set| first_candidate(&set));
        }
    }

    /// What is named again is the same thing, known a little better.
    fn add(&self, link: Option<String>, kind: ResourceKind, placement: Placement) {
        let Some(link) = link.filter(|link| !link.trim().is_empty()) else { return };
        let Ok(mut url) = self.base.borrow().join(link.trim()) else { return };
        if !matches!(url.scheme(), "http" | "https") {
            return;
        }
        url.set_fragment(None);
        self.add_url(Reference { url, kind, placement });
    }

    fn add_url(&self, Reference { url, kind, placement }: Reference) {
        let (mut found, mut known) = (self.found.borrow_mut(), self.known.borrow_mut());
        if let Some(earlier) = known.get(url.as_str()).and_then(|at| found.get_mut(*at)) {
            if earlier.kind == ResourceKind::Preload {
                earlier.kind = kind;
            }
            earlier.placement.is_blocking |= placement.is_blocking;
        } else if found.len() < REFERENCES_MAX {
            known.insert(url.as_str().to_owned(), found.len());
            found.push(Reference { url, kind, placement });
        }
    }
}

fn attribute(tag: &Tag, name: &str) -> Option<String> {
    tag.attrs.iter().find(|known| &*known.name.local == name).map(|known| known.value.to_string())
}

fn is(tag: &Tag, name: &str, value: &str) -> bool {
    attribute(tag, name).is_some_and(|known| known.trim().eq_ignore_ascii_case(value))
}

fn media_is_for_screens(tag: &Tag) -> bool {
    is_for_screens(&attribute(tag, "media").unwrap_or_default())
}

fn is_known_image(tag: &Tag) -> bool {
    let kind = attribute(tag, "type").map(|kind| kind.trim().to_ascii_lowercase());
    let known = ["avif", "webp", "png", "jpeg", "gif", "svg+xml"];
    kind.is_none_or(|kind| {
        kind.strip_prefix("image/").is_some_and(|format| known.contains(&format))
    })
}

fn first_candidate(set: &str) -> Option<String> {
    let first = set.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
    let link = first.split_ascii_whitespace().next()?.trim_end_matches(',');
    (!link.is_empty()).then(|| link.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each reference as `line kind path`, with `!` if it blocks and `^` if it is in the head.
    fn found(source: &str) -> Vec<String> {
        let page = Url::parse("https://a.example/dir/page").unwrap();
        let shown = |reference: Reference| {
            let Placement { line, in_head, is_blocking } = reference.placement;
            let marks =
                format!("{}{}", if in_head { "^" } else { "" }, if is_blocking { "!" } else { "" });
            format!("{line}{marks} {:?} {}", reference.kind, reference.url)
        };
        references(source, &page, &Letters::of(source)).into_iter().map(shown).collect()
    }

    #[test]
    fn the_head_blocks_and_the_body_does_not() {
        let source = "<!doctype html>\n<html><head><title><link rel=icon href=no></title>\n\
            <link rel=stylesheet href=a.css>\n<link rel=stylesheet media=print href=b.css>\n\
            <link rel='alternate stylesheet' href=c.css><script src=/a.js></script>\n\
            <script async src=b.js></script><script type=module src=c.js></script>\n\
            <script type='text/template' src=no.js></script><script nomodule src=no.js></script>\n\
            <link rel='shortcut icon' href=i.ico><link rel=manifest href=m.json>\n\
            <link rel=preload as=font href=f.woff2><link rel=preload as=script href=p.js>\n\
            </head><body><script src=d.js></script><link rel=stylesheet href=d.css>";
        assert_eq!(
            found(source),
            [
                "3^! Stylesheet https://a.example/dir/a.css",
                "4^ Stylesheet https://a.example/dir/b.css",
                "5^! Script https://a.example/a.js",
                "6^ Script https://a.example/dir/b.js",
                "6^ Script https://a.example/dir/c.js",
                "8^ Icon https://a.example/dir/i.ico",
                "8^ Manifest https://a.example/dir/m.json",
                "9^ Font https://a.example/dir/f.woff2",
                "9^ Preload https://a.example/dir/p.js",
                "10 Script https://a.example/dir/d.js",
                "10 Stylesheet https://a.example/dir/d.css",
            ]
        );
    }

    #[test]
    fn pictures_media_and_frames_are_taken_as_a_browser_takes_them() {
        let source = "<base href=/b/><base href=/no/><p><img src=1.png><img srcset='2.png 1x, 3.png 2x'>\n\
            <picture><source media='(min-width: 1px)' srcset=no.png><source type=image/jxl srcset=no.jxl>\
            <source type=image/webp srcset='4.webp 2x'><img src=no.png></picture><img src=5.png>\n\
            <video poster=6.png src=7.mp4></video><audio><source src=8.ogg></audio>\n\
            <iframe src=//b.example/9></iframe><object data=10.svg></object>\n\
            <noscript><img src=no.png></noscript><template><img src=no.png></template>\n\
            <img src='data:image/png;base64,x'><img src=''><img src='mailto:a'><a href=no>x</a>\n\
            <script>'<img src=no.png>'</script><textarea><img src=no.png></textarea>\n\
            <img src='1.png#again'><svg><image href=11.png /></svg><input type=IMAGE src=12.png>";
        let paths: Vec<String> = found(source)
            .iter()
            .map(|line| line.split_once("Url").map_or(line.clone(), |(l, _)| l.to_owned()))
            .collect();
        let expected = [
            "1 Image https://a.example/b/1.png",
            "1 Image https://a.example/b/2.png",
            "2 Image https://a.example/b/4.webp",
            "2 Image https://a.example/b/5.png",
            "3 Image https://a.example/b/6.png",
            "3 Media https://a.example/b/7.mp4",
            "3 Media https://a.example/b/8.ogg",
            "4 Frame https://b.example/9",
            "4 Media https://a.example/b/10.svg",
            "8 Image https://a.example/b/11.png",
            "8 Image https://a.example/b/12.png",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn the_pages_own_styles_are_read_too() {
        let source = "<head><style>@import 'a.css';@import 'p.css' print;\n\
            @font-face{src:url(f.woff2)}@font-face{src:url(no.woff2);unicode-range:U+400-4FF}</style>\n\
            <style media=print>@import '/b.css';@font-face{src:url(no.woff2)}</style>\n\
            <script>'<style>@import \"no.css\";</style>'</script></head><body>\n\
            <style>@font-face{src:url(f.woff2)}@font-face{src:url(data:x)}</style>\n\
            <style>@font-face{src:url(g.woff2#x)";
        assert_eq!(
            found(source),
            [
                "1^! Stylesheet https://a.example/dir/a.css",
                "1^ Stylesheet https://a.example/dir/p.css",
                "1^ Font https://a.example/dir/f.woff2",
                "3^ Stylesheet https://a.example/b.css",
            ],
            "a style that does not end is none"
        );
    }

    #[test]
    fn what_is_named_twice_is_one_and_odd_pages_do_no_harm() {
        let twice = "<link rel=preload href=a.js><script src=a.js></script>";
        assert_eq!(found(twice), ["1^! Script https://a.example/dir/a.js"]);
        for odd in
            ["", "<", "<img", "<img src=", "<!--<img src=a>", "\0<img src=\0>", "<base href=:>"]
        {
            let _ = found(odd);
        }
        let deep = "<div>".repeat(200_000) + "<img src=deep.png>";
        assert_eq!(found(&deep).len(), 1);
        let many: Vec<String> = (0..6000).map(|n| format!("<img src={n}.png>")).collect();
        assert_eq!(found(&many.concat()).len(), REFERENCES_MAX);
    }
}
