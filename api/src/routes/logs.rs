//! What is logged: looked at and changed while weir runs; and the audit log, which says who changed what, and who took a copy.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use warp::http::{Method, StatusCode};

use super::reply::Reply;
use super::request::Request;
use super::{Route, auth};
use crate::app::App;
use crate::auth::{Caller, Permission};
use crate::error::ApiError;
use crate::log;
use crate::wire::decode::{Fields, Mistakes};

pub async fn level(_: Arc<App>, _: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Value(json!({"level": log::level()})))
}

pub async fn set_level(_: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let body = request.data()?;
    let mut mistakes = Mistakes::default();
    let level = Fields::of(&body, "", &mut mistakes).and_then(|fields| fields.required_text("level", &mut mistakes));
    let level = mistakes.or(level).map_err(ApiError::Decode)?;
    log::set_level(&level).map_err(ApiError::bad)?;
    Ok(Reply::Value(json!({"level": level})))
}

/// Routes that are audited whatever their method and permission: they change something, or take a copy of everything.
const AUDITED: &[&str] = &[
    "transfer::back_up",
    "transfer::back_up_since",
    "transfer::export",
    "transfer::import",
    "algorithms::save",
    "running::cancel",
];

impl Route {
    /// Whether a request for it changes how weir works, or what it keeps, or takes all of it away. Queries are told of elsewhere:
    /// most only read.
    fn is_audited(&self) -> bool {
        use Permission::{GraphRead, LoggedIn, Open};
        let changes = self.method != Method::GET && !matches!(self.permission, Open | LoggedIn | GraphRead);
        changes || AUDITED.contains(&self.name)
    }
}

/// A line for each such request, whether it was let or not, with who has sent it where that is known. `audit=off` among the
/// levels of the log turns it off, and no level of everything else does but `off`.
pub fn audit(route: &Route, remote: SocketAddr, caller: Option<&Caller>, target: &str, status: StatusCode) {
    if route.is_audited() {
        let identity = caller.and_then(Caller::identity);
        let who = identity.map(|identity| format!("{}: ", auth::who(identity))).unwrap_or_default();
        tracing::info!(target: log::AUDIT, "audit: {remote} {who}{} {target}: {}", route.method, status.as_u16());
    }
}
