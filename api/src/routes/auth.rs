//! Logins: a browser goes to the provider and comes back, and whoever asks is told who they are and what they may.

use std::sync::Arc;

use serde_json::json;
use warp::http::header::{CACHE_CONTROL, LOCATION, SET_COOKIE};
use warp::http::{HeaderValue, Method, StatusCode};
use warp::reply::Response;
use weir_model::visible::visible;

use super::reply::Reply;
use super::request::Request;
use crate::app::App;
use crate::auth::rights::{RIGHTS, permissions};
use crate::auth::{Auth, Came, Identity, Onward, Role};
use crate::error::{self, ApiError};
use crate::log;

/// Who asks.
pub async fn me(_: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let identity = request.caller.identity().ok_or_else(off)?;
    let roles: Vec<&str> = identity.roles.iter().map(|role| role.name()).collect();
    let may: Vec<&str> = permissions(&identity.roles).into_iter().map(|permission| permission.name()).collect();
    let mut shown = json!({"subject": identity.subject, "roles": roles, "permissions": may});
    if let Some(name) = &identity.name {
        shown["name"] = name.as_str().into();
    }
    Ok(Reply::Value(shown))
}

/// What each role may.
pub async fn roles(_: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    let roles = Role::ALL.into_iter().map(|role| {
        let may = RIGHTS.iter().filter(|right| role.has(right.permission)).map(|right| right.name);
        json!({"name": role.name(), "permissions": may.collect::<Vec<_>>()})
    });
    Ok(Reply::Value(roles.collect()))
}

pub async fn log_in(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let back = request.parameter("returnTo").or_else(|| request.parameter("return-to"));
    let onward = auth(&app)?.begin(came(&request), back, &app.settings.webserver).await?;
    Ok(Reply::Whole(sent_on(&onward)))
}

pub async fn callback(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let parameter = |name: &str| request.parameter(name).map(str::to_owned);
    let ended = auth(&app)?.end(came(&request), parameter, &app.settings.webserver).await;
    let (onward, identity) = ended.inspect_err(|error| told(&request, format_args!("a login was refused: {error}")))?;
    let roles: Vec<&str> = identity.roles.iter().map(|role| role.name()).collect();
    told(&request, format_args!("{} has logged in: {}", who(&identity), roles.join(", ")));
    Ok(Reply::Whole(sent_on(&onward)))
}

/// A browser that follows a link is sent on, a program is told that it is done.
pub async fn log_out(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let (onward, identity) = auth(&app)?.log_out(came(&request), &app.settings.webserver).await?;
    if let Some(identity) = identity {
        told(&request, format_args!("{} has logged out", who(&identity)));
    }
    let mut reply = sent_on(&onward);
    if request.method == Method::POST {
        *reply.status_mut() = StatusCode::NO_CONTENT;
        reply.headers_mut().remove(LOCATION);
    }
    Ok(Reply::Whole(reply))
}

fn auth(app: &App) -> Result<&Auth, ApiError> {
    app.auth.as_ref().ok_or_else(off)
}

fn off() -> ApiError {
    ApiError::Absent(
        "There are no logins here: auth.oidc.issuer is not set, and whoever reaches the port may do everything".to_owned(),
    )
}

fn came(request: &Request) -> Came<'_> {
    Came { method: &request.method, uri: &request.uri, headers: &request.headers }
}

/// How logs call somebody.
pub fn who(identity: &Identity) -> String {
    match &identity.name {
        Some(name) if *name != identity.subject => format!("{} ({})", visible(&identity.subject), visible(name)),
        _ => visible(&identity.subject),
    }
}

fn told(request: &Request, what: std::fmt::Arguments<'_>) {
    let remote = request.remote.map(|remote| remote.to_string()).unwrap_or_default();
    tracing::info!(target: log::AUDIT, "audit: {remote} {what}");
}

fn sent_on(onward: &Onward) -> Response {
    let mut reply = error::response(StatusCode::FOUND, None, String::new());
    let headers = reply.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(location) = HeaderValue::from_str(&onward.location) {
        headers.insert(LOCATION, location);
    }
    for value in onward.cookies.iter().filter_map(|cookie| HeaderValue::from_str(cookie).ok()) {
        headers.append(SET_COOKIE, value);
    }
    reply
}
