//! The parts of a description.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Who asks.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(in crate::executors) enum Auth {
    None {},
    /// `Authorization: Bearer KEY`, or another word before the key.
    Bearer {
        #[serde(default = "bearer")]
        prefix: String,
    },
    /// A header of its own.
    Header {
        name: String,
    },
    /// A parameter of the address.
    Query {
        name: String,
    },
    /// A token of our making, signed with HMAC-SHA256, as Kling wants it.
    JwtHs256 {
        #[serde(default = "ttl_secs")]
        ttl_secs: u64,
        /// The token is good from this long ago, for clocks that go wrong.
        #[serde(default = "skew_secs")]
        skew_secs: u64,
    },
    /// OAuth with the key of a Google service account.
    GoogleServiceAccount {
        scope: String,
        /// Where tokens are got; the key's own address if it is not said.
        token_url: Option<String>,
    },
}

fn bearer() -> String {
    "Bearer ".to_owned()
}

const fn ttl_secs() -> u64 {
    1800
}

const fn skew_secs() -> u64 {
    5
}

/// A parameter of tasks.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::executors) struct ParamShape {
    pub(in crate::executors) kind: ParamKind,
    pub(in crate::executors) required: bool,
    pub(in crate::executors) default: Option<toml::Value>,
    /// Nothing else is taken.
    pub(in crate::executors) values: Vec<toml::Value>,
    pub(in crate::executors) chars_max: Option<usize>,
    /// Other names that it goes by.
    pub(in crate::executors) aliases: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::executors) enum ParamKind {
    #[default]
    Any,
    /// A number is taken for its text.
    Text,
    /// A text of digits is taken for its number.
    Integer,
    Number,
    Flag,
    Object,
    List,
    /// An address, a `data:` address, or base64; or a list of these.
    Picture,
}

/// Parameters that follow from others.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct Variant {
    /// The parameter that must be there; without it the variant always holds.
    pub(in crate::executors) when: Option<String>,
    #[serde(default)]
    pub(in crate::executors) set: toml::Table,
    /// The task is not taken, and this is said to its user.
    pub(in crate::executors) refuse: Option<String>,
}

/// A request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct RequestShape {
    #[serde(default = "get")]
    pub(in crate::executors) method: String,
    pub(in crate::executors) path: String,
    #[serde(default)]
    pub(in crate::executors) query: BTreeMap<String, String>,
    #[serde(default)]
    pub(in crate::executors) headers: BTreeMap<String, String>,
    pub(in crate::executors) body: Option<toml::Value>,
    /// The body is a form (`multipart/form-data`), not JSON.
    #[serde(default)]
    pub(in crate::executors) is_form: bool,
}

fn get() -> String {
    "GET".to_owned()
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct SubmitShape {
    pub(in crate::executors) request: RequestShape,
    /// Where the answer has the task's id; none if it has the result.
    #[serde(default)]
    pub(in crate::executors) id: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct PollShape {
    pub(in crate::executors) request: RequestShape,
    /// Where the answer has its list of tasks; the answer is about one task if it is not said.
    pub(in crate::executors) items: Option<String>,
    /// Where a task of that list has its id.
    pub(in crate::executors) item_id: Option<String>,
    #[serde(default = "one")]
    pub(in crate::executors) batch_max: usize,
    /// Where the status is, from here on within one task; or [`done`](PollShape::done).
    pub(in crate::executors) status: Option<String>,
    /// What the service's words mean.
    #[serde(default)]
    pub(in crate::executors) statuses: BTreeMap<String, StatusWord>,
    /// Where it says `true` when the task has ended.
    pub(in crate::executors) done: Option<String>,
    /// What is there only when the task has failed.
    pub(in crate::executors) failed: Option<String>,
    pub(in crate::executors) progress: Option<String>,
    /// What the progress counts to.
    #[serde(default = "hundred")]
    pub(in crate::executors) progress_max: f64,
    /// Why a task failed.
    #[serde(default)]
    pub(in crate::executors) message: Vec<String>,
    #[serde(default)]
    pub(in crate::executors) code: Vec<String>,
}

const fn one() -> usize {
    1
}

const fn hundred() -> f64 {
    100.0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::executors) enum StatusWord {
    Pending,
    Succeeded,
    Failed,
    Cancelled,
    Expired,
}

/// What a task brings.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::executors) struct ResultShape {
    /// Where links to files are. What is there and is no link is passed over.
    pub(in crate::executors) files: Vec<String>,
    /// Where files are that came with the answer, in base64.
    pub(in crate::executors) inline: Vec<InlineShape>,
    /// A file under an address of the service's that needs its key.
    pub(in crate::executors) path: Option<String>,
    /// What else is told, by the name it gets.
    pub(in crate::executors) data: BTreeMap<String, String>,
    pub(in crate::executors) needs: NeedsWord,
    /// Why there is nothing, where the service says so.
    pub(in crate::executors) none: Vec<NoneShape>,
    /// The result is under another address.
    pub(in crate::executors) request: Option<SecondShape>,
    pub(in crate::executors) lifetime_secs: Option<u64>,
    /// Whether the service's own addresses want the key when a file is downloaded.
    pub(in crate::executors) download_with_key: bool,
    /// Where `gs://bucket/name` is read, with the key.
    pub(in crate::executors) storage_url: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct InlineShape {
    pub(in crate::executors) at: String,
    /// From there.
    pub(in crate::executors) data: String,
    pub(in crate::executors) media_type: Option<String>,
}

/// What makes a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::executors) enum NeedsWord {
    #[default]
    File,
    /// A file, or something told.
    Anything,
}

/// A reason for no result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct NoneShape {
    pub(in crate::executors) at: String,
    /// Only if it is one of these; whatever it is if none are named.
    #[serde(default)]
    pub(in crate::executors) values: Vec<String>,
    pub(in crate::executors) code: String,
}

/// A request for the result of a task that has ended.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct SecondShape {
    pub(in crate::executors) request: RequestShape,
    /// Where the poll's answer has the address; used only if it is one of the service's own.
    pub(in crate::executors) url: Option<String>,
    /// What it answers when the task has failed after all.
    #[serde(default)]
    pub(in crate::executors) failed_http: Vec<u16>,
}

/// How the service says that something is wrong.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::executors) struct ErrorShape {
    /// What every good answer has.
    pub(in crate::executors) ok: Option<OkShape>,
    pub(in crate::executors) code: Vec<String>,
    pub(in crate::executors) message: Vec<String>,
    /// The first that fits decides.
    pub(in crate::executors) rules: Vec<RuleShape>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct OkShape {
    pub(in crate::executors) at: String,
    pub(in crate::executors) equals: toml::Value,
}

/// What a code means. All conditions that are named must hold.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct RuleShape {
    #[serde(default)]
    pub(in crate::executors) http: Vec<u16>,
    /// `1301`, `1100-1102`, `SAFETY.*`.
    #[serde(default)]
    pub(in crate::executors) codes: Vec<String>,
    /// Somewhere in the message, in whatever case.
    pub(in crate::executors) contains: Option<String>,
    #[serde(rename = "as")]
    pub(in crate::executors) code: String,
    /// Whether it may go better later; by the code if it is not said.
    pub(in crate::executors) retry: Option<bool>,
    pub(in crate::executors) after_secs: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::executors) enum IdempotencyWord {
    #[default]
    None,
    LookUp,
    Repeat,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct LookUpShape {
    pub(in crate::executors) request: RequestShape,
    pub(in crate::executors) id: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct CancelShape {
    pub(in crate::executors) request: RequestShape,
    /// What it answers when there is nothing to cancel any more; 404 always does.
    #[serde(default)]
    pub(in crate::executors) too_late_http: Vec<u16>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::executors) struct WebhookShape {
    pub(in crate::executors) verify: VerifyWord,
    pub(in crate::executors) id: Vec<String>,
    #[serde(default = "tolerance_secs")]
    pub(in crate::executors) tolerance_secs: u64,
    /// Where the service shows its public keys.
    pub(in crate::executors) keys_url: Option<String>,
}

const fn tolerance_secs() -> u64 {
    300
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::executors) enum VerifyWord {
    /// Standard Webhooks.
    Standard,
    /// Ed25519, with public keys of the service.
    Fal,
    /// As the standard, or over the body alone.
    Kling,
    /// A token of ours in the callback's address.
    Token,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::executors) struct Schedule {
    pub(in crate::executors) first_secs: f64,
    pub(in crate::executors) factor: f64,
    pub(in crate::executors) max_secs: f64,
    pub(in crate::executors) jitter_percent: u8,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule { first_secs: 10.0, factor: 1.0, max_secs: 10.0, jitter_percent: 0 }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_field_names, reason = "every limit has its unit in its name")]
pub(in crate::executors) struct Limits {
    pub(in crate::executors) submit_secs_max: u64,
    pub(in crate::executors) poll_secs_max: u64,
    pub(in crate::executors) answer_bytes_max: usize,
    pub(in crate::executors) picture_bytes_max: usize,
    pub(in crate::executors) pictures_max: usize,
    pub(in crate::executors) file_bytes_max: u64,
    pub(in crate::executors) download_secs_max: u64,
    /// Requests at once, of this node.
    pub(in crate::executors) calls_max: usize,
    /// Tasks under way at once, of the account; 0 for no limit.
    pub(in crate::executors) slots_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            submit_secs_max: 60,
            poll_secs_max: 10,
            answer_bytes_max: 16 * 1024 * 1024,
            picture_bytes_max: 20 * 1024 * 1024,
            pictures_max: 8,
            file_bytes_max: 2 * 1024 * 1024 * 1024,
            download_secs_max: 900,
            calls_max: 16,
            slots_max: 0,
        }
    }
}
