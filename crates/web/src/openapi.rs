//! The OpenAPI document: what the routes say about themselves, plus what is true of all of them.

use std::collections::BTreeSet;

use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use crate::problem::Code;
use crate::routes::documented;
use crate::views::{ProblemView, ValidationProblemShape};

/// The schema and type of almost every problem.
const PROBLEM: (&str, &str) = ("Problem", "application/problem+json");

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Roundsman",
        description = "Keeps your database true about work that happens somewhere else: durable \
            keyed jobs, the workers that do them, and the systems built on them.\n\n\
            Every error is an `application/problem+json` document whose `code` is a stable word. \
            The arrays beside the security schemes name the token scope that a route needs; a \
            token without scopes may do everything its user may, and every token may read.",
    ),
    tags(
        (name = "jobs", description = "Asking for jobs and looking at them"),
        (name = "worker", description = "The worker protocol: how a worker in any language takes part"),
        (name = "bots", description = "Bots that attend meetings: starting, stopping, configuring them"),
        (name = "callbacks", description = "What bots report, each with a token of its own"),
        (name = "transcripts", description = "What was said: reading, exporting, searching, sharing it"),
        (name = "live", description = "What is said, as it is said"),
        (name = "ingest", description = "What producers of transcripts send, each with its meeting's token"),
        (name = "presence", description = "Meetings in video rooms: who is in them, who was, and what the provider tells"),
        (name = "recordings", description = "Recordings of meetings in video rooms, and who agrees to them"),
        (name = "audits", description = "Audits of websites: asking for them, reading what they found, having them made again and again"),
        (name = "rooms", description = "The shared documents of projects, who may see them, and their history"),
        (name = "tasks", description = "Work that outside generators do for projects"),
        (name = "alarms", description = "What rooms wait for, and what their users want to be woken for"),
        (name = "providers", description = "What providers of video rooms tell, signed with a secret"),
        (name = "vexa", description = "Bots and meetings as clients of the Vexa API know them"),
        (name = "webhooks", description = "Where a user is told of their meetings"),
        (name = "admin", description = "Users and tokens, for the operator"),
        (name = "server", description = "The server itself"),
    ),
    components(schemas(ProblemView, ValidationProblemShape)),
)]
struct Preamble;

/// The whole document.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let (_, mut document) = documented().split_for_parts();
    for item in document.paths.paths.values_mut() {
        let operations =
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in operations.into_iter().flatten() {
            add_common_problems(operation);
        }
    }
    document
}

/// The document as it is committed and served: indented, with a line end at the end.
pub fn openapi_json() -> String {
    let mut text = openapi().to_pretty_json().expect("the document holds nothing but JSON");
    text.push('\n');
    text
}

/// What comes before the routes.
pub(crate) fn preamble() -> utoipa::openapi::OpenApi {
    let mut document = Preamble::openapi();
    env!("CARGO_PKG_VERSION").clone_into(&mut document.info.version);
    let components = document.components.get_or_insert_default();
    let key = |header: &str, words: &str| {
        SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description(header, words)))
    };
    components.add_security_scheme("api_key", key("X-API-Key", "A user's token."));
    components.add_security_scheme("admin_key", key("X-Admin-API-Key", "The operator's token."));
    let words = "A bot's own token; for stock Vexa bots it is in the callback's address instead.";
    components.add_security_scheme("bot_key", key("X-Bot-Token", words));
    let words = "Daily's signature of `X-Webhook-Timestamp` and the body.";
    components.add_security_scheme("daily_signature", key("X-Webhook-Signature", words));
    let mut meeting = Http::new(HttpAuthScheme::Bearer);
    meeting.bearer_format = Some("JWT".to_owned());
    meeting.description = Some("A meeting's token; it may be in the message instead.".to_owned());
    components.add_security_scheme("meeting_token", SecurityScheme::Http(meeting));
    let mut bearer = Http::new(HttpAuthScheme::Bearer);
    bearer.description = Some("A user's token, the operator's, or a bot's.".to_owned());
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    document
}

/// The problems that follow from what a route takes, so that no route can forget one.
fn add_common_problems(operation: &mut Operation) {
    let mut codes = vec![Code::Internal];
    let secured =
        operation.security.iter().flatten().any(|need| *need != SecurityRequirement::default());
    if secured {
        codes.extend([Code::Unauthorized, Code::Forbidden, Code::StorageUnavailable]);
        codes.extend([Code::TimedOut, Code::ShuttingDown]);
    }
    let tag = operation.tags.iter().flatten().next().map(String::as_str);
    let vexa = matches!(tag, Some("admin" | "vexa" | "webhooks" | "transcripts"));
    match tag {
        Some("admin") => {
            // These routes refuse a missing token as they refuse a wrong one.
            codes.retain(|code| *code != Code::Unauthorized);
            codes.push(Code::AdminNotConfigured);
        }
        Some("vexa" | "transcripts") => codes.retain(|code| *code != Code::Unauthorized),
        // A socket is accepted first; what is wrong is told in frames.
        Some("live") => codes = vec![Code::Internal],
        Some("callbacks") => {
            codes.retain(|code| *code != Code::Forbidden);
            codes.push(Code::TooManyRefusals);
        }
        Some("providers") => codes = vec![Code::Internal, Code::TooLarge, Code::TooManyRefusals],
        _ => {}
    }
    if operation.request_body.is_some() && tag != Some("providers") {
        codes.extend([Code::InvalidJson, Code::TooLarge, Code::UnsupportedMediaType]);
        codes.push(Code::InvalidRequest);
    }
    if operation.parameters.as_ref().is_some_and(|parameters| !parameters.is_empty()) {
        codes.push(Code::InvalidRequest);
    }
    if matches!(operation.operation_id.as_deref(), Some("enqueue_jobs" | "create_audit")) {
        codes.push(Code::IdempotencyKeyReused);
    }
    let statuses: BTreeSet<u16> = codes.iter().map(|code| code.status().as_u16()).collect();
    for status in statuses {
        let here = codes.iter().filter(|code| code.status().as_u16() == status);
        let words: BTreeSet<String> = here.map(|code| format!("`{}`", code.word())).collect();
        let words: Vec<String> = words.into_iter().collect();
        let key = status.to_string();
        let listed = vexa && status == Code::InvalidRequest.status().as_u16();
        let (schema, content_type) =
            if listed { ("ValidationProblem", "application/json") } else { PROBLEM };
        let response = || problem(&words.join(", "), schema, content_type);
        operation.responses.responses.entry(key).or_insert_with(response);
    }
}

fn problem(
    description: &str,
    schema: &str,
    content_type: &str,
) -> RefOr<utoipa::openapi::Response> {
    let schema = Some(Ref::from_schema_name(schema));
    let content = ContentBuilder::new().schema(schema).build();
    let response = ResponseBuilder::new().description(description);
    RefOr::T(response.content(content_type, content).build())
}
