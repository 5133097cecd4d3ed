//! Answers requests, the same way for every service.

use std::sync::Arc;

use serde_json::{Value, json};

use super::account::Account;
use super::faults::Wrong;
use super::service::{Ask, Order};
use super::task::{Ending, Seen, content};
use super::{Shared, State};
use crate::daily::http::{Body, Reply, Request};

/// Headers that say nothing about the service.
const USUAL: [&str; 4] = ["host", "user-agent", "connection", "content-length"];

pub(super) fn answer(shared: &Shared, request: &Request) -> Reply {
    let mut state = shared.state();
    state.seen.push(seen(request));
    let ask = shared.service.ask(request);
    let is_open = match &ask {
        Ask::Token(_) | Ask::Keys => true,
        Ask::File(_) => !shared.service.guards_files(),
        _ => false,
    };
    if !is_open && !shared.service.admits(request, &shared.account, shared.clock.now()) {
        return shared.service.wrong(Wrong::Key);
    }
    let fault = match &ask {
        Ask::Submit(_) => state.submit_faults.pop_front(),
        Ask::File(_) => state.file_faults.pop_front(),
        Ask::Poll(_) | Ask::LookUp(_) | Ask::Result(_) | Ask::Cancel(_) => {
            state.poll_faults.pop_front()
        }
        Ask::Token(_) | Ask::Keys | Ask::Nothing => None,
    };
    let instead = fault.as_ref().and_then(|f| f.instead(|what| shared.service.wrong(what)));
    if let Some(reply) = instead {
        return reply;
    }
    let reply = match ask {
        Ask::Submit(order) => shared.submit(&mut state, order, request),
        Ask::Token(statement) => shared.token(&mut state, &statement),
        Ask::Cancel(id) => shared.cancel(&mut state, &id),
        other => shared.look(&state, other),
    };
    match fault {
        Some(fault) => fault.spoil(reply),
        None => reply,
    }
}

impl Shared {
    fn submit(&self, state: &mut State, order: Order, request: &Request) -> Reply {
        let is_known = |task: &super::Task| Some(&task.key) == order.key.as_ref();
        if self.service.has_unique_keys() && state.tasks.iter().any(is_known) {
            return self.service.duplicate();
        }
        let file = content(state.file_bytes);
        let service = self.service.as_ref();
        let task = state.take(service, order, request.path.clone(), body(request));
        service.accepted(task, &self.url(), &file)
    }

    fn token(&self, state: &mut State, statement: &str) -> Reply {
        if !Account::is_good_rs256(statement, &self.url(), self.clock.now()) {
            return Reply::new(400, json!({"error": "invalid_grant"}).to_string());
        }
        state.tokens += 1;
        let token = self.account.oauth_token();
        Reply::json(&json!({"access_token": token, "expires_in": 3600, "token_type": "Bearer"}))
    }

    fn cancel(&self, state: &mut State, id: &str) -> Reply {
        match state.tasks.iter_mut().find(|task| task.id == id) {
            None => self.service.wrong(Wrong::Missing),
            Some(task) if task.ending.is_some() => self.service.too_late(),
            Some(task) => {
                task.ending = Some(Ending::Cancelled);
                self.service.cancelled()
            }
        }
    }

    fn look(&self, state: &State, ask: Ask) -> Reply {
        let (url, service) = (self.url(), self.service.as_ref());
        let file = || content(state.file_bytes);
        match ask {
            Ask::Poll(ids) => {
                let found = state.tasks.iter().filter(|task| ids.contains(&task.id));
                service.polled(&found.collect::<Vec<_>>(), &url, &file())
            }
            Ask::LookUp(key) => {
                let found = state.tasks.iter().filter(|task| task.key == key);
                service.polled(&found.collect::<Vec<_>>(), &url, &file())
            }
            Ask::Result(id) => match state.tasks.iter().find(|task| task.id == id) {
                Some(task) => service.result(task, &url),
                None => service.wrong(Wrong::Missing),
            },
            Ask::Keys => Reply::json(&self.account.key_set()),
            Ask::File(number) => {
                let is_there = state.tasks.iter().any(|task| task.number == number);
                if state.are_files_expired || !is_there {
                    return Reply::new(403, "<Error>Request has expired</Error>");
                }
                let bytes = Arc::new(file());
                let body = Body::File { range: 0..bytes.len(), bytes };
                Reply { body, headers: Vec::new(), ..Reply::new(200, "") }
            }
            _ => Reply::new(404, "not found"),
        }
    }
}

fn seen(request: &Request) -> Seen {
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.clone()));
    let mut headers: Vec<_> = headers.filter(|(name, _)| !USUAL.contains(&name.as_str())).collect();
    headers.sort();
    Seen {
        method: request.method.clone(),
        target: request.target.clone(),
        headers,
        body: body(request),
    }
}

/// As JSON, or else as text.
fn body(request: &Request) -> Value {
    let text = || Value::String(String::from_utf8_lossy(&request.body).into_owned());
    if request.body.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(&request.body).unwrap_or_else(|_| text())
}
