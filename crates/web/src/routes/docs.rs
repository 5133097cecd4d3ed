//! The description of the API, a page to read and try it, and the page at the root.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::Config;

use crate::openapi::openapi_json;
use crate::problem::{Code, Problem};
use crate::state::Shared;

/// The files come from this process and talk to it; the viewer draws with inline styles and with
/// pictures in its style sheet.
const VIEWER_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'",
);
/// The page at the root has one style sheet, within itself, and nothing else.
const LANDING_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'",
);
const LANDING: &str = include_str!("landing.html");

static OPENAPI: LazyLock<Bytes> = LazyLock::new(|| openapi_json().into());
/// Relative, so that it also works behind a proxy that adds a prefix.
static VIEWER: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("../openapi.json").validator_url("none")));

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(openapi_document))
}

/// Pages for people; they are not part of the API's description.
pub(super) fn pages() -> Router<Shared> {
    Router::new()
        .route("/", get(landing))
        .route("/docs", get(|| async { Redirect::permanent("docs/") }))
        .route("/docs/", get(|| async { viewer_file("index.html") }))
        .route("/docs/{*file}", get(async |Path(file): Path<String>| viewer_file(&file)))
}

/// This description.
#[utoipa::path(
    get, path = "/openapi.json", tag = "server", operation_id = "openapi_document",
    responses((status = 200, description = "The OpenAPI document", body = serde_json::Value)),
    security(()))]
async fn openapi_document() -> Response {
    ([(CONTENT_TYPE, "application/json")], OPENAPI.clone()).into_response()
}

async fn landing() -> Response {
    let page = LANDING.replace("{version}", env!("CARGO_PKG_VERSION"));
    ([(CONTENT_SECURITY_POLICY, LANDING_POLICY)], Html(page)).into_response()
}

fn viewer_file(name: &str) -> Result<Response, Problem> {
    let found = utoipa_swagger_ui::serve(name, VIEWER.clone())
        .map_err(|error| Problem::internal(error.to_string()))?;
    let file = found.ok_or_else(|| {
        Problem::new(Code::NotFound, format!("The API's page has no file {name}."))
    })?;
    let content_type = HeaderValue::from_str(&file.content_type)
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let headers = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, VIEWER_POLICY),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    Ok((headers, Body::from(file.bytes.into_owned())).into_response())
}
