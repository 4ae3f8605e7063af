//! The body of an answer on its way to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Buf, Bytes, Frame, SizeHint};

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
    pub fn new(body: B, under_way: Arc<()>) -> Leaving<B> {
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
}
