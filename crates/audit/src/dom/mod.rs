//! The page as a tree, with the line each element began on.
//!
//! The parser is the one that browsers' rules are written into; what is ours is the tree and its
//! limits. A page that goes beyond them is judged by its beginning.

mod element;
mod sink;

use std::collections::HashSet;

use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{ParseOpts, parse_document};

pub(crate) use element::Element;
use sink::Sink;

pub(crate) const SOURCE_BYTES_MAX: usize = 2 * 1024 * 1024;
pub(crate) const NODES_MAX: usize = 200_000;
/// The parser looks through all open elements for some tags, so depth costs its square.
pub(crate) const DEPTH_MAX: u32 = 1_000;
/// How much is parsed between two looks at the limits.
const CHUNK_BYTES: usize = 8 * 1024;

type Id = u32;

#[derive(Debug)]
struct Node {
    parent: Option<Id>,
    children: Vec<Id>,
    line: u32,
    depth: u32,
    data: Data,
}

#[derive(Debug)]
enum Data {
    Document,
    Element { name: html5ever::QualName, attributes: Vec<(String, String)>, template: Option<Id> },
    Text(String),
    Other,
}

#[derive(Debug)]
pub(crate) struct Dom {
    nodes: Vec<Node>,
    /// Elements in the order of the page. What is in templates is not part of the page.
    order: Vec<Id>,
    /// None without one; the name and whether it leads to quirks otherwise.
    pub(crate) doctype: Option<String>,
    pub(crate) is_quirky: bool,
    /// Only the beginning was read.
    pub(crate) is_cut: bool,
}

impl Dom {
    pub(crate) fn parse(source: &str) -> Self {
        let mut rest = source;
        let mut silence = Silence::default();
        let mut parser = parse_document(Sink::default(), ParseOpts::default());
        while !rest.is_empty() {
            let at = (CHUNK_BYTES.min(rest.len())..rest.len())
                .find(|at| rest.is_char_boundary(*at))
                .unwrap_or(rest.len());
            let (chunk, more) = rest.split_at(at);
            parser.process(StrTendril::from_slice(chunk));
            rest = more;
            let sink = &parser.tokenizer.sink.sink;
            let is_long = source.len() - rest.len() >= SOURCE_BYTES_MAX;
            if is_long || sink.is_full() || silence.is_hostile(sink.steps(), chunk) {
                break;
            }
        }
        let mut dom = parser.finish();
        dom.is_cut = !rest.is_empty();
        dom.order = dom.in_order();
        dom
    }

    /// Every element, in the order of the page.
    pub(crate) fn elements(&self) -> impl Iterator<Item = Element<'_>> {
        self.order.iter().map(|id| Element { dom: self, id: *id })
    }

    /// The HTML elements of a name. `title` of an SVG picture is not one of them.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Element<'a>> {
        self.elements().filter(move |it| it.is(name))
    }

    pub(crate) fn first(&self, name: &str) -> Option<Element<'_>> {
        self.elements().find(|it| it.is(name))
    }

    /// The elements of which `is_so` holds, and everything in them. One walk, however deep the page is.
    pub(crate) fn within(&self, is_so: impl Fn(Element<'_>) -> bool) -> Within {
        let mut found = HashSet::new();
        for element in self.elements() {
            let is_inside = element.parent().is_some_and(|it| found.contains(&it.id));
            if is_inside || is_so(element) {
                found.insert(element.id);
            }
        }
        Within(found)
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn depth(&self) -> u32 {
        self.order.iter().filter_map(|id| Some(self.node(*id)?.depth)).max().unwrap_or(0)
    }

    fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(usize::try_from(id).ok()?)
    }

    /// Without recursion: the tree may be deeper than the stack.
    fn in_order(&self) -> Vec<Id> {
        let mut order = Vec::new();
        let mut open = vec![0];
        while let Some(id) = open.pop() {
            let Some(node) = self.node(id) else { continue };
            if matches!(node.data, Data::Element { .. }) {
                order.push(id);
            }
            open.extend(node.children.iter().rev());
        }
        order
    }
}

/// What [`Dom::within`] found.
pub(crate) struct Within(HashSet<Id>);

impl Within {
    pub(crate) fn has(&self, element: Element<'_>) -> bool {
        self.0.contains(&element.id)
    }
}

/// The parser compares every attribute's name with all that came before it in its tag, so a tag without
/// end costs the square of its length. Nothing is heard of the parser while it reads a tag or a comment;
/// this counts what could be attributes meanwhile.
#[derive(Default)]
struct Silence {
    steps: u64,
    bytes: usize,
    separators: usize,
    separators_total: usize,
}

impl Silence {
    const SEPARATORS_MAX: usize = 16 * 1024;
    const SEPARATORS_TOTAL_MAX: usize = 64 * 1024;
    /// A picture within an attribute has a slash in every sixty-fourth place.
    const BYTES_PER_SEPARATOR_MAX: usize = 32;

    fn is_hostile(&mut self, steps: u64, chunk: &str) -> bool {
        if steps != self.steps {
            *self =
                Silence { steps, separators_total: self.separators_total, ..Silence::default() };
            return false;
        }
        let is_separator = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'=' | b'/');
        let separators = chunk.as_bytes().iter().filter(|byte| is_separator(byte)).count();
        self.bytes += chunk.len();
        self.separators += separators;
        if self.separators * Self::BYTES_PER_SEPARATOR_MAX < self.bytes {
            return false;
        }
        self.separators_total += separators;
        self.separators > Self::SEPARATORS_MAX || self.separators_total > Self::SEPARATORS_TOTAL_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_know_their_line_and_text() {
        let dom = Dom::parse(
            "<!doctype html>\n<title>One</title>\n<p>a <b>b</b>\n<script>c</script></p>",
        );
        let title = dom.first("title").unwrap();
        assert_eq!((title.line(), title.text().as_str()), (2, "One"));
        let p = dom.first("p").unwrap();
        assert_eq!((p.line(), p.text().trim()), (3, "a b"));
        assert_eq!(p.start_tag(), "<p>");
    }

    #[test]
    fn what_is_too_deep_too_wide_or_too_long_is_cut() {
        let attributes = |end: char| -> String {
            (0..300_000)
                .flat_map(|n| {
                    ['a'].into_iter().chain(n.to_string().chars().collect::<Vec<_>>()).chain([end])
                })
                .collect()
        };
        for source in [
            "<div>".repeat(400_000),
            format!("<a {}>", attributes(' ')),
            format!("<svg><style><a {}>", attributes('/')),
            "<b><i>".repeat(300_000),
            "<p>x".repeat(300_000),
            "x".repeat(3 * SOURCE_BYTES_MAX),
        ] {
            let dom = Dom::parse(&source);
            assert!(dom.is_cut, "{}", &source[..20]);
            assert!(dom.nodes.len() < NODES_MAX + CHUNK_BYTES, "{}", &source[..20]);
        }
    }

    #[test]
    fn what_is_within_is_found_in_one_walk() {
        let dom = Dom::parse("<p hidden>a<b>b</b></p><i>c<svg><title>d</title></svg></i><u> </u>");
        let hidden = dom.within(|it| it.attr("hidden").is_some());
        let names = dom.elements().filter(|it| hidden.has(*it)).map(Element::name);
        assert_eq!(names.collect::<Vec<_>>(), ["p", "b"]);
        assert!(dom.first("i").unwrap().has_text() && !dom.first("u").unwrap().has_text());
    }

    #[test]
    fn templates_are_not_part_of_the_page() {
        let dom = Dom::parse("<template><h1>no</h1></template><h1>yes</h1>");
        assert_eq!(dom.named("h1").map(Element::text).collect::<Vec<_>>(), ["yes"]);
    }
}
