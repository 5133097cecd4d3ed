//! Where the parser puts what it reads.

use std::borrow::Cow;
use std::cell::{Cell, Ref, RefCell};

use html5ever::tendril::StrTendril;
use html5ever::tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::{Attribute, QualName};

use super::{DEPTH_MAX, Data, Dom, Id, NODES_MAX, Node};

/// Handles are places in the list. The parser only uses handles that it was given, so a place that does
/// not exist is a defect of ours; it is passed over all the same.
pub(super) struct Sink {
    nodes: RefCell<Vec<Node>>,
    doctype: RefCell<Option<String>>,
    is_quirky: Cell<bool>,
    line: Cell<u32>,
    is_full: Cell<bool>,
    /// Grows whenever the parser does something with the tree.
    steps: Cell<u64>,
    /// What elements are called that do not exist.
    nothing: RefCell<QualName>,
}

impl Default for Sink {
    fn default() -> Self {
        let document =
            Node { parent: None, children: Vec::new(), line: 1, depth: 0, data: Data::Document };
        Sink {
            nodes: RefCell::new(vec![document]),
            doctype: RefCell::default(),
            is_quirky: Cell::default(),
            line: Cell::new(1),
            is_full: Cell::default(),
            steps: Cell::default(),
            nothing: RefCell::new(QualName::new(
                None,
                html5ever::ns!(html),
                html5ever::local_name!(""),
            )),
        }
    }
}

impl Sink {
    pub(super) fn is_full(&self) -> bool {
        self.is_full.get()
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }

    fn step(&self) {
        self.steps.set(self.steps.get().wrapping_add(1));
    }

    fn add(&self, data: Data) -> Id {
        let mut nodes = self.nodes.borrow_mut();
        let id = Id::try_from(nodes.len()).unwrap_or(Id::MAX);
        nodes.push(Node {
            parent: None,
            children: Vec::new(),
            line: self.line.get(),
            depth: 0,
            data,
        });
        if nodes.len() >= NODES_MAX {
            self.is_full.set(true);
        }
        id
    }

    fn with<T>(&self, id: Id, change: impl FnOnce(&mut Node) -> T) -> Option<T> {
        self.nodes.borrow_mut().get_mut(index(id)).map(change)
    }

    /// Puts a node under `parent`, at `place` among its children or at their end.
    fn put(&self, parent: Id, place: Option<usize>, child: NodeOrText<Id>) {
        self.step();
        let child = match child {
            NodeOrText::AppendNode(child) => child,
            NodeOrText::AppendText(text) => {
                if self.joins_text(parent, place, &text) {
                    return;
                }
                self.add(Data::Text(text.to_string()))
            }
        };
        let depth = self.with(parent, |node| node.depth).unwrap_or(0).saturating_add(1);
        if depth > DEPTH_MAX {
            self.is_full.set(true);
        }
        self.with(child, |node| {
            node.parent = Some(parent);
            node.depth = depth;
        });
        self.with(parent, |node| {
            let at = place.unwrap_or(node.children.len()).min(node.children.len());
            node.children.insert(at, child);
        });
    }

    /// Text after text is one text.
    fn joins_text(&self, parent: Id, place: Option<usize>, text: &str) -> bool {
        let before = self.with(parent, |node| {
            let at = place.unwrap_or(node.children.len());
            at.checked_sub(1).and_then(|at| node.children.get(at)).copied()
        });
        let Some(Some(before)) = before else { return false };
        let join = |node: &mut Node| match &mut node.data {
            Data::Text(known) => {
                known.push_str(text);
                true
            }
            _ => false,
        };
        self.with(before, join).unwrap_or(false)
    }

    fn take_out(&self, id: Id) {
        let parent = self.with(id, |node| node.parent.take()).flatten();
        if let Some(parent) = parent {
            self.with(parent, |node| node.children.retain(|child| *child != id));
        }
    }
}

fn index(id: Id) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

fn pairs(attributes: Vec<Attribute>) -> Vec<(String, String)> {
    attributes.into_iter().map(|it| (it.name.local.to_string(), it.value.to_string())).collect()
}

impl TreeSink for Sink {
    type Handle = Id;
    type Output = Dom;
    type ElemName<'a> = Ref<'a, QualName>;

    fn finish(self) -> Dom {
        Dom {
            nodes: self.nodes.into_inner(),
            order: Vec::new(),
            doctype: self.doctype.into_inner(),
            is_quirky: self.is_quirky.get(),
            is_cut: false,
        }
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Id {
        0
    }

    fn elem_name<'a>(&'a self, target: &'a Id) -> Ref<'a, QualName> {
        self.step();
        let name = Ref::filter_map(self.nodes.borrow(), |nodes| match nodes.get(index(*target)) {
            Some(Node { data: Data::Element { name, .. }, .. }) => Some(name),
            _ => None,
        });
        name.unwrap_or_else(|_| self.nothing.borrow())
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> Id {
        let template = flags.template.then(|| self.add(Data::Other));
        self.add(Data::Element { name, attributes: pairs(attrs), template })
    }

    fn create_comment(&self, _: StrTendril) -> Id {
        self.add(Data::Other)
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Id {
        self.add(Data::Other)
    }

    fn append(&self, parent: &Id, child: NodeOrText<Id>) {
        self.put(*parent, None, child);
    }

    fn append_based_on_parent_node(&self, element: &Id, before: &Id, child: NodeOrText<Id>) {
        if self.with(*element, |node| node.parent).flatten().is_some() {
            self.append_before_sibling(element, child);
        } else {
            self.append(before, child);
        }
    }

    fn append_doctype_to_document(&self, name: StrTendril, _: StrTendril, _: StrTendril) {
        *self.doctype.borrow_mut() = Some(name.to_string());
    }

    fn get_template_contents(&self, target: &Id) -> Id {
        let template = self.with(*target, |node| match node.data {
            Data::Element { template, .. } => template,
            _ => None,
        });
        template.flatten().unwrap_or(*target)
    }

    fn same_node(&self, x: &Id, y: &Id) -> bool {
        x == y
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.is_quirky.set(mode == QuirksMode::Quirks);
    }

    fn append_before_sibling(&self, sibling: &Id, child: NodeOrText<Id>) {
        if let NodeOrText::AppendNode(child) = &child {
            self.take_out(*child);
        }
        let Some(parent) = self.with(*sibling, |node| node.parent).flatten() else { return };
        let place = self.with(parent, |node| node.children.iter().position(|it| it == sibling));
        self.put(parent, place.flatten(), child);
    }

    fn add_attrs_if_missing(&self, target: &Id, attrs: Vec<Attribute>) {
        self.with(*target, |node| {
            if let Data::Element { attributes, .. } = &mut node.data {
                for (name, value) in pairs(attrs) {
                    if !attributes.iter().any(|(known, _)| *known == name) {
                        attributes.push((name, value));
                    }
                }
            }
        });
    }

    fn remove_from_parent(&self, target: &Id) {
        self.take_out(*target);
    }

    fn reparent_children(&self, node: &Id, new_parent: &Id) {
        let children = self.with(*node, |node| std::mem::take(&mut node.children));
        for child in children.unwrap_or_default() {
            self.with(child, |node| node.parent = Some(*new_parent));
            self.with(*new_parent, |node| node.children.push(child));
        }
    }

    fn set_current_line(&self, line: u64) {
        self.line.set(u32::try_from(line).unwrap_or(u32::MAX));
    }
}
