//! What is written into a meeting by its user's wish: more data, or none.

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotStatus, BotWish, Meeting, MeetingId};
use roundsman_core::jobs::{Json, KindCatalog};
use roundsman_core::ports::{AnonymiseAnswer, BotTarget, MeetingRow};
use roundsman_core::users::UserId;
use serde_json::{Map, Value};

use super::columns::{meeting, meeting_columns, storable_json};
use super::launch::hold_bot;
use super::read::find_target;
use crate::postgres::error::Failure;
use crate::postgres::pool::Operation;
use crate::postgres::presence::{forget_people, lock_presence};
use crate::postgres::recordings::forget_recordings;
use crate::postgres::session::Session;
use crate::postgres::transcripts::{self, forget_said};
use crate::postgres::types::Time;
use crate::rows::bots::{anonymous_data, is_anonymous, merged_data, wish_to_text};

const LOCK_MEETING: &str = concat!(
    "-- lock_meeting\nSELECT ",
    meeting_columns!(),
    " FROM public.meetings m WHERE m.id = $1::bigint FOR NO KEY UPDATE"
);

/// Locks the meeting that was found and returns it as it is now, if it still is the one that was
/// meant: it may have been anonymised in between.
async fn lock_meeting(
    session: &mut Session,
    id: MeetingId,
    target: &BotTarget,
) -> Result<Option<Meeting>, Failure> {
    let row = session.query_opt(LOCK_MEETING, &[&id.get()]).await?;
    let found = row.as_ref().map(meeting).transpose()?;
    Ok(found.filter(|meeting| match target {
        BotTarget::Meeting(_) => true,
        BotTarget::Address { native_id, .. } => meeting.native_id.as_ref() == Some(native_id),
    }))
}

const SET_DATA: &str = "-- set_data
UPDATE public.meetings SET data = $2::text::jsonb, updated_at = $3::timestamptz AT TIME ZONE 'UTC'
 WHERE id = $1::bigint";

pub(super) struct MergeData {
    pub(super) user: UserId,
    pub(super) target: BotTarget,
    pub(super) members: Map<String, Value>,
    pub(super) now: Timestamp,
}

impl Operation for MergeData {
    type Answer = Option<MeetingRow>;

    async fn run(&self, session: &mut Session) -> Result<Option<MeetingRow>, Failure> {
        session.begin();
        let merged = self.merge(session).await?;
        session.commit().await?;
        Ok(merged)
    }
}

impl MergeData {
    async fn merge(&self, session: &mut Session) -> Result<Option<MeetingRow>, Failure> {
        let Some(found) = find_target(session, self.user, &self.target).await? else {
            return Ok(None);
        };
        let Some(mut meeting) = lock_meeting(session, found.meeting.id, &self.target).await? else {
            return Ok(None);
        };
        let data = merged_data(&meeting.data, self.members.clone());
        let stored = storable_json(&data).into_owned();
        session.execute(SET_DATA, &[&meeting.id.get(), &stored, &Time(self.now)]).await?;
        meeting.data = Json::from_stored(stored);
        meeting.updated_at = self.now;
        Ok(Some(MeetingRow { meeting, bot: found.bot }))
    }
}

const FORGET_ADDRESS: &str = "-- forget_address
UPDATE public.meetings
   SET platform_specific_id = NULL, data = $2::text::jsonb,
       updated_at = $3::timestamptz AT TIME ZONE 'UTC'
 WHERE id = $1::bigint";

const FORGET_WISH: &str = "-- forget_wish
UPDATE roundsman.bots SET wish = $2 WHERE meeting_id = $1";

pub(super) struct Anonymise<'a> {
    pub(super) user: UserId,
    pub(super) target: BotTarget,
    pub(super) catalog: &'a KindCatalog,
    pub(super) now: Timestamp,
}

impl Operation for Anonymise<'_> {
    type Answer = AnonymiseAnswer;

    async fn run(&self, session: &mut Session) -> Result<AnonymiseAnswer, Failure> {
        session.begin();
        let answer = self.anonymise(session).await?;
        session.commit().await?;
        Ok(answer)
    }
}

impl Anonymise<'_> {
    async fn anonymise(&self, session: &mut Session) -> Result<AnonymiseAnswer, Failure> {
        let Some(found) = find_target(session, self.user, &self.target).await? else {
            return Ok(AnonymiseAnswer::NotFound);
        };
        let id = found.meeting.id;
        // Before any row: whoever takes what is said in the meeting waits, and then finds that it has
        // no address any more.
        transcripts::lock_meeting(session, id).await?;
        let bot = hold_bot(session, id).await?.map(|record| record.bot);
        lock_presence(session, id).await?;
        let Some(meeting) = lock_meeting(session, id, &self.target).await? else {
            return Ok(AnonymiseAnswer::NotFound);
        };
        if !meeting.bot_status().is_ok_and(BotStatus::is_over) {
            return Ok(AnonymiseAnswer::NotOver(Box::new(MeetingRow { meeting, bot })));
        }
        if is_anonymous(&meeting.data) {
            return Ok(AnonymiseAnswer::Already);
        }
        forget_said(session, self.user, id).await?;
        // Those that nobody has begun to process are found by the room, which is forgotten next.
        forget_recordings(session, id, self.catalog, self.now).await?;
        forget_people(session, id).await?;
        let data = anonymous_data(&meeting.data);
        session
            .execute(FORGET_ADDRESS, &[&id.get(), &storable_json(&data), &Time(self.now)])
            .await?;
        // The address of the meeting may be in the wish too.
        session.execute(FORGET_WISH, &[&id.get(), &wish_to_text(&BotWish::default())]).await?;
        Ok(AnonymiseAnswer::Done)
    }
}
