//! Exactly once: each batch of results is a transaction, and the frontier up to which results are delivered is part of it.
//!
//!     results of marks [delivered, upper) ─┐
//!                                          ├─ one transaction ─> topic, and an offset of the group `transactional.id`
//!     upper ───────────────────────────────┘
//!
//! The frontier is kept as a committed offset: of partition 0 of the topic, in a group that has no members. So it becomes
//! visible together with the results or not at all, and one request finds it again. After a restart, or when it is not
//! known what became of a transaction, a new producer ends what the old one left, reads the frontier, and leaves out the
//! results before it. (Decision 13.)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaError, RDKafkaErrorCode};
use rdkafka::producer::{Producer, PurgeConfig};

use super::client::Voice;
use super::failed;
use super::offsets::{Offsets, committed};
use super::producer::{RECORDS_MAX, TopicProducer, is_refusal};
use super::properties::Settings;
use super::write::WRITE_TIME_MAX;
use crate::delivery::{Outgoing, RetryPolicy};
use crate::destination::{Destination, Written};
use crate::error::{ConnectorError, Fault};

/// For one request that belongs to a transaction.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(3);

/// A broker is taken to keep the offset of a group for this long at least (`offsets.retention.minutes` is a week).
const OFFSET_KEPT_MIN: Duration = Duration::from_secs(3600);

/// For the records of one transaction to be acknowledged; then it is aborted and written again. Less than the broker gives it.
const RECORDS_TIME_MAX: Duration = Duration::from_secs(30);

/// A client without a group membership of its own: only questions are asked with it.
impl ConsumerContext for Voice {}

pub struct Transactions {
    place: String,
    topic: String,
    /// The transactional id, and the group that holds the frontier.
    id: String,
    settings: Settings,
    /// None after an error it cannot recover from; made anew by the next call.
    session: Option<Session>,
    frontier: Frontier,
    /// What is refused ends the output: it must not be left behind by the others.
    stops_at_refused: bool,
    /// Records are not waited for any more.
    stop: Arc<AtomicBool>,
}

/// What this process knows of the frontier.
#[derive(Default)]
struct Frontier {
    /// Where it was told to be, or has been moved to since.
    known: Option<u64>,
    /// The frontier of a transaction of which it is not known whether it was committed, and since when.
    unsure: Option<Committing>,
    /// As long as it is that of an earlier process, it says nothing of what comes.
    all_is_new: bool,
}

/// A frontier that was told to be committed, and when that was first told.
#[derive(Clone, Copy)]
struct Committing {
    upper: u64,
    since: Instant,
}

struct Session {
    producer: TopicProducer,
    asker: BaseConsumer<Voice>,
    /// The producer may write: what an earlier one left is ended.
    initialized: bool,
    /// Results before this mark are in the topic; None until that is told.
    delivered: Option<u64>,
    /// A transaction has been told to commit, without an answer.
    committing: Option<Committing>,
    /// A transaction is open. It has to be aborted first, unless its records are under way.
    open: bool,
    /// Records of the open transaction that the broker has not acknowledged: the same results come again.
    under_way: Option<UnderWay>,
    /// Results that the broker refused, by index, with the reason: the same results come again.
    refused: Vec<(usize, String)>,
    /// The open transaction has shown what the next one has to leave out, or how little the topic takes at once.
    learned: bool,
    stop: Arc<AtomicBool>,
}

/// How far the records of a transaction are.
#[derive(Clone, Copy)]
struct UnderWay {
    /// The first index the producer was not given.
    next: usize,
    /// What became of those before it has been heard.
    all_told: bool,
    /// When the transaction is aborted.
    deadline: Instant,
}

/// What a failure of a transaction asks for.
enum Remedy {
    /// The request is sent again.
    Again(String),
    /// The transaction is aborted; a new one takes its results.
    Abort(String),
    /// A new producer is made.
    Anew(String),
}

impl Transactions {
    pub fn open(place: String, topic: String, id: String, settings: Settings) -> Result<Transactions, ConnectorError> {
        let (frontier, stops_at_refused, stop) = (Frontier::default(), false, Arc::default());
        let mut transactions = Transactions { place, topic, id, settings, session: None, frontier, stops_at_refused, stop };
        // Made here so that properties that cannot work are told to whoever defines the output.
        transactions.session = Some(transactions.session()?);
        Ok(transactions)
    }

    fn session(&self) -> Result<Session, ConnectorError> {
        let producer = TopicProducer::new(&self.place, &self.topic, &self.settings)?;
        let mut config = self.settings.client.clone();
        for name in ["transactional.id", "enable.idempotence", "linger.ms", "message.timeout.ms"] {
            config.remove(name);
        }
        config.set("group.id", &self.id).set("enable.auto.commit", "false");
        let asker = config.create_with_context(Voice::new(&self.place, self.settings.login.clone()));
        let asker = asker.map_err(|error| match error {
            KafkaError::ClientCreation(reason) => failed(&self.place, reason, false),
            // It might show a value that is secret.
            _ => failed(&self.place, "the client cannot be made with these properties", false),
        })?;
        let (delivered, committing, refused, learned) = (None, None, Vec::new(), false);
        let (initialized, open, under_way, stop) = (false, false, None, self.stop.clone());
        Ok(Session { producer, asker, initialized, delivered, committing, open, under_way, refused, learned, stop })
    }

    fn begin_anew(&mut self, session: Session, remedy: Remedy) -> ConnectorError {
        let reason = match remedy {
            Remedy::Again(reason) => {
                self.session = Some(session);
                reason
            }
            Remedy::Abort(reason) => {
                self.session = Some(Session { open: true, under_way: None, ..session });
                format!("the transaction is aborted and written again: {reason}")
            }
            Remedy::Anew(reason) => {
                // A commit without an answer may have happened: the frontier will tell.
                self.frontier.unsure = session.committing.or(self.frontier.unsure);
                format!("the producer begins anew: {reason}")
            }
        };
        failed(&self.place, reason, true)
    }

    /// Before which mark results are delivered, by what the group tells. An error: that cannot be known.
    fn settle(&mut self, told: Option<u64>) -> Result<u64, ConnectorError> {
        self.frontier.settle(told).map_err(|problem| ConnectorError::World {
            place: self.place.clone(),
            problem: format!("topic {}, transactional id {}: {problem}", self.topic, self.id),
            fault: Fault::User,
            retryable: false,
            source: None,
        })
    }
}

impl Frontier {
    /// Takes over what the group tells, which may be nothing, once no transaction is open any more: the frontier is where this
    /// process left it, or somebody writes in its name. Returns before which mark results are left out.
    fn settle(&mut self, told: Option<u64>) -> Result<u64, String> {
        let now = match (told, self.known, self.unsure) {
            (_, None, _) => told.unwrap_or(0),
            (Some(told), Some(known), unsure) => {
                if told != known && unsure.is_none_or(|unsure| unsure.upper != told) {
                    return Err(format!(
                        "somebody else writes with that id: by the topic's frontier results are delivered up to {told}, and this \
                         weir has delivered up to {known}"
                    ));
                }
                told
            }
            // The broker has forgotten it. What was committed just now it would know.
            (None, Some(known), Some(Committing { upper, since })) if upper != known && since.elapsed() >= OFFSET_KEPT_MIN => {
                return Err(format!(
                    "it cannot be known whether the results from {known} up to {upper} are in the topic: whether their \
                     transaction was committed was not answered, and the broker has no frontier any more \
                     (offsets.retention.minutes). If they are there, set the offset of the group of that name for partition 0 \
                     to {upper}; then, or if they are not, change the output or start weir again"
                ));
            }
            (None, Some(known), _) => known,
        };
        if self.known.is_some_and(|known| known != now) {
            self.all_is_new = false;
        }
        (self.known, self.unsure) = (Some(now), None);
        Ok(if self.all_is_new { 0 } else { now })
    }

    /// A transaction was committed.
    fn moved(&mut self, upper: u64) {
        *self = Frontier { known: Some(upper), unsure: None, all_is_new: false };
    }
}

impl Session {
    /// Ends what an earlier producer left, and asks how far it has delivered, of which the broker may know nothing.
    fn prepare(&mut self, topic: &str, place: &str) -> Result<Option<u64>, Remedy> {
        if !self.initialized {
            // Who is not listened to has no token either.
            self.producer.hear();
            self.producer.client().init_transactions(REQUEST_TIME_MAX).map_err(|error| self.remedy(error))?;
            self.initialized = true;
        }
        if self.open {
            self.abort()?;
        }
        let list = Offsets::list([(topic, 0, 0)]);
        let _ = self.asker.poll(Duration::ZERO);
        match committed(&self.asker, &list, place, REQUEST_TIME_MAX, |_, _, _| true) {
            Ok(told) => Ok(told.get(topic, 0).map(|offset| offset as u64)),
            Err(error) => match self.end_pending(topic) {
                Err(remedy @ Remedy::Anew(_)) => Err(remedy),
                _ => Err(Remedy::Again(error.to_string())),
            },
        }
    }

    /// As long as an offset is neither committed nor aborted, the broker does not tell the group's offsets. One that an earlier
    /// producer sent while it was killed can be so for ever: the broker took it in after the end of its transaction. The end of
    /// another transaction with an offset of the same group ends it too. Whatever offset: it is never committed.
    fn end_pending(&mut self, topic: &str) -> Result<(), Remedy> {
        let Some(group) = self.asker.group_metadata() else { return Ok(()) };
        self.producer.client().begin_transaction().map_err(|error| self.remedy(error))?;
        self.open = true;
        let any = Offsets::list([(topic, 0, 0)]);
        let sent = self.producer.client().send_offsets_to_transaction(&any, &group, REQUEST_TIME_MAX);
        sent.map_err(|error| self.remedy(error))?;
        self.abort()
    }

    /// Writes the results from the mark `delivered` on. True: the frontier is at `upper` now. False: all of them were delivered
    /// before, or something is refused that the others must not leave behind.
    fn write(
        &mut self,
        topic: &str,
        results: &[Outgoing],
        (delivered, upper): (u64, u64),
        stops_at_refused: bool,
    ) -> Result<bool, Remedy> {
        if self.committing.is_none() {
            if self.open && self.under_way.is_none() {
                self.abort()?;
            }
            // What comes before has been delivered in an earlier life.
            let first = results.iter().position(|result| result.mark >= delivered).unwrap_or(results.len());
            if first == results.len() {
                return Ok(false);
            }
            let deadline = Instant::now() + WRITE_TIME_MAX;
            loop {
                let begun = match self.under_way.take() {
                    Some(begun) => begun,
                    None if stops_at_refused && !self.refused.is_empty() => return Ok(false),
                    None => {
                        self.producer.client().begin_transaction().map_err(|error| self.remedy(error))?;
                        (self.open, self.learned) = (true, false);
                        UnderWay { next: first, all_told: true, deadline: Instant::now() + RECORDS_TIME_MAX }
                    }
                };
                match self.records(results, begun) {
                    Ok(()) => break,
                    // The next one goes otherwise, and need not wait.
                    Err(Remedy::Abort(_)) if self.learned && Instant::now() < deadline => self.abort()?,
                    Err(remedy) => return Err(remedy),
                }
            }
            let Some(group) = self.asker.group_metadata() else { return Err(Remedy::Anew("there is no group".to_owned())) };
            let frontier = Offsets::list([(topic, 0, upper as i64)]);
            let sent = self.producer.client().send_offsets_to_transaction(&frontier, &group, REQUEST_TIME_MAX);
            sent.map_err(|error| match self.remedy(error) {
                // Not certain whether it is in the transaction; the next one has it.
                Remedy::Again(reason) => Remedy::Abort(reason),
                other => other,
            })?;
        }
        let since = self.committing.map_or_else(Instant::now, |committing| committing.since);
        self.committing = Some(Committing { upper, since });
        let committed = self.producer.client().commit_transaction(REQUEST_TIME_MAX).map_err(|error| self.remedy(error));
        if !matches!(committed, Err(Remedy::Again(_) | Remedy::Anew(_))) {
            self.committing = None;
        }
        committed?;
        self.open = false;
        self.delivered = Some(upper);
        Ok(true)
    }

    /// Writes the records from where it was left on into the open transaction and waits until the broker has them, or until it is
    /// time to say that it has not.
    fn records(&mut self, results: &[Outgoing], begun: UnderWay) -> Result<(), Remedy> {
        let UnderWay { mut next, mut all_told, deadline } = begun;
        let tell_at = Instant::now() + WRITE_TIME_MAX;
        loop {
            if all_told {
                let refused = |index: &usize| self.refused.iter().any(|(refused, _)| refused == index);
                let handed = self.producer.hand_over(results, (next..results.len()).filter(|index| !refused(index)));
                handed.error.map_or(Ok(()), |error| Err(self.remedy(error)))?;
                next = handed.next.unwrap_or(results.len());
            }
            all_told = self.producer.wait();
            let failures = self.producer.failures();
            let mut lost = failures.together.first().map(|_| "a request was more than the topic takes at once".to_owned());
            self.learned |= lost.is_some();
            for (index, code) in failures.told {
                if is_refusal(code) {
                    // It spoils its transaction: the next one goes without it.
                    let reason = self.producer.refusal(code, &results[index]);
                    self.refused.push((index, reason.clone()));
                    self.learned = true;
                    lost = Some(reason);
                } else {
                    lost = Some(code.to_string());
                }
            }
            if let Some(fatal) = self.fatal() {
                return Err(fatal);
            }
            if let Some(reason) = lost {
                return Err(Remedy::Abort(reason));
            }
            if all_told && next == results.len() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let reason = self.producer.trouble();
                return Err(Remedy::Abort(reason.unwrap_or_else(|| "the broker does not acknowledge the records".to_owned())));
            }
            if Instant::now() >= tell_at || self.stop.load(Ordering::Relaxed) {
                self.under_way = Some(UnderWay { next, all_told: false, deadline });
                let reason = self.producer.trouble();
                return Err(Remedy::Again(
                    reason.unwrap_or_else(|| "the broker has not acknowledged all records yet".to_owned()),
                ));
            }
        }
    }

    fn abort(&mut self) -> Result<(), Remedy> {
        // Reports of what is thrown away have to be heard, or the abort waits for them.
        self.producer.client().purge(PurgeConfig::default().queue().inflight());
        let deadline = Instant::now() + WRITE_TIME_MAX;
        while !self.producer.wait() && Instant::now() < deadline {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Remedy::Abort("the output ends".to_owned()));
            }
        }
        self.producer.client().abort_transaction(REQUEST_TIME_MAX).map_err(|error| self.remedy(error))?;
        self.producer.failures();
        self.open = false;
        Ok(())
    }

    fn fatal(&self) -> Option<Remedy> {
        self.producer.client().client().fatal_error().map(|(_, reason)| Remedy::Anew(reason))
    }

    fn remedy(&self, error: KafkaError) -> Remedy {
        // Why it took too long may have been told meanwhile.
        self.producer.hear_all();
        let known = self.producer.trouble();
        let remedy = |error: &RDKafkaError| {
            let reason = match (error.code(), known) {
                (RDKafkaErrorCode::OperationTimedOut, Some(known)) => known,
                _ => error.string(),
            };
            if error.is_fatal() {
                Remedy::Anew(reason)
            } else if error.txn_requires_abort() {
                Remedy::Abort(reason)
            } else if error.is_retriable() {
                Remedy::Again(reason)
            } else {
                // Out of step with the client's own idea of the transaction.
                Remedy::Anew(reason)
            }
        };
        match &error {
            KafkaError::Transaction(error) => remedy(error),
            KafkaError::Flush(_) => Remedy::Again(error.to_string()),
            _ => self.fatal().unwrap_or_else(|| Remedy::Abort(error.to_string())),
        }
    }
}

impl Destination for Transactions {
    fn write(&mut self, results: &[Outgoing], upper: u64) -> Result<Written, ConnectorError> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.session()?,
        };
        let delivered = match session.delivered {
            Some(delivered) => delivered,
            None => match session.prepare(&self.topic, &self.place) {
                Ok(told) => *session.delivered.insert(self.settle(told)?),
                Err(remedy) => return Err(self.begin_anew(session, remedy)),
            },
        };
        match session.write(&self.topic, results, (delivered, upper), self.stops_at_refused) {
            Ok(true) => self.frontier.moved(upper),
            Ok(false) => {}
            Err(remedy) => return Err(self.begin_anew(session, remedy)),
        }
        session.producer.voice().clear();
        let refused = std::mem::take(&mut session.refused);
        self.session = Some(session);
        let mut written = Written { refused, ..Written::default() };
        if written.holds_up(self.stops_at_refused) {
            // Their transaction was aborted, but for what earlier ones had.
            let is_refused = |index: usize| written.refused.iter().any(|(refused, _)| *refused == index);
            let new = (0..results.len()).filter(|index| results[*index].mark >= delivered && !is_refused(*index));
            written.left = new.collect();
        }
        Ok(written)
    }

    fn ends_by(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = stop.clone();
        if let Some(session) = &mut self.session {
            session.stop = stop.clone();
        }
    }

    fn stops_at_refused(&mut self) {
        self.stops_at_refused = true;
    }

    fn all_is_new(&mut self) {
        self.frontier.all_is_new = true;
    }

    fn results_max(&self) -> usize {
        RECORDS_MAX
    }

    fn idle(&mut self) -> Result<(), ConnectorError> {
        if let Some(session) = &self.session {
            session.producer.hear();
        }
        Ok(())
    }

    fn rests(&self) -> bool {
        self.session.is_none()
    }

    fn retry(&self) -> RetryPolicy {
        RetryPolicy { tries_max: None, backoff_min: Duration::from_millis(20), backoff_max: Duration::from_secs(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frontier(known: Option<u64>, unsure: Option<(u64, u64)>) -> Frontier {
        let unsure = unsure.map(|(upper, seconds)| Committing {
            upper,
            since: Instant::now().checked_sub(Duration::from_secs(seconds)).expect("the machine runs for longer"),
        });
        Frontier { known, unsure, all_is_new: false }
    }

    #[test]
    fn the_frontier_is_what_the_broker_tells_or_what_is_known_where_it_tells_nothing() {
        let long = OFFSET_KEPT_MIN.as_secs();
        for (told, known, unsure, delivered) in [
            (None, None, None, 0),
            (Some(5), None, None, 5),
            (Some(5), Some(5), None, 5),
            // Forgotten while nothing came.
            (None, Some(5), None, 5),
            // Not committed, committed.
            (Some(5), Some(5), Some((9, long)), 5),
            (Some(9), Some(5), Some((9, long)), 9),
            // Had it been committed, the broker would tell.
            (None, Some(5), Some((9, long / 2)), 5),
            (None, Some(0), Some((9, long / 2)), 0),
        ] {
            let mut frontier = frontier(known, unsure);
            assert_eq!(frontier.settle(told), Ok(delivered), "{told:?} {known:?} {unsure:?}");
            assert_eq!((frontier.known, frontier.unsure.is_none()), (Some(delivered), true));
            // It is not forgotten from one producer to the next.
            assert_eq!(frontier.settle(None), Ok(delivered));
            frontier.moved(11);
            assert_eq!(frontier.settle(None), Ok(11));
            assert!(frontier.settle(Some(10)).is_err());
        }
    }

    #[test]
    fn what_cannot_be_known_ends_the_output() {
        for (told, unsure, words) in [
            (Some(7), None, "somebody else writes with that id"),
            (Some(7), Some((9, 1)), "somebody else writes with that id"),
            (None, Some((9, OFFSET_KEPT_MIN.as_secs())), "it cannot be known whether the results from 5 up to 9"),
        ] {
            let problem = frontier(Some(5), unsure).settle(told).unwrap_err();
            assert!(problem.starts_with(words), "{problem}");
        }
    }

    #[test]
    fn what_is_new_is_written_whatever_an_earlier_process_has_delivered() {
        let mut frontier = Frontier { all_is_new: true, ..Frontier::default() };
        // Its first transaction is not committed, and another producer asks again; then it is.
        for told in [Some(90), Some(90), None] {
            assert_eq!(frontier.settle(told), Ok(0));
        }
        frontier.unsure = Some(Committing { upper: 12, since: Instant::now() });
        assert_eq!(frontier.settle(Some(12)), Ok(12));
        assert_eq!(frontier.settle(Some(12)), Ok(12));
        assert!(frontier.settle(Some(90)).is_err());
        let mut frontier = Frontier { all_is_new: true, ..Frontier::default() };
        assert_eq!(frontier.settle(Some(90)), Ok(0));
        frontier.moved(12);
        assert_eq!(frontier.settle(Some(12)), Ok(12));
    }
}
