//! A query that is maintained: what it must report at each record and each moment, and what it has reported.
//!
//! What it must report are the differences between the answers of the reference after each record, and in each millisecond that
//! goes by. Where the reference has too much to try, the answers are those of the evaluator over the same plain maps.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_cypher_compiler::StandingMode;
use weir_engine::{EngineError, Graph, Prepared, ResultBatch, Standing, StandingQuery, Start};
use weir_model::{NodeId, Plan, Position, QueryId, Tick, Value};

use super::replaced::Successor;
use super::setting::{Baseline, Begin, Pause};
use super::text::Query;

pub const PATIENCE: Duration = Duration::from_secs(30);
pub const OUTPUT: &str = "output";
/// More than there are modes: the ids of a query in each of them follow one another.
const IDS_APART: u64 = 16;

/// Rows with how often they occur, or how many more of them there are.
pub type Counted = BTreeMap<Vec<Value>, i64>;

pub struct Watched<'q> {
    pub query: &'q Query,
    pub mode: StandingMode,
    pub begin: Begin,
    pub pause: Option<Pause>,
    /// What the reference is asked.
    pub asked: Prepared,
    /// The reference has too much to try; the evaluator is asked.
    pub evaluated: bool,
    /// What takes its place later.
    pub successor: Option<Successor>,
    plan: Plan,
    id: QueryId,
    /// How many other ids were taken for it, and for what was beside it.
    ids: u64,
    standing: Option<StandingQuery>,
    /// Results of earlier ticks are those of an earlier life.
    from: Tick,
    /// Results of earlier ticks have been compared.
    taken: Tick,
    /// The answer as it was last.
    before: Counted,
    /// Of the graph it found, and not reported yet.
    held: Counted,
    /// Of the rows that were held back: how often they came since then.
    reported: Counted,
    /// Reported by what it has taken the place of, and not compared yet.
    found: BTreeMap<Tick, Counted>,
    /// It has taken the place of another.
    replaces: bool,
    /// What must be reported between batches.
    due: Counted,
    /// How the answer changed at the records of the batch, by their index.
    records: Vec<(usize, Counted)>,
    /// How it changed since it was compared, as far as the ticks are known.
    changes: BTreeMap<Tick, Counted>,
    /// While it is paused: how it changed since then.
    net: Option<Counted>,
    /// What is held back comes with the end of the pause.
    asked_in_pause: bool,
}

impl<'q> Watched<'q> {
    pub fn new(
        query: &'q Query,
        (mode, plan, asked): (StandingMode, Plan, Prepared),
        (begin, pause): (Begin, Option<Pause>),
        id: QueryId,
    ) -> Watched<'q> {
        Watched {
            query,
            mode,
            begin,
            pause,
            asked,
            evaluated: false,
            successor: None,
            plan,
            id,
            ids: 0,
            standing: None,
            from: Tick::ZERO,
            taken: Tick::ZERO,
            before: Counted::new(),
            held: Counted::new(),
            reported: Counted::new(),
            found: BTreeMap::new(),
            replaces: false,
            due: Counted::new(),
            records: Vec::new(),
            changes: BTreeMap::new(),
            net: None,
            asked_in_pause: false,
        }
    }

    pub fn is_installed(&self) -> bool {
        self.standing.is_some()
    }

    /// Installs it on a graph whose answer is this.
    pub fn install(&mut self, graph: &Graph, answer: Counted) -> Result<(), String> {
        let start = match self.begin.baseline {
            Baseline::All => Start::WholeGraph,
            Baseline::Later(_) => Start::Now,
        };
        match start {
            Start::Now => self.held = answer.clone(),
            _ => self.due = answer.clone(),
        }
        self.before = answer;
        self.start(graph, start)
    }

    /// Goes on with it in another engine.
    pub fn resume(&mut self, graph: &Graph) -> Result<(), String> {
        self.start(graph, Start::Resume)
    }

    fn start(&mut self, graph: &Graph, start: Start) -> Result<(), String> {
        let outputs = vec![OUTPUT.into()];
        let standing = Standing { id: self.id, plan: self.plan.clone(), cancellations: true, start, outputs };
        let installed = graph.install(standing).map_err(|error| format!("not installed in mode {:?}: {error}\n", self.mode))?;
        let (from, _) = installed.delivered(OUTPUT).ok_or("the output is not known\n")?;
        // What was delivered and not noted before the end comes again; a file would be cut back.
        self.from = from.max(self.taken);
        self.standing = Some(installed);
        Ok(())
    }

    /// The engine is no longer there. False where it had not been installed.
    pub fn leave(&mut self) -> bool {
        self.standing.take().is_some()
    }

    /// The engine is no longer there. True where what is to take its place was catching up: of that, nothing is left.
    pub fn lose_successor(&mut self) -> bool {
        self.successor.as_mut().is_some_and(Successor::leave)
    }

    /// It is asked for what it held back.
    pub fn propagate(&mut self) -> Result<(), String> {
        let Some(standing) = &self.standing else { return Ok(()) };
        standing.propagate().map_err(|error| format!("not asked for what is held back: {error}\n"))?;
        match self.net {
            Some(_) => self.asked_in_pause = true,
            None => add(&mut self.due, std::mem::take(&mut self.held)),
        }
        Ok(())
    }

    /// Begins its pause before a batch of the world, or ends it: at the last one in any case, so that all is compared. True where
    /// the end brings results.
    pub fn pause_or_go_on(&mut self, batch: usize, last: usize) -> Result<bool, String> {
        let (Some(standing), Some(pause)) = (&self.standing, self.pause) else { return Ok(false) };
        let from = self.begin.after + pause.after;
        let done = |done: Result<bool, EngineError>, what: &str| match done {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("it cannot be {what}, and nobody did\n")),
            Err(error) => Err(format!("not {what}: {error}\n")),
        };
        if self.net.is_none() {
            if batch == from && batch < last {
                done(standing.pause(), "paused")?;
                self.net = Some(Counted::new());
            }
            return Ok(false);
        }
        if batch < last && batch < from + pause.batches {
            return Ok(false);
        }
        done(standing.resume(), "resumed")?;
        let net = self.net.take().unwrap_or_default();
        let mut brought = self.hear(net);
        if std::mem::take(&mut self.asked_in_pause) {
            add(&mut brought, std::mem::take(&mut self.held));
        }
        brought.retain(|_, count| *count != 0);
        let brings = !brought.is_empty();
        add(&mut self.due, brought);
        Ok(brings)
    }

    /// Installs what is to take its place, if that is to be before this batch of the world.
    pub fn begin_successor(&mut self, graph: &Graph, at: usize) -> Result<(), String> {
        let (Some(standing), Some(successor)) = (&self.standing, &mut self.successor) else { return Ok(()) };
        if !successor.begins((at, self.begin.after)) {
            return Ok(());
        }
        // Whatever was installed before an end of the engine may have left something in the log.
        let ids = [1, 2].map(|more| QueryId(NodeId::new(self.id.0.high, self.id.0.low + IDS_APART * (self.ids + more))));
        self.ids += 2;
        successor.install(graph, at, (standing, &self.plan), ids)
    }

    /// What the reference is asked of that once it is in its place, if that is to be before this batch of the world. It waits for
    /// the end of a pause.
    pub fn asked_next(&self, at: usize, last: usize) -> Option<&Plan> {
        let successor = self.successor.as_ref().filter(|successor| successor.is_due(at, last))?;
        (self.standing.is_some() && self.net.is_none()).then_some(&successor.asked)
    }

    /// Another query takes its place, whose answer is this. True where the difference brings results.
    pub fn succeed(&mut self, graph: &Graph, answer: Counted) -> Result<bool, String> {
        let (Some(standing), Some(successor)) = (self.standing.take(), self.successor.take()) else { return Ok(false) };
        let first = successor.end(&standing)?;
        let (mut found, _) = reported(&standing, self.from, first)?;
        found.split_off(&first);
        self.found = found;
        self.plan = successor.plan.clone();
        let (standing, has_same_columns) = successor.take_over(graph, &standing, first)?;
        self.id = standing.id();
        self.standing = Some(standing);
        self.replaces = true;
        (self.from, self.taken) = (first, first);
        let change = self.changed(answer.clone());
        let told = if has_same_columns {
            self.hear(change)
        } else {
            // Rows of other columns have nothing to do with each other.
            self.held.clear();
            self.reported.clear();
            answer
        };
        let brings = !told.is_empty();
        add(&mut self.due, told);
        Ok(brings)
    }

    /// Nothing takes its place.
    pub fn stay(&mut self, graph: &Graph) {
        if let Some(successor) = self.successor.take() {
            successor.drop_from(graph);
        }
    }

    /// The log is needed from here on, for it and for what is to take its place.
    pub fn needs_from(&self) -> Option<Tick> {
        let next = self.successor.as_ref().and_then(Successor::needs_from);
        self.standing.as_ref().and_then(StandingQuery::needs_from).into_iter().chain(next).min()
    }

    pub fn drop_from(&mut self, graph: &Graph) {
        self.stay(graph);
        graph.drop_standing(self.id);
        self.standing = None;
    }

    /// The answer after a record of the batch.
    pub fn answer(&mut self, record: usize, answer: Counted) {
        let change = self.changed(answer);
        if !change.is_empty() {
            self.records.push((record, change));
        }
    }

    /// The answer when time alone has come to a tick. True where it is another.
    pub fn turn(&mut self, tick: Tick, answer: Counted) -> bool {
        let change = self.changed(answer);
        let turned = !change.is_empty();
        add(self.changes.entry(tick).or_default(), change);
        turned
    }

    /// The records of the batch have the ticks from this one on. What time brought at the first of them is one change with it.
    pub fn place(&mut self, first: Tick) {
        for (record, change) in std::mem::take(&mut self.records) {
            add(self.changes.entry(Tick(first.0 + record as u64)).or_default(), change);
        }
    }

    fn changed(&mut self, answer: Counted) -> Counted {
        let mut change = answer.clone();
        add(&mut change, std::mem::replace(&mut self.before, answer).into_iter().map(|(row, count)| (row, -count)));
        change.retain(|_, count| *count != 0);
        change
    }

    /// What must be reported of a change.
    fn hear(&mut self, mut change: Counted) -> Counted {
        for (row, count) in &mut change {
            // What ends before it was reported ends silently; of equal rows those that were reported end first.
            let Some(held) = self.held.get_mut(row) else { continue };
            let reported = self.reported.entry(row.clone()).or_default();
            let silent = (-*count - *reported).clamp(0, *held);
            *held -= silent;
            *count += silent;
            *reported += *count;
        }
        change.retain(|_, count| *count != 0);
        change
    }

    /// Takes what is reported before `upper`, and compares. At `first` or later was the first change.
    pub fn compare(&mut self, first: Tick, upper: Tick) -> Result<(), String> {
        let Some(standing) = &self.standing else { return Ok(()) };
        let (found, taken) = reported(standing, self.from, upper)?;
        self.taken = taken;
        self.successor.as_ref().map_or(Ok(()), Successor::take)?;
        // What is due between batches may come at any tick up to the first of them.
        let mut wanted = BTreeMap::from([(first, std::mem::take(&mut self.due))]);
        for (tick, mut change) in std::mem::take(&mut self.changes) {
            change.retain(|_, count| *count != 0);
            if let Some(net) = &mut self.net {
                add(net, change);
                continue;
            }
            let told = self.hear(change);
            add(wanted.entry(tick).or_default(), told);
        }
        let mut by_tick: BTreeMap<Tick, Counted> = BTreeMap::new();
        for (tick, rows) in std::mem::take(&mut self.found).into_iter().chain(found) {
            let rows = rows.into_iter().map(|(row, count)| (self.query.comparable(&row), count));
            add(by_tick.entry(tick.max(first)).or_default(), rows);
        }
        for side in [&mut wanted, &mut by_tick] {
            side.values_mut().for_each(|rows| rows.retain(|_, count| *count != 0));
            side.retain(|_, rows| !rows.is_empty());
        }
        if by_tick == wanted {
            return Ok(());
        }
        let nothing = Counted::new();
        let ticks = by_tick.keys().chain(wanted.keys()).copied();
        let differs = |tick: &Tick| by_tick.get(tick) != wanted.get(tick);
        let tick = ticks.filter(differs).min().unwrap_or_default();
        let paused = if self.net.is_some() { ", paused" } else { "" };
        let replaces = if self.replaces { ", in the place of another" } else { "" };
        Err(format!(
            "in mode {:?}, begun as {:?}{paused}{replaces}, at {tick} (the first that counts is {first}), \
             the standing query reports\n{}\
             but the reference changes by\n{}",
            self.mode,
            self.begin,
            shown(by_tick.get(&tick).unwrap_or(&nothing)),
            shown(wanted.get(&tick).unwrap_or(&nothing))
        ))
    }
}

/// What is reported before `upper`, by tick, and before which tick that is. It is then delivered.
fn reported(standing: &StandingQuery, from: Tick, upper: Tick) -> Result<(BTreeMap<Tick, Counted>, Tick), String> {
    let mut found: BTreeMap<Tick, Counted> = BTreeMap::new();
    let mut reached = Tick::ZERO;
    loop {
        let ResultBatch { upper: until, rows, .. } = match standing.next(PATIENCE) {
            Ok(Some(batch)) => batch,
            Ok(None) => {
                return Err(format!("the standing query has reported what was before {reached:?}, and not before {upper:?}\n"));
            }
            Err(error) => return Err(format!("the standing query failed: {error}\n")),
        };
        reached = until;
        for result in rows.into_iter().filter(|result| result.tick >= from) {
            let count = found.entry(result.tick).or_default().entry(result.row.0.to_vec()).or_default();
            *count += if result.positive { 1 } else { -1 };
        }
        if until >= upper {
            standing.set_delivered(OUTPUT, until.max(from), Position::default(), true);
            return Ok((found, until));
        }
    }
}

fn add(to: &mut Counted, rows: impl IntoIterator<Item = (Vec<Value>, i64)>) {
    for (row, count) in rows {
        *to.entry(row).or_default() += count;
    }
}

fn shown(rows: &Counted) -> String {
    rows.iter().map(|(row, count)| format!("    {count:+} x {}\n", super::compare::shown_row(row))).collect()
}
