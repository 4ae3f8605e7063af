//! The time before weir is ready: how far its start is, and what requests are answered meanwhile. Reading a large graph takes a while,
//! and whoever watches over weir must be able to tell that from its being dead.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use hyper::Request;
use hyper::body::Incoming;
use warp::http::{HeaderValue, StatusCode, Version, header};
use warp::reply::{Reply, Response};

use crate::error::ApiError;
use crate::routes;
use crate::wire::family::Family;

pub struct Startup {
    began: Instant,
    /// What is being done.
    now: Mutex<&'static str>,
}

impl Default for Startup {
    fn default() -> Startup {
        Startup { began: Instant::now(), now: Mutex::new("the store is being opened") }
    }
}

impl Startup {
    /// The next part has begun.
    pub fn at(&self, part: &'static str) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = part;
        tracing::debug!("{} s after the start {part}", self.began.elapsed().as_secs_f32());
    }

    fn reason(&self) -> String {
        let now = *self.now.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{now}; it was started {} ms ago", self.began.elapsed().as_millis())
    }

    /// It lives; everything else has to wait.
    pub fn answer(&self, request: &Request<Incoming>) -> Response {
        let path = request.uri().path();
        let lives = routes::find(request.method(), path, false).is_some_and(|(route, _)| route.name == "admin::liveness");
        let mut response = match lives {
            true => StatusCode::NO_CONTENT.into_response(),
            false => ApiError::NotReady(self.reason()).into_response(Family::of(path)),
        };
        // The next request may find weir ready, and this connection does not lead there. HTTP/2 has another way to say so.
        if request.version() <= Version::HTTP_11 {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
