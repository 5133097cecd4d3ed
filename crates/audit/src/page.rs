//! The page as all checks look at it.

use roundsman_core::audits::observed::Observed;
use url::Url;

use crate::dom::{Dom, Element};
use crate::text::decode;

pub(crate) struct Page<'a> {
    pub(crate) seen: &'a Observed,
    pub(crate) dom: Dom,
    /// After the redirects.
    pub(crate) url: Url,
    /// What its links are relative to.
    pub(crate) base: Url,
    pub(crate) is_html: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn read(seen: &'a Observed) -> Self {
        let content_type = seen.page.headers.first("content-type");
        let is_html = content_type.is_none_or(is_html_type);
        let source = if is_html { decode(&seen.page.body, content_type) } else { String::new() };
        let dom = Dom::parse(&source);
        let url = [&seen.page.url, &seen.asked_url]
            .into_iter()
            .find_map(|url| Url::parse(url).ok())
            .unwrap_or_else(nowhere);
        let named = dom.named("base").find_map(|it| it.filled("href"));
        let base = named.and_then(|href| url.join(href).ok()).unwrap_or_else(|| url.clone());
        Page { seen, dom, url, base, is_html }
    }

    pub(crate) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// A reference of the page as a whole URL.
    pub(crate) fn resolve(&self, reference: &str) -> Option<Url> {
        self.base.join(reference.trim()).ok()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.seen.page.headers.first(name)
    }

    /// The `meta` elements of a name, whatever its case.
    pub(crate) fn metas(&self, name: &str) -> impl Iterator<Item = Element<'_>> {
        self.dom.named("meta").filter(move |it| it.attr_is("name", name))
    }

    /// What the page says instead of a header.
    pub(crate) fn http_equiv(&self, name: &str) -> impl Iterator<Item = &str> {
        let metas = self.dom.named("meta").filter(move |it| it.attr_is("http-equiv", name));
        metas.filter_map(|it| it.filled("content"))
    }
}

fn is_html_type(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.is_empty() || kind == "text/html" || kind == "application/xhtml+xml"
}

#[expect(clippy::unwrap_used, reason = "this text is a URL")]
fn nowhere() -> Url {
    Url::parse("http://unknown.invalid/").unwrap()
}
