//! Links to transcripts, searches in them, and what can be changed of them.

use roundsman_core::Timestamp;
use roundsman_core::ports::{Rename, Rewritten, SearchHit, SearchPage, Share};
use roundsman_core::transcripts::{NAME_CHARS_MAX, SearchQuery, highlight, line_body};
use roundsman_engine::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::problem::FIELD_REQUIRED;
use super::transcript::SegmentShape;
use super::{next_before, page_rows};
use crate::problem::{Place, Problem};

/// A link lasts this long unless asked otherwise.
const SHARE_SECS_DEFAULT: u64 = 900;
const SHARE_SECS_MIN: u64 = 60;
const SHARE_SECS_MAX: u64 = 86_400;

/// How long a link lasts.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ShareQuery {
    /// Seconds; less than 60 is taken as 60, more than 86400 as 86400.
    #[param(default = 900)]
    ttl_seconds: Option<i64>,
}

/// A new link. Its secret is here and nowhere else.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NewShare)]
pub(crate) struct NewShareView {
    /// The link's secret, which is all that is needed to read.
    pub(crate) share_id: String,
    /// As text; with another ending, another format.
    #[schema(example = "https://meetings.example.org/public/transcripts/….txt")]
    pub(crate) url: String,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) expires_at: Timestamp,
    #[schema(example = 900)]
    pub(crate) expires_in_seconds: u64,
    /// Ends the link: see `DELETE /transcripts/shares/{id}`.
    #[schema(example = 3)]
    pub(crate) id: i64,
}

/// The links to a meeting that hold, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ShareList)]
pub(crate) struct ShareListView {
    shares: Vec<ShareView>,
}

/// A link, without its secret, which nobody has kept.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Share)]
struct ShareView {
    #[schema(example = 3)]
    id: i64,
    #[schema(example = 7)]
    meeting_id: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// What to look for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchTermsQuery {
    /// Words, `"phrases"` and `pref*`; all of them must occur in a segment.
    #[param(example = "budget \"next year\"")]
    q: Option<String>,
    /// Only final segments with smaller numbers: `next_before` of the page before.
    before: Option<i64>,
    /// Segments on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

/// A page of what was found: live segments first, then final ones, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SearchResults)]
pub(crate) struct SearchView {
    results: Vec<SearchHitView>,
    /// Send this as `before` for the next page; `null` after the last one.
    next_before: Option<i64>,
}

/// A segment that was found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SearchHit)]
struct SearchHitView {
    /// `null` while the segment is live.
    id: Option<i64>,
    #[schema(example = 7)]
    meeting_id: i64,
    #[schema(example = "google_meet")]
    platform: String,
    #[schema(example = "abc-defg-hij")]
    native_meeting_id: Option<String>,
    #[schema(value_type = SegmentShape)]
    segment: Value,
    /// The text, escaped for HTML, with what was found in `<mark>`.
    #[schema(example = "the <mark>budget</mark> of <mark>next year</mark>")]
    highlight: String,
    /// From where to where in the text, in bytes of UTF-8.
    #[schema(example = json!([[4, 10], [14, 23]]))]
    hits: Vec<(usize, usize)>,
}

/// Another name for a speaker.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SpeakerRename)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenameBody {
    #[schema(required = true, nullable = false, example = "Speaker 1")]
    from: Option<String>,
    #[schema(required = true, nullable = false, example = "Ada")]
    to: Option<String>,
}

/// What was changed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TranscriptChange)]
pub(crate) struct RewrittenView {
    pub(crate) message: String,
    #[schema(example = 7)]
    meeting_id: i64,
    /// How many segments.
    #[schema(example = 12)]
    changed: u64,
}

impl ShareQuery {
    pub(crate) fn secs(&self) -> u64 {
        let asked =
            self.ttl_seconds.map_or(SHARE_SECS_DEFAULT, |secs| u64::try_from(secs).unwrap_or(0));
        asked.clamp(SHARE_SECS_MIN, SHARE_SECS_MAX)
    }
}

impl ShareListView {
    pub(crate) fn new(shares: &[Share]) -> Self {
        let view = |share: &Share| ShareView {
            id: share.id,
            meeting_id: share.meeting_id.get(),
            created_at: share.created_at,
            expires_at: share.expires_at,
        };
        ShareListView { shares: shares.iter().map(view).collect() }
    }
}

impl SearchTermsQuery {
    pub(crate) fn check(self) -> Result<(SearchQuery, SearchPage), Problem> {
        let query = SearchQuery::parse(self.q.as_deref().unwrap_or_default())
            .map_err(|error| Problem::field("q", error.to_string()).at(Place::Query))?;
        let rows_max = page_rows(self.limit).map_err(|problem| problem.at(Place::Query))?;
        Ok((query, SearchPage { before: self.before, rows_max }))
    }
}

impl SearchView {
    pub(crate) fn new(hits: &[SearchHit], query: &SearchQuery, rows_max: u32) -> Self {
        // Live ones have no number. A page of nothing else is followed by all that is final.
        let ids: Vec<i64> = hits.iter().map(|hit| hit.id.unwrap_or(i64::MAX)).collect();
        SearchView {
            next_before: next_before(ids.into_iter(), rows_max),
            results: hits.iter().map(|hit| SearchHitView::new(hit, query)).collect(),
        }
    }
}

impl SearchHitView {
    fn new(hit: &SearchHit, query: &SearchQuery) -> Self {
        let found = highlight(&hit.line.segment.content.text, query);
        SearchHitView {
            id: hit.id,
            meeting_id: hit.meeting_id.get(),
            platform: hit.platform.clone(),
            native_meeting_id: hit.native_id.clone(),
            segment: line_body(&hit.line),
            highlight: found.html,
            hits: found.hits,
        }
    }
}

impl RenameBody {
    pub(crate) fn check(self) -> Result<Rename, Problem> {
        let RenameBody { from, to } = self;
        let fields = [("from", &from), ("to", &to)];
        let errors: Vec<FieldError> = fields
            .into_iter()
            .filter_map(|(field, name)| wrong_name(field, name.as_deref()))
            .collect();
        match (from, to) {
            (Some(from), Some(to)) if errors.is_empty() => Ok(Rename { from, to }),
            _ => Err(Problem::invalid(errors)),
        }
    }
}

fn wrong_name(field: &str, name: Option<&str>) -> Option<FieldError> {
    let Some(name) = name else { return Some(FieldError::new(field, FIELD_REQUIRED)) };
    let fits = !name.trim().is_empty() && name.chars().count() <= NAME_CHARS_MAX;
    let words = format!("must be a name of at most {NAME_CHARS_MAX} characters");
    let plain = !name.chars().any(char::is_control);
    (!fits || !plain).then(|| FieldError::new(field, words))
}

impl RewrittenView {
    pub(crate) fn new(message: impl Into<String>, rewritten: &Rewritten) -> Self {
        RewrittenView {
            message: message.into(),
            meeting_id: rewritten.meeting_id.get(),
            changed: rewritten.changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_lasts_between_a_minute_and_a_day() {
        let secs = |ttl_seconds| ShareQuery { ttl_seconds }.secs();
        let cases = [(None, 900), (Some(0), 60), (Some(-5), 60), (Some(3600), 3600)];
        for (asked, lasts) in cases {
            assert_eq!(secs(asked), lasts, "{asked:?}");
        }
        assert_eq!(secs(Some(i64::MAX)), 86_400);
    }
}
