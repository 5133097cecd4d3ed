//! The same random histories of rooms on every adapter and on the reference: every answer and
//! everything that is read afterwards must be the same, and after every step a document that is dirty
//! has an alarm.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    Job, Json, Lane, LeaseNo, LeaseOwner, LeaseRef, Outcome, RunningJob, Settle, WorkerName,
};
use roundsman_core::ports::{
    ClaimRequest, LaneDemand, ListFilter, ListPage, NewSnapshot, Scope, Store, StoreError,
};
use roundsman_core::rooms::{
    AppendRules, NewUpdate, Permission, ProjectId, RoomTokenId, RoomTokenWish, RoomVersion,
    SNAPSHOT_KIND, UpdateOrigin,
};
use roundsman_core::users::{NewUser, TokenHash, UserId};
use roundsman_store::conformance::{catalog, kind};
use roundsman_testkit::env;
use tokio::runtime::Runtime;

use super::{START, SharedPostgres};
use crate::open;
use crate::reference::Reference;

/// Histories on every change, and in a run of everything.
const CASES: (u32, u32) = (40, 1000);
const OPS_MAX: usize = 50;
const PROJECTS: [&str; 4] = ["p", "p/q", "P", "ä 😀 '\""];
const RULES: AppendRules = AppendRules {
    document_bytes_max: 60,
    snapshot_after: Duration::from_secs(300),
    snapshot_updates: 4,
    snapshot_log_bytes: 30,
};

/// What must be answered at some time: histories in which it never happens prove little.
const HAPPENS: [&str; 12] = [
    "is_new: true",
    "is_new: false",
    "Foreign",
    "Appended",
    "Full",
    "NoSuchRoom",
    "Compacted",
    "Superseded",
    "LeaseLost",
    "extended true",
    "revoked true",
    "pruned true",
];

/// Places in lists: whoever picks is always somebody.
type Pick = u8;

#[derive(Debug, Clone)]
enum Op {
    Advance {
        secs: u64,
    },
    Open {
        user: Pick,
        project: Pick,
    },
    Append(Vec<(Pick, u8, Pick)>),
    /// The alarm of a room fires; what is merged may be too old, or more than there is.
    Merge {
        from_off: i64,
        through_off: i64,
        is_lost: bool,
    },
    Keep {
        project: Pick,
        seq: i64,
        is_named: bool,
    },
    Token {
        project: Pick,
        secs: u64,
        may_write: bool,
    },
    Extend {
        project: Pick,
        token: Pick,
        secs: u64,
    },
    Revoke {
        project: Pick,
        token: Pick,
    },
    Prune {
        versions_max: u32,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let pick = any::<Pick>;
    let offset = || prop_oneof![6 => Just(0i64), 1 => Just(-1i64), 1 => Just(1i64)];
    prop_oneof![
        3 => prop_oneof![1..20u64, Just(300u64)].prop_map(|secs| Op::Advance { secs }),
        3 => (pick(), pick()).prop_map(|(user, project)| Op::Open { user, project }),
        8 => vec((pick(), 0..20u8, pick()), 1..5).prop_map(Op::Append),
        4 => (offset(), offset(), prop::bool::weighted(0.1)).prop_map(
            |(from_off, through_off, is_lost)| Op::Merge { from_off, through_off, is_lost }),
        1 => (pick(), 0..6i64, any::<bool>())
            .prop_map(|(project, seq, is_named)| Op::Keep { project, seq, is_named }),
        2 => (pick(), 1..400u64, any::<bool>())
            .prop_map(|(project, secs, may_write)| Op::Token { project, secs, may_write }),
        2 => (pick(), pick(), 1..400u64)
            .prop_map(|(project, token, secs)| Op::Extend { project, token, secs }),
        2 => (pick(), pick()).prop_map(|(project, token)| Op::Revoke { project, token }),
        1 => (0..3u32).prop_map(|versions_max| Op::Prune { versions_max }),
    ]
}

#[test]
fn all_adapters_do_the_same_rooms() {
    let runtime = Runtime::new().expect("a runtime");
    let shared = runtime.block_on(SharedPostgres::new());
    let happened = RefCell::new(BTreeSet::new());
    let cases = if env::full() { CASES.1 } else { CASES.0 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let outcome = runner.run(&vec(op(), 1..=OPS_MAX), |ops| {
        runtime.block_on(async {
            shared.empty().await;
            let (file, folder) = open::sqlite(catalog());
            let subjects = vec![
                Subject::new("reference", Arc::new(Reference::new(catalog())), ()).await,
                Subject::new("sqlite inline", Arc::new(open::sqlite_inline(catalog())), ()).await,
                Subject::new("sqlite", Arc::new(file), folder).await,
                Subject::new("postgres", shared.store.clone(), ()).await,
            ];
            compare(subjects, &ops, &happened).await
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    assert_eq!(happened.into_inner(), BTreeSet::from(HAPPENS));
}

async fn compare(
    subjects: Vec<Subject>,
    ops: &[Op],
    happened: &RefCell<BTreeSet<&'static str>>,
) -> Result<(), TestCaseError> {
    let mut now = START;
    for (step, op) in ops.iter().enumerate() {
        if let Op::Advance { secs } = op {
            now = now + Duration::from_secs(*secs);
        }
        let mut expected = None;
        for subject in &subjects {
            let place = format!("{}, step {step} {op:?}", subject.name);
            let fail = |error| TestCaseError::fail(format!("{place}: {error}"));
            let answer = subject.perform(op, now).await.map_err(fail)?;
            let visible = subject.look(now).await.map_err(fail)?;
            match &expected {
                None => {
                    let told = HAPPENS.into_iter().filter(|word| answer.contains(word));
                    happened.borrow_mut().extend(told);
                    expected = Some((answer, visible));
                }
                Some((expected_answer, expected_visible)) => {
                    prop_assert_eq!(&answer, expected_answer, "{}", place);
                    prop_assert_eq!(&visible, expected_visible, "after {}", place);
                }
            }
        }
    }
    for subject in &subjects {
        let violations = subject.store.check().await;
        let violations = violations.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(violations.is_empty(), "{}: {:?}", subject.name, violations);
    }
    Ok(())
}

struct Subject {
    name: &'static str,
    store: Arc<dyn Store>,
    users: Vec<UserId>,
    _keep: Box<dyn Any>,
}

impl Subject {
    async fn new(name: &'static str, store: Arc<dyn Store>, keep: impl Any) -> Self {
        let mut users = Vec::new();
        for person in ["ada", "bob"] {
            let person = NewUser {
                email: format!("{person}@example.org"),
                name: None,
                image_url: None,
                max_concurrent_bots: 1,
            };
            users.push(store.find_or_create_user(person, START).await.expect("a user").0.id);
        }
        Subject { name, store, users, _keep: Box::new(keep) }
    }

    /// Does what `op` says and tells what was answered.
    async fn perform(&self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        let store = &self.store;
        let after = |secs: &u64| now + Duration::from_secs(*secs);
        Ok(match op {
            Op::Advance { .. } => String::new(),
            Op::Open { user, project } => {
                let user = self.users[usize::from(*user) % self.users.len()];
                format!("{:?}", store.open_room(user, project_of(*project), now).await?)
            }
            Op::Append(updates) => {
                let updates = updates.iter().copied().map(update).collect();
                format!("{:?}", store.append_updates(updates, now).await?)
            }
            Op::Merge { from_off, through_off, is_lost } => {
                self.merge(*from_off, *through_off, *is_lost, now).await?
            }
            Op::Keep { project, seq, is_named } => {
                let name = is_named.then(|| format!("version {seq}"));
                let version = RoomVersion { seq: *seq, frontiers: vec![1, 2], name, at: now };
                format!("{:?}", store.keep_version(project_of(*project), version).await?)
            }
            Op::Token { project, secs, may_write } => {
                let wish = RoomTokenWish {
                    project: project_of(*project),
                    permission: if *may_write { Permission::Write } else { Permission::Read },
                    name: may_write.then(|| "it's \"one\"".to_owned()),
                    hash: TokenHash::from_stored([*project; 32]),
                    expires_at: after(secs),
                };
                format!("{:?}", store.create_room_token(wish, now).await?)
            }
            Op::Extend { project, token, secs } => {
                let (project, id) = (project_of(*project), token_of(*token));
                let extended = store.extend_room_token(project, id, after(secs)).await?;
                format!("extended {} {extended:?}", extended.is_some())
            }
            Op::Revoke { project, token } => {
                let (project, id) = (project_of(*project), token_of(*token));
                format!("revoked {}", store.revoke_room_token(project, id, now).await?)
            }
            Op::Prune { versions_max } => {
                let pruned = store.prune_rooms(now, *versions_max, 1000).await?;
                format!("pruned {} {pruned}", pruned > 0)
            }
        })
    }

    /// Claims the alarms that are due, merges what they are about and ends them.
    async fn merge(
        &self,
        from_off: i64,
        through_off: i64,
        is_lost: bool,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        let mut jobs = self.claim(now).await?;
        jobs.sort_by(|a, b| a.facts.key.cmp(&b.facts.key));
        let (mut answers, mut settles) = (Vec::new(), Vec::new());
        for job in jobs {
            let Some(key) = &job.facts.key else { continue };
            let project = ProjectId::new(key.as_str()).expect("a project");
            let Some(room) = self.store.room(project.clone()).await? else { continue };
            let snapshot = NewSnapshot {
                from_seq: room.snapshot_seq + from_off,
                through_seq: (room.head_seq + through_off).max(room.snapshot_seq + 1),
                bytes: Bytes::from(format!("up to {}", room.head_seq)),
                frontiers: vec![3],
            };
            let lease = job.lease_ref();
            let guard = if is_lost {
                LeaseRef { lease_no: LeaseNo::new(i64::MAX - 1), ..lease }
            } else {
                lease
            };
            let answer = self.store.compact_room(project.clone(), snapshot, guard, now).await?;
            answers.push(format!("{answer:?}"));
            let left = self.store.room(project).await?.is_some_and(|room| room.is_dirty());
            let outcome = if left {
                Outcome::Again { at: now + RULES.snapshot_after, payload: None }
            } else {
                Outcome::Done { result: Json::null() }
            };
            settles.push(Settle { lease, outcome, effects: Effects::default() });
        }
        self.store.settle(settles, 0, now).await?;
        Ok(answers.join(", "))
    }

    async fn claim(&self, now: Timestamp) -> Result<Vec<RunningJob>, StoreError> {
        let demand = LaneDemand {
            lane: Lane::of(UserId::SYSTEM, &kind(SNAPSHOT_KIND)),
            max: 100,
            lease_ttl: Duration::from_secs(300),
            deadline: None,
        };
        let request = ClaimRequest {
            worker: WorkerName::new("w"),
            owner: LeaseOwner::Outside,
            demands: vec![demand],
            total_max: 100,
        };
        Ok(self.store.claim(request, now).await?.jobs)
    }

    /// Everything that anybody can read.
    async fn look(&self, now: Timestamp) -> Result<String, StoreError> {
        let store = &self.store;
        let mut seen = vec![
            format!("{:?}", store.rooms(Scope::All, None, 100).await?),
            format!("{:?}", store.rooms(Scope::User(self.users[0]), Some(project_of(2)), 1).await?),
            format!("{:?}", store.room_counts().await?),
            format!("{:?}", store.stale_rooms(now, None, 3).await?),
        ];
        let alarms = self.alarms(now).await?;
        let projects: Vec<ProjectId> = (0..4).map(project_of).collect();
        seen.push(format!("{:?}", store.room_heads(projects.clone()).await?));
        for project in projects {
            let stored = store.load_room(project.clone()).await?;
            let is_dirty = stored.as_ref().is_some_and(|stored| stored.room.is_dirty());
            let is_set = alarms.iter().any(|(key, _)| key == project.as_str());
            assert!(is_set || !is_dirty, "{}: nobody merges {project}", self.name);
            seen.push(format!("{stored:?}"));
            seen.push(format!("{:?}", store.room_updates(project.clone(), 1, 2).await?));
            seen.push(format!("{:?}", store.room_versions(project.clone(), Some(5), 3).await?));
            seen.push(format!("{:?}", store.room_tokens(project, now, 3).await?));
        }
        seen.push(format!("{alarms:?}"));
        for token in 0..4 {
            let token = store.room_token(token_of(token)).await?;
            seen.push(format!("{:?}", token.map(|token| (token.state(now), token.expires_at))));
        }
        Ok(seen.join("\n"))
    }

    async fn alarms(&self, now: Timestamp) -> Result<Vec<(String, Timestamp)>, StoreError> {
        let filter = ListFilter { kind: Some(kind(SNAPSHOT_KIND)), ..ListFilter::default() };
        let page = ListPage { before: None, rows_max: 200 };
        let jobs = self.store.jobs(Scope::All, filter, page, now).await?;
        let waiting = jobs.iter().filter(|job| matches!(job, Job::Waiting(_))).map(|job| {
            let key = job.facts().key.as_ref().map(|key| key.as_str().to_owned());
            (key.unwrap_or_default(), job.facts().run_at)
        });
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort();
        Ok(waiting)
    }
}

fn project_of(pick: Pick) -> ProjectId {
    ProjectId::new(PROJECTS[usize::from(pick) % PROJECTS.len()]).expect("a project")
}

/// One of the first few that were made.
fn token_of(pick: Pick) -> RoomTokenId {
    RoomTokenId::new(i64::from(pick % 4) + 1)
}

fn update((project, size, origin): (Pick, u8, Pick)) -> NewUpdate {
    NewUpdate {
        project: project_of(project),
        payload: Bytes::from(vec![size; usize::from(size)]),
        origin: UpdateOrigin::ALL[usize::from(origin) % UpdateOrigin::ALL.len()],
        rules: RULES,
    }
}
