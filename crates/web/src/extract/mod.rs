//! What handlers take from a request. Each refuses with a [`crate::problem::Problem`].

mod caller;
mod json;
mod params;

pub(crate) use caller::{AdminCaller, Caller};
pub(crate) use json::{AppJson, AppJsonWithBytes};
pub(crate) use params::{AppQuery, IdPath, TextPath};
