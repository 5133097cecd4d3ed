//! What looks, the end of patience and owners make of a meeting: the only ways to other sessions and
//! another status.

use std::collections::BTreeSet;
use std::mem;

use roundsman_core::Timestamp;
use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{KindCatalog, LeaseRef};
use roundsman_core::ports::{CommitAnswer, EndAnswer, LookWritten, Scope};
use roundsman_core::presence::{
    EndReason, LookPlan, LookReport, PresenceMeeting, PresenceRules, Verdict, end_meeting, judge,
    reconcile,
};
use rusqlite::Connection;

use super::columns::{
    count_open, known_sessions, presence, put_sessions, update_meeting, update_presence,
};
use super::joining::expected_until;
use super::open::open_in;
use super::read;
use crate::rows::presence::{
    assert_counted, ended_by_owner_too, meeting_row_differs, named_sessions, written,
};
use crate::sqlite::effects::{self, is_held};
use crate::sqlite::error::Result;

pub(super) fn commit(
    conn: &Connection,
    catalog: &KindCatalog,
    id: MeetingId,
    report: LookReport,
    rules: &PresenceRules,
    guard: LeaseRef,
    now: Timestamp,
) -> Result<CommitAnswer> {
    if !is_held(conn, guard)? {
        return Ok(CommitAnswer::LeaseLost);
    }
    let Some(meeting) = presence(conn, id)? else { return Ok(CommitAnswer::NoSuchMeeting) };
    let known = known_sessions(conn, id, &named_sessions(&report))?;
    let Some(plan) = reconcile(&meeting, known, report, rules, now) else {
        return Ok(CommitAnswer::Unchanged);
    };
    // Whoever is seen is seen in the meeting that is open there now: this one stays over.
    if plan.tally.healed && open_in(conn, &meeting.room)?.is_some() {
        return Ok(CommitAnswer::Unchanged);
    }
    Ok(CommitAnswer::Written(write(conn, catalog, &meeting, plan, now)?))
}

pub(super) fn judge_meeting(
    conn: &Connection,
    catalog: &KindCatalog,
    id: MeetingId,
    rules: &PresenceRules,
    guard: LeaseRef,
    now: Timestamp,
) -> Result<CommitAnswer> {
    if !is_held(conn, guard)? {
        return Ok(CommitAnswer::LeaseLost);
    }
    let Some(meeting) = presence(conn, id)? else { return Ok(CommitAnswer::NoSuchMeeting) };
    match judge(&meeting, expected_until(conn, id)?, rules, now) {
        Verdict::Keep => Ok(CommitAnswer::Unchanged),
        Verdict::End(reason) => {
            Ok(CommitAnswer::Written(over(conn, catalog, &meeting, reason, now)?))
        }
    }
}

pub(super) fn end(
    conn: &Connection,
    catalog: &KindCatalog,
    scope: Scope,
    id: MeetingId,
    now: Timestamp,
) -> Result<EndAnswer> {
    let Some(meeting) = read::meeting(conn, scope, id)? else { return Ok(EndAnswer::NotFound) };
    if meeting.is_active() {
        let ended = over(conn, catalog, &meeting, EndReason::Deactivated, now)?;
        return Ok(EndAnswer::Ended(ended));
    }
    let Some((ended, effects)) = ended_by_owner_too(&meeting) else {
        return Ok(EndAnswer::WasOver(Box::new(meeting)));
    };
    update_presence(conn, &ended)?;
    effects::apply(conn, catalog, effects, now)?;
    Ok(EndAnswer::WasOver(Box::new(ended)))
}

fn over(
    conn: &Connection,
    catalog: &KindCatalog,
    meeting: &PresenceMeeting,
    reason: EndReason,
    now: Timestamp,
) -> Result<Box<LookWritten>> {
    let open = known_sessions(conn, meeting.id, &BTreeSet::new())?;
    let plan = end_meeting(meeting, open, reason, now);
    write(conn, catalog, meeting, plan, now)
}

/// Writes what the rules have decided, with all it brings.
fn write(
    conn: &Connection,
    catalog: &KindCatalog,
    before: &PresenceMeeting,
    mut plan: LookPlan,
    now: Timestamp,
) -> Result<Box<LookWritten>> {
    if meeting_row_differs(before, &plan.meeting) {
        update_meeting(conn, &plan.meeting, now)?;
    }
    update_presence(conn, &plan.meeting)?;
    put_sessions(conn, plan.meeting.id, &plan.sessions)?;
    assert_counted(&plan.meeting, count_open(conn, plan.meeting.id)?)?;
    let frames = effects::apply(conn, catalog, mem::take(&mut plan.effects), now)?;
    Ok(written(plan, frames))
}
