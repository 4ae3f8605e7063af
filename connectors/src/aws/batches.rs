//! Results in requests of many: cut to what a service takes at once, sent in order, and what became of each.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::join_all;
use tokio::runtime::Handle;

use super::client::{Client, Failed, Opening};
use crate::delivery::{Outgoing, unheard, unless_stopped};
use crate::destination::{Destination, Written};
use crate::error::ConnectorError;

/// What one request may hold.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub results_max: usize,
    pub bytes_max: usize,
    /// What is counted for a result besides its body.
    pub bytes_each: usize,
}

/// What became of the results of one request: those that are not in it were taken.
pub type Sent = Result<Vec<(usize, Failed)>, Failed>;

/// What became of the results of a request, given those that its answer calls taken and those that it calls failed. What it does
/// not speak of may not have been taken, as where something on the way answers for the service.
pub fn unless_said(place: &str, range: Range<usize>, taken: &[usize], mut failed: Vec<(usize, Failed)>) -> Vec<(usize, Failed)> {
    failed.retain(|(index, _)| range.contains(index));
    for index in range {
        if !taken.contains(&index) && failed.iter().all(|(known, _)| *known != index) {
            let reason = format!("{place}: the answer does not say that the message was taken");
            failed.push((index, Failed { code: String::new(), reason, retryable: true }));
        }
    }
    failed
}

/// How a service is given results.
pub trait Request {
    /// Whether the service keeps results in the order in which they are given to it.
    fn keeps_order(&self) -> bool {
        false
    }

    async fn send(&self, client: &Client, results: &[Outgoing], range: Range<usize>) -> Sent;
}

/// A destination that is written to in requests.
pub struct Batched<R> {
    pub runtime: Handle,
    pub client: Opening,
    pub bounds: Bounds,
    /// Requests at a time.
    pub at_once: usize,
    /// Results of one request, at most, besides `bounds`. Few, for a while, after others had overtaken one that comes again.
    pub together_max: usize,
    pub request: R,
    /// Nothing is waited for any more.
    pub stop: Arc<AtomicBool>,
    /// Nothing is sent behind what is refused.
    pub stops_at_refused: bool,
}

impl<R: Request + Send> Destination for Batched<R> {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        let Batched { runtime, client, bounds, at_once, together_max, request, stop, stops_at_refused } = self;
        let stop: &AtomicBool = stop;
        runtime.block_on(async {
            let place = client.service.name;
            let client = unless_stopped(stop, client.get()).await.unwrap_or_else(|| Err(unheard(place)))?;
            let order = request.keeps_order().then_some(together_max);
            let request = async |range: Range<usize>| {
                let sent = unless_stopped(stop, request.send(client, results, range)).await;
                let ended = || Failed { code: String::new(), reason: unheard(place).to_string(), retryable: true };
                sent.unwrap_or_else(|| Err(ended()))
            };
            Ok(send(results, *bounds, (*at_once, *stops_at_refused), order, request).await)
        })
    }

    fn ends_by(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = stop.clone();
    }

    fn stops_at_refused(&mut self) {
        self.stops_at_refused = true;
    }
}

/// Cuts results, from `start` on, to requests, of which there are `count` at most. One that is too large stands alone, for the
/// service to refuse.
fn cut(results: &[Outgoing], mut start: usize, count: usize, bounds: Bounds) -> Vec<Range<usize>> {
    let (mut ranges, mut bytes) = (Vec::new(), 0);
    for (index, result) in results.iter().enumerate().skip(start) {
        let size = result.body.len() + bounds.bytes_each;
        if index > start && (index - start >= bounds.results_max || bytes + size > bounds.bytes_max) {
            ranges.push(start..index);
            if ranges.len() == count {
                return ranges;
            }
            (start, bytes) = (index, 0);
        }
        bytes += size;
    }
    if start < results.len() {
        ranges.push(start..results.len());
    }
    ranges
}

/// Sends results, this many requests at a time. What follows a request that failed is not sent, so that it does not overtake; nor
/// what follows one that is refused, where that comes again. Where there is an `order` to keep, what went in the request of one
/// that comes again comes again behind it; the order is how many results go in one, at most.
async fn send(
    results: &[Outgoing],
    bounds: Bounds,
    (at_once, stops_at_refused): (usize, bool),
    mut order: Option<&mut usize>,
    request: impl AsyncFn(Range<usize>) -> Sent,
) -> Written {
    let (mut written, mut next) = (Written::default(), 0);
    while next < results.len() {
        let together_max = order.as_ref().map_or(usize::MAX, |together_max| **together_max);
        let bounds = Bounds { results_max: bounds.results_max.min(together_max), ..bounds };
        let ranges = cut(results, next, at_once.max(1), bounds);
        next = ranges.last().map_or(results.len(), |range| range.end);
        let outcomes = join_all(ranges.iter().map(|range| request(range.clone()))).await;
        for (range, outcome) in ranges.iter().cloned().zip(outcomes) {
            let whole = match outcome {
                Ok(failed) => {
                    note(&mut written, failed);
                    continue;
                }
                Err(failed) => failed,
            };
            if !concerns_results(&whole) || range.len() == 1 {
                note(&mut written, range.map(|index| (index, whole.clone())).collect());
                continue;
            }
            // One of them is at fault, and the service does not say which.
            for index in range {
                if written.holds_up(stops_at_refused) {
                    written.leave_untried(index..index + 1);
                    continue;
                }
                match request(index..index + 1).await {
                    Ok(failed) => note(&mut written, failed),
                    Err(failed) => note(&mut written, vec![(index, failed)]),
                }
            }
        }
        if written.holds_up(stops_at_refused) {
            break;
        }
        if let Some(together_max) = &mut order {
            **together_max = together_max.saturating_mul(2);
        }
    }
    match order {
        Some(together_max) => {
            written.keep_order(next, results.len(), stops_at_refused);
            if !written.overtook.is_empty() {
                *together_max = 1;
            }
        }
        None => {
            written.leave_untried(next..results.len());
            written.left.sort_unstable();
            written.untried.sort_unstable();
        }
    }
    written
}

fn note(written: &mut Written, failed: Vec<(usize, Failed)>) {
    for (index, failed) in failed {
        if concerns_results(&failed) {
            written.refused.push((index, failed.reason));
        } else {
            // What an administrator has to mend first is waited for, too: a permission, a stream that is not there yet.
            written.left.push(index);
            written.left_reason.get_or_insert(failed.reason);
        }
    }
}

/// Whether it is what was sent that is not taken.
fn concerns_results(failed: &Failed) -> bool {
    let codes =
        ["Validation", "InvalidArgument", "InvalidParameter", "TooLong", "TooLarge", "InvalidMessageContents", "Serialization"];
    // SNS says so of all of a request where the topic is in another region than the one that is asked.
    let of_topic = failed.reason.contains("Invalid parameter: TopicArn");
    !failed.retryable && !of_topic && codes.iter().any(|code| failed.code.contains(code))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::conformance::runtime;

    fn results(sizes: &[usize]) -> Vec<Outgoing> {
        sizes.iter().map(|size| Outgoing { body: vec![b'x'; *size], positive: true, mark: 1, id: None }).collect()
    }

    fn failed(code: &str, retryable: bool) -> Failed {
        Failed { code: code.to_owned(), reason: format!("it said {code}"), retryable }
    }

    #[test]
    fn requests_are_cut_to_what_the_service_takes() {
        let bounds = Bounds { results_max: 3, bytes_max: 100, bytes_each: 10 };
        assert_eq!(cut(&results(&[1, 1, 1, 1]), 0, 9, bounds), [0..3, 3..4]);
        assert_eq!(cut(&results(&[40, 40, 500, 1, 1]), 0, 9, bounds), [0..2, 2..3, 3..5]);
        assert_eq!(cut(&results(&[40, 40, 500, 1, 1]), 1, 2, bounds), [1..2, 2..3]);
        assert!(cut(&[], 0, 9, bounds).is_empty());
    }

    #[test]
    fn what_failed_comes_again_and_nothing_overtakes_it() {
        let bounds = Bounds { results_max: 2, bytes_max: 1000, bytes_each: 0 };
        let asked = RefCell::new(Vec::new());
        let written = runtime().block_on(send(&results(&[1; 7]), bounds, (1, false), None, async |range: Range<usize>| {
            asked.borrow_mut().push(range.clone());
            match range {
                Range { start: 0, end: 2 } => Err(failed("ValidationException", false)),
                Range { start: 0, end: 1 } => Err(failed("ValidationException", false)),
                Range { start: 2, .. } => Ok(vec![(3, failed("InternalFailure", true))]),
                _ => Ok(Vec::new()),
            }
        }));
        assert_eq!(*asked.borrow(), [0..2, 0..1, 1..2, 2..4]);
        assert_eq!(written.refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0]);
        assert_eq!((written.left, written.untried), (vec![3, 4, 5, 6], vec![4, 5, 6]));
        assert_eq!(written.left_reason.as_deref(), Some("it said InternalFailure"));
        // Nor one by one.
        let asked = RefCell::new(Vec::new());
        let bounds_of_all = Bounds { results_max: 4, ..bounds };
        let written =
            runtime().block_on(send(&results(&[1; 6]), bounds_of_all, (1, false), None, async |range: Range<usize>| {
                asked.borrow_mut().push(range.clone());
                match range {
                    Range { start: 0, end: 4 } => Err(failed("ValidationException", false)),
                    Range { start: 1, .. } => Err(failed("InternalFailure", true)),
                    _ => Ok(Vec::new()),
                }
            }));
        assert_eq!(*asked.borrow(), [0..4, 0..1, 1..2]);
        assert_eq!(written.tries(&[1; 6]), [2, 1, 1, 1, 1]);
        assert_eq!((written.left, written.refused.len()), (vec![1, 2, 3, 4, 5], 0));
        let denied = async |_: Range<usize>| Err(failed("AccessDenied", false));
        let written = runtime().block_on(send(&results(&[1; 3]), bounds, (2, false), None, denied));
        assert_eq!((written.left, written.untried, written.refused.len()), (vec![0, 1, 2], vec![], 0));
    }

    #[test]
    fn a_topic_that_is_elsewhere_is_waited_for() {
        let bounds = Bounds { results_max: 2, bytes_max: 1000, bytes_each: 0 };
        let answered = |message: &str| {
            let requests = Cell::new(0);
            let reason = format!("http://sns/: 400 Bad Request: InvalidParameter: {message}");
            let written = runtime().block_on(send(&results(&[1; 3]), bounds, (1, false), None, async |_: Range<usize>| {
                requests.set(requests.get() + 1);
                Err(Failed { code: "InvalidParameter".to_owned(), reason: reason.clone(), retryable: false })
            }));
            (written.left, written.refused.len(), requests.get())
        };
        assert_eq!(answered("Invalid parameter: TopicArn"), (vec![0, 1, 2], 0, 1));
        assert_eq!(answered("Invalid parameter: Message too long"), (vec![], 3, 4));
    }

    #[test]
    fn what_was_taken_in_a_request_behind_one_that_was_not_comes_again_behind_it_where_there_is_an_order() {
        let bounds = Bounds { results_max: 4, bytes_max: 1000, bytes_each: 0 };
        for (code, retryable, stops_at_refused) in [("InternalFailure", true, false), ("InvalidMessageContents", false, true)] {
            let (asked, fails, mut together_max) = (RefCell::new(Vec::new()), Cell::new(true), usize::MAX);
            let mut write = |given: &[Outgoing]| {
                let request = async |range: Range<usize>| {
                    asked.borrow_mut().push(range.clone());
                    let is_failed = range.contains(&1) && fails.take();
                    Ok(is_failed.then(|| (1, failed(code, retryable))).into_iter().collect())
                };
                runtime().block_on(send(given, bounds, (1, stops_at_refused), Some(&mut together_max), request))
            };
            let written = write(&results(&[1; 6]));
            let refused = usize::from(!retryable);
            assert_eq!((written.left.len(), written.refused.len()), (5 - refused, refused));
            assert_eq!((written.untried, written.overtook), (vec![2, 3, 4, 5], vec![2, 3]));
            // Then one alone, and more and more.
            let written = write(&results(&[1; 5]));
            assert!(written.left.is_empty() && written.refused.is_empty());
            assert_eq!(*asked.borrow(), [0..4, 0..1, 1..3, 3..5]);
        }
    }

    #[test]
    fn nothing_overtakes_what_is_refused_where_that_comes_again() {
        let bounds = Bounds { results_max: 2, bytes_max: 1000, bytes_each: 0 };
        let asked = RefCell::new(Vec::new());
        let written = runtime().block_on(send(&results(&[1; 7]), bounds, (1, true), None, async |range: Range<usize>| {
            asked.borrow_mut().push(range.clone());
            if range.contains(&2) { Err(failed("ValidationException", false)) } else { Ok(Vec::new()) }
        }));
        assert_eq!(*asked.borrow(), [0..2, 2..4, 2..3]);
        assert_eq!(written.refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [2]);
        assert_eq!((written.left, written.untried), (vec![3, 4, 5, 6], vec![3, 4, 5, 6]));
    }
}
