//! Taps: what flows through an output, for whoever listens. They outlive its definition: who listens goes on with what
//! takes its place.
//!
//! A workflow of v2 is as many outputs as it has destinations, all given the same results. Who listens to it listens to all of
//! them, so that nothing depends on which of them is slow, hangs or has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use weir_connectors::{Encoder, Envelope, Generation};
use weir_model::{IdScheme, Place};

use super::{Link, Sent};
use crate::events::{Broadcast, Event, Listener};

/// Where one listens to an output, whatever its definition.
#[derive(Default)]
pub struct TapPoints {
    /// Behind the filter and the transformation.
    pub before: Broadcast,
    /// Behind the query that enriches, too: what destinations get.
    pub after: Broadcast,
}

impl TapPoints {
    pub fn close(&self) {
        self.before.close();
        self.after.close();
    }
}

/// What is heard of results that go straight to a destination.
#[derive(Clone, Copy)]
pub struct Shown {
    pub envelope: Envelope,
    pub positive_only: bool,
}

/// What one definition lets them hear.
pub struct Taps {
    tap_points: Arc<TapPoints>,
    envelope: Envelope,
    positive_only: bool,
    enriched: bool,
    ids: IdScheme,
}

impl Taps {
    pub fn of(link: &Link, tap_points: Arc<TapPoints>, ids: IdScheme) -> Taps {
        let (Shown { envelope, positive_only }, enriched) = match link {
            Link::Destination(link) => (link.shown, false),
            Link::Query(query) => (Shown { envelope: query.structure, positive_only: query.positive_only }, query.enriches),
        };
        Taps { tap_points, envelope, positive_only, enriched, ids }
    }

    /// Results as they come.
    pub fn show(&self, results: &[Sent]) {
        self.tell(&self.tap_points.before, self.envelope, results);
        if !self.enriched {
            self.tell(&self.tap_points.after, self.envelope, results);
        }
    }

    /// Whether somebody listens to rows of the query.
    pub fn hears_enriched(&self) -> bool {
        self.enriched && self.tap_points.after.is_heard()
    }

    pub fn show_enriched(&self, rows: &[Sent]) {
        self.tell(&self.tap_points.after, Envelope::Bare, rows);
    }

    fn tell(&self, broadcast: &Broadcast, envelope: Envelope, items: &[Sent]) {
        if broadcast.is_heard() {
            let encoder = Encoder { envelope, generation: Generation::V2, ids: self.ids };
            items
                .iter()
                .filter(|item| item.positive || !self.positive_only)
                .for_each(|item| broadcast.send(item.event(&encoder)));
        }
    }
}

/// One who listens to outputs that are given the same results. Each result is heard once, from the output that has it first.
pub struct Tap {
    outputs: Vec<Listener>,
    last: Option<Place>,
}

impl Tap {
    pub fn of<'a>(broadcasts: impl IntoIterator<Item = &'a Broadcast>) -> Tap {
        Tap { outputs: broadcasts.into_iter().map(Broadcast::listen).collect(), last: None }
    }

    /// Each output tells the results, and the rows of each, in their order: what is not behind the last one has been heard, or
    /// was left out by the one that was ahead, for want of room or because its query failed. Each is heard once at most, and in
    /// order.
    fn is_new(&mut self, event: &Event) -> bool {
        let Some(place) = event.id.as_deref().and_then(Place::parse) else { return true };
        let is_new = self.last.is_none_or(|last| place > last);
        if is_new {
            self.last = Some(place);
        }
        is_new
    }
}

impl Stream for Tap {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let tap = self.get_mut();
        let mut is_over = true;
        for output in 0..tap.outputs.len() {
            loop {
                match tap.outputs[output].poll_recv(context) {
                    Poll::Ready(Some(event)) => {
                        if tap.is_new(&event) {
                            return Poll::Ready(Some(event));
                        }
                    }
                    Poll::Ready(None) => break,
                    Poll::Pending => {
                        is_over = false;
                        break;
                    }
                }
            }
        }
        if is_over { Poll::Ready(None) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};

    use super::*;

    fn tell(broadcast: &Broadcast, id: &str, data: &str) {
        broadcast.send(Event { name: "result", id: Some(id.to_owned()), data: data.to_owned() });
    }

    /// All that can be heard now.
    fn heard(tap: &mut Tap) -> Vec<String> {
        std::iter::from_fn(|| tap.next().now_or_never().flatten()).map(|event| event.data).collect()
    }

    #[test]
    fn each_result_is_heard_once_from_the_output_that_has_it_first() {
        let broadcasts = [Broadcast::default(), Broadcast::default()];
        let mut tap = Tap::of(&broadcasts);
        let [first, second] = &broadcasts;
        tell(first, "5-1", "a");
        assert_eq!(heard(&mut tap), ["a"]);
        // The first hangs,
        for (id, data) in [("5-1", "a"), ("5-2", "b"), ("6-1", "c")] {
            tell(second, id, data);
        }
        assert_eq!(heard(&mut tap), ["b", "c"]);
        // and goes on; what it was given again is no news either.
        for (id, data) in [("5-1", "a"), ("5-2", "b"), ("6-1", "c"), ("10-1", "d")] {
            tell(first, id, data);
        }
        tell(second, "10-1", "d");
        assert_eq!(heard(&mut tap), ["d"]);
        // An output that is removed ends nothing.
        second.close();
        tell(first, "11-1", "e");
        assert_eq!(heard(&mut tap), ["e"]);
        assert!(tap.next().now_or_never().is_none(), "more may come");
        first.close();
        assert!(matches!(tap.next().now_or_never(), Some(None)));
    }

    #[test]
    fn each_row_of_a_result_is_heard_once_though_outputs_are_between_two() {
        let broadcasts = [Broadcast::default(), Broadcast::default()];
        let mut tap = Tap::of(&broadcasts);
        tell(&broadcasts[0], "5-1-1", "first 1");
        assert_eq!(heard(&mut tap), ["first 1"]);
        for (id, data) in [("5-1-1", "second 1"), ("5-1-2", "second 2"), ("5-2-1", "next")] {
            tell(&broadcasts[1], id, data);
        }
        assert_eq!(heard(&mut tap), ["second 2", "next"]);
        tell(&broadcasts[0], "5-1-2", "first 2");
        assert!(heard(&mut tap).is_empty());
    }
}
