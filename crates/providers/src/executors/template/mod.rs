//! Templates: texts with places such as `{prompt}` in them, and JSON made of such texts.
//!
//! - `{name}` is a parameter; `{$id}`, `{$ids}`, `{$key}`, `{$callback_url}`, `{$item}` and
//!   `{$setting.name}` are ours. `{{` is a brace.
//! - A text that is one place alone keeps the value's type. A member whose place has no value is
//!   left out.
//! - Filters follow after `|`; see [`Filter`].
//! - In JSON, `$if`, `$unless`, `$each` and `$merge` are not members: see [`JsonTemplate`].

mod filter;
mod json;
mod scope;
mod text;

pub(super) use filter::Filter;
pub(super) use json::JsonTemplate;
pub(super) use scope::{Picture, Pictures, Scope};
pub(super) use text::{Place, Source, TextTemplate, is_name};
