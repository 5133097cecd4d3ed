//! One meeting among those at an address.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{BotTarget, MeetingRow};
use serde::Deserialize;

use super::params::{AddressPath, AppQuery};
use crate::problem::{Code, Problem};
use crate::state::Shared;

/// A meeting in a path such as `/transcripts/{platform}/{native_meeting_id}?meeting_id=7`: the
/// latest there, or the one with that number, if it is there.
#[derive(Debug)]
pub(crate) struct MeetingPath {
    address: AddressPath,
    meeting_id: Option<MeetingId>,
}

#[derive(Debug, Deserialize)]
struct NumberQuery {
    meeting_id: Option<i64>,
}

impl MeetingPath {
    pub(crate) fn target(&self) -> BotTarget {
        self.meeting_id.map_or_else(|| self.address.target(), BotTarget::Meeting)
    }

    /// Whether a meeting that was found by its number is also where the path says.
    pub(crate) fn means(&self, row: &MeetingRow) -> bool {
        let AddressPath { platform, native_id } = &self.address;
        let meeting = &row.meeting;
        let there = meeting.platform == platform.as_str()
            && meeting.native_id.as_deref() == Some(native_id.as_str());
        self.meeting_id.is_none() || there
    }

    /// What to change. With a number it is looked up first, so that it is never another meeting.
    pub(crate) async fn checked(
        &self,
        state: &Shared,
        user: roundsman_core::users::UserId,
    ) -> Result<BotTarget, Problem> {
        let target = self.target();
        if self.meeting_id.is_some() {
            let row = state.bots.meeting(user, target.clone()).await?;
            row.filter(|row| self.means(row)).ok_or_else(|| self.not_found())?;
        }
        Ok(target)
    }

    /// In the words that Vexa's clients know.
    pub(crate) fn not_found(&self) -> Problem {
        let AddressPath { platform, native_id } = &self.address;
        let detail = match self.meeting_id {
            None => format!("Meeting not found for platform {platform} and ID {native_id}"),
            Some(id) => format!(
                "Meeting not found for platform {platform}, ID {native_id}, and meeting_id {id}"
            ),
        };
        Problem::new(Code::NotFound, detail)
    }

    pub(crate) fn address(&self) -> &AddressPath {
        &self.address
    }
}

impl FromRequestParts<Shared> for MeetingPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let address = AddressPath::from_request_parts(parts, state).await?;
        let AppQuery(NumberQuery { meeting_id }) =
            AppQuery::from_request_parts(parts, state).await?;
        Ok(MeetingPath { address, meeting_id: meeting_id.map(MeetingId::new) })
    }
}
