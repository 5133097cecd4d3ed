//! Audits of websites: what was seen of a page, and how an audit's states follow from its job.

pub mod observed;
