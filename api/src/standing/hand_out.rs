//! The thread of a standing query, while it has many results: it takes them from the engine to the outputs and to whoever
//! watches. It waits for none of them: what an output has not taken lies in its lane, and counts as waiting for the engine, which
//! lets ingest wait when that is too much.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_connectors::{Encoder, Envelope, Generation};
use weir_engine::store::StoreError;
use weir_engine::{EngineError, ResultBatch};
use weir_model::{Place, QueryId, Tick};

use super::watch::MANY;
use super::{HOLD, LOOK, Query, WAIT, lock};
use crate::error::chain;
use crate::outputs::{Given, Lane, Sent};
use crate::result_id::{result_hash, result_id};

/// How soon the thread sees that a switch to another query has been made.
const SWITCH_LOOK: Duration = Duration::from_millis(1);

/// A query that has few results within this time needs no thread of its own.
const REST_AFTER: Duration = Duration::from_secs(1);

/// A piece of a batch with this many results is full, and ends with its tick. Outputs have room for a number of pieces, and hold
/// what they are handed encoded, too: were a replay after a start handed out as the large batch that it comes in, an output that
/// takes nothing would hold all that had waited for it twice.
const PIECE_RESULTS: usize = 256;

impl Query {
    pub(super) fn run(self: &Arc<Self>) {
        let hashed = self.settings().hash_results;
        // What a query has found that is perhaps being replaced, of ticks that are perhaps of the next.
        let mut later: Option<(QueryId, ResultBatch)> = None;
        let (mut since, mut results) = (Instant::now(), 0);
        while !self.stop.load(Ordering::Relaxed) {
            // In this order: when a switch is over, the query that was there before is not asked again.
            let until = self.until.load(Ordering::SeqCst);
            let installed = self.installed();
            if until != u64::MAX && (until == HOLD || self.has_handed_out(Tick(until))) {
                std::thread::sleep(SWITCH_LOOK);
                continue;
            }
            if let Some((of, batch)) = later.take() {
                self.in_hand.fetch_sub(batch.rows.len(), Ordering::SeqCst);
                if of == installed.id() {
                    // After a switch that was not made another may have begun, or the query is deleted: not all need go out.
                    let Some((now, rest)) = self.split(batch) else { return };
                    later = rest.map(|rest| (installed.id(), rest));
                    self.hand_out(&now, hashed, || !self.is_ending());
                    continue;
                }
            }
            if installed.is_summed() && installed.backfill().is_none() {
                match installed.resume() {
                    // The end of the sum is a tick behind all that is replayed.
                    Ok(_) | Err(EngineError::Starting) => {}
                    // It is made, and not in the log yet; or, where the workers are late, made anew the next time.
                    Err(error) if error.is_passing() => {
                        tracing::warn!(query = self.name, "the end of its sum waits: {error}");
                    }
                    Err(error) => {
                        tracing::error!(query = self.name, "its results cannot be taken: {}", chain(&error));
                        return;
                    }
                }
            }
            let is_beginning = until != u64::MAX || installed.is_summed() || installed.backfill().is_some();
            match installed.next(if is_beginning { LOOK } else { WAIT }) {
                Ok(Some(batch)) => {
                    let Some((now, rest)) = self.split(batch) else { return };
                    later = rest.map(|rest| (installed.id(), rest));
                    results += now.rows.len();
                    self.hand_out(&now, hashed, || !self.is_ending());
                }
                // What an output that was changed takes over.
                Ok(None) => self.give(|lane| lane.hand_over(&self.stop)),
                Err(_) if self.stop.load(Ordering::Relaxed) => return,
                // The one that it was replaced by is there.
                Err(EngineError::StandingGone) if self.installed().id() != installed.id() => {}
                Err(EngineError::StandingGone) => return,
                Err(EngineError::Store(error @ StoreError::TooSlow { .. })) => {
                    tracing::warn!(query = self.name, "its results wait for the log: {error}");
                }
                Err(error) => {
                    tracing::error!(query = self.name, "results cannot be taken any more: {}", chain(&error));
                    return;
                }
            }
            if since.elapsed() >= REST_AFTER {
                if results < MANY && later.is_none() && self.rests() {
                    return;
                }
                (since, results) = (Instant::now(), 0);
            }
        }
    }

    /// What of a batch is handed out, and what may be of another query: that counts as in hand. None when weir stops.
    pub(super) fn split(&self, mut batch: ResultBatch) -> Option<(ResultBatch, Option<ResultBatch>)> {
        // Also while it is not known: the end of weir waits for what is.
        self.in_hand.fetch_add(batch.rows.len(), Ordering::SeqCst);
        let until = loop {
            match self.until.load(Ordering::SeqCst) {
                HOLD if self.stop.load(Ordering::Relaxed) => return None,
                HOLD => std::thread::sleep(SWITCH_LOOK),
                until => break Tick(until),
            }
        };
        if batch.upper <= until {
            self.in_hand.fetch_sub(batch.rows.len(), Ordering::SeqCst);
            return Some((batch, None));
        }
        let place = batch.rows.partition_point(|row| row.tick < until);
        let rows = batch.rows.split_off(place);
        self.in_hand.fetch_sub(batch.rows.len(), Ordering::SeqCst);
        let rest = ResultBatch { upper: batch.upper, columns: batch.columns.clone(), rows, found: batch.found };
        batch.upper = until;
        Some((batch, Some(rest)))
    }

    /// As many as there is time for while it `goes_on`: one batch may take minutes.
    pub(super) fn hand_out(self: &Arc<Self>, batch: &ResultBatch, hashed: bool, goes_on: impl Fn() -> bool) {
        // A query that took the place of another begins further back. The outputs are past that, and would say of it, too, how
        // far they are: as if what the switch brings were delivered.
        if batch.rows.is_empty() && self.has_handed_out(batch.upper) {
            return;
        }
        self.in_hand.fetch_add(batch.rows.len(), Ordering::SeqCst);
        let (mode, ids) = (self.mode(), self.graph.ids());
        let mut place = Place::default();
        let mut cause = None;
        let results = batch.matches().map(|result| {
            if result.tick != place.tick {
                cause = self.graph.cause(result.tick);
            }
            // All results of a tick are in one batch, and always in the same order.
            place = place.next(result.tick);
            let id = result_id(mode, self.id, &result.data, ids);
            Sent { place, positive: result.positive, id, data: result.data, cause: cause.clone() }
        });
        let each = |piece, upper| self.hand_out_piece(&Arc::new(piece), upper, hashed);
        let handed_out = in_pieces(results, batch.upper, goes_on, each);
        self.in_hand.fetch_sub(handed_out, Ordering::SeqCst);
    }

    fn hand_out_piece(self: &Arc<Self>, sent: &Arc<Vec<Sent>>, upper: Tick, hashed: bool) {
        self.give(|lane| lane.send(sent, upper, &self.stop));
        // Where all are handed out another installation may take over, and what comes to the tail then counts as found by that.
        self.tail.push(sent, upper);
        self.handed_out.fetch_max(upper.0, Ordering::SeqCst);
        if sent.is_empty() {
            return;
        }
        if hashed {
            let (mode, ids) = (self.mode(), self.graph.ids());
            let hash = |result: &Sent| result_hash(mode, &result.data, ids);
            let sum = sent.iter().map(hash).fold(0u64, u64::wrapping_add);
            self.hash.fetch_add(sum, Ordering::Relaxed);
        }
        self.meter.mark(sent.len() as u64);
        let positive = sent.iter().filter(|result| result.positive).count() as u64;
        let cancelled = sent.len() as u64 - positive;
        self.cancellations.fetch_add(cancelled, Ordering::Relaxed);
        self.watch.live.count(positive, cancelled);
        self.show(sent);
    }

    /// To every output. One without room for all of it is given the rest by a thread that waits for it.
    pub(super) fn give(self: &Arc<Self>, give: impl Fn(&Lane) -> Given) {
        let mut behind = 0;
        for lane in self.lanes() {
            if give(&lane) == Given::Some {
                self.follow_lane(lane.clone());
            }
            behind = lane.behind().max(behind);
        }
        if behind > 0 || *lock(&self.weighed) > 0 {
            self.weigh();
        }
    }

    fn follow_lane(self: &Arc<Self>, lane: Arc<Lane>) {
        let (query, of) = (self.clone(), lane.clone());
        let started =
            weir_connectors::thread::named("behind", &lane.name).spawn(move || of.follow(&query.stop, || query.weigh()));
        if let Err(error) = started {
            lane.leave();
            tracing::warn!(query = self.name, output = lane.name, "its results wait: no thread could be started: {error}");
        }
    }

    /// An output has taken some: where the engine was told that results wait, it is told anew. Else ingest would wait until
    /// somebody looks.
    pub(super) fn weigh_again(&self) {
        if *lock(&self.weighed) > 0 {
            self.weigh();
        }
    }

    /// Tells the engine how many results the slowest output has not taken.
    pub(super) fn weigh(&self) {
        let mut weighed = lock(&self.weighed);
        let behind = self.lanes().iter().map(|lane| lane.behind()).max().unwrap_or(0);
        *weighed = behind;
        self.installed().set_behind(behind);
    }

    /// To the live page, as many as a person can see.
    fn show(&self, sent: &[Sent]) {
        let live = &self.watch.live;
        let bare = Encoder { envelope: Envelope::Bare, generation: Generation::V1, ids: self.graph.ids() };
        for result in sent.iter().take_while(|_| live.shows_more()) {
            live.show(&self.name, result.positive, &result.event(&bare).data);
        }
    }
}

/// Cuts results between ticks. With each piece `each` is told the tick before which there are no more. Where it does not go on,
/// the piece that is not complete does not come, nor that there are no more, also where there are none at all: those of a batch
/// before may not have come. Answers with how many results came.
fn in_pieces(
    results: impl Iterator<Item = Sent>,
    upper: Tick,
    goes_on: impl Fn() -> bool,
    mut each: impl FnMut(Vec<Sent>, Tick),
) -> usize {
    let mut piece: Vec<Sent> = Vec::new();
    let mut came = 0;
    for result in results {
        // Not only between pieces: all results of a tick are in one.
        if !goes_on() {
            return came;
        }
        let tick = result.place.tick;
        if piece.len() >= PIECE_RESULTS && piece.last().is_some_and(|last| last.place.tick < tick) {
            came += piece.len();
            each(std::mem::take(&mut piece), tick);
        }
        piece.push(result);
    }
    if goes_on() {
        came += piece.len();
        each(piece, upper);
    }
    came
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;
    use weir_engine::{ResultRow, Row};
    use weir_model::{NodeId, Value};

    use super::*;
    use crate::standing::tests::a_query;
    use crate::wire::standing::Output;

    /// How many results are in each piece, and where it ends.
    fn pieces(ticks: impl Iterator<Item = u64>, upper: u64) -> Vec<(usize, u64)> {
        pieces_of(ticks, upper, usize::MAX)
    }

    /// As `pieces`, of so many results.
    fn pieces_of(ticks: impl Iterator<Item = u64>, upper: u64, most: usize) -> Vec<(usize, u64)> {
        let looked_at = Cell::new(0);
        let goes_on = || looked_at.replace(looked_at.get() + 1) < most;
        let mut place = Place::default();
        let results = ticks.map(|tick| {
            place = place.next(Tick(tick));
            Sent { place, positive: true, id: NodeId::default(), data: Arc::default(), cause: None }
        });
        let (mut pieces, mut before) = (Vec::new(), Place::default());
        let came = in_pieces(results, Tick(upper), goes_on, |piece, upper| {
            assert!(piece.is_sorted_by_key(|result| result.place));
            assert!(piece.first().is_none_or(|first| before.tick < first.place.tick), "a tick stays together");
            before = piece.last().map_or(before, |last| last.place);
            assert!(before.tick < upper);
            pieces.push((piece.len(), upper.0));
        });
        assert_eq!(came, pieces.iter().map(|(count, _)| count).sum::<usize>());
        pieces
    }

    #[test]
    fn a_large_batch_is_handed_out_in_pieces() {
        let size = PIECE_RESULTS as u64;
        assert_eq!(pieces(10..10 + size * 2 + 1, 5_000), [(256, 266), (256, 522), (1, 5_000)]);
        assert_eq!(pieces(10..10 + size, 5_000), [(256, 5_000)]);
        assert_eq!(pieces(std::iter::empty(), 7), [(0, 7)], "how far it is, is told without results, too");
    }

    /// It may be hundreds of megabytes, of a query that is deleted.
    #[test]
    fn a_large_batch_is_cut_off_where_it_does_not_go_on() {
        let size = PIECE_RESULTS as u64;
        let many = || 10..10 + size * 1_000;
        assert_eq!(pieces_of(many(), 500_000, PIECE_RESULTS * 2), [(256, 266)], "not a part of a piece, nor the end");
        assert!(pieces_of(many(), 500_000, 0).is_empty());
        assert!(pieces_of(std::iter::empty(), 7, 0).is_empty(), "those of the batch before may have been cut off");
        assert!(pieces_of(std::iter::repeat_n(3, 1_000_000), 4, 1_000).is_empty(), "within a tick, too");
    }

    #[test]
    fn the_results_of_a_tick_stay_together() {
        let many = std::iter::repeat_n(3, 10 * PIECE_RESULTS);
        assert_eq!(pieces([1, 2].into_iter().chain(many).chain([4, 4, 9]), 10), [(2562, 4), (3, 10)]);
    }

    /// A result of each of these ticks.
    fn batch(query: &Query, ticks: impl IntoIterator<Item = u64>, upper: u64) -> ResultBatch {
        let row = |n: u64| ResultRow { tick: Tick(n), positive: true, row: Row::from_slice(&[Value::Integer(n as i64)]) };
        let columns = query.installed().columns().into();
        ResultBatch { upper: Tick(upper), columns, rows: ticks.into_iter().map(row).collect(), found: None }
    }

    /// The end of weir waits for what no output has yet, and cuts off what is left then.
    #[test]
    fn what_is_being_handed_out_is_waited_for() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (_engine, _queries, query) = a_query();
        let batch = batch(&query, [7, 8], 9);
        let seen = Cell::new(0);
        let looks = || {
            seen.set(query.unseen());
            true
        };
        query.hand_out(&batch, false, looks);
        assert_eq!((seen.get(), query.unseen()), (2, 0));
        query.hand_out(&batch, false, || false);
        assert_eq!(query.unseen(), 2, "they are cut off");
    }

    #[test]
    fn what_may_be_of_the_next_query_is_waited_for() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (_engine, queries, query) = a_query();
        query.until.store(HOLD, Ordering::SeqCst);
        let batch = batch(&query, [7, 8], 9);
        std::thread::scope(|scope| {
            let splitting = scope.spawn(|| query.split(batch));
            let begun = Instant::now();
            while query.unseen() < 2 && begun.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let seen = query.unseen();
            query.until.store(8, Ordering::SeqCst);
            let (now, later) = splitting.join().expect("it ends").expect("weir goes on");
            assert_eq!((now.rows.len(), later.map(|later| later.rows.len())), (1, Some(1)));
            assert_eq!((seen, query.unseen()), (2, 1), "the others are for whoever has split them to hand out");
        });
        queries.shut_down(Instant::now());
    }

    /// One piece of one tick may be more than is kept where nobody takes it.
    #[test]
    fn an_output_that_is_about_to_begin_gets_what_comes_and_none_begins_where_some_were_let_go_of() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (_engine, queries, query) = a_query();
        let lane = query.add_lane("late");
        query.hand_out(&batch(&query, std::iter::repeat_n(7, 100_001), 8), false, || true);
        assert!(!lane.has_lost() && lane.behind() == 100_001);
        lane.park("there is no such directory");
        let output = Output::decode(&json!({"type": "Drop"})).expect("an output");
        // It was tried, and could be opened, at the moment at which this comes.
        let opened = queries.open_again(&query, &lane, &output).expect("it can be opened");
        query.hand_out(&batch(&query, [8], 9), false, || true);
        assert!(lane.has_lost());
        let refused = query.start_output(&lane, opened).expect_err("it would be given nothing");
        assert!(refused.to_string().contains("it begins when weir starts again"), "{refused}");
        assert!(lane.running().is_none() && !lane.is_changing());
    }
}
