//! Under which names what became of tasks is written to documents.
//!
//! Every name under which something was written is part of every version of a document for ever, so
//! names are used again. Whoever writes is not whoever stores it: a name is lent with an update, and
//! comes back when that is known to be stored. A name that does not come back is never used again,
//! because what was written under it may still be stored.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use roundsman_core::rooms::ProjectId;
use sha2::{Digest, Sha256};

/// Projects whose names are remembered; beyond this, some others get new ones.
const PROJECTS_MAX: usize = 1000;
/// Updates of one project that may come back; what was lent longest ago is given up first.
const LENT_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Names {
    projects: Mutex<BTreeMap<ProjectId, OfProject>>,
}

#[derive(Debug, Default)]
struct OfProject {
    free: Vec<u64>,
    /// By the update that was written under it.
    lent: VecDeque<([u8; 32], u64)>,
}

impl Names {
    /// A name that nobody uses, if there is one.
    pub(super) fn take(&self, project: &ProjectId) -> Option<u64> {
        self.projects().get_mut(project)?.free.pop()
    }

    /// Nothing was written under it.
    pub(super) fn give_back(&self, project: &ProjectId, name: u64) {
        self.of(project, |names| names.free.push(name));
    }

    /// This was written under it, and may be stored.
    pub(super) fn lend(&self, project: &ProjectId, name: u64, update: &[u8]) {
        let update = Sha256::digest(update).into();
        self.of(project, |names| {
            if names.lent.len() >= LENT_MAX {
                names.lent.pop_front();
            }
            names.lent.push_back((update, name));
        });
    }

    /// This is stored: whoever reads the document from now on has it.
    pub(super) fn stored(&self, project: &ProjectId, update: &[u8]) {
        let mut projects = self.projects();
        let Some(names) = projects.get_mut(project).filter(|names| !names.lent.is_empty()) else {
            return;
        };
        let update: [u8; 32] = Sha256::digest(update).into();
        if let Some(place) = names.lent.iter().position(|(lent, _)| *lent == update)
            && let Some((_, name)) = names.lent.remove(place)
        {
            names.free.push(name);
        }
    }

    fn of(&self, project: &ProjectId, change: impl FnOnce(&mut OfProject)) {
        let mut projects = self.projects();
        if projects.len() >= PROJECTS_MAX && !projects.contains_key(project) {
            projects.pop_first();
        }
        change(projects.entry(project.clone()).or_default());
    }

    fn projects(&self) -> MutexGuard<'_, BTreeMap<ProjectId, OfProject>> {
        self.projects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(number: usize) -> ProjectId {
        ProjectId::new(&format!("p{number}")).unwrap()
    }

    #[test]
    fn a_name_is_used_again_when_what_was_written_under_it_is_stored() {
        let (names, p) = (Names::default(), project(1));
        assert_eq!(names.take(&p), None);
        names.lend(&p, 7, b"one");
        names.lend(&p, 8, b"two");
        assert_eq!(names.take(&p), None, "both are out");
        names.stored(&p, b"something else");
        names.stored(&project(2), b"two");
        assert_eq!(names.take(&p), None);
        names.stored(&p, b"two");
        assert_eq!((names.take(&p), names.take(&p)), (Some(8), None), "one at a time");
        names.give_back(&p, 8);
        assert_eq!(names.take(&p), Some(8));
    }

    #[test]
    fn what_is_remembered_has_a_limit() {
        let names = Names::default();
        for number in 0..PROJECTS_MAX + 10 {
            names.give_back(&project(number), 1);
        }
        assert_eq!(names.projects().len(), PROJECTS_MAX);
        let p = project(PROJECTS_MAX + 9);
        for number in 0..=LENT_MAX {
            names.lend(&p, number as u64, &number.to_be_bytes());
        }
        names.take(&p);
        names.stored(&p, &0usize.to_be_bytes());
        assert_eq!(names.take(&p), None, "it was given up, and is never used again");
        names.stored(&p, &1usize.to_be_bytes());
        assert_eq!(names.take(&p), Some(1));
    }
}
