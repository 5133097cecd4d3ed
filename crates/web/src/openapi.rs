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
use crate::views::ProblemView;

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
        (name = "admin", description = "Users and tokens, for the operator"),
        (name = "server", description = "The server itself"),
    ),
    components(schemas(ProblemView)),
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
    let mut bearer = Http::new(HttpAuthScheme::Bearer);
    bearer.description = Some("A user's token, or the operator's.".to_owned());
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
        codes.extend([Code::StorageFull, Code::TimedOut, Code::ShuttingDown]);
    }
    let admin = operation.tags.iter().flatten().any(|tag| tag == "admin");
    if admin {
        // These routes refuse a missing token as they refuse a wrong one.
        codes.retain(|code| *code != Code::Unauthorized);
        codes.push(Code::AdminNotConfigured);
    }
    if operation.request_body.is_some() {
        codes.extend([Code::InvalidJson, Code::TooLarge, Code::UnsupportedMediaType]);
        codes.push(Code::InvalidRequest);
    }
    if operation.parameters.as_ref().is_some_and(|parameters| !parameters.is_empty()) {
        codes.push(Code::InvalidRequest);
    }
    if operation.operation_id.as_deref() == Some("enqueue_jobs") {
        codes.push(Code::IdempotencyKeyReused);
    }
    let statuses: BTreeSet<u16> = codes.iter().map(|code| code.status().as_u16()).collect();
    for status in statuses {
        let here = codes.iter().filter(|code| code.status().as_u16() == status);
        let words: BTreeSet<String> = here.map(|code| format!("`{}`", code.word())).collect();
        let words: Vec<String> = words.into_iter().collect();
        let key = status.to_string();
        operation.responses.responses.entry(key).or_insert_with(|| problem(&words.join(", ")));
    }
}

fn problem(description: &str) -> RefOr<utoipa::openapi::Response> {
    let schema = Some(Ref::from_schema_name("Problem"));
    let content = ContentBuilder::new().schema(schema).build();
    let response = ResponseBuilder::new().description(description);
    RefOr::T(response.content("application/problem+json", content).build())
}
