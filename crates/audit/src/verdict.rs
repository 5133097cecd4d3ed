//! What an audit says: scores, findings, and the facts a report needs. It is stored as it is, so a
//! field may be added but never change its meaning within one [`ENGINE_VERSION`].

use std::collections::BTreeMap;

use roundsman_core::Timestamp;
use serde::{Deserialize, Serialize};

/// Raised when the same page would be judged otherwise. Scores of different versions are compared
/// with a warning.
pub const ENGINE_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub engine_version: u32,
    pub asked_url: String,
    pub final_url: String,
    pub looked_at: Timestamp,
    pub took_ms: u64,
    pub device: Device,
    /// 0 to 100: the categories by their [`Category::weight`].
    pub overall: u8,
    /// All of them, in the order of a report.
    pub categories: Vec<CategoryScore>,
    /// `A+` to `F`, as MDN's Observatory grades. The score it comes from may be above 100.
    pub security_grade: String,
    pub security_points: i32,
    /// Every check, passed or not, in the order of the categories.
    pub checks: Vec<Finding>,
    pub raw_data: RawData,
    pub facts: Facts,
}

impl Verdict {
    pub fn score(&self, category: Category) -> u8 {
        self.categories.iter().find(|scored| scored.category == category).map_or(0, |it| it.score)
    }
}

/// Whose network and screen the estimates are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    #[default]
    Mobile,
    Desktop,
}

/// What an audit scores. The first five keep the names and formulas of the original system; `search`
/// is how Lighthouse judges what search engines see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    Performance,
    Seo,
    Search,
    Security,
    Accessibility,
    BestPractices,
    Mobile,
    Conversion,
    Branding,
    Presence,
}

impl Category {
    pub const ALL: [Category; 10] = [
        Category::Performance,
        Category::Seo,
        Category::Search,
        Category::Security,
        Category::Accessibility,
        Category::BestPractices,
        Category::Mobile,
        Category::Conversion,
        Category::Branding,
        Category::Presence,
    ];

    /// The share of the overall score in percent. They add up to 100.
    pub const fn weight(self) -> u8 {
        match self {
            Category::Performance | Category::Security => 20,
            Category::Accessibility => 15,
            Category::Seo | Category::Search => 10,
            Category::BestPractices
            | Category::Mobile
            | Category::Conversion
            | Category::Branding
            | Category::Presence => 5,
        }
    }

    pub const fn key(self) -> &'static str {
        match self {
            Category::Performance => "performance",
            Category::Seo => "seo",
            Category::Search => "search",
            Category::Security => "security",
            Category::Accessibility => "accessibility",
            Category::BestPractices => "best_practices",
            Category::Mobile => "mobile",
            Category::Conversion => "conversion",
            Category::Branding => "branding",
            Category::Presence => "presence",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Category::Performance => "Performance",
            Category::Seo => "SEO basics",
            Category::Search => "Search engines",
            Category::Security => "Security",
            Category::Accessibility => "Accessibility",
            Category::BestPractices => "Best practices",
            Category::Mobile => "Mobile",
            Category::Conversion => "Conversion",
            Category::Branding => "Branding",
            Category::Presence => "Presence",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryScore {
    pub category: Category,
    pub score: u8,
    pub light: Light,
}

/// The original's traffic light: red to 49, yellow to 79, green from 80.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Light {
    Red,
    Yellow,
    Green,
}

impl Light {
    pub const fn of(score: u8) -> Self {
        match score {
            0..=49 => Light::Red,
            50..=79 => Light::Yellow,
            _ => Light::Green,
        }
    }
}

/// One check and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Unique within a verdict.
    pub key: String,
    pub category: Category,
    pub outcome: Outcome,
    /// 0 to 100; none if the check does not apply or could not be made.
    pub score: Option<u8>,
    /// Its share of its category, relative to the other checks of the category. Zero: it only informs.
    pub weight: f64,
    /// What it changes in the Observatory's points. Only checks of security have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifier: Option<i32>,
    /// How much mending it would help. `None` for what is in order.
    pub impact: Impact,
    /// How many points of the overall score it costs.
    pub points_lost: f64,
    /// Checks of the same topic see the same defect: a report shows them together.
    pub topic: String,
    pub title: String,
    pub explanation: String,
    /// Empty for what is in order.
    pub how_to_fix: String,
    pub evidence: Vec<Evidence>,
    /// What more of the same there was than `evidence` holds.
    pub evidence_left_out: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Passed,
    Failed,
    NotApplicable,
    /// Something was missing that the check needs; `explanation` says what.
    NotMeasured,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Impact {
    None,
    Low,
    Medium,
    High,
}

/// Where a finding can be seen. The text is of the page: it is foreign and bounded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub kind: EvidenceKind,
    pub text: String,
    /// The line of the page's source, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// A start tag of the page.
    Element,
    /// `name: value`.
    Header,
    Url,
    /// A line of robots.txt, a value, a measurement.
    Text,
}

/// What the original stores beside the scores. Its copy of the foreign page is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawData {
    /// The original's fourteen keys.
    pub checks: BTreeMap<String, OriginalCheck>,
    pub final_url: String,
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OriginalCheck {
    pub passed: bool,
    pub score: u8,
    /// Null where the original has none.
    pub value: serde_json::Value,
}

/// What was measured or estimated, and what could not be.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Facts {
    pub status: u16,
    pub title: Option<String>,
    pub ttfb_ms: u64,
    /// Estimated for the device's network, not measured.
    pub fcp_est_ms: u64,
    pub lcp_est_ms: u64,
    pub browser: Option<BrowserFacts>,
    /// As transferred, of everything that was fetched.
    pub total_bytes: u64,
    pub request_count: u32,
    pub http_version: String,
    pub tls_version: Option<String>,
    pub cert_expires_at: Option<Timestamp>,
    pub cert_issuer: Option<String>,
    pub redirects: Vec<Redirect>,
    /// The page's headers as they came. Cookies without their values.
    pub headers: Vec<(String, String)>,
    /// The page first, then what it refers to, for the waterfall.
    pub requests: Vec<RequestFact>,
    /// Not fetched because of the budget.
    pub requests_left_out: u32,
    pub missing: Vec<Missing>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BrowserFacts {
    pub name: String,
    pub first_contentful_paint_ms: Option<u64>,
    pub largest_contentful_paint_ms: Option<u64>,
    pub largest_element: Option<String>,
    pub layout_shift: f64,
    pub blocking_time_ms: u64,
    pub dom_content_loaded_ms: Option<u64>,
    pub load_ms: Option<u64>,
    pub transfer_bytes: u64,
    pub requests: u32,
    pub console_errors: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    pub from: String,
    pub to: Option<String>,
    pub status: u16,
    pub took_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFact {
    pub url: String,
    /// `document`, `stylesheet`, `script`, `image`, `font`, `icon`, `media`, `frame`, `manifest`, `preload`.
    pub kind: String,
    /// None if it could not be fetched; `problem` says why.
    pub status: Option<u16>,
    pub problem: Option<String>,
    pub transfer_bytes: u64,
    pub is_blocking: bool,
    pub began_ms: u64,
    pub dns_ms: u64,
    pub connect_ms: u64,
    pub tls_ms: u64,
    pub wait_ms: u64,
    pub download_ms: u64,
}

/// A measurement that is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub what: String,
    pub reason: String,
}
