//! Users and tokens, for the operator: the shapes and words of the Vexa admin API.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use roundsman_core::users::{TokenId, UserId, normal_email};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{AdminCaller, AppJson, AppQuery, IdPath, TextPath};
use crate::problem::{Code, Problem};
use crate::state::Shared;
use crate::views::{
    IssuedTokenView, ProblemView, TokenQuery, TokenView, UserBody, UserChangeBody, UserDetailView,
    UserView, UsersQuery,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_users, create_user))
        .routes(routes!(get_user_by_email))
        .routes(routes!(get_user, update_user))
        .routes(routes!(list_tokens, create_token))
        .routes(routes!(revoke_token))
}

/// Find the user with an e-mail address, or make one.
#[utoipa::path(
    post, path = "/admin/users", tag = "admin", operation_id = "create_user",
    request_body = UserBody,
    responses(
        (status = 201, description = "The user was made", body = UserView),
        (status = 200, description = "The user was there already, and is unchanged", body = UserView)),
    security(("admin_key" = []), ("bearer" = [])))]
async fn create_user(
    State(state): State<Shared>,
    _: AdminCaller,
    AppJson(body): AppJson<UserBody>,
) -> Result<(StatusCode, Json<UserView>), Problem> {
    let (user, made) = state.users.find_or_create(body.into()).await?;
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json((&user).into())))
}

/// List users by ascending number.
#[utoipa::path(
    get, path = "/admin/users", tag = "admin", operation_id = "list_users",
    params(UsersQuery),
    responses((status = 200, description = "Users", body = Vec<UserView>)),
    security(("admin_key" = []), ("bearer" = [])))]
async fn list_users(
    State(state): State<Shared>,
    _: AdminCaller,
    AppQuery(query): AppQuery<UsersQuery>,
) -> Result<Json<Vec<UserView>>, Problem> {
    let users = state.users.users(query.skip, query.limit).await?;
    Ok(Json(users.iter().map(Into::into).collect()))
}

/// Find a user by e-mail address.
#[utoipa::path(
    get, path = "/admin/users/email/{email}", tag = "admin", operation_id = "get_user_by_email",
    params(("email" = String, Path, description = "The user's e-mail address", example = "ada@example.org")),
    responses(
        (status = 200, description = "The user", body = UserView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn get_user_by_email(
    State(state): State<Shared>,
    _: AdminCaller,
    TextPath(email): TextPath,
) -> Result<Json<UserView>, Problem> {
    let user = state.users.user_by_email(&email).await?;
    Ok(Json((&user).into()))
}

/// One user, with their tokens (without the tokens' texts).
#[utoipa::path(
    get, path = "/admin/users/{id}", tag = "admin", operation_id = "get_user",
    params(("id" = i64, Path, description = "The user's number")),
    responses(
        (status = 200, description = "The user", body = UserDetailView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn get_user(
    State(state): State<Shared>,
    _: AdminCaller,
    IdPath(id): IdPath,
) -> Result<Json<UserDetailView>, Problem> {
    let user = state.users.user(UserId::new(id)).await?;
    let tokens = state.users.tokens_of(user.id).await?;
    Ok(Json(UserDetailView::new(&user, &tokens)))
}

/// Change a user.
#[utoipa::path(
    patch, path = "/admin/users/{id}", tag = "admin", operation_id = "update_user",
    params(("id" = i64, Path, description = "The user's number")),
    request_body = UserChangeBody,
    responses(
        (status = 200, description = "The user as it is now", body = UserView),
        (status = 400, description = "`email_fixed`: the address cannot be changed; `invalid_json`", body = ProblemView, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn update_user(
    State(state): State<Shared>,
    _: AdminCaller,
    IdPath(id): IdPath,
    AppJson(body): AppJson<UserChangeBody>,
) -> Result<Json<UserView>, Problem> {
    let id = UserId::new(id);
    check_same_email(&state, id, body.email.as_deref()).await?;
    let user = state.users.update(id, body.try_into()?).await?;
    Ok(Json((&user).into()))
}

/// Make a token. Its text is in this answer and nowhere else.
#[utoipa::path(
    post, path = "/admin/users/{id}/tokens", tag = "admin", operation_id = "create_token",
    params(("id" = i64, Path, description = "The user's number"), TokenQuery),
    responses(
        (status = 201, description = "The token", body = IssuedTokenView),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn create_token(
    State(state): State<Shared>,
    _: AdminCaller,
    IdPath(id): IdPath,
    AppQuery(query): AppQuery<TokenQuery>,
) -> Result<(StatusCode, Json<IssuedTokenView>), Problem> {
    let issued = state.users.issue_token(UserId::new(id), query.try_into()?).await?;
    Ok((StatusCode::CREATED, Json(issued.into())))
}

/// List a user's tokens, without their texts.
#[utoipa::path(
    get, path = "/admin/users/{id}/tokens", tag = "admin", operation_id = "list_tokens",
    params(("id" = i64, Path, description = "The user's number")),
    responses(
        (status = 200, description = "The tokens, revoked ones included", body = Vec<TokenView>),
        (status = 404, description = "`not_found`", body = ProblemView, content_type = "application/problem+json")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn list_tokens(
    State(state): State<Shared>,
    _: AdminCaller,
    IdPath(id): IdPath,
) -> Result<Json<Vec<TokenView>>, Problem> {
    let user = state.users.user(UserId::new(id)).await?;
    let tokens = state.users.tokens_of(user.id).await?;
    Ok(Json(tokens.iter().map(Into::into).collect()))
}

/// Revoke a token.
#[utoipa::path(
    delete, path = "/admin/tokens/{id}", tag = "admin", operation_id = "revoke_token",
    params(("id" = i64, Path, description = "The token's number")),
    responses(
        (status = 204, description = "It no longer works"),
        (status = 404, description = "`not_found`: there is no such token, or it was revoked before", body = ProblemView, content_type = "application/problem+json")),
    security(("admin_key" = []), ("bearer" = [])))]
async fn revoke_token(
    State(state): State<Shared>,
    _: AdminCaller,
    IdPath(id): IdPath,
) -> Result<StatusCode, Problem> {
    state.users.revoke_token(TokenId::new(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A client may send back the address it was given, but not another one.
async fn check_same_email(state: &Shared, id: UserId, email: Option<&str>) -> Result<(), Problem> {
    let Some(email) = email else { return Ok(()) };
    let user = state.users.user(id).await?;
    if normal_email(email).is_ok_and(|email| email == user.email) {
        return Ok(());
    }
    Err(Problem::new(Code::EmailFixed, "Cannot change user email via this endpoint."))
}
