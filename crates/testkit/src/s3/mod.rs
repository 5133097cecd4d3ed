//! A stand-in for an S3-compatible store, on loopback.
//!
//! It knows what keeping files needs: objects, parts of them, and uploads in parts. Every request must
//! be signed (version 4, by its own account of the rules), recent, and have the body that was signed,
//! or follow a link that was signed and is not over; what is not is answered as S3 answers. It can be
//! told to fail.

mod http;
mod objects;
mod signature;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use roundsman_core::ports::Clock;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::ports::loopback;
use objects::Objects;

/// Whom it serves.
#[derive(Debug, Clone)]
pub struct S3Account {
    pub access_key: String,
    pub secret_key: String,
    pub region: String,
    pub bucket: String,
    /// What requests must carry beside, for credentials that were lent.
    pub session_token: Option<String>,
}

impl Default for S3Account {
    fn default() -> Self {
        S3Account {
            access_key: "AKIDSTANDIN".to_owned(),
            secret_key: "secret/with+odd=signs".to_owned(),
            region: "eu-test-1".to_owned(),
            bucket: "recordings".to_owned(),
            session_token: None,
        }
    }
}

/// What becomes of a request instead of what should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum S3Fault {
    /// This status, with `SlowDown` or `InternalError`.
    Status(u16),
    /// The end of the connection, without a word.
    HangUp,
    /// Success in the head and an error in the body, as putting parts together may end.
    LateError,
    /// What should, but the connection ends after so many bytes of it.
    CutAfter(usize),
}

/// A served bucket. It is gone when dropped.
#[derive(Debug)]
pub struct S3StandIn {
    address: SocketAddr,
    account: S3Account,
    state: Arc<Mutex<State>>,
    _serving: DropGuard,
}

#[derive(Debug, Default)]
struct State {
    objects: Objects,
    /// Method and query names of what came, such as `PUT partNumber uploadId`.
    requests: Vec<String>,
    /// For the next requests of a method or sort, in order.
    faults: Vec<(String, S3Fault)>,
}

impl S3StandIn {
    /// Serves an empty bucket on a free port. By the clock it is seen whether requests are recent.
    pub async fn start(account: S3Account, clock: Arc<dyn Clock>) -> Result<Self> {
        let listener = TcpListener::bind(loopback(0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State::default()));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let server = http::Server { account: account.clone(), clock, state: state.clone() };
        tasks.spawn(http::serve(listener, server, stop.clone(), tasks.clone()));
        Ok(S3StandIn { address, account, state, _serving: stop.drop_guard() })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn account(&self) -> &S3Account {
        &self.account
    }

    /// The names of all objects, in order.
    pub fn objects(&self) -> Vec<String> {
        self.state().objects.names()
    }

    /// Somebody else puts an object there.
    pub fn put(&self, name: &str, body: Vec<u8>) {
        self.state().objects.put(name.to_owned(), body);
    }

    /// Uploads that were begun and neither finished nor taken back.
    pub fn uploads_open(&self) -> usize {
        self.state().objects.uploads_open()
    }

    /// Changes a byte of an object. `false` if there is none, or it has none.
    pub fn damage(&self, name: &str) -> bool {
        self.state().objects.damage(name)
    }

    /// The next request of this method (`POST`) or sort (`POST uploadId`) ends so; several are used
    /// up in order.
    pub fn fail_next(&self, requests: &str, fault: S3Fault) {
        self.state().faults.push((requests.to_owned(), fault));
    }

    /// Method and names in the query of all signed requests so far, such as `POST uploads`.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
