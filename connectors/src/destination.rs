//! What a destination is to the rest: something that takes encoded results in order and says how far it has got.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::runtime::Handle;
use weir_model::Position;

use crate::config;
use crate::delivery::{Outgoing, Retries, RetryPolicy};
use crate::encode::{Envelope, Generation};
use crate::error::ConnectorError;
use crate::file_policy::FilePolicy;
use crate::host_policy::HostPolicy;
use crate::output_format::OutputFormat;

/// Whom a destination tells what it waits for.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// Results of one `write`, about, for a destination that does not say otherwise.
const RESULTS_MAX: usize = 1000;

/// One running instance, driven by its `Delivery`, by one thread at a time.
///
/// What the caller may rely on: `position` covers exactly the results of all calls of `write` that returned and are not named as
/// left, but for those that it holds; a destination opened at a position continues behind it. What it gives up: after an error
/// that is not retryable the destination is not asked again.
pub trait Destination: Send {
    /// Writes results, in order; with them, everything before the mark `upper` is written. An error means that none of them
    /// counts as written: they come again, unless the output ends or `gave_up` says otherwise.
    fn write(&mut self, results: &[Outgoing], upper: u64) -> Result<Written, ConnectorError>;

    /// About how many results come with one `write` where more of them wait.
    fn results_max(&self) -> usize {
        RESULTS_MAX
    }

    /// Before the first `write`: one that takes many requests looks at this between two of them, and leaves the rest once it is
    /// true.
    fn ends_by(&mut self, _stop: &Arc<AtomicBool>) {}

    /// Before the first `write`: what it refuses comes again in its place among what is left, or ends the output, and all from
    /// there on comes again. So what stands behind it is left, but for what was sent together with it.
    fn stops_at_refused(&mut self) {}

    /// Before the first `write`: all that comes is new, also where its marks are lower than those of what was written in an
    /// earlier life.
    fn all_is_new(&mut self) {}

    /// Before the first `write`: what the output says of how `idle` tries again what it does by itself.
    fn tries_by_itself(&mut self, _retries: Retries) {}

    /// Before the first `write`: who is told where a `write` waits for something by itself, however long that takes.
    fn tells(&mut self, _note: &Note) {}

    /// Behind a `write`: some of what was to come again does not, as it was tried often enough. This says of each, in their
    /// order, whether it comes again.
    fn gave_up(&mut self, _comes_again: &[bool]) {}

    /// Somebody waits until what is held counts as written: the next `idle` sees to it, however much that is.
    fn store_now(&mut self) {}

    /// Called now and then while there is nothing to write, until it rests.
    fn idle(&mut self) -> Result<(), ConnectorError> {
        Ok(())
    }

    /// Tries so far of what `idle` does again and again by itself; 0 where that is nothing.
    fn tries(&self) -> u32 {
        0
    }

    /// Whether nobody has to look after it while there is nothing to write.
    fn rests(&self) -> bool {
        true
    }

    /// How far it has got; empty where the other side cannot tell.
    fn position(&self) -> Position {
        Position::default()
    }

    /// Everything before this mark counts as written, of what `write` has taken up to `upper`. What is held back until later
    /// counts when this, or the same after an `idle`, says so.
    fn settled(&self, upper: u64) -> u64 {
        upper
    }

    /// How many results are taken and do not count as written yet.
    fn held(&self) -> u64 {
        0
    }

    /// How failures that may pass are met where the output says nothing of it.
    fn retry(&self) -> RetryPolicy {
        RetryPolicy::default()
    }

    /// Whether results may be dropped when they come faster than they can be written, instead of holding back the graph.
    fn lossy(&self) -> bool {
        false
    }

    /// The last call.
    fn close(&mut self) -> Result<(), ConnectorError> {
        Ok(())
    }
}

/// What became of the results of one `write`.
#[derive(Debug, Default)]
pub struct Written {
    /// Results that are not written and may be tried again, by index, ascending.
    pub left: Vec<usize>,
    /// Why, for the first of them.
    pub left_reason: Option<String>,
    /// How long, at least, the other side wants to be left alone before they are tried again.
    pub pause_min: Duration,
    /// Those of `left` that have had no try of their own: they wait behind another, ascending.
    pub untried: Vec<usize>,
    /// Those of `untried` that were taken all the same, as they went together with one that comes again before them, ascending.
    pub overtook: Vec<usize>,
    /// Results the other side refused for good, by index, with the reason.
    pub refused: Vec<(usize, String)>,
}

impl Written {
    /// How often those that are left were tried, with this `write`; `before` is that of all that came with it.
    pub fn tries(&self, before: &[u32]) -> Vec<u32> {
        let tried = |index: &usize| u32::from(self.untried.binary_search(index).is_err());
        self.left.iter().map(|index| before.get(*index).unwrap_or(&0) + tried(index)).collect()
    }

    /// Whether what is not sent yet has to wait: it must not overtake what comes again. That is what is left, and after
    /// `Destination::stops_at_refused` also what is refused.
    pub fn holds_up(&self, stops_at_refused: bool) -> bool {
        !self.left.is_empty() || stops_at_refused && !self.refused.is_empty()
    }

    /// Of `count` results the first `sent` were sent. Where one of these comes again, all behind it do, also those that were
    /// taken: else the older one would be the last for good, as a match behind its cancellation.
    pub fn keep_order(&mut self, sent: usize, count: usize, stops_at_refused: bool) {
        self.left.sort_unstable();
        self.left.dedup();
        let refused: BTreeSet<usize> = self.refused.iter().map(|(index, _)| *index).collect();
        let first_refused = refused.first().copied().filter(|_| stops_at_refused);
        let Some(first) = self.left.first().copied().into_iter().chain(first_refused).min() else { return };
        let is_new = |index: &usize| self.left.binary_search(index).is_err() && !refused.contains(index);
        let overtook: Vec<usize> = (first + 1..sent).filter(is_new).collect();
        let not_sent: Vec<usize> = (sent..count).filter(is_new).collect();
        for indices in [&overtook, &not_sent] {
            self.left.extend_from_slice(indices);
            self.untried.extend_from_slice(indices);
        }
        self.overtook = overtook;
        self.left.sort_unstable();
        self.untried.sort_unstable();
    }

    /// Leaves results that nobody was asked to take. Whoever leaves some before those that are left already has to sort them.
    pub fn leave_untried(&mut self, indices: Range<usize>) {
        self.left.extend(indices.clone());
        self.untried.extend(indices);
    }
}

/// What a destination may use of the process.
#[derive(Clone, Debug)]
pub struct DestinationContext {
    /// The name of the output.
    pub output: String,
    /// What no other output has or will have, and this one keeps across restarts.
    pub identity: String,
    /// Whose form results have, where that is not the same for both.
    pub generation: Generation,
    /// Where waiting for the network happens.
    pub runtime: Handle,
    /// Which web servers may be asked.
    pub hosts: HostPolicy,
    /// Which files may be written.
    pub files: FilePolicy,
}

/// Opens a destination. One that lacks a value that is kept elsewhere is opened when that is there; results wait until then.
/// `whose` is what it is called where it is told of.
pub fn open(
    config: &Arc<dyn DestinationConfig>,
    whose: &str,
    context: &DestinationContext,
    from: Option<&Position>,
) -> Result<Box<dyn Destination>, ConnectorError> {
    match config.open(context, from) {
        Err(ConnectorError::Secret { problem }) => {
            tracing::warn!("output {whose} waits for a secret: {problem}");
            let from = from.cloned().unwrap_or_default();
            Ok(Box::new(Waiting {
                config: config.clone(),
                context: context.clone(),
                from,
                stop: Arc::default(),
                stops_at_refused: false,
                all_is_new: false,
                retries: Retries::default(),
                note: None,
                opened: None,
            }))
        }
        other => other,
    }
}

/// What is not opened yet.
struct Waiting {
    config: Arc<dyn DestinationConfig>,
    context: DestinationContext,
    from: Position,
    stop: Arc<AtomicBool>,
    stops_at_refused: bool,
    all_is_new: bool,
    retries: Retries,
    note: Option<Note>,
    opened: Option<Box<dyn Destination>>,
}

impl Destination for Waiting {
    fn write(&mut self, results: &[Outgoing], upper: u64) -> Result<Written, ConnectorError> {
        let opened = match self.opened.take() {
            Some(opened) => opened,
            None => {
                let mut opened = self.config.open(&self.context, Some(&self.from).filter(|from| !from.0.is_empty()))?;
                opened.ends_by(&self.stop);
                opened.tries_by_itself(self.retries);
                if let Some(note) = &self.note {
                    opened.tells(note);
                }
                if self.stops_at_refused {
                    opened.stops_at_refused();
                }
                if self.all_is_new {
                    opened.all_is_new();
                }
                opened
            }
        };
        self.opened.insert(opened).write(results, upper)
    }

    fn results_max(&self) -> usize {
        self.opened.as_ref().map_or(RESULTS_MAX, |opened| opened.results_max())
    }

    fn ends_by(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = stop.clone();
    }

    fn stops_at_refused(&mut self) {
        self.stops_at_refused = true;
    }

    fn all_is_new(&mut self) {
        self.all_is_new = true;
    }

    fn tries_by_itself(&mut self, retries: Retries) {
        self.retries = retries;
    }

    fn tells(&mut self, note: &Note) {
        self.note = Some(note.clone());
    }

    fn gave_up(&mut self, comes_again: &[bool]) {
        if let Some(opened) = &mut self.opened {
            opened.gave_up(comes_again);
        }
    }

    fn store_now(&mut self) {
        if let Some(opened) = &mut self.opened {
            opened.store_now();
        }
    }

    fn idle(&mut self) -> Result<(), ConnectorError> {
        self.opened.as_mut().map_or(Ok(()), |opened| opened.idle())
    }

    fn tries(&self) -> u32 {
        self.opened.as_ref().map_or(0, |opened| opened.tries())
    }

    fn rests(&self) -> bool {
        self.opened.as_ref().is_none_or(|opened| opened.rests())
    }

    fn position(&self) -> Position {
        self.opened.as_ref().map_or_else(|| self.from.clone(), |opened| opened.position())
    }

    fn settled(&self, upper: u64) -> u64 {
        self.opened.as_ref().map_or(upper, |opened| opened.settled(upper))
    }

    fn held(&self) -> u64 {
        self.opened.as_ref().map_or(0, |opened| opened.held())
    }

    fn retry(&self) -> RetryPolicy {
        self.opened.as_ref().map_or_else(RetryPolicy::default, |opened| opened.retry())
    }

    fn close(&mut self) -> Result<(), ConnectorError> {
        self.opened.as_mut().map_or(Ok(()), |opened| opened.close())
    }
}

/// The definition of one kind of destination: the struct that is parsed, shown and documented.
pub trait DestinationConfig: Send + Sync {
    /// The definition with its defaults filled in, secrets masked, in the notation it came in.
    fn settings(&self) -> serde_json::Value;

    /// As `settings`, with its secrets, to be stored and parsed again.
    fn stored(&self) -> serde_json::Value {
        config::with_secrets(|| self.settings())
    }

    /// What is around the data of a result.
    fn envelope(&self, _generation: Generation) -> Envelope {
        Envelope::WithMetadata
    }

    /// Whether it chooses itself what it keeps of a result, and so gets all of it, whatever an output leaves out for others.
    fn takes_whole(&self) -> bool {
        false
    }

    /// What a result is, where that can be chosen; JSON otherwise.
    fn format(&self) -> Option<&OutputFormat> {
        None
    }

    /// What the schema of results is registered for in a registry, where nothing else is said.
    fn subject(&self) -> Option<String> {
        None
    }

    /// Whether a result is a line, as v2 sends it.
    fn is_line(&self, _generation: Generation) -> bool {
        false
    }

    /// Whether it commits how far it has got together with what it writes, so that what is refused of a write never comes again.
    fn commits_with_results(&self) -> bool {
        false
    }

    /// Why none of its results may be given up after some tries, where that is so.
    fn why_kept(&self) -> Option<&'static str> {
        None
    }

    /// Whether cancellations are left out.
    fn positive_only(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), ConnectorError> {
        Ok(())
    }

    /// The rest of what can be looked at beforehand, where that takes long: for one that is new, behind `check`. What was there
    /// before is told by `open`.
    fn try_out(&self, _files: &FilePolicy) -> Result<(), ConnectorError> {
        Ok(())
    }

    /// Starts writing, behind a position this kind of destination gave; at the end of what is there without one.
    fn open(&self, context: &DestinationContext, from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError>;
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::Mutex;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Another side, with a thread for each connection; and what they have taken, in its order.
    pub(crate) fn other_side<T: Send + 'static>(
        serve: impl Fn(TcpStream, &Mutex<Vec<String>>) -> T + Clone + Send + 'static,
    ) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, taken) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let keeping = taken.clone();
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                // What is written in parts would wait for the other side to say that it has the first.
                let _ = connection.set_nodelay(true);
                let (serve, keeping) = (serve.clone(), keeping.clone());
                thread::spawn(move || serve(connection, &keeping));
            }
        });
        (address, taken)
    }

    /// Reads `count` bytes, as another side does.
    pub(crate) fn read(connection: &mut TcpStream, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        connection.read_exact(&mut bytes).ok().map(|()| bytes)
    }

    /// As a delivery writes: what may pass is tried again.
    pub(crate) fn write(destination: &mut dyn Destination, results: &[Outgoing]) -> Written {
        write_up_to(destination, results, u64::MAX)
    }

    /// As `write`, with the mark `upper`.
    pub(crate) fn write_up_to(destination: &mut dyn Destination, results: &[Outgoing], upper: u64) -> Written {
        let since = Instant::now();
        loop {
            match destination.write(results, upper) {
                Ok(written) => return written,
                Err(error) => assert!(error.retryable() && since.elapsed() < PATIENCE, "{error}"),
            }
        }
    }

    /// A destination whose other side refuses the result `refused`, and no other, leaves what stands behind it where that comes
    /// again, as often as it does; elsewhere it writes the rest. What stands before it is written once. `taken` is what the other
    /// side has taken by then, in its order.
    pub(crate) fn nothing_overtakes_what_is_refused(
        open: impl Fn() -> Box<dyn Destination>,
        results: &[Outgoing],
        refused: usize,
        taken: impl Fn() -> Vec<String>,
    ) {
        // Of no more than these: what is too large need not be read.
        let bodies = |indices: Range<usize>| -> Vec<String> {
            results[indices].iter().map(|result| String::from_utf8(result.body.clone()).unwrap()).collect()
        };
        let indices = |written: &Written| written.refused.iter().map(|(index, _)| *index).collect::<Vec<_>>();
        let (before, behind) = (bodies(0..refused), bodies(refused + 1..results.len()));
        assert!(!before.is_empty() && !behind.is_empty() && taken().is_empty());

        let mut destination = open();
        destination.stops_at_refused();
        let mut given = results;
        for _ in 0..3 {
            let written = write(&mut *destination, given);
            let place = given.len() - behind.len() - 1;
            let rest: Vec<usize> = (place + 1..given.len()).collect();
            assert_eq!((indices(&written), &written.left, &written.untried), (vec![place], &rest, &rest));
            assert_eq!(taken(), before);
            given = &results[refused..];
        }
        destination.close().unwrap();

        let mut destination = open();
        let written = write(&mut *destination, results);
        assert_eq!((indices(&written), written.left, written.untried), (vec![refused], vec![], vec![]));
        assert_eq!(taken(), [before.clone(), before, behind].concat());
        destination.close().unwrap();
    }

    #[test]
    fn what_is_to_come_again_holds_up_the_rest() {
        let refused = || vec![(0, "no".to_owned())];
        for (written, plainly, where_it_stops) in [
            (Written::default(), false, false),
            (Written { refused: refused(), ..Written::default() }, false, true),
            (Written { left: vec![1], ..Written::default() }, true, true),
            (Written { left: vec![1], refused: refused(), ..Written::default() }, true, true),
        ] {
            assert_eq!((written.holds_up(false), written.holds_up(true)), (plainly, where_it_stops), "{written:?}");
        }
    }

    #[test]
    fn what_was_taken_with_one_that_comes_again_comes_again_behind_it() {
        let no = || vec![(3, "no".to_owned())];
        for (left, refused, sent, stops_at_refused, again, overtook) in [
            (vec![], vec![], 6, true, vec![], vec![]),
            (vec![4, 2, 4], vec![], 6, false, vec![2, 3, 4, 5, 6, 7], vec![3, 5]),
            // It goes its way.
            (vec![2], no(), 6, false, vec![2, 4, 5, 6, 7], vec![4, 5]),
            (vec![], no(), 8, false, vec![], vec![]),
            // It comes again in its place.
            (vec![], no(), 6, true, vec![4, 5, 6, 7], vec![4, 5]),
            (vec![], no(), 4, true, vec![4, 5, 6, 7], vec![]),
            // One that counts as not sent was tried.
            (vec![5], vec![], 4, false, vec![4, 5, 6, 7], vec![]),
        ] {
            let mut written = Written { left: left.clone(), refused, ..Written::default() };
            written.keep_order(sent, 8, stops_at_refused);
            let untried: Vec<usize> = again.iter().copied().filter(|index| !left.contains(index)).collect();
            assert_eq!((written.left, written.untried, written.overtook), (again, untried, overtook));
        }
    }

    #[test]
    fn what_is_left_untried_has_no_try() {
        let mut written = Written { left: vec![1], ..Written::default() };
        written.leave_untried(3..5);
        written.leave_untried(5..5);
        assert_eq!((written.tries(&[7; 5]), written.left, written.untried), (vec![8, 7, 7], vec![1, 3, 4], vec![3, 4]));
    }
}
