//! Logins of browsers: the sessions there are, by what the cookies say, and cookies themselves.
//!
//! Sessions are kept here and not in the cookies, so that one that somebody leaves is over everywhere at once; they end with the
//! process. Only who has logged in takes a place in the table, which is bounded, also for each subject.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use warp::http::HeaderMap;
use warp::http::header::COOKIE;
use weir_model::lock::lock;

use super::caller::{Identity, Lease};
use super::crypto::{NoChance, random_text, sha256};
use super::token::Claims;

/// Of one subject; the one that ends first goes for another.
const OF_SUBJECT_MAX: usize = 20;

/// How long an ID token may be that is kept to log out at the provider with.
const HINT_BYTES_MAX: usize = 8 << 10;

/// What of cookies is looked at. The id of a session has 43 characters.
const COOKIE_BYTES_MAX: usize = 4 << 10;

pub struct Sessions {
    lifetime: Duration,
    count_max: usize,
    /// By the digest of what the cookie holds: whoever reads memory, or measures how long a look-up takes, has no cookie.
    table: Mutex<HashMap<[u8; 32], Session>>,
}

struct Session {
    identity: Arc<Identity>,
    ends: Instant,
    /// The ID token it began with.
    hint: Option<String>,
    /// Whatever was opened by it ends when this does.
    _stays: watch::Sender<()>,
}

impl Sessions {
    pub fn new(lifetime: Duration, count_max: usize) -> Sessions {
        Sessions { lifetime, count_max, table: Mutex::default() }
    }

    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// Gives what the cookie is to hold.
    pub fn begin(&self, claims: Claims, token: &str) -> Result<String, NoChance> {
        let id = random_text()?;
        let now = Instant::now();
        // One that lasts for as long as the clock goes is no mistake of whoever logs in.
        let ends = now.checked_add(self.lifetime).unwrap_or(now + Duration::from_secs(365 * 86_400));
        let (stays, session) = watch::channel(());
        let lease = Lease::of(ends - now, Some(session));
        let Claims { subject, name, roles, .. } = claims;
        let identity = Arc::new(Identity { subject, name, roles, lease });
        let hint = (token.len() <= HINT_BYTES_MAX).then(|| token.to_owned());
        let mut table = lock(&self.table);
        table.retain(|_, session| session.ends > now);
        let of_subject = |session: &Session| session.identity.subject == identity.subject;
        if table.values().filter(|session| of_subject(session)).count() >= OF_SUBJECT_MAX {
            end_first(&mut table, of_subject);
        }
        if table.len() >= self.count_max {
            end_first(&mut table, |_| true);
        }
        table.insert(sha256(id.as_bytes()), Session { identity, ends, hint, _stays: stays });
        Ok(id)
    }

    /// Whose session it is, while it lasts.
    pub fn find(&self, id: &str) -> Option<Arc<Identity>> {
        let table = lock(&self.table);
        let session = table.get(&sha256(id.as_bytes()))?;
        (session.ends > Instant::now()).then(|| session.identity.clone())
    }

    /// Gives whose it was, and the token to log out at the provider with, where that was kept.
    pub fn end(&self, id: &str) -> Option<(Arc<Identity>, Option<String>)> {
        lock(&self.table).remove(&sha256(id.as_bytes())).map(|session| (session.identity.clone(), session.hint))
    }
}

/// Of some sessions the one that would end first.
fn end_first(table: &mut HashMap<[u8; 32], Session>, among: impl Fn(&Session) -> bool) {
    let first = table.iter().filter(|(_, session)| among(session)).min_by_key(|(_, session)| session.ends);
    if let Some(key) = first.map(|(key, _)| *key) {
        table.remove(&key);
    }
}

/// What a cookie of a request holds.
pub fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
    found.next().filter(|value| !value.is_empty() && value.len() <= COOKIE_BYTES_MAX)
}

/// A name that browsers take, where there is TLS, only from the host itself and over TLS: no host beside it can set it.
pub fn cookie_name(name: &str, is_secure: bool) -> String {
    if is_secure { format!("__Host-{name}") } else { name.to_owned() }
}

/// What sets a cookie, for this long; with no time at all it goes.
pub fn set_cookie(name: &str, value: &str, is_secure: bool, lasts: Duration) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    let name = cookie_name(name, is_secure);
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}{secure}", lasts.as_secs())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::super::rights::Role;
    use super::*;

    fn claims(subject: &str) -> Claims {
        Claims { subject: subject.to_owned(), name: None, roles: vec![Role::Analyst], expires: 0 }
    }

    #[tokio::test]
    async fn a_session_is_found_until_it_ends() {
        let sessions = Sessions::new(Duration::from_secs(60), 10);
        let id = sessions.begin(claims("ann"), "a.b.c").expect("chance");
        let identity = sessions.find(&id).expect("it is there");
        assert_eq!((identity.subject.as_str(), identity.roles.as_slice()), ("ann", &[Role::Analyst][..]));
        let other = sessions.begin(claims("ann"), "a.b.c").expect("chance");
        assert!(id != other && id.len() == 43);
        for wrong in ["", "x", &id[1..], &format!("{id} ")] {
            assert!(sessions.find(wrong).is_none(), "{wrong}");
        }
        let lease = identity.lease.clone();
        assert!(lease.clone().ended().now_or_never().is_none());
        let (whose, hint) = sessions.end(&id).expect("it was there");
        assert_eq!((whose.subject.as_str(), hint.as_deref()), ("ann", Some("a.b.c")));
        assert!(sessions.find(&id).is_none() && sessions.end(&id).is_none());
        assert!(lease.ended().now_or_never().is_some(), "what it has opened ends, too");
        assert!(sessions.find(&other).is_some());
        let over = Sessions::new(Duration::ZERO, 10);
        let id = over.begin(claims("ann"), "").expect("chance");
        assert!(over.find(&id).is_none());
    }

    #[test]
    fn the_table_is_bounded_and_nobody_takes_all_of_it() {
        let sessions = Sessions::new(Duration::from_secs(60), 30);
        let bob = sessions.begin(claims("bob"), "").expect("chance");
        let of_ann: Vec<String> = (0..100).map(|_| sessions.begin(claims("ann"), "").expect("chance")).collect();
        assert_eq!(lock(&sessions.table).len(), 1 + OF_SUBJECT_MAX);
        assert!(sessions.find(&bob).is_some() && sessions.find(&of_ann[99]).is_some() && sessions.find(&of_ann[79]).is_none());
        (0..100).for_each(|index| drop(sessions.begin(claims(&index.to_string()), "")));
        assert_eq!(lock(&sessions.table).len(), 30);
        assert!(sessions.find(&bob).is_none());
    }

    #[test]
    fn cookies_are_found_among_others() {
        let mut headers = HeaderMap::new();
        for line in ["a=1; weir_session=abc; b", "c=2"] {
            headers.append(COOKIE, line.parse().expect("a header"));
        }
        assert_eq!((cookie(&headers, "weir_session"), cookie(&headers, "c")), (Some("abc"), Some("2")));
        assert_eq!((cookie(&headers, "session"), cookie(&headers, "b")), (None, None));
        assert_eq!(cookie(&HeaderMap::new(), "a"), None);
        let set = set_cookie("weir_session", "abc", true, Duration::from_secs(60));
        assert_eq!(set, "__Host-weir_session=abc; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure");
        let gone = set_cookie("weir_session", "", false, Duration::ZERO);
        assert_eq!(gone, "weir_session=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
    }
}
