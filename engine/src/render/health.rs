//! Health: how a query fares, as all see it: how far it is, what waits for it, what it leaves out, and why it has ended.
//!
//! Workers, walks, stages and the threads beside the workers share it and write into it; those who write to the graph look here
//! whether they should wait a little, and people what became of their query. It knows nothing of how an answer is found.

use std::borrow::Borrow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use weir_model::expression::FailureKind;
use weir_model::lock::lock;
use weir_model::{Expr, Failure, IdScheme, NodeId, QueryId, Text, Tick, Value};

use super::Time;
use super::aside::Asides;
use super::results::{Row, RowChange};
use crate::memory::at_most;

/// Whoever writes waits a little while a query has more changes waiting than this.
pub(super) const WAITING_MAX: usize = 1 << 16;

/// As `WAITING_MAX`, while the query looks through the graph as it was when it was installed.
pub(super) const WAITING_FIRST_MAX: usize = 1 << 20;

/// A query ends that has more waiting than this, whatever the reason.
pub(super) const WAITING_EVER_MAX: usize = 1 << 22;

/// A query ends if the graph has more bytes than this to give it when it is installed. Where memory is small, fewer are enough.
const AT_REST_BYTES_MAX: usize = 1 << 30;
const PARTS_OF_MEMORY: u64 = 16;

/// Others wait a little for one query at most this long; if it has not caught up by half then, it ends.
const BEHIND_MAX: Duration = Duration::from_secs(30);

/// The log tells of rows that are left out, or of a pattern that keeps a worker busy, at most once in this time.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// Characters of a row that are told, at most.
const SHOWN_MAX: usize = 300;

/// Of rows that are left out, at most one is noted in this time.
const NOTE_INTERVAL: Duration = Duration::from_millis(100);

/// How often a query has ended by itself, of all graphs.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Changes when a query of any graph has ended by itself: thousands need not be asked each time.
pub fn ended() -> usize {
    ENDED.load(Ordering::SeqCst)
}

/// How a query fares, as all see it.
pub struct Health {
    query: QueryId,
    /// What people call it; empty where it has no name.
    name: Text,
    text: Text,
    ids: IdScheme,
    /// Of what the query was handed, everything before this has been answered; `Time::MAX` while nothing waits.
    pub(super) behind: AtomicU64,
    /// Changes that wait.
    pub(super) waiting: AtomicUsize,
    /// Changes that may wait until the graph is looked through, at most.
    first_max: usize,
    /// Changes that wait until the graph is looked through, of all queries.
    behind_of_all: Arc<AtomicUsize>,
    /// Nothing more is wanted of it.
    pub(super) over: AtomicBool,
    /// Of one that has ended by itself, the first tick that has no answer.
    ended_at: AtomicU64,
    /// Since when more wait than should.
    pub(super) full_since: Mutex<Option<Instant>>,
    /// Whether somebody is told what is left out.
    is_told: bool,
    left_out: Mutex<LeftOut>,
    /// When it was told last that its pattern keeps a worker busy.
    busy_told: Mutex<Option<Instant>>,
    failure: OnceLock<String>,
}

/// Rows for which something could not be worked out: because it has no value, such as a division by zero, or not within bounds.
#[derive(Clone, Default, Debug)]
pub struct LeftOut {
    /// How often a row was left out since the query runs here, counted each time it is looked at. Nothing is taken off again when
    /// the row goes, or has a value.
    pub rows: u64,
    /// One of the last rows that were left out, and why.
    pub last: String,
    /// The expression of the plan that had no value for it, where it is known.
    pub of: Option<Expr>,
    noted: Option<Instant>,
    told: Option<Instant>,
}

impl Health {
    pub fn new(query: QueryId, text: Text, ids: IdScheme) -> Health {
        Health {
            query,
            name: Text::default(),
            text,
            ids,
            behind: AtomicU64::new(Time::MAX),
            waiting: AtomicUsize::new(0),
            first_max: WAITING_FIRST_MAX,
            behind_of_all: Arc::default(),
            over: AtomicBool::new(false),
            ended_at: AtomicU64::new(Time::MAX),
            full_since: Mutex::default(),
            is_told: true,
            left_out: Mutex::default(),
            busy_told: Mutex::default(),
            failure: OnceLock::new(),
        }
    }

    pub fn named(self, name: &str) -> Health {
        Health { name: name.into(), ..self }
    }

    /// Of one query among others. What comes of patterns without stages is soon caught up with: of that as many changes may wait
    /// as memory is made for.
    pub fn among(self, others: &Asides, is_staged: bool) -> Health {
        let first_max = if is_staged { WAITING_FIRST_MAX } else { most_at_rest() };
        Health { first_max, behind_of_all: others.behind.clone(), ..self }
    }

    /// For whoever works something out for a moment. What is left out is told to nobody.
    pub fn of_nobody(ids: IdScheme) -> Health {
        Health { is_told: false, ..Health::new(QueryId(NodeId::default()), Text::default(), ids) }
    }

    /// How far the query is, where its worker has handed over everything before `upper`.
    pub fn answered(&self, upper: Tick) -> Tick {
        upper.min(Tick(self.behind.load(Ordering::SeqCst))).min(Tick(self.ended_at.load(Ordering::SeqCst)))
    }

    /// Set as soon as nobody wants more of it.
    pub fn over(&self) -> &AtomicBool {
        &self.over
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// What the log calls it.
    pub fn called(&self) -> String {
        if self.name.as_str().is_empty() { self.query.0.to_string() } else { self.name.as_str().to_owned() }
    }

    pub fn text(&self) -> &str {
        self.text.as_str()
    }

    /// Its pattern keeps a worker busy: whether that is to be told now. All workers ask.
    pub fn may_tell_busy(&self) -> bool {
        let (mut told, now) = (lock(&self.busy_told), Instant::now());
        let is_due = told.is_none_or(|told| now - told > TELL_INTERVAL);
        if is_due {
            *told = Some(now);
        }
        is_due
    }

    pub(super) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::SeqCst) != Time::MAX && !self.is_over()
    }

    /// Why the query has ended by itself.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    pub fn left_out(&self) -> Option<LeftOut> {
        Some(lock(&self.left_out).clone()).filter(|left_out| left_out.rows > 0)
    }

    /// The tick up to which everything is answered, and how many changes wait, where some do.
    pub fn falls_behind(&self) -> Option<(Tick, usize)> {
        self.is_behind().then(|| (Tick(self.behind.load(Ordering::SeqCst)), self.waiting()))
    }

    /// Changes of rows that it has not taken in.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Changes wait until the graph as it was is looked through.
    pub fn fell_behind(&self, changes: usize) {
        self.waiting.fetch_add(changes, Ordering::Relaxed);
        self.behind_of_all.fetch_add(changes, Ordering::Relaxed);
    }

    /// Changes that fell behind wait no more, or are handed over and counted there.
    pub fn caught_up(&self, changes: usize) {
        self.waiting.fetch_sub(changes, Ordering::Relaxed);
        self.behind_of_all.fetch_sub(changes, Ordering::Relaxed);
    }

    /// Whether others should wait a little for it. They do not wait for ever: the query ends before.
    pub fn holds_up(&self, looks_through: bool) -> bool {
        let waiting = self.waiting();
        if waiting <= if looks_through { self.first_max } else { WAITING_MAX } || self.is_over() {
            return false;
        }
        if looks_through {
            // Its time begins when the graph is looked through.
            *lock(&self.full_since) = None;
            return true;
        }
        let since = *lock(&self.full_since).get_or_insert_with(Instant::now);
        if since.elapsed() > BEHIND_MAX {
            let seconds = BEHIND_MAX.as_secs();
            self.fail(&format!("for {seconds} s it had more than {WAITING_MAX} changes waiting; it takes longer than they come"));
        }
        !self.is_over()
    }

    /// Ends the query if too many changes wait whose tick is not complete.
    pub fn bound(&self, changes: usize, at_rest: bool) {
        let most = if at_rest { most_at_rest() } else { WAITING_EVER_MAX };
        if changes > most && !self.is_over() {
            self.fail(&format!("more than {most} changes of one moment waited for it"));
        }
    }

    /// Ends the query if very many changes wait until the graph is looked through, and memory has no room for them: others only
    /// wait a little for it, so more and more may come for as long as that takes.
    pub fn bound_behind(&self, is_over_limit: impl FnOnce() -> bool) {
        let waiting = self.waiting();
        if waiting > WAITING_FIRST_MAX && !self.is_over() && is_over_limit() {
            self.fail(&format!("{waiting} changes waited until the graph was looked through, and memory.limit is reached"));
        }
    }

    /// From this tick on, or from an earlier one, a query that has ended answers nothing.
    pub fn ends_at(&self, time: Time) {
        self.ended_at.fetch_min(time, Ordering::SeqCst);
    }

    /// Ends the query. What it had answered stays, and nothing of what it had not is lost: after a restart it is found again.
    pub fn fail(&self, reason: &str) {
        let reason = format!(
            "{reason}. The query has ended, everything else goes on; delete it and create one that costs less (narrow its pattern, bound its chains, anchor what it looks for)"
        );
        if self.failure.set(reason.clone()).is_ok() {
            let called = self.called();
            tracing::error!(query = called.as_str(), text = self.text.as_str(), "a standing query has ended: {reason}");
        }
        self.over.store(true, Ordering::SeqCst);
        ENDED.fetch_add(1, Ordering::SeqCst);
    }

    /// Leaves out a row, for which an expression of the plan has no value (`of`, where it is known). `row` gives what is told of
    /// it, and is called for few.
    pub fn leave_out<R: Borrow<Row>>(&self, row: impl FnOnce() -> R, failure: &Failure, of: Option<&Expr>) {
        self.leave_all_out(1, row, failure, of);
    }

    /// As `leave_out`, of `times` rows that belong to one.
    pub fn leave_all_out<R: Borrow<Row>>(&self, times: u64, row: impl FnOnce() -> R, failure: &Failure, of: Option<&Expr>) {
        if failure.kind == FailureKind::Interrupted || !self.is_told {
            return;
        }
        let (mut left_out, now) = (lock(&self.left_out), Instant::now());
        left_out.rows += times;
        // There may be many, and nobody looks at each.
        if left_out.noted.is_some_and(|noted| now - noted < NOTE_INTERVAL) {
            return;
        }
        left_out.noted = Some(now);
        left_out.of = of.cloned();
        let row = row();
        let row = Borrow::<Row>::borrow(&row);
        // There are rows without columns, and expressions that look at nothing.
        left_out.last = match row.0.is_empty() {
            true => failure.to_string(),
            false => format!("({}): {failure}", self.shown(row)),
        };
        if left_out.told.is_none_or(|told| now - told > TELL_INTERVAL) {
            left_out.told = Some(now);
            let (rows, last, called) = (left_out.rows, &left_out.last, self.called());
            let advice = match failure.kind {
                FailureKind::TimeLimit | FailureKind::MemoryLimit => "narrow its pattern, or bound its chains",
                _ => "where that may happen, let a condition before it, or CASE, keep such values away from it",
            };
            tracing::warn!(
                query = called.as_str(),
                text = self.text.as_str(),
                "a standing query leaves out what belongs to a row: {last}. That makes {rows} so far; {advice}"
            );
        }
    }

    fn shown(&self, row: &Row) -> String {
        let values = row.0.iter().map(|value| match value {
            Value::Node(id) => self.ids.text(*id),
            value => value.shown(),
        });
        values.collect::<Vec<_>>().join(", ").chars().take(SHOWN_MAX).collect()
    }
}

/// How many changes may wait of the graph at rest, or while it is looked through.
fn most_at_rest() -> usize {
    (at_most(AT_REST_BYTES_MAX, PARTS_OF_MEMORY) / size_of::<RowChange>()).max(WAITING_EVER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        Health::new(QueryId(NodeId::new(1, 2)), "MATCH (n) RETURN n".into(), IdScheme::Uuid)
    }

    #[test]
    fn a_row_that_is_left_out_is_told_where_it_has_values() {
        let failure = Failure { kind: FailureKind::Arithmetic, message: "there is none".to_owned() };
        let last = |values: &[Value]| {
            let health = health();
            health.leave_out(|| Row::from_slice(values), &failure, None);
            health.left_out().map(|left_out| (left_out.rows, left_out.last))
        };
        assert_eq!(last(&[Value::Integer(7), Value::text("a")]), Some((1, "(7, \"a\"): there is none".to_owned())));
        assert_eq!(last(&[]), Some((1, "there is none".to_owned())), "a stage may have no columns");
    }

    #[test]
    fn others_wait_for_a_query_that_is_behind_but_not_for_ever() {
        let health = health();
        health.waiting.store(WAITING_MAX, Ordering::SeqCst);
        assert!(!health.holds_up(false) && lock(&health.full_since).is_none());
        health.waiting.store(WAITING_MAX + 1, Ordering::SeqCst);
        assert!(health.holds_up(false) && !health.holds_up(true) && health.failure().is_none());
        *lock(&health.full_since) = Instant::now().checked_sub(BEHIND_MAX + Duration::from_secs(1));
        assert!(!health.holds_up(true) && health.failure().is_none(), "what is there at first may take its time");
        health.waiting.store(WAITING_FIRST_MAX + 1, Ordering::SeqCst);
        assert!(
            health.holds_up(true) && health.holds_up(false) && health.failure().is_none(),
            "what it is given begins afterwards"
        );
        health.waiting.store(WAITING_MAX + 1, Ordering::SeqCst);
        *lock(&health.full_since) = Instant::now().checked_sub(BEHIND_MAX + Duration::from_secs(1));
        assert!(!health.holds_up(false));
        assert!(health.is_over() && health.failure().is_some_and(|reason| reason.contains("65536 changes waiting")));
        health.fail("and what comes after");
        assert!(health.failure().is_some_and(|reason| reason.contains("65536 changes waiting")));
    }

    #[test]
    fn what_waits_until_the_graph_is_looked_through_is_bounded_by_memory() {
        let health = health();
        health.fell_behind(WAITING_FIRST_MAX);
        health.bound_behind(|| true);
        assert!(health.failure().is_none(), "so many are few");
        health.fell_behind(1);
        health.bound_behind(|| false);
        assert!(health.failure().is_none(), "there is room");
        health.bound_behind(|| true);
        assert!(health.is_over() && health.failure().is_some_and(|reason| reason.contains("1048577 changes waited")));
    }

    #[test]
    fn one_that_is_behind_has_answered_no_more_than_it_has() {
        let health = health();
        assert_eq!(health.answered(Tick(7)), Tick(7));
        health.behind.store(5, Ordering::SeqCst);
        assert_eq!((health.answered(Tick(7)), health.answered(Tick(3))), (Tick(5), Tick(3)));
        health.fail("it costs too much");
        assert_eq!(health.answered(Tick(9)), Tick(5), "nothing of what it had not answered is passed over");
    }
}
