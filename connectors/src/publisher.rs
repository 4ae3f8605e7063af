//! Destinations that publish results over a connection of their own: in order, some before the first answer is waited for. The
//! connection stays until something goes wrong; then the next write makes another one.
//!
//! What a result is made into, and what is answered, is for the protocol.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::delivery::{Outgoing, unless_stopped};
use crate::destination::{Destination, DestinationContext, Note, Written};
use crate::ends::{Refused, Writer};
use crate::error::ConnectorError;
use crate::result_ids::Ids;

/// Bytes sent before the first answer is waited for, about.
pub const BYTES_MAX: usize = 4 << 20;

/// For the next of the answers to them, besides the time that they may be under way.
pub const ANSWERS_TIME_MAX: Duration = Duration::from_secs(20);

/// How a protocol publishes.
pub trait Publish: Send {
    type Connection: Send;

    /// Whether results have ids, by which the other side drops what it has had.
    const IDS: bool = false;

    /// Whether the other side drops what has an id that it knows, so that what is to be there once more needs another one.
    const DROPS_KNOWN: bool = false;

    /// What the other side wants to hear while there is nothing to write, and how often.
    const ALIVE: Option<(Duration, &'static [u8])> = None;

    async fn connect(&mut self) -> Result<Self::Connection, Refused>;

    /// From now on nothing is published behind what is refused, where one is known before the other goes out.
    fn stops_at_refused(&mut self) {}

    /// Who is told what is waited for.
    fn tells(&mut self, _note: &Note) {}

    /// Publishes results from `first` on, as many as go out together, and waits for the answers. Says which result comes next;
    /// none is refused that is not before that one. One that is refused unseen is the last of them. Behind an error nothing of
    /// `written` counts but `overtook`: what was taken behind one of which nothing is known.
    async fn publish(
        &mut self,
        connection: &mut Self::Connection,
        results: &[Outgoing],
        ids: &[String],
        first: usize,
        written: &mut Written,
    ) -> Result<usize, Refused>;

    fn writer(connection: &Self::Connection) -> &Writer;

    /// The last words, where there are any.
    fn bye() -> Vec<u8> {
        Vec::new()
    }
}

pub struct Publisher<P: Publish> {
    place: String,
    runtime: Handle,
    protocol: P,
    ids: Ids,
    /// None after an error.
    connection: Option<P::Connection>,
    /// When the other side has heard something.
    said: Instant,
    /// Nothing is waited for any more.
    stop: Arc<AtomicBool>,
    /// Nothing is published behind what is refused.
    stops_at_refused: bool,
    /// Results that are under way together, at most. Few, for a while, after others had overtaken one that comes again: these
    /// come twice.
    together_max: usize,
}

impl<P: Publish> Publisher<P> {
    pub fn new(context: &DestinationContext, place: &str, protocol: P) -> Publisher<P> {
        let (runtime, mut ids) = (context.runtime.clone(), Ids::new(&context.identity));
        if P::DROPS_KNOWN {
            ids.known_is_dropped();
        }
        Publisher {
            place: place.to_owned(),
            runtime,
            protocol,
            ids,
            connection: None,
            said: Instant::now(),
            stop: Arc::default(),
            stops_at_refused: false,
            together_max: usize::MAX,
        }
    }

    async fn publish(&mut self, results: &[Outgoing], ids: &[String], written: &mut Written) -> Result<(), Refused> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.protocol.connect().await?,
        };
        self.said = Instant::now();
        let mut first = 0;
        while first < results.len() {
            let some = &results[..results.len().min(first.saturating_add(self.together_max))];
            first = self.protocol.publish(&mut connection, some, ids, first, written).await?;
            // What comes later must not overtake what is tried again.
            if written.holds_up(self.stops_at_refused) {
                break;
            }
            self.together_max = self.together_max.saturating_mul(2);
        }
        written.keep_order(first, results.len(), self.stops_at_refused);
        if !written.overtook.is_empty() {
            self.together_max = 1;
        }
        written.refused.sort_unstable();
        self.connection = Some(connection);
        Ok(())
    }
}

impl<P: Publish> Destination for Publisher<P> {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        let ids = if P::IDS { self.ids.of(results) } else { Vec::new() };
        let (stop, mut written) = (self.stop.clone(), Written::default());
        let published = self.runtime.clone().block_on(unless_stopped(&stop, self.publish(results, &ids, &mut written)));
        let published = published.unwrap_or_else(|| Err("the output ends before there is an answer".to_owned().into()));
        if published.is_err() {
            if !written.overtook.is_empty() {
                self.together_max = 1;
            }
            // None of them counts as written.
            written = Written { left: (0..results.len()).collect(), overtook: written.overtook, ..Written::default() };
        }
        self.ids.after(ids, Some(&written));
        published.map(|()| written).map_err(|refused| refused.error(&self.place))
    }

    fn ends_by(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = stop.clone();
    }

    fn stops_at_refused(&mut self) {
        self.stops_at_refused = true;
        self.ids.refused_comes_again();
        self.protocol.stops_at_refused();
    }

    fn tells(&mut self, note: &Note) {
        self.protocol.tells(note);
    }

    fn gave_up(&mut self, comes_again: &[bool]) {
        self.ids.gave_up(comes_again);
    }

    fn idle(&mut self) -> Result<(), ConnectorError> {
        let Some((_, words)) = P::ALIVE.filter(|(alive, _)| self.said.elapsed() >= *alive) else { return Ok(()) };
        self.said = Instant::now();
        if let Some(connection) = &self.connection
            && self.runtime.block_on(P::writer(connection).send(words)).is_err()
        {
            self.connection = None;
        }
        Ok(())
    }

    fn rests(&self) -> bool {
        P::ALIVE.is_none() || self.connection.is_none()
    }

    fn close(&mut self) -> Result<(), ConnectorError> {
        if let Some(connection) = self.connection.take() {
            // It is over anyway.
            let _ = self.runtime.block_on(P::writer(&connection).send(&P::bye()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::conformance::{output, runtime};

    /// Takes two at a time, and the third never: it is left, or refused.
    struct Two {
        refuses: bool,
        asked: Vec<Range<usize>>,
    }

    impl Publish for Two {
        type Connection = ();

        async fn connect(&mut self) -> Result<(), Refused> {
            Ok(())
        }

        async fn publish(
            &mut self,
            _connection: &mut (),
            results: &[Outgoing],
            _ids: &[String],
            first: usize,
            written: &mut Written,
        ) -> Result<usize, Refused> {
            let end = (first + 2).min(results.len());
            self.asked.push(first..end);
            let third = (first..end).filter(|index| *index == 2);
            match self.refuses {
                true => written.refused.extend(third.map(|index| (index, "no".to_owned()))),
                false => written.left.extend(third),
            }
            Ok(end)
        }

        fn writer(_connection: &()) -> &Writer {
            unreachable!("nothing is sent")
        }
    }

    #[test]
    fn all_behind_one_that_is_left_come_again_behind_it_without_a_try() {
        let runtime = runtime();
        let mut publisher = Publisher::new(&output(&runtime), "x", Two { refuses: false, asked: Vec::new() });
        let results = vec![Outgoing::default(); 6];
        let written = publisher.write(&results, 0).unwrap();
        assert_eq!((written.tries(&[1; 6]), &written.overtook), (vec![2, 1, 1, 1], &vec![3]));
        assert_eq!((written.left, written.untried), (vec![2, 3, 4, 5], vec![3, 4, 5]));
        // One alone, and more and more as long as all goes well.
        let written = publisher.write(&results, 0).unwrap();
        assert_eq!((written.left, written.overtook), (vec![2, 3, 4, 5], vec![]));
        assert_eq!(publisher.protocol.asked, [0..2, 2..4, 0..1, 1..3]);
    }

    #[test]
    fn those_behind_one_that_is_refused_are_left_where_that_is_tried_again() {
        let runtime = runtime();
        let mut publisher = Publisher::new(&output(&runtime), "x", Two { refuses: true, asked: Vec::new() });
        let results = vec![Outgoing::default(); 6];
        for left in [vec![], vec![3, 4, 5]] {
            let written = publisher.write(&results, 0).unwrap();
            assert_eq!(written.refused, [(2, "no".to_owned())]);
            assert_eq!((&written.left, &written.untried), (&left, &left));
            publisher.stops_at_refused();
        }
    }

    /// Refuses the first of all it is given, `refusals` times.
    struct Picky {
        refusals: u32,
        asked: Vec<Vec<String>>,
    }

    impl Publish for Picky {
        type Connection = ();

        const IDS: bool = true;

        async fn connect(&mut self) -> Result<(), Refused> {
            Ok(())
        }

        async fn publish(
            &mut self,
            _connection: &mut (),
            results: &[Outgoing],
            ids: &[String],
            _first: usize,
            written: &mut Written,
        ) -> Result<usize, Refused> {
            self.asked.push(ids.to_vec());
            if self.refusals > 0 {
                self.refusals -= 1;
                written.refused.push((0, "no".to_owned()));
            }
            Ok(results.len())
        }

        fn writer(_connection: &()) -> &Writer {
            unreachable!("nothing is sent")
        }
    }

    #[test]
    fn what_is_refused_and_tried_again_keeps_its_id() {
        let runtime = runtime();
        let mut publisher = Publisher::new(&output(&runtime), "x", Picky { refusals: 2, asked: Vec::new() });
        publisher.stops_at_refused();
        let results = [5, 6].map(|mark| Outgoing { body: b"a".to_vec(), positive: true, mark, id: None });
        for given in [&results[..], &results[..1], &results[..1]] {
            publisher.write(given, 7).unwrap();
        }
        let [all, again, at_last] = publisher.protocol.asked.as_slice() else { panic!("{:?}", publisher.protocol.asked) };
        assert_eq!((again, at_last), (&all[..1].to_vec(), &all[..1].to_vec()), "{all:?}");
    }
}
