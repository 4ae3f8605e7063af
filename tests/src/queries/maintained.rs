//! A query that is maintained: what it must report at each record, and what it has reported.
//!
//! What it must report are the differences between the answers of the reference after each record. Where the reference has too
//! much to try, the answers are those of the evaluator over the same plain maps.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_cypher_compiler::StandingMode;
use weir_engine::{Graph, Prepared, ResultBatch, Standing, StandingQuery, Start};
use weir_model::{Plan, Position, QueryId, Tick, Value};

use super::setting::{Baseline, Begin};
use super::text::Query;

const PATIENCE: Duration = Duration::from_secs(30);
const OUTPUT: &str = "output";

/// Rows with how often they occur, or how many more of them there are.
pub type Counted = BTreeMap<Vec<Value>, i64>;

pub struct Watched<'q> {
    pub query: &'q Query,
    pub mode: StandingMode,
    pub begin: Begin,
    /// What the reference is asked.
    pub asked: Prepared,
    /// The reference has too much to try; the evaluator is asked.
    pub evaluated: bool,
    plan: Plan,
    id: QueryId,
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
    /// What must be reported between batches.
    due: Counted,
    /// What must be reported at the records of the batch, by their index.
    wanted: Vec<(usize, Counted)>,
}

impl<'q> Watched<'q> {
    pub fn new(query: &'q Query, (mode, plan, asked): (StandingMode, Plan, Prepared), begin: Begin, id: QueryId) -> Watched<'q> {
        let (before, held, reported, due) = (Counted::new(), Counted::new(), Counted::new(), Counted::new());
        let (from, taken) = (Tick::ZERO, Tick::ZERO);
        let evaluated = false;
        Watched {
            query,
            mode,
            begin,
            asked,
            evaluated,
            plan,
            id,
            standing: None,
            from,
            taken,
            before,
            held,
            reported,
            due,
            wanted: Vec::new(),
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

    /// It is asked for what it held back.
    pub fn propagate(&mut self) -> Result<(), String> {
        let Some(standing) = &self.standing else { return Ok(()) };
        standing.propagate().map_err(|error| format!("not asked for what is held back: {error}\n"))?;
        add(&mut self.due, std::mem::take(&mut self.held));
        Ok(())
    }

    pub fn drop_from(&mut self, graph: &Graph) {
        graph.drop_standing(self.id);
        self.standing = None;
    }

    /// The answer after a record of the batch.
    pub fn answer(&mut self, record: usize, answer: Counted) {
        let mut change = answer.clone();
        add(&mut change, std::mem::replace(&mut self.before, answer).into_iter().map(|(row, count)| (row, -count)));
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
        if !change.is_empty() {
            self.wanted.push((record, change));
        }
    }

    /// Takes what is reported before `upper`, at whose ticks the records of the batch are the last, and compares.
    pub fn compare(&mut self, upper: Tick, records: usize) -> Result<(), String> {
        let Some(standing) = &self.standing else { return Ok(()) };
        let (found, taken) = reported(standing, self.from, upper)?;
        self.taken = taken;
        let first = Tick(upper.0 - records as u64);
        // What is due between batches may come at any tick up to the first of them.
        let mut wanted = BTreeMap::from([(first, std::mem::take(&mut self.due))]);
        for (record, change) in self.wanted.drain(..) {
            add(wanted.entry(Tick(first.0 + record as u64)).or_default(), change);
        }
        let mut by_record: BTreeMap<Tick, Counted> = BTreeMap::new();
        for (tick, rows) in found {
            let rows = rows.into_iter().map(|(row, count)| (self.query.comparable(&row), count));
            add(by_record.entry(tick.max(first)).or_default(), rows);
        }
        for side in [&mut wanted, &mut by_record] {
            side.values_mut().for_each(|rows| rows.retain(|_, count| *count != 0));
            side.retain(|_, rows| !rows.is_empty());
        }
        if by_record == wanted {
            return Ok(());
        }
        let nothing = Counted::new();
        let ticks = by_record.keys().chain(wanted.keys()).copied();
        let differs = |tick: &Tick| by_record.get(tick) != wanted.get(tick);
        let tick = ticks.filter(differs).min().unwrap_or_default();
        Err(format!(
            "in mode {:?}, begun as {:?}, at record {} of the batch, the standing query reports\n{}but the reference changes by\n{}",
            self.mode,
            self.begin,
            tick.0 - first.0,
            shown(by_record.get(&tick).unwrap_or(&nothing)),
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
