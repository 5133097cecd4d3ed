//! The services, each in its documented shapes.

mod fal;
mod gemini_image;
mod kling;
mod kling3;
mod openai_video;
mod replicate;
mod runway;
mod veo;
mod veo_vertex;

use serde_json::{Value, json};

use super::faults::Wrong;
use super::service::Service;
use crate::daily::http::Reply;

/// Whose shapes a stand-in has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    Fal,
    GeminiImage,
    Kling,
    Kling3,
    OpenAiVideo,
    Replicate,
    Runway,
    Veo,
    VeoVertex,
}

impl Provider {
    pub(super) fn service(self) -> Box<dyn Service> {
        match self {
            Provider::Fal => Box::new(fal::Fal),
            Provider::GeminiImage => Box::new(gemini_image::GeminiImage),
            Provider::Kling => Box::new(kling::Kling),
            Provider::Kling3 => Box::new(kling3::Kling3),
            Provider::OpenAiVideo => Box::new(openai_video::OpenAiVideo),
            Provider::Replicate => Box::new(replicate::Replicate),
            Provider::Runway => Box::new(runway::Runway),
            Provider::Veo => Box::new(veo::Veo),
            Provider::VeoVertex => Box::new(veo_vertex::VeoVertex),
        }
    }
}

/// The number of a file in `/files/7.mp4`.
fn file_number(name: &str) -> usize {
    name.split('.').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Kling's envelope of errors, the same in both generations.
fn kling_error(status: u16, code: u32, message: &str) -> Reply {
    let body = json!({"code": code, "message": message, "request_id": "r-1"});
    Reply::new(status, body.to_string())
}

fn kling_wrong(what: Wrong) -> Reply {
    match what {
        Wrong::Key => kling_error(401, 1000, "Authentication failed"),
        // The same status as for a busy account.
        Wrong::Billing => kling_error(429, 1102, "Account balance not enough"),
        Wrong::Busy => kling_error(429, 1303, "parallel task over resource pack limit"),
        Wrong::Params => kling_error(400, 1201, "Request parameters are invalid"),
        Wrong::Content => kling_error(400, 1301, "Trigger the content security policy"),
        Wrong::Server => kling_error(500, 5000, "Internal server error"),
        Wrong::Forbidden => kling_error(403, 1304, "IP whitelist policy"),
        Wrong::Missing => kling_error(404, 1203, "The requested resource does not exist"),
    }
}

/// Google's errors.
fn google_wrong(what: Wrong) -> Reply {
    let (code, status, message) = match what {
        Wrong::Key => (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        Wrong::Billing => (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your quota: check your plan and billing details",
        ),
        Wrong::Busy => (429, "RESOURCE_EXHAUSTED", "Too many concurrent operations"),
        Wrong::Params => (400, "INVALID_ARGUMENT", "Unsupported aspect ratio"),
        Wrong::Content => (400, "INVALID_ARGUMENT", "The prompt goes against our usage guidelines"),
        Wrong::Server => (500, "INTERNAL", "Internal error encountered."),
        Wrong::Forbidden => (403, "PERMISSION_DENIED", "The caller does not have permission"),
        Wrong::Missing => (404, "NOT_FOUND", "Operation not found"),
    };
    let error = json!({"error": {"code": code, "message": message, "status": status}});
    Reply::new(code, error.to_string())
}

fn created(body: &Value) -> Reply {
    Reply::new(201, body.to_string())
}
