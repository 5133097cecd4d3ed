//! Stand-ins for outside generators on loopback: their documented shapes, and the traps in them.
//!
//! Nothing happens by itself: tasks end when a test says so, callbacks are made when a test asks for
//! them, and what goes wrong is said beforehand. Every submission that was taken is counted by its
//! key, so that a test can show that nobody paid twice.

mod account;
mod faults;
mod routes;
mod rsa;
mod service;
mod services;
mod task;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use roundsman_core::ports::Clock;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::daily::http;
use crate::ports::loopback;
pub use account::Account;
pub use faults::{Fault, Wrong};
pub use service::Callback;
use service::Service;
pub use services::Provider;
use task::Task;
pub use task::{Ending, Seen};

/// How large a file is, unless a test says otherwise.
const FILE_BYTES: usize = 4096;

/// A generator. It is gone when dropped.
pub struct GeneratorStandIn {
    shared: Arc<Shared>,
    _serving: DropGuard,
}

struct Shared {
    address: SocketAddr,
    service: Box<dyn Service>,
    account: Account,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    tasks: Vec<Task>,
    seen: Vec<Seen>,
    submit_faults: VecDeque<Fault>,
    poll_faults: VecDeque<Fault>,
    file_faults: VecDeque<Fault>,
    file_bytes: usize,
    are_files_expired: bool,
    /// Of submissions that were taken, by key; those without one under the empty key.
    taken: BTreeMap<String, u64>,
    /// How a task of a synchronous service ends.
    at_once: Ending,
    tokens: u64,
}

impl GeneratorStandIn {
    pub async fn start(provider: Provider, clock: Arc<dyn Clock>) -> Result<Self> {
        let listener = TcpListener::bind(loopback(0)).await?;
        let shared = Arc::new(Shared {
            address: listener.local_addr()?,
            service: provider.service(),
            account: Account::default(),
            clock,
            state: Mutex::new(State {
                tasks: Vec::new(),
                seen: Vec::new(),
                submit_faults: VecDeque::new(),
                poll_faults: VecDeque::new(),
                file_faults: VecDeque::new(),
                file_bytes: FILE_BYTES,
                are_files_expired: false,
                taken: BTreeMap::new(),
                at_once: Ending::Succeeded,
                tokens: 0,
            }),
        });
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let served = shared.clone();
        let answer = move |request| std::future::ready(routes::answer(&served, &request));
        tasks.spawn(http::serve(listener, stop.clone(), answer));
        Ok(GeneratorStandIn { shared, _serving: stop.drop_guard() })
    }

    /// What a client is given in the place of the service's address.
    pub fn url(&self) -> String {
        self.shared.url()
    }

    /// Who may ask here.
    pub fn account(&self) -> &Account {
        &self.shared.account
    }

    /// The JSON file of a service account whose tokens are got here.
    pub fn service_account(&self) -> String {
        self.shared.account.service_account(&self.url())
    }

    /// The next submission, if there is any, goes wrong in this way; each once, in this order.
    pub fn spoil_submit(&self, fault: Fault) {
        self.shared.state().submit_faults.push_back(fault);
    }

    /// The next poll, look-up, result or cancellation.
    pub fn spoil_poll(&self, fault: Fault) {
        self.shared.state().poll_faults.push_back(fault);
    }

    /// The next download.
    pub fn spoil_file(&self, fault: Fault) {
        self.shared.state().file_faults.push_back(fault);
    }

    /// The ids of all tasks, in the order in which they were taken.
    pub fn ids(&self) -> Vec<String> {
        self.shared.state().tasks.iter().map(|task| task.id.clone()).collect()
    }

    /// A task goes on, so far.
    pub fn run(&self, id: &str, percent: u8) {
        self.with_task(id, |task| task.percent = Some(percent));
    }

    /// A task ends.
    pub fn end(&self, id: &str, ending: Ending) {
        self.with_task(id, |task| task.ending = Some(ending));
    }

    /// How the tasks of a service end that answers at once.
    pub fn end_at_once(&self, ending: Ending) {
        self.shared.state().at_once = ending;
    }

    /// The service knows nothing of the task any more.
    pub fn forget(&self, id: &str) {
        self.shared.state().tasks.retain(|task| task.id != id);
    }

    /// How many bytes the files of results have.
    pub fn set_file_bytes(&self, bytes: usize) {
        self.shared.state().file_bytes = bytes;
    }

    /// What a file holds.
    pub fn file(&self) -> Vec<u8> {
        task::content(self.shared.state().file_bytes)
    }

    /// All links to results have expired.
    pub fn expire_files(&self) {
        self.shared.state().are_files_expired = true;
    }

    /// How many submissions with that key were taken, and would be paid for.
    pub fn submissions(&self, key: &str) -> u64 {
        self.shared.state().taken.get(key).copied().unwrap_or(0)
    }

    /// With any key, or none.
    pub fn submissions_total(&self) -> u64 {
        self.shared.state().taken.values().sum()
    }

    /// How often a token was asked for.
    pub fn tokens(&self) -> u64 {
        self.shared.state().tokens
    }

    /// Every request that came, refused ones included.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.state().seen.clone()
    }

    /// The callback of a task as it is now, signed as the service signs; `None` for a service that
    /// sends none. The same one may be sent twice: services do.
    pub fn callback(&self, id: &str) -> Option<Callback> {
        let state = self.shared.state();
        let task = state.tasks.iter().find(|task| task.id == id)?;
        let (url, now) = (self.shared.url(), self.shared.clock.now());
        self.shared.service.callback(task, &url, &self.shared.account, now)
    }

    fn with_task(&self, id: &str, change: impl FnOnce(&mut Task)) {
        let mut state = self.shared.state();
        let task = state.tasks.iter_mut().find(|task| task.id == id);
        change(task.unwrap_or_else(|| panic!("the stand-in has no task {id}")));
    }
}

impl Shared {
    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a submission.
    fn take(
        &mut self,
        service: &dyn Service,
        order: service::Order,
        path: Vec<String>,
        body: Value,
    ) -> &Task {
        let number = self.tasks.len() + 1;
        let key = order.key.unwrap_or_default();
        *self.taken.entry(key.clone()).or_default() += 1;
        let ending = service.is_synchronous().then(|| self.at_once.clone());
        self.tasks.push(Task {
            number,
            id: service.id(number, &path),
            key,
            path,
            body,
            callback_url: order.callback_url,
            percent: None,
            ending,
        });
        let last = self.tasks.len() - 1;
        &self.tasks[last]
    }
}
