//! What operators do from the shell: copies, putting one back, looking whether all is well.

mod backup;
mod check;
mod doctor;
mod postgres_tools;
mod restore;

pub(crate) use backup::run as backup;
pub(crate) use check::run as check;
pub(crate) use doctor::run as doctor;
pub(crate) use restore::run as restore;

use crate::output::tell;
