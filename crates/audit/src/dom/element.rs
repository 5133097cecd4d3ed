//! Looking at an element.

use html5ever::ns;

use super::{Data, Dom, Id, Node};
use crate::text::{ellipsis, squeezed};

/// More of an element's text is not looked at.
const TEXT_BYTES_MAX: usize = 64 * 1024;
const START_TAG_CHARS_MAX: usize = 160;
const ATTRIBUTE_CHARS_MAX: usize = 80;

#[derive(Clone, Copy)]
pub(crate) struct Element<'a> {
    pub(super) dom: &'a Dom,
    pub(super) id: Id,
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<'a> Element<'a> {
    fn node(self) -> Option<&'a Node> {
        self.dom.node(self.id)
    }

    pub(crate) fn name(self) -> &'a str {
        match self.node().map(|node| &node.data) {
            Some(Data::Element { name, .. }) => &name.local,
            _ => "",
        }
    }

    /// An HTML element of this name, which is in lower case.
    pub(crate) fn is(self, wanted: &str) -> bool {
        match self.node().map(|node| &node.data) {
            Some(Data::Element { name, .. }) => name.ns == ns!(html) && &*name.local == wanted,
            _ => false,
        }
    }

    pub(crate) fn is_one_of(self, names: &[&str]) -> bool {
        names.iter().any(|name| self.is(name))
    }

    pub(crate) fn is_svg(self) -> bool {
        match self.node().map(|node| &node.data) {
            Some(Data::Element { name, .. }) => name.ns == ns!(svg) && &*name.local == "svg",
            _ => false,
        }
    }

    pub(crate) fn attributes(self) -> &'a [(String, String)] {
        match self.node().map(|node| &node.data) {
            Some(Data::Element { attributes, .. }) => attributes,
            _ => &[],
        }
    }

    pub(crate) fn attr(self, name: &str) -> Option<&'a str> {
        self.attributes().iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The attribute without the space around it, if anything is left.
    pub(crate) fn filled(self, name: &str) -> Option<&'a str> {
        self.attr(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// Whether the attribute has this value, whatever its case.
    pub(crate) fn attr_is(self, name: &str, value: &str) -> bool {
        self.attr(name).is_some_and(|known| known.trim().eq_ignore_ascii_case(value))
    }

    /// Whether one of the attribute's words is this one, whatever its case.
    pub(crate) fn has_word(self, name: &str, word: &str) -> bool {
        self.attr(name)
            .is_some_and(|it| it.split_ascii_whitespace().any(|it| it.eq_ignore_ascii_case(word)))
    }

    pub(crate) fn line(self) -> u32 {
        self.node().map_or(1, |node| node.line)
    }

    pub(crate) fn parent(self) -> Option<Element<'a>> {
        let parent = self.node()?.parent?;
        matches!(self.dom.node(parent)?.data, Data::Element { .. })
            .then_some(Element { dom: self.dom, id: parent })
    }

    /// From the parent to the root.
    pub(crate) fn ancestors(self) -> impl Iterator<Item = Element<'a>> {
        std::iter::successors(self.parent(), |it| it.parent())
    }

    pub(crate) fn children(self) -> impl Iterator<Item = Element<'a>> {
        let children = self.node().map_or(&[][..], |node| &node.children);
        children.iter().filter_map(move |id| {
            let is_element = matches!(self.dom.node(*id)?.data, Data::Element { .. });
            is_element.then_some(Element { dom: self.dom, id: *id })
        })
    }

    /// Everything below it, in the order of the page.
    pub(crate) fn descendants(self) -> impl Iterator<Item = Element<'a>> {
        let mut open: Vec<Id> = self.children_reversed();
        std::iter::from_fn(move || {
            let element = Element { dom: self.dom, id: open.pop()? };
            open.extend(element.children_reversed());
            Some(element)
        })
    }

    fn children_reversed(self) -> Vec<Id> {
        let mut children: Vec<Id> = self.children().map(|it| it.id).collect();
        children.reverse();
        children
    }

    /// What a reader sees of it: without scripts, styles and what SVG pictures say of themselves.
    pub(crate) fn text(self) -> String {
        self.gather(is_unseen)
    }

    /// Whether a reader sees any text in it. Cheaper than gathering it.
    pub(crate) fn has_text(self) -> bool {
        let mut open = vec![self.id];
        while let Some(id) = open.pop() {
            let Some(node) = self.dom.node(id) else { continue };
            match &node.data {
                Data::Text(text) if !text.trim().is_empty() => return true,
                Data::Element { name, .. } if id == self.id || !is_unseen(&name.local) => {
                    open.extend(node.children.iter().rev());
                }
                _ => {}
            }
        }
        false
    }

    /// Everything that is text in it: the source of a script or a style.
    pub(crate) fn raw_text(self) -> String {
        self.gather(|_| false)
    }

    /// [`Element::text`] with runs of space made one.
    pub(crate) fn words(self) -> String {
        squeezed(&self.text())
    }

    fn gather(self, leaves_out: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        let mut open = vec![self.id];
        while let Some(id) = open.pop() {
            let Some(node) = self.dom.node(id) else { continue };
            match &node.data {
                Data::Text(more) => text.push_str(more),
                Data::Element { name, .. } if id == self.id || !leaves_out(&name.local) => {
                    open.extend(node.children.iter().rev());
                }
                _ => {}
            }
            if text.len() > TEXT_BYTES_MAX {
                break;
            }
        }
        text
    }

    /// Its start tag for people, bounded.
    pub(crate) fn start_tag(self) -> String {
        let mut tag = format!("<{}", self.name());
        for (name, value) in self.attributes() {
            if tag.len() > 2 * START_TAG_CHARS_MAX {
                break;
            }
            tag.push(' ');
            tag.push_str(&ellipsis(name, ATTRIBUTE_CHARS_MAX));
            if !value.is_empty() {
                tag.push_str("=\"");
                tag.push_str(&ellipsis(&squeezed(value), ATTRIBUTE_CHARS_MAX));
                tag.push('"');
            }
        }
        tag.push('>');
        ellipsis(&tag, START_TAG_CHARS_MAX)
    }
}

/// What is in these is not read by people.
fn is_unseen(name: &str) -> bool {
    matches!(name, "script" | "style" | "noscript" | "svg")
}
