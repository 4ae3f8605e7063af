//! Answers on their way to their clients.

use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Response;
use hyper::body::{Body, Buf, Bytes, Frame, SizeHint};
use weir_model::lock::lock;

/// How long answers may take to leave when weir stops.
pub const LEAVING_MAX: Duration = Duration::from_secs(10);

/// Whether an answer that leaves while it is still made has failed meanwhile, so that its client never gets all of it. Goes with
/// the answer: hyper asks its body for no more before the client has taken what it has, and so does not see that.
#[derive(Clone)]
pub struct Cut(Arc<dyn Fn() -> bool + Send + Sync>);

impl Cut {
    pub fn new(is_cut: impl Fn() -> bool + Send + Sync + 'static) -> Cut {
        Cut(Arc::new(is_cut))
    }
}

/// What a connection still has to do for its requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Left {
    Answers,
    /// Nobody gets anything out of waiting for them.
    CutAnswers,
    Nothing,
}

/// The requests of a connection that are under way.
#[derive(Default)]
pub struct Requests {
    /// Each has one of its own until its answer has left.
    all: Arc<()>,
    /// Once they leave, answers that may be cut have another one instead.
    may_be_cut: Mutex<Vec<(Weak<()>, Cut)>>,
}

impl Requests {
    /// One is under way until what this answers is dropped, or its answer has left.
    pub fn begin(&self) -> Arc<()> {
        self.all.clone()
    }

    /// The answer to one that has begun.
    pub fn leave<B>(&self, answer: Response<B>, under_way: Arc<()>) -> Response<Leaving<B>> {
        let under_way = match answer.extensions().get::<Cut>() {
            Some(cut) => {
                let own = Arc::new(());
                let mut listed = lock(&self.may_be_cut);
                listed.retain(|(other, _)| other.strong_count() > 0);
                listed.push((Arc::downgrade(&own), cut.clone()));
                own
            }
            None => under_way,
        };
        answer.map(|body| Leaving::new(body, under_way))
    }

    pub fn left(&self) -> Left {
        let mut left = Left::Nothing;
        for (_, Cut(is_cut)) in lock(&self.may_be_cut).iter().filter(|(own, _)| own.strong_count() > 0) {
            if !is_cut() {
                return Left::Answers;
            }
            left = Left::CutAnswers;
        }
        if Arc::strong_count(&self.all) > 1 { Left::Answers } else { left }
    }
}

/// A body whose request is under way until it has ended, and the last of its bytes has left.
pub struct Leaving<B> {
    body: B,
    under_way: Arc<()>,
}

/// In HTTP/2 bytes wait for the client also when the body they are of is gone.
pub struct Part {
    bytes: Bytes,
    _under_way: Arc<()>,
}

impl<B> Leaving<B> {
    /// `under_way`: is dropped when nothing of the body is here any more.
    fn new(body: B, under_way: Arc<()>) -> Leaving<B> {
        Leaving { body, under_way }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Leaving<B> {
    type Data = Part;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Part>, B::Error>>> {
        let Leaving { body, under_way } = self.get_mut();
        let part = |bytes| Part { bytes, _under_way: under_way.clone() };
        Pin::new(body).poll_frame(context).map_ok(|frame| frame.map_data(part))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Buf for Part {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn a_request_is_under_way_until_its_answer_has_left() {
        let requests = Arc::new(());
        let mut body = Leaving::new(Full::new(Bytes::from_static(b"ab")), requests.clone());
        assert_eq!((Arc::strong_count(&requests), body.size_hint().exact(), body.is_end_stream()), (2, Some(2), false));
        let frame = body.frame().await.expect("a frame").expect("it does not fail");
        let Ok(mut part) = frame.into_data() else { panic!("not data") };
        assert!(body.is_end_stream());
        drop(body);
        part.advance(1);
        assert_eq!((part.chunk(), part.remaining()), (&b"b"[..], 1));
        assert_eq!(Arc::strong_count(&requests), 2, "its bytes are still here");
        drop(part);
        assert_eq!(Arc::strong_count(&requests), 1);
    }

    #[test]
    fn an_answer_that_is_cut_is_told_from_others() {
        let requests = Requests::default();
        let answer = |cut: Option<Cut>| {
            let mut answer = Response::new(Full::new(Bytes::from_static(b"ab")));
            if let Some(cut) = cut {
                answer.extensions_mut().insert(cut);
            }
            answer
        };
        assert_eq!(requests.left(), Left::Nothing);
        let begun = requests.begin();
        assert_eq!(requests.left(), Left::Answers);
        let failed = Arc::new(AtomicBool::new(false));
        let seen = failed.clone();
        let in_parts = requests.leave(answer(Some(Cut::new(move || seen.load(Ordering::Relaxed)))), begun);
        assert_eq!(requests.left(), Left::Answers, "it is still made");
        failed.store(true, Ordering::Relaxed);
        assert_eq!(requests.left(), Left::CutAnswers);
        let other = requests.leave(answer(None), requests.begin());
        assert_eq!(requests.left(), Left::Answers, "another one of the same connection");
        drop(other);
        assert_eq!(requests.left(), Left::CutAnswers);
        drop(in_parts);
        assert_eq!(requests.left(), Left::Nothing);
    }
}
