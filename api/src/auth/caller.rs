//! Who asks, as routes and queries see it: what they may, and until when.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use weir_model::Plan;

use super::rights::{Permission, Role, of_query};
use crate::error::ApiError;

/// Who sends a request.
#[derive(Clone)]
pub enum Caller {
    /// There are no logins: whoever reaches the port may do everything.
    Anyone,
    /// Somebody who has not said who they are, on a route that does not ask.
    Nobody,
    Known(Arc<Identity>),
}

/// Somebody whom a provider knows.
#[derive(Debug)]
pub struct Identity {
    pub subject: String,
    /// What to call them, where it is told.
    pub name: Option<String>,
    pub roles: Vec<Role>,
    pub lease: Lease,
}

impl Identity {
    pub fn may(&self, permission: Permission) -> bool {
        permission == Permission::LoggedIn || self.roles.iter().any(|role| role.has(permission))
    }

    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.subject)
    }
}

impl Caller {
    pub fn may(&self, permission: Permission) -> bool {
        match self {
            Caller::Anyone => true,
            Caller::Nobody => permission == Permission::Open,
            Caller::Known(identity) => permission == Permission::Open || identity.may(permission),
        }
    }

    pub fn check(&self, permission: Permission) -> Result<(), ApiError> {
        if self.may(permission) {
            return Ok(());
        }
        let needed = permission.name();
        Err(match self.identity() {
            Some(identity) if identity.roles.is_empty() => ApiError::Forbidden(format!(
                "the permission {needed} is needed, and none of your roles is known here (auth.oidc.roles-claim)"
            )),
            Some(identity) => {
                let roles: Vec<&str> = identity.roles.iter().map(|role| role.name()).collect();
                ApiError::Forbidden(format!("the permission {needed} is needed, which {} does not have", roles.join(", ")))
            }
            None => ApiError::Unauthenticated { reason: format!("the permission {needed} is needed"), is_wrong: false },
        })
    }

    /// Before anything of the query has run.
    pub fn check_query(&self, plan: &Plan) -> Result<(), ApiError> {
        match self {
            Caller::Anyone => Ok(()),
            _ => of_query(plan).into_iter().try_for_each(|permission| self.check(permission)),
        }
    }

    pub fn identity(&self) -> Option<&Arc<Identity>> {
        if let Caller::Known(identity) = self { Some(identity) } else { None }
    }

    /// For how long what this request opens may stay open.
    pub fn lease(&self) -> Lease {
        self.identity().map_or(Lease::FOREVER, |identity| identity.lease.clone())
    }
}

/// For how long a credential holds.
#[derive(Clone, Debug)]
pub struct Lease(Option<Ends>);

#[derive(Clone, Debug)]
struct Ends {
    at: Instant,
    /// Has no other end any more when somebody has logged out. None of a token, which nobody takes back.
    session: Option<watch::Receiver<()>>,
}

impl Lease {
    pub const FOREVER: Lease = Lease(None);

    pub fn of(within: Duration, session: Option<watch::Receiver<()>>) -> Lease {
        // A time that no clock shows is far away.
        Lease(Instant::now().checked_add(within).map(|at| Ends { at, session }))
    }

    /// Waits until it is over.
    pub async fn ended(self) {
        let Some(Ends { at, session }) = self.0 else { return pending().await };
        let logged_out = async move {
            match session {
                Some(mut session) => while session.changed().await.is_ok() {},
                None => pending().await,
            }
        };
        tokio::select! {
            () = sleep_until(at) => {}
            () = logged_out => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(roles: &[Role]) -> Caller {
        let identity = Identity { subject: "ann".to_owned(), name: None, roles: roles.to_vec(), lease: Lease::FOREVER };
        Caller::Known(Arc::new(identity))
    }

    #[test]
    fn who_may_what_and_what_the_others_are_told() {
        assert!(Caller::Anyone.check(Permission::SystemWrite).is_ok());
        assert!(Caller::Nobody.check(Permission::Open).is_ok());
        assert!(matches!(Caller::Nobody.check(Permission::LoggedIn), Err(ApiError::Unauthenticated { .. })));
        let analyst = known(&[Role::Analyst]);
        assert!(analyst.check(Permission::GraphRead).is_ok() && analyst.check(Permission::LoggedIn).is_ok());
        let refused = analyst.check(Permission::GraphWrite).expect_err("it only reads");
        assert_eq!(refused.to_string(), "the permission graph:write is needed, which Analyst does not have");
        let refused = known(&[]).check(Permission::GraphRead).expect_err("no roles");
        assert!(matches!(&refused, ApiError::Forbidden(reason) if reason.contains("auth.oidc.roles-claim")), "{refused}");
        assert!(known(&[]).may(Permission::LoggedIn) && !known(&[]).may(Permission::UsageRead));
    }

    #[tokio::test]
    async fn leases_end_with_their_time_or_their_session() {
        let long = Duration::from_secs(3600);
        let is_over = async |lease: Lease| tokio::time::timeout(Duration::from_millis(50), lease.ended()).await.is_ok();
        assert!(is_over(Lease::of(Duration::from_millis(1), None)).await);
        assert!(
            !is_over(Lease::of(long, None)).await
                && !is_over(Lease::FOREVER).await
                && !is_over(Lease::of(Duration::MAX, None)).await
        );
        let (session, other_end) = watch::channel(());
        let lease = Lease::of(long, Some(other_end));
        assert!(!is_over(lease.clone()).await);
        let waits = tokio::spawn(lease.clone().ended());
        drop(session);
        tokio::time::timeout(Duration::from_secs(60), waits).await.expect("it ends").expect("no panic");
        assert!(is_over(lease).await);
    }
}
