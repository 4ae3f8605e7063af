//! Gather: what the results of a query go through at its home worker: rows wait until their tick is complete, and until the graph
//! at rest has been looked through.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_model::Tick;

use super::answer::Answer;
use super::at_rest::{AtRest, Baselined, FEW_WAITING, merge};
use super::counts::Counts;
use super::{Baseline, Outlet, Reported, ResultRow, RowChange};
use crate::memory::is_over_limit;
use crate::render::Time;
use crate::render::aside::{Aside, Asides};
use crate::render::health::Health;
use crate::render::maintained::Maintained;
use crate::render::stages::Stages;

/// Changes that are answered before other work of the worker gets its turn, about.
const AT_ONCE: usize = 4096;

/// With more results of the graph at rest than this, memory is looked at.
const MANY_AT_REST: usize = 1 << 20;

/// What a query's results go through at its home worker.
pub struct Gather {
    way: Way,
    health: Arc<Health>,
    /// Rows of ticks before this are the baseline.
    installed: Time,
    /// Whether the graph at rest has been looked through.
    looked_through: bool,
    /// Whether, moreover, what has changed meanwhile has been answered, or handed over. Before that, changes wait.
    rested: bool,
    /// The baseline, where it is reported.
    first: Baselined,
    /// Rows of the graph at rest that stages will have.
    at_rest: AtRest,
    pending: Vec<RowChange>,
    /// Changes of complete ticks, in their order, that are answered a part at a time. None of them shares a tick with the next.
    behind: VecDeque<Vec<RowChange>>,
}

/// Who answers.
enum Way {
    /// The worker at once: rows are results.
    Here(Answer),
    /// The stages above the patterns.
    Aside(Arc<Aside>),
}

/// How far what follows from the graph at rest is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rested {
    Yes,
    /// There is more to do here.
    Soon,
    /// Others are at it, and look at no tick before this one any more.
    Later(Time),
}

impl Gather {
    pub fn new(
        maintained: &Maintained,
        health: Arc<Health>,
        stages: Option<(Stages, Arc<Asides>)>,
        reported: Reported,
        out: Outlet,
    ) -> Gather {
        let answer = Answer::new(maintained, health.clone(), reported, out);
        let way = match stages {
            Some((stages, asides)) => Way::Aside(Aside::new(stages, answer, asides)),
            None => Way::Here(answer),
        };
        Gather {
            way,
            health,
            installed: reported.installed,
            looked_through: false,
            rested: false,
            first: Baselined::default(),
            at_rest: AtRest::default(),
            pending: Vec::new(),
            behind: VecDeque::new(),
        }
    }

    /// Cancellations of ticks before this one are wanted.
    pub fn heed(&mut self, until: Time) {
        match &mut self.way {
            Way::Here(answer) => answer.cancellations_until = until,
            Way::Aside(aside) => aside.heed(until),
        }
    }

    /// Takes over changes whose ticks may not be complete.
    pub fn push(&mut self, changes: &mut Vec<RowChange>) {
        if self.pending.is_empty() {
            std::mem::swap(&mut self.pending, changes);
        } else {
            if self.pending.len() > FEW_WAITING {
                merge(changes);
            }
            self.pending.append(changes);
        }
        if let Way::Aside(_) = &self.way {
            self.health.bound(self.pending.len(), false);
        }
    }

    /// Whether the query has ended by itself. Then what waits here has no answer, and what is kept for it goes.
    pub fn is_over(&mut self) -> bool {
        if !self.health.is_over() {
            return false;
        }
        let waiting = self.behind.iter().flatten().chain(&self.pending);
        waiting.for_each(|change| self.health.ends_at(change.time));
        (self.pending, self.at_rest, self.first) = (Vec::new(), AtRest::default(), Baselined::default());
        self.health.caught_up(self.behind.drain(..).map(|changes| changes.len()).sum());
        // Of the graph at rest nothing has an answer until all of it has, also where nothing of it has come here yet. Were the
        // outputs to get past it, it would never be told. This comes before it is said that the graph is looked through.
        let first = if self.rested || self.looked_through { Time::MAX } else { self.installed.saturating_sub(1) };
        match &mut self.way {
            Way::Here(answer) => {
                answer.counts = Counts::default();
                // Elsewhere than at home nothing is known of what was told.
                if answer.out.results.is_some() {
                    self.health.ends_at(first);
                    answer.out.backfill.done.store(true, Ordering::SeqCst);
                }
            }
            Way::Aside(aside) => {
                self.health.ends_at(first);
                aside.end();
                self.health.ends_at(aside.next_turn());
            }
        }
        true
    }

    /// As `is_over`; a query that has ended hears of nothing that comes from `frontier` on.
    pub fn hears_until(&mut self, frontier: Time) -> bool {
        let is_over = self.is_over();
        if is_over {
            self.health.ends_at(frontier);
        }
        is_over
    }

    /// Whether time alone may change the answer before `frontier`.
    pub fn may_turn(&self, frontier: Time) -> bool {
        matches!(&self.way, Way::Aside(aside) if self.rested && aside.awaits(frontier))
    }

    /// Whether nothing waits for its tick to be complete.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    pub fn is_rested(&self) -> bool {
        self.rested
    }

    /// The stages, if there are some.
    pub fn aside(&self) -> Option<&Arc<Aside>> {
        if let Way::Aside(aside) = &self.way { Some(aside) } else { None }
    }

    /// Matches of the graph at rest, a part of them at a time.
    pub fn at_rest(&mut self, changes: &mut Vec<RowChange>) {
        let answer = match &mut self.way {
            Way::Aside(_) => {
                self.at_rest.push(changes);
                return self.health.bound(self.at_rest.count, true);
            }
            Way::Here(answer) => answer,
        };
        if answer.distinct {
            answer.counts.touch(changes);
        }
        for RowChange { row, time, diff, .. } in changes.drain(..) {
            let mut diff = i64::from(diff);
            if answer.distinct {
                let (before, after) = answer.counts.add(&row, diff);
                diff = i64::from(after > 0) - i64::from(before > 0);
            }
            match answer.baseline {
                Baseline::Report => {
                    let result = ResultRow { tick: Tick(time), positive: true, row };
                    (0..diff).for_each(|_| self.first.push(result.clone()));
                }
                Baseline::Known => {}
            }
        }
        if self.first.count > MANY_AT_REST && is_over_limit() {
            let count = self.first.count;
            self.health.fail(&format!("{count} results and more come of the graph as it is, and memory.limit is reached"));
        }
    }

    /// There are no more matches of the graph at rest; everything before `frontier` has arrived. To be called again unless the
    /// answer is `Yes`: others need not wait for all of it.
    pub fn rested(&mut self, frontier: Time) -> Rested {
        if self.is_over() {
            self.rested = true;
            return Rested::Yes;
        }
        if let Way::Aside(aside) = &self.way {
            let aside = aside.clone();
            if !self.rested {
                self.fall_behind(frontier);
                let at_rest = std::mem::take(&mut self.at_rest).parts;
                self.health.caught_up(self.behind.iter().map(Vec::len).sum());
                aside.begin(at_rest, self.behind.drain(..), frontier.max(self.installed));
                self.rested = true;
            }
            return aside.behind().map_or(Rested::Yes, Rested::Later);
        }
        if !self.looked_through {
            let Some(rows) = self.first.gather() else { return Rested::Soon };
            self.looked_through = true;
            if let Way::Here(answer) = &mut self.way {
                answer.send(rows, self.installed, None);
            }
        }
        if !self.catch_up(frontier) {
            return Rested::Soon;
        }
        self.rested = true;
        if !self.pending.is_empty() {
            self.turn(frontier.max(self.installed));
        }
        if let Way::Here(Answer { out, .. }) = &self.way
            && out.results.is_some()
        {
            out.backfill.done.store(true, Ordering::SeqCst);
        }
        Rested::Yes
    }

    /// Answers a part of what has changed before `frontier`. True when nothing is left.
    fn catch_up(&mut self, frontier: Time) -> bool {
        self.fall_behind(frontier);
        let mut ready = self.behind.pop_front().unwrap_or_default();
        while ready.len() < AT_ONCE
            && let Some(mut next) = self.behind.pop_front()
        {
            ready.append(&mut next);
        }
        self.health.caught_up(ready.len());
        if let (Some(last), Way::Here(answer)) = (ready.last().map(|change| change.time), &mut self.way) {
            answer.answer(ready, last + 1);
        }
        self.behind.is_empty()
    }

    /// Keeps changes of complete ticks for later.
    fn fall_behind(&mut self, frontier: Time) {
        self.pending.sort_by_key(|change| change.time);
        let later = self.pending.split_off(self.pending.partition_point(|change| change.time < frontier));
        let complete = std::mem::replace(&mut self.pending, later);
        if !complete.is_empty() {
            self.health.fell_behind(complete.len());
            self.behind.push_back(complete);
            self.health.bound_behind(is_over_limit);
        }
    }

    /// Every change before `frontier` has arrived: sends on what is complete.
    pub fn advance(&mut self, frontier: Time) {
        if self.is_over() {
            return;
        }
        if self.rested {
            self.turn(frontier);
        } else {
            self.fall_behind(frontier);
        }
    }

    fn turn(&mut self, frontier: Time) {
        let ready: Vec<RowChange> = if self.pending.iter().all(|change| change.time < frontier) {
            std::mem::take(&mut self.pending)
        } else {
            let (ready, later) = std::mem::take(&mut self.pending).into_iter().partition(|change| change.time < frontier);
            self.pending = later;
            ready
        };
        match &mut self.way {
            Way::Here(answer) => answer.answer(ready, frontier),
            Way::Aside(aside) => aside.hand_over([ready], frontier),
        }
    }
}

impl Drop for Gather {
    fn drop(&mut self) {
        self.health.caught_up(self.behind.iter().map(Vec::len).sum());
        if let Way::Aside(aside) = &self.way {
            aside.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::{Receiver, Sender, bounded};
    use weir_cypher_compiler::{Options, StandingMode, compile_standing};
    use weir_model::{IdScheme, NodeId, Value};

    use super::*;
    use crate::render::QueryNumber;
    use crate::render::results::{ResultBatch, Row};
    use crate::symbols::Symbols;

    fn gather() -> (Gather, Receiver<ResultBatch>) {
        let (sender, results) = bounded(1000);
        (gather_with(Some(sender)), results)
    }

    /// Without anywhere to send results it is not at home.
    fn gather_with(results: Option<Sender<ResultBatch>>) -> Gather {
        let text = "MATCH (n:A) RETURN DISTINCT id(n) AS id";
        let plan = compile_standing(text, StandingMode::DistinctId, &Options::default()).expect("it compiles").plan;
        let maintained = Maintained::new(&plan, &Symbols::default(), IdScheme::default()).expect("it can be maintained");
        let out = Outlet { results, inbox: Arc::default(), backfill: Arc::default() };
        let health = Arc::new(Health::of_nobody(IdScheme::default()));
        let reported = Reported { cancellations_until: Time::MAX, baseline: Baseline::Report, installed: 2 };
        Gather::new(&maintained, health, None, reported, out)
    }

    /// Whether the graph counts as looked through, as others see it.
    fn is_done(gather: &Gather) -> bool {
        matches!(&gather.way, Way::Here(answer) if answer.out.backfill.done.load(Ordering::SeqCst))
    }

    /// Ids that come and go, some at each tick.
    fn changes(count: u64) -> impl DoubleEndedIterator<Item = RowChange> {
        (0..count).map(|n| {
            let row = Row::from_slice(&[Value::Id(NodeId::new(0, n % 701))]);
            RowChange { row, time: 2 + n / 7, diff: if n / 701 % 2 == 0 { 1 } else { -1 }, query: QueryNumber(0), source: 0 }
        })
    }

    fn told(batches: &[ResultBatch]) -> Vec<(Tick, bool, &Row)> {
        batches.iter().flat_map(|batch| &batch.rows).map(|row| (row.tick, row.positive, &row.row)).collect()
    }

    #[test]
    fn many_matches_of_the_graph_at_rest_leave_together_and_others_have_their_turn_before() {
        const COUNT: u64 = 3 * Baselined::PART as u64 + 17;
        let (mut gather, results) = gather();
        let row = |n| Row::from_slice(&[Value::Id(NodeId::new(1, n))]);
        let change = |n| RowChange { row: row(n), time: 1, diff: 1, query: QueryNumber(0), source: 0 };
        (0..COUNT).for_each(|n| gather.at_rest(&mut vec![change(n)]));
        let mut calls = 1;
        while gather.rested(2) != Rested::Yes {
            assert!(results.is_empty());
            calls += 1;
        }
        assert_eq!(calls, 4);
        let batches: Vec<ResultBatch> = results.try_iter().collect();
        assert_eq!(batches.len(), 1);
        let rows: Vec<Row> = (0..COUNT).map(row).collect();
        assert!(told(&batches).into_iter().eq(rows.iter().map(|row| (Tick(1), true, row))));
    }

    #[test]
    fn much_that_changed_meanwhile_is_answered_in_parts_and_just_the_same() {
        const COUNT: u64 = 30_000;
        let end = 2 + COUNT / 7 + 1;
        let (mut keeping_up, results) = gather();
        assert_eq!(keeping_up.rested(2), Rested::Yes);
        keeping_up.push(&mut changes(COUNT).collect());
        keeping_up.advance(end);
        let expected: Vec<ResultBatch> = results.try_iter().collect();
        assert_eq!(told(&expected).len(), COUNT as usize);

        for backwards in [false, true] {
            let (mut late, results) = gather();
            let all: Vec<RowChange> = changes(COUNT).collect();
            let (before, after) = all.split_at(COUNT as usize * 9 / 10);
            let mut complete = 2;
            for part in before.chunks(500) {
                let mut part = part.to_vec();
                // What has arrived before it is complete, and the tick it begins with may not be.
                complete = part[0].time;
                if backwards {
                    part.reverse();
                }
                late.push(&mut part);
                late.advance(complete);
            }
            let waits = |late: &Gather| late.behind.iter().map(Vec::len).sum::<usize>();
            assert!(waits(&late) > COUNT as usize * 4 / 5);
            let mut calls = 1;
            while late.rested(complete) != Rested::Yes {
                assert_eq!(late.health.waiting(), waits(&late), "others see how much waits");
                calls += 1;
                if calls == 3 {
                    late.push(&mut after.to_vec());
                }
                assert!(!late.is_rested() && calls < 100);
            }
            assert!(calls > 4, "{calls}");
            assert_eq!(late.health.waiting(), 0);
            late.advance(end);
            let batches: Vec<ResultBatch> = results.try_iter().collect();
            assert!(
                batches.is_sorted_by(|one, next| one.upper < next.upper && next.rows.iter().all(|row| row.tick >= one.upper))
            );
            assert!(batches.iter().all(|batch| batch.rows.iter().all(|row| row.tick < batch.upper)));
            assert!(told(&batches) == told(&expected));
        }
    }

    /// Nothing of the graph at rest has come yet when a later change costs too much.
    #[test]
    fn one_that_ends_before_the_graph_at_rest_is_told_stays_before_all_of_it() {
        let ends = |gather: &Gather| {
            gather.health.ends_at(5);
            gather.health.fail("it costs too much");
        };
        let answered = |gather: &Gather| gather.health.answered(Tick(9));
        let (mut untold, results) = gather();
        ends(&untold);
        untold.advance(7);
        assert!(is_done(&untold));
        assert_eq!(untold.rested(7), Rested::Yes);
        assert_eq!((answered(&untold), results.len()), (Tick(1), 0), "it begins at 2");

        let (mut told, _results) = gather();
        assert_eq!(told.rested(2), Rested::Yes);
        ends(&told);
        told.advance(7);
        assert_eq!(answered(&told), Tick(5));

        // Only at home it is known what was told.
        let mut elsewhere = gather_with(None);
        ends(&elsewhere);
        assert_eq!(elsewhere.rested(7), Rested::Yes);
        assert_eq!((answered(&elsewhere), is_done(&elsewhere)), (Tick(5), false));
    }

    #[test]
    fn what_waits_for_a_query_that_ends_or_goes_waits_no_more() {
        for ends in [true, false] {
            let (mut gather, _results) = gather();
            let health = gather.health.clone();
            gather.push(&mut changes(70).collect());
            gather.advance(5);
            assert_eq!(health.waiting(), 21);
            if ends {
                health.fail("it costs too much");
                assert_eq!(gather.rested(5), Rested::Yes);
            } else {
                drop(gather);
            }
            assert_eq!(health.waiting(), 0);
        }
    }
}
