//! What is recorded of a meeting, and whether it is what Daily knows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::Timestamp;
use roundsman_testkit::daily::Visit;
use roundsman_testkit::eventually;
use serde_json::Value;

use super::meeting::Meeting;
use super::place::PresenceSite;
use crate::bots::books::Books;
use crate::site::SOON;

/// Daily tells times in milliseconds, and its two events about one person differ by four.
const SAME_TIME: Duration = Duration::from_millis(10);
/// How far the clocks of the stand-in and of a database may be apart on one machine.
const CLOCKS_APART_MAX: Duration = Duration::from_millis(250);

/// A meeting with all its sessions.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) num_clients: usize,
    pub(super) sessions: BTreeMap<String, Session>,
}

#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) user_id: Option<String>,
    pub(super) user_name: Option<String>,
    pub(super) joined_at: Timestamp,
    pub(super) left_at: Option<Timestamp>,
    pub(super) left_by: Option<String>,
}

/// Which of those who have left must be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visits {
    /// No event was lost.
    All,
    /// Whoever came and went while nobody heard or looked is not known.
    Seen,
}

impl Record {
    /// Reads an export.
    pub(super) fn read(export: &Value) -> Result<Record> {
        ensure!(export["is_whole"] == true, "there is more than is exported: {export}");
        let num_clients = export["meeting"]["num_clients"].as_u64().context("no num_clients")?;
        let mut sessions = BTreeMap::new();
        for entry in export["sessions"].as_array().context("no list of sessions")? {
            let id = entry["session_id"].as_str().context("a session without an id")?;
            let session = Session::read(entry)?;
            ensure!(sessions.insert(id.to_owned(), session).is_none(), "{id} is there twice");
        }
        Ok(Record { num_clients: usize::try_from(num_clients)?, sessions })
    }

    /// Whose sessions are open.
    pub(super) fn inside(&self) -> BTreeSet<&str> {
        let open = self.sessions.iter().filter(|(_, session)| session.left_at.is_none());
        open.map(|(id, _)| id.as_str()).collect()
    }

    /// Fails with what is not as Daily knows it.
    pub(super) fn compare(&self, truth: &[Visit], visits: Visits) -> Result<()> {
        let there = truth.iter().filter(|visit| visit.left_at.is_none());
        let there: BTreeSet<&str> = there.map(|visit| visit.session.as_str()).collect();
        let inside = self.inside();
        ensure!(inside == there, "{inside:?} are inside, and {there:?} are there");
        ensure!(self.num_clients == there.len(), "{} clients: {there:?}", self.num_clients);
        let known: BTreeSet<&str> = truth.iter().map(|visit| visit.session.as_str()).collect();
        let invented: Vec<_> = self.sessions.keys().filter(|id| !known.contains(&***id)).collect();
        ensure!(invented.is_empty(), "nobody knows {invented:?}");
        for visit in truth {
            match self.sessions.get(&visit.session) {
                Some(session) => session.compare(visit).with_context(|| visit.session.clone())?,
                None => ensure!(visits == Visits::Seen, "{visit:?} is not recorded"),
            }
        }
        Ok(())
    }
}

impl Session {
    fn read(entry: &Value) -> Result<Session> {
        let text = |name: &str| entry[name].as_str().map(str::to_owned);
        let time = |name: &str| text(name).map(|text| Timestamp::parse_rfc3339(&text)).transpose();
        let session = Session {
            user_id: text("user_id"),
            user_name: text("user_name"),
            joined_at: time("joined_at")?.context("a session without a beginning")?,
            left_at: time("left_at")?,
            left_by: text("left_by"),
        };
        let (left_at, left_by) = (session.left_at, &session.left_by);
        ensure!(left_at.is_some() == left_by.is_some(), "{session:?}");
        ensure!(left_at.is_none_or(|at| at >= session.joined_at), "{session:?}");
        Ok(session)
    }

    fn compare(&self, visit: &Visit) -> Result<()> {
        let Visit { guest, joined_at, left_at, .. } = visit;
        ensure!(self.user_name == guest.user_name, "{self:?} is {guest:?}");
        ensure!(self.user_id == guest.user_id, "{self:?} is {guest:?}");
        ensure!(is_same(self.joined_at, *joined_at), "{self:?} joined at {joined_at}");
        let (Some(recorded), Some(left_at)) = (self.left_at, left_at) else { return Ok(()) };
        // A look knows only that somebody is gone.
        let fits = match self.left_by.as_deref() {
            Some("event") => is_same(recorded, *left_at),
            _ => recorded + CLOCKS_APART_MAX >= *left_at,
        };
        ensure!(fits, "{self:?} left at {left_at}");
        Ok(())
    }
}

fn is_same(one: Timestamp, other: Timestamp) -> bool {
    one.since(other).max(other.since(one)) <= SAME_TIME
}

/// Waits until the record of every meeting is what Daily knows.
pub(super) async fn wait_true(
    site: &PresenceSite,
    meetings: &[Meeting],
    visits: Visits,
) -> Result<()> {
    for meeting in meetings {
        let mut last = None;
        let is_true = eventually(SOON, async || {
            let compared = async {
                meeting.record().await?.compare(&site.daily.visits(&meeting.room), visits)
            };
            last = compared.await.err();
            last.is_none().then_some(())
        });
        let is_true = is_true.await;
        is_true.with_context(|| format!("{} in {}: {last:?}", meeting.id, meeting.room))?;
    }
    Ok(())
}

/// R4, whatever goes on: one statement sees one moment of the database.
pub(super) async fn check_counts(books: &Books) -> Result<()> {
    let sql = "SELECT meeting_id, num_clients, (SELECT count(*) FROM presence_sessions AS session \
               WHERE session.meeting_id = presence.meeting_id AND session.left_at IS NULL) \
               FROM presence";
    for row in books.rows(sql).await? {
        ensure!(row[1] == row[2], "meeting, clients and open sessions: {row:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use roundsman_testkit::daily::Guest;
    use serde_json::json;

    use super::*;

    fn visit(session: &str, left_at: Option<i64>) -> Visit {
        let at = |secs: i64| Timestamp::from_micros(secs * 1_000_000);
        let left_at = left_at.map(at);
        Visit { session: session.to_owned(), guest: Guest::named("x"), joined_at: at(10), left_at }
    }

    fn session(id: &str, joined: &str, left: Option<(&str, &str)>) -> Value {
        let time = |text: &str| format!("1970-01-01T00:00:{text}Z");
        json!({"session_id": id, "user_id": "user-x", "user_name": "x",
            "joined_at": time(joined), "left_at": left.map(|(at, _)| time(at)),
            "left_by": left.map(|(_, by)| by)})
    }

    fn compare(clients: u32, sessions: &[Value], truth: &[Visit], visits: Visits) -> bool {
        let meeting = json!({"num_clients": clients});
        let export = json!({"meeting": meeting, "sessions": sessions, "is_whole": true});
        Record::read(&export).is_ok_and(|record| record.compare(truth, visits).is_ok())
    }

    /// A comparison that finds nothing wrong would let every other test here pass.
    #[test]
    fn the_comparison_finds_what_is_wrong() {
        use Visits::{All, Seen};
        let truth = [visit("in", None), visit("out", Some(20))];
        let inside = session("in", "10.004", None);
        let left = |at: &str, by: &str| session("out", "10", Some((at, by)));
        let good = [inside.clone(), left("20.004", "event")];
        assert!(compare(1, &good, &truth, All));
        assert!(compare(1, &[inside.clone(), left("25", "poll")], &truth, All));
        assert!(compare(1, std::slice::from_ref(&inside), &truth, Seen));

        assert!(!compare(2, &good, &truth, All), "a wrong number");
        assert!(!compare(1, std::slice::from_ref(&inside), &truth, All), "a lost visit");
        assert!(!compare(0, &good[1..], &truth, Seen), "somebody who is there");
        assert!(!compare(1, &[inside.clone(), left("25", "event")], &truth, All), "a wrong time");
        assert!(!compare(1, &[inside.clone(), left("15", "poll")], &truth, All), "too early");
        let still = session("out", "10", None);
        assert!(!compare(2, &[inside.clone(), still], &truth, All), "somebody who has left");
        let twice = [good[0].clone(), good[1].clone(), good[1].clone()];
        assert!(!compare(1, &twice, &truth, All), "a session that is there twice");
        let invented = [good[0].clone(), good[1].clone(), session("?", "01", Some(("02", "poll")))];
        assert!(!compare(1, &invented, &truth, All), "somebody whom nobody knows");
        let early = [session("in", "09", None), good[1].clone()];
        assert!(!compare(1, &early, &truth, All), "a wrong beginning");
    }
}
