//! Under which names requests write to documents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use roundsman_core::rooms::ProjectId;

/// Projects whose names are remembered; beyond this, those that nobody writes to are forgotten.
const REMEMBERED_MAX: usize = 1000;

/// A name for each project, used by one at a time. `None` while it is not known whether the last one to
/// use it is done.
#[derive(Debug, Default)]
pub(super) struct Writers {
    peers: Mutex<BTreeMap<ProjectId, Writer>>,
}

pub(super) type Writer = Arc<tokio::sync::Mutex<Option<u64>>>;

impl Writers {
    pub(super) fn of(&self, project: &ProjectId) -> Writer {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= REMEMBERED_MAX && !peers.contains_key(project) {
            peers.retain(|_, writer| Arc::strong_count(writer) > 1);
        }
        peers.entry(project.clone()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_who_write_are_remembered_and_the_others_are_forgotten() {
        let writers = Writers::default();
        let project = |number: usize| ProjectId::new(&format!("p{number}")).unwrap();
        let busy = writers.of(&project(0));
        *busy.lock().await = Some(7);
        for number in 1..=REMEMBERED_MAX {
            *writers.of(&project(number)).lock().await = Some(1);
        }
        assert_eq!(*writers.of(&project(0)).lock().await, Some(7));
        assert_eq!(*writers.of(&project(1)).lock().await, None, "it gets another name");
    }
}
