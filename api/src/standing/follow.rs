//! Whoever follows the results of a query, as server-sent events or over a web socket: from now on, or from behind a result that
//! it has had.
//!
//!     hand_out ─> tail ─ results behind a place ─> follower, at its own pace
//!
//! The newest results are kept while somebody follows, and for a while after the last one has gone. Those of the last minute come
//! again after a crash, too: the log is kept for them as it is for an output that has not delivered. Who is so slow, or comes
//! back so late, that what it wants is not kept any more, is told that. Of a query that nobody follows only the place of its last
//! result is known.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use weir_model::{Place, Position, QueryId, Tick};

use super::{Query, lock};
use crate::error::ApiError;
use crate::outputs::Sent;

/// At most this many of the newest results of a query are kept.
const RESULTS_MAX: usize = 100_000;

/// No result is kept for longer than this, and none once the last follower has been gone for this long.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// Of the results that are kept, those that came within this time are found again after a crash.
const LOGGED_FOR: Duration = Duration::from_secs(60);

/// How long a query that looks through the graph is waited for: the log can be kept for its followers only once it is through.
const BACKFILL_PATIENCE: Duration = Duration::from_secs(1);

/// At most this many results are handed to a follower at a time.
const AT_ONCE: usize = 256;

/// The newest results of a query.
pub struct Tail {
    state: Mutex<State>,
    news: Notify,
    /// Held while the engine is told from where on results are to be found again, and while what it is told of changes.
    telling: Mutex<()>,
    /// How often the engine was told what is to be in the log before anybody follows.
    told: AtomicU64,
    /// What it was told up to that time is in the log.
    logged: AtomicU64,
}

struct State {
    /// Every result of an earlier place has come.
    upto: Place,
    /// The last result that is not kept. Who has had that one misses none.
    gone: Place,
    kept: Option<Kept>,
    ended: bool,
}

struct Kept {
    batches: VecDeque<(Instant, Arc<Vec<Sent>>)>,
    results: usize,
    followers: usize,
    /// When the last follower went.
    left: Instant,
    logged: Option<Logged>,
}

/// What the log is kept for.
struct Logged {
    /// By which installation of the query results are found again.
    by: QueryId,
    /// Results up to here are not found again.
    since: Place,
    /// What the engine was told last: results behind the place are of the tick and later ones.
    noted: (Tick, Place),
}

/// What the engine is to be told.
enum Told {
    Nothing,
    /// Results behind the place, which are of the tick and later ones, are to be found again. Whether that is news, and not only
    /// progress.
    Keep(Tick, Place, bool),
    Over,
}

/// One who follows.
pub struct Follower {
    tail: Arc<Tail>,
    /// The place of the last result it was given.
    place: Place,
}

/// What comes to one who follows.
pub enum News {
    Results(Vec<Sent>),
    /// Results behind the first place are not kept any more, only those behind the second.
    Lost(Place, Place),
    Ended,
}

impl Tail {
    /// Of an installation of a query whose results before the tick nobody asks for any more. `followed`: but for those that the
    /// log was kept for.
    pub fn new(begins: Tick, by: QueryId, followed: Option<(Tick, Position)>) -> Tail {
        let noted = followed.and_then(|(tick, position)| Some((tick, decode(&position)?)));
        let kept = noted.map(|noted| Kept { logged: Some(Logged { by, since: noted.1, noted }), ..Kept::begin() });
        let gone = noted.map_or(Place::before(begins), |(_, place)| place);
        let state = State { upto: Place::default(), gone, kept, ended: false };
        let (news, telling, told, logged) = (Notify::new(), Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        Tail { state: Mutex::new(state), news, telling, told, logged }
    }

    /// How often the engine was told something by now, where not all of that is known to be in the log.
    fn unlogged(&self) -> Option<u64> {
        let told = self.told.load(Ordering::SeqCst);
        (self.logged.load(Ordering::SeqCst) < told).then_some(told)
    }

    /// What the engine was told so often is in the log. What it was told meanwhile need not be.
    fn note_logged(&self, told: u64) {
        self.logged.fetch_max(told, Ordering::SeqCst);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes the results of complete ticks.
    pub fn push(&self, results: &Arc<Vec<Sent>>, upper: Tick) {
        let mut state = self.state();
        // The results of the very tick before may still come: a query that takes the place of another begins with that one.
        state.upto = state.upto.max(Place::before(Tick(upper.0.saturating_sub(1))));
        let Some(last) = results.last().map(|result| result.place) else { return };
        let gone = state.gone;
        let Some(kept) = state.kept.as_mut().filter(|_| last > gone) else {
            state.gone = gone.max(last);
            return;
        };
        kept.push(results, gone);
        let followed = kept.followers > 0;
        state.trim(|kept, _| kept.results > RESULTS_MAX);
        drop(state);
        if followed {
            self.news.notify_waiters();
        }
    }

    /// Lets go of what is too old.
    fn look(&self, now: Instant, by: QueryId) -> Told {
        let mut state = self.state();
        let is_over = |kept: &Kept| kept.followers == 0 && now.saturating_duration_since(kept.left) > KEPT_FOR;
        if let Some(kept) = state.kept.take_if(|kept| is_over(kept)) {
            let last = kept.last();
            state.gone = last.unwrap_or(state.gone);
            return if kept.logged.is_some() { Told::Over } else { Told::Nothing };
        }
        state.trim(|_, came| now.saturating_duration_since(came) > KEPT_FOR);
        let (upto, gone) = (state.upto.tick, state.gone);
        let Some(kept) = &mut state.kept else { return Told::Nothing };
        kept.log(now, by, (upto, gone))
    }

    /// Whether results are kept, and will be.
    fn is_kept(&self) -> bool {
        let state = self.state();
        state.kept.is_some() && !state.ended
    }

    /// Nothing is told of an installation of the query that is gone.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        lock(&self.telling)
    }

    /// Ends all who follow. The engine is told nothing from here on.
    pub fn close(&self) {
        let _none = self.hold();
        self.state().ended = true;
        self.news.notify_waiters();
    }

    /// Follows from now on. Nobody comes back for what is missed.
    pub fn overhear(self: &Arc<Self>) -> Follower {
        let mut state = self.state();
        let place = state.last().max(state.upto);
        state.kept.get_or_insert_with(Kept::begin).followers += 1;
        Follower { tail: self.clone(), place }
    }

    /// Follows from behind a place. The error is the first place from behind which that is possible.
    fn follow(self: &Arc<Self>, place: Place) -> Result<Follower, Place> {
        let mut state = self.state();
        if place < state.gone {
            return Err(state.gone);
        }
        state.kept.get_or_insert_with(Kept::begin).followers += 1;
        Ok(Follower { tail: self.clone(), place })
    }

    /// The next results behind a place. None where there are none yet.
    fn behind(&self, place: Place) -> Option<News> {
        let state = self.state();
        if place < state.gone {
            return Some(News::Lost(place, state.gone));
        }
        let batches = state.kept.as_ref().map(|kept| &kept.batches)?;
        let first = batches.partition_point(|(_, batch)| batch.last().is_none_or(|last| last.place <= place));
        let mut found = Vec::new();
        for (_, batch) in batches.iter().skip(first) {
            let from = batch.partition_point(|result| result.place <= place);
            found.extend(batch[from..].iter().take(AT_ONCE - found.len()).cloned());
            if found.len() == AT_ONCE {
                break;
            }
        }
        match (found.is_empty(), state.ended) {
            (false, _) => Some(News::Results(found)),
            (true, true) => Some(News::Ended),
            (true, false) => None,
        }
    }
}

impl State {
    /// The last result that has come.
    fn last(&self) -> Place {
        self.kept.as_ref().and_then(Kept::last).unwrap_or(self.gone)
    }

    /// Lets go of the oldest results, as long as it shall.
    fn trim(&mut self, too_many: impl Fn(&Kept, Instant) -> bool) {
        let Some(kept) = &mut self.kept else { return };
        while let Some((came, batch)) = kept.batches.front()
            && too_many(kept, *came)
        {
            self.gone = batch.last().map_or(self.gone, |last| last.place);
            kept.results -= batch.len();
            kept.batches.pop_front();
        }
    }
}

impl Kept {
    fn begin() -> Kept {
        Kept { batches: VecDeque::new(), results: 0, followers: 0, left: Instant::now(), logged: None }
    }

    fn last(&self) -> Option<Place> {
        self.batches.back().and_then(|(_, batch)| batch.last()).map(|last| last.place)
    }

    /// Takes the results behind `gone`.
    fn push(&mut self, results: &Arc<Vec<Sent>>, gone: Place) {
        let known = results.partition_point(|result| result.place <= gone);
        let batch = if known > 0 { Arc::new(results[known..].to_vec()) } else { results.clone() };
        // In pieces, of which the oldest can go.
        let now = Instant::now();
        self.results += batch.len();
        if batch.len() <= RESULTS_MAX / 2 {
            self.batches.push_back((now, batch));
        } else {
            self.batches.extend(batch.chunks(RESULTS_MAX / 4).map(|piece| (now, Arc::new(piece.to_vec()))));
        }
    }

    /// From where on the log is to be kept.
    fn log(&mut self, now: Instant, by: QueryId, (upto, gone): (Tick, Place)) -> Told {
        let last = self.last().unwrap_or(gone);
        if self.logged.as_ref().is_none_or(|logged| logged.by != by) {
            // What another installation has found, this one does not find again.
            self.logged = Some(Logged { by, since: last, noted: (Tick::ZERO, Place::default()) });
        }
        let Some(logged) = &mut self.logged else { return Told::Nothing };
        let is_young = |came: &Instant| now.saturating_duration_since(*came) <= LOGGED_FOR;
        let old = self.batches.partition_point(|(came, _)| !is_young(came));
        let before = old.checked_sub(1).and_then(|index| self.batches[index].1.last()).map_or(gone, |last| last.place);
        let behind = before.max(logged.since);
        let first = self.batches.iter().skip(old).flat_map(|(_, batch)| batch.iter()).find(|result| result.place > behind);
        // No result is of the very first tick: what was noted with that one was never said.
        let from = first.map_or(upto.max(behind.tick), |first| first.place.tick).max(Tick(1));
        let to = (from, behind);
        let is_news = to.1 != logged.noted.1 || logged.noted.0 == Tick::ZERO;
        if to == logged.noted {
            return Told::Nothing;
        }
        logged.noted = to;
        Told::Keep(to.0, to.1, is_news)
    }
}

impl Follower {
    pub fn place(&self) -> Place {
        self.place
    }

    /// What there is, without waiting.
    pub fn look(&mut self) -> Option<News> {
        let news = self.tail.behind(self.place);
        if let Some(News::Results(results)) = &news {
            self.place = results.last().map_or(self.place, |last| last.place);
        }
        news
    }

    pub async fn next(&mut self) -> News {
        loop {
            let tail = self.tail.clone();
            let mut rung = std::pin::pin!(tail.news.notified());
            rung.as_mut().enable();
            if let Some(news) = self.look() {
                return news;
            }
            rung.await;
        }
    }

    /// Where nothing has come for a while: up to where there is nothing.
    pub fn rest(&mut self) -> Place {
        let state = self.tail.state();
        if state.last() <= self.place {
            self.place = self.place.max(state.upto);
        }
        self.place
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(kept) = &mut self.tail.state().kept {
            kept.followers -= 1;
            kept.left = Instant::now();
        }
    }
}

impl Query {
    /// Follows the results from now on, or from behind a place. To be called where it may wait for the log, which knows then that
    /// somebody may come back.
    pub fn follow(&self, since: Option<Place>) -> Result<Follower, ApiError> {
        let follower = match since {
            None => self.tail.overhear(),
            Some(since) if since.tick >= self.graph.next() => {
                return Err(ApiError::Gone(format!("The standing query '{}' has not come as far as {since}", self.name)));
            }
            // An output may have made rows of it.
            Some(since) => self.tail.follow(Place { row: 0, ..since }).map_err(|gone| {
                ApiError::Gone(format!(
                    "Results of the standing query '{}' behind {since} are not kept any more; those behind {gone} are",
                    self.name
                ))
            })?,
        };
        self.keep_tail(true)?;
        Ok(follower)
    }

    /// Lets go of results that are too old for those who follow, and tells the engine from where on they are to be found again.
    /// `at_once` the log knows that it is to be kept when this returns.
    pub(super) fn keep_tail(&self, at_once: bool) -> Result<(), ApiError> {
        if !self.tail.is_kept() {
            return Ok(());
        }
        let begun = Instant::now();
        while at_once && self.installed().looks_through_rest() && begun.elapsed() < BACKFILL_PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.tell_kept(at_once);
        // Nothing is locked meanwhile: whoever deletes the query need not wait for the log, too.
        if at_once && let Some(told) = self.tail.unlogged() {
            self.installed().log_noted()?;
            self.tail.note_logged(told);
        }
        Ok(())
    }

    /// Unless it is to be `at_once`, nothing happens while somebody else is at it.
    fn tell_kept(&self, at_once: bool) {
        let _one = match self.tail.telling.try_lock() {
            Err(TryLockError::WouldBlock) if !at_once => return,
            Err(TryLockError::WouldBlock) => self.tail.hold(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Ok(one) => one,
        };
        let installed = self.installed();
        // What is there at the beginning is not found again in the same order.
        if !self.tail.is_kept() || installed.looks_through_rest() || installed.is_summed() {
            return;
        }
        match self.tail.look(Instant::now(), installed.id()) {
            Told::Nothing => {}
            Told::Over => installed.end_followed(),
            Told::Keep(tick, place, is_news) => {
                installed.keep_followed(tick, encode(place), is_news);
                // Behind that: whoever has in the log what was counted has this there.
                self.tail.told.fetch_add(u64::from(at_once && is_news), Ordering::SeqCst);
            }
        }
    }
}

fn encode(place: Place) -> Position {
    Position([place.tick.0.to_le_bytes().as_slice(), &place.number.to_le_bytes()].concat())
}

fn decode(position: &Position) -> Option<Place> {
    let (tick, number) = position.0.split_first_chunk()?;
    let (tick, number) = (Tick(u64::from_le_bytes(*tick)), u32::from_le_bytes(number.try_into().ok()?));
    Some(Place { tick, number, row: 0 })
}

#[cfg(test)]
mod tests {
    use weir_model::NodeId;

    use super::*;

    const QUERY: QueryId = QueryId(NodeId { high: 1, low: 2 });

    fn push(tail: &Arc<Tail>, tick: u64, count: u32) {
        let sent =
            |number| Sent { place: at(tick, number), positive: true, id: NodeId::default(), data: Arc::default(), cause: None };
        tail.push(&Arc::new((1..=count).map(sent).collect()), Tick(tick + 1));
    }

    fn at(tick: u64, number: u32) -> Place {
        Place { tick: Tick(tick), number, row: 0 }
    }

    fn places(news: Option<News>) -> Vec<Place> {
        match news {
            Some(News::Results(results)) => results.iter().map(|result| result.place).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn nothing_is_kept_before_somebody_follows() {
        let tail = Arc::new(Tail::new(Tick(5), QUERY, None));
        push(&tail, 7, 2);
        assert_eq!(tail.follow(at(7, 1)).err(), Some(at(7, 2)));
        let mut follower = tail.follow(at(7, 2)).unwrap_or_else(|_| panic!("none is missed"));
        assert!(follower.look().is_none());
        push(&tail, 9, 3);
        assert_eq!(tail.follow(at(9, 1)).map(|mut other| places(other.look())).ok(), Some(vec![at(9, 2), at(9, 3)]));
        assert_eq!(places(follower.look()), [at(9, 1), at(9, 2), at(9, 3)]);
        // Nothing more, up to the tick before the one that is said.
        tail.push(&Arc::default(), Tick(20));
        assert_eq!((follower.rest(), follower.rest()), (at(19, 0), at(19, 0)));
        push(&tail, 19, 1);
        assert_eq!(follower.rest(), at(19, 0), "one is waiting");
        tail.close();
        assert_eq!(places(follower.look()), [at(19, 1)]);
        assert!(matches!(follower.look(), Some(News::Ended)));
    }

    #[test]
    fn who_is_too_slow_is_told_so() {
        let tail = Arc::new(Tail::new(Tick(5), QUERY, None));
        let (mut slow, mut quick) = (tail.overhear(), tail.overhear());
        let mut taken = 0;
        for tick in 10..=30 {
            push(&tail, tick, RESULTS_MAX as u32 / 20);
            while let Some(News::Results(results)) = quick.look() {
                taken += results.len();
            }
        }
        assert_eq!(taken, RESULTS_MAX / 20 * 21);
        assert!(
            matches!(slow.look(), Some(News::Lost(from, kept)) if from == at(5, 0) && kept == at(10, RESULTS_MAX as u32 / 20))
        );
        // At one tick more than are kept at all.
        push(&tail, 40, RESULTS_MAX as u32 * 2);
        assert!(matches!(quick.look(), Some(News::Lost(..))));
        let kept = RESULTS_MAX as u32;
        assert_eq!(tail.follow(at(40, kept - 1)).err(), Some(at(40, kept)));
        assert_eq!(tail.follow(at(40, kept)).map(|mut late| places(late.look()).len()).ok(), Some(AT_ONCE));
    }

    #[test]
    fn the_log_is_kept_for_the_results_of_the_last_minute() {
        let tail = Arc::new(Tail::new(Tick(5), QUERY, None));
        let told = |after: Duration, by| match tail.look(Instant::now() + after, by) {
            Told::Nothing => None,
            Told::Keep(tick, place, is_news) => Some((tick.0, place, is_news)),
            Told::Over => Some((0, Place::default(), false)),
        };
        assert_eq!(told(Duration::ZERO, QUERY), None, "nobody follows");
        let follower = tail.overhear();
        assert_eq!(told(Duration::ZERO, QUERY), Some((5, at(5, 0), true)));
        push(&tail, 10, 2);
        push(&tail, 20, 2);
        tail.push(&Arc::default(), Tick(31));
        assert_eq!(told(Duration::ZERO, QUERY), Some((10, at(5, 0), false)));
        assert_eq!(told(Duration::ZERO, QUERY), None, "it knows");
        assert_eq!(told(LOGGED_FOR * 2, QUERY), Some((30, at(20, 2), true)));
        // Another pattern finds nothing of this again.
        push(&tail, 40, 1);
        let other = QueryId(NodeId { high: 3, low: 4 });
        assert_eq!(told(Duration::ZERO, other), Some((40, at(40, 1), true)));
        push(&tail, 50, 1);
        assert_eq!(told(Duration::ZERO, other), Some((50, at(40, 1), false)));
        drop(follower);
        assert_eq!(told(KEPT_FOR * 2, other), Some((0, Place::default(), false)));
        assert_eq!(tail.follow(at(40, 1)).err(), Some(at(50, 1)));
        assert_eq!(told(Duration::ZERO, other), None);
    }

    /// It came while what another was told was on its way to the log, and followed before its own was there.
    #[test]
    fn what_is_told_while_something_is_logged_is_not_taken_to_be_logged() {
        let tail = Tail::new(Tick(5), QUERY, None);
        assert_eq!(tail.unlogged(), None);
        tail.told.fetch_add(1, Ordering::SeqCst);
        assert_eq!(tail.unlogged(), Some(1));
        tail.told.fetch_add(1, Ordering::SeqCst);
        tail.note_logged(1);
        assert_eq!(tail.unlogged(), Some(2));
        tail.note_logged(2);
        tail.note_logged(1);
        assert_eq!(tail.unlogged(), None);
    }

    #[test]
    fn what_comes_again_after_a_crash_is_kept_from_where_it_was_noted() {
        let noted = (Tick(10), encode(at(8, 3)));
        let tail = Arc::new(Tail::new(Tick(100), QUERY, Some(noted)));
        // Of another output's past.
        push(&tail, 8, 3);
        assert_eq!(tail.follow(at(8, 2)).err(), Some(at(8, 3)));
        let mut follower = tail.follow(at(10, 1)).unwrap_or_else(|_| panic!("it is kept"));
        push(&tail, 10, 2);
        assert_eq!(places(follower.look()), [at(10, 2)]);
        assert_eq!(decode(&encode(at(10, 2))), Some(at(10, 2)));
        assert_eq!(decode(&Position(vec![1; 11])), None);
    }
}
