//! Which meetings may be listened to, in the shape of Vexa's collector.

use roundsman_core::bots::Platform;
use roundsman_core::ports::MeetingRow;
use roundsman_core::users::UserId;
use roundsman_engine::FieldError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::FIELD_REQUIRED;
use crate::extract::NO_PLATFORM;
use crate::problem::Problem;
use crate::routes::live::{Missing, Named};

/// Each costs a look at the database.
const MEETINGS_MAX: usize = 100;

/// Meetings to listen to.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AuthorizeSubscribeRequest)]
pub(crate) struct AuthorizeBody {
    #[schema(required = true, nullable = false, min_items = 1, max_items = 100)]
    meetings: Option<Vec<AddressBody>>,
}

/// Where a meeting is.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MeetingAddress)]
pub(crate) struct AddressBody {
    #[schema(example = "google_meet")]
    platform: String,
    #[schema(example = "abc-defg-hij")]
    native_meeting_id: String,
}

/// Which of them the user may listen to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuthorizeSubscribe)]
pub(crate) struct AuthorizeView {
    authorized: Vec<AuthorizedView>,
    errors: Vec<String>,
    #[schema(example = 3)]
    user_id: i64,
}

/// One of them: the latest meeting there.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuthorizedMeeting)]
struct AuthorizedView {
    #[schema(example = "google_meet")]
    platform: String,
    #[schema(example = "abc-defg-hij")]
    native_id: Option<String>,
    #[schema(example = "3")]
    user_id: String,
    #[schema(example = "7")]
    meeting_id: String,
}

impl AuthorizeBody {
    pub(crate) fn check(self) -> Result<Vec<Named>, Problem> {
        let meetings = self.meetings.ok_or_else(|| Problem::field("meetings", FIELD_REQUIRED))?;
        if !(1..=MEETINGS_MAX).contains(&meetings.len()) {
            let words = format!("ensure this value has from 1 to {MEETINGS_MAX} items");
            return Err(Problem::field("meetings", words));
        }
        let unknown = |(index, address): (usize, &AddressBody)| {
            let field = || format!("meetings[{index}].platform");
            let known = Platform::parse(&address.platform);
            known.err().map(|_| FieldError::new(field(), NO_PLATFORM))
        };
        let errors: Vec<_> = meetings.iter().enumerate().filter_map(unknown).collect();
        if !errors.is_empty() {
            return Err(Problem::invalid(errors));
        }
        let named = meetings.into_iter().map(|AddressBody { platform, native_meeting_id }| {
            Named::Address { platform, native_id: native_meeting_id.trim().to_owned() }
        });
        Ok(named.collect())
    }
}

impl AuthorizeView {
    pub(crate) fn new(user: UserId) -> Self {
        AuthorizeView { authorized: Vec::new(), errors: Vec::new(), user_id: user.get() }
    }

    pub(crate) fn authorize(&mut self, row: &MeetingRow) {
        let meeting = &row.meeting;
        self.authorized.push(AuthorizedView {
            platform: meeting.platform.clone(),
            native_id: meeting.native_id.clone(),
            user_id: meeting.user_id.get().to_string(),
            meeting_id: meeting.id.to_string(),
        });
    }

    /// An id that cannot be one refuses the whole request, as in Vexa.
    pub(crate) fn refuse(&mut self, index: usize, missing: &Missing) -> Result<(), Problem> {
        if let Missing::InvalidId { .. } = missing {
            let field = format!("meetings[{index}].native_meeting_id");
            return Err(Problem::field(field, missing.to_string()));
        }
        self.errors.push(format!("meetings[{index}] {missing}"));
        Ok(())
    }
}
