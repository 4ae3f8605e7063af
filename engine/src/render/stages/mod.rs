//! Stages: the answer of what stands above patterns, kept one tick after another.
//!
//! A stage takes the changes of its input at one tick, rows with how many more or fewer of them there are, and gives those of
//! its own answer. What it keeps, it keeps of rows; the graph itself is looked at where it lies, as it is at that tick. Every
//! answer follows from the graph alone: where Cypher leaves a choice (which of equal rows comes first, in which order
//! `collect` lists) the order of values decides, so that a restart, or another number of workers, changes nothing.
//!
//! A row for which an expression has no value is no row. How much may be looked at for one is bounded (`bounds`).
//!
//!     build       a plan becomes stages
//!     join        rows of both sides whose keys are equal; of OPTIONAL MATCH those of the left that have none, too
//!     group       aggregates: the rows of each group as far as they are needed
//!     percentile  the values of a group in order, and the place among them
//!     top         ORDER BY … SKIP … LIMIT: all rows in order, and the window that is shown
//!     timed       rows of which time alone makes something else
//!     each        what is asked of the graph row by row, worked out again when that changes
//!     looks       what was looked at for a row, and which rows a change concerns
//!     askers      which rows looked for nodes by a value
//!     bounds      how much may be done for one row, and how many may come of one tick
//!     derive      the answer at one moment, with what each row was made of, for those who ask why

mod build;
mod join;
mod group;
mod percentile;
mod top;
mod timed;
mod each;
pub mod looks;
mod askers;
mod bounds;
pub mod derive;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_model::clock::At;
use weir_model::{Clock, Context, Expr, GraphFree, IdScheme, Tick, Value};

use self::bounds::{Bounded, Made};
use self::looks::{Mark, Touched, marks_of, own_of};
use self::timed::Timed;
use super::health::Health;
use super::maintained::{TOUCHED, is_clocked};
use super::program::RenderError;
use super::results::{Row, RowChange};
use super::{QueryNumber, Time};
use crate::alarm::Alarm;
use crate::arrangement::Published;
use crate::evaluate::{Evaluator, Moved, NoValue, Prepared, Watched, unwound};
use crate::symbols::Symbols;

/// Rows, and how many more of each there are.
pub type Changes = Vec<(Row, i64)>;

/// The stages of a query as they are built from its plan; checked once, and built anew where they run.
pub struct Staged {
    prepared: Arc<Prepared>,
    ids: IdScheme,
}

/// What stages look at besides rows.
pub struct Outside {
    pub published: Arc<Published>,
    pub symbols: Arc<Symbols>,
    pub open_cypher: bool,
    pub alarm: Alarm,
    pub health: Arc<Health>,
}

/// The stages at work.
pub struct Stages {
    prepared: Arc<Prepared>,
    ids: IdScheme,
    outside: Outside,
    root: Stage,
    sources: usize,
    context: GraphFree,
    /// The tick before the installation, until it has been looked at.
    first: Option<Time>,
    watched: Watched,
    /// The ticks at which the graph was looked at.
    #[cfg(test)]
    ticks: Vec<Time>,
}

/// Where the values of a row of some stage lie in the row of the plan.
#[derive(Clone, Debug, Default)]
pub struct Layout(pub Vec<usize>);

impl Layout {
    fn spread(&self, row: &Row, into: &mut [Value]) {
        self.0.iter().zip(&row.0).for_each(|(slot, value)| into[*slot].clone_from(value));
    }

    fn collect(&self, from: &[Value]) -> Row {
        Row(self.0.iter().map(|slot| from[*slot].clone()).collect())
    }
}

pub enum Stage {
    /// The rows of a pattern.
    Source(usize),
    /// One row of this many nulls, from the beginning.
    Unit(usize),
    Filter {
        input: Box<Stage>,
        layout: Layout,
        condition: Expr,
        out: Layout,
        timed: Option<Timed>,
    },
    Project {
        input: Box<Stage>,
        layout: Layout,
        items: Vec<(usize, Expr)>,
        out: Layout,
        timed: Option<Timed>,
    },
    Unwind {
        input: Box<Stage>,
        layout: Layout,
        list: Expr,
        into: usize,
        out: Layout,
        timed: Option<Timed>,
    },
    Distinct {
        input: Box<Stage>,
        layout: Layout,
        counts: FxHashMap<Row, i64>,
        out: Layout,
    },
    Union(Box<Stage>, Box<Stage>),
    Each(Box<each::Each>),
    Group(Box<group::Group>),
    Top(Box<top::Top>),
    Join(Box<join::Join>),
}

/// What there is to know at one tick.
pub struct Turn<'t, 'p> {
    pub first: bool,
    /// The millisecond of the tick.
    pub now: i64,
    pub sources: Vec<Changes>,
    pub touched: Touched,
    /// What of the tick concerns those who looked for nodes by a value.
    pub moved: Moved,
    pub looking: each::Looking<'t, 'p>,
    pub context: &'t Bounded<'t>,
    /// How many rows have been made.
    pub made: &'t Made<'t>,
    pub health: &'t Health,
    /// A row of the plan, to evaluate expressions over.
    pub row: Vec<Value>,
}

impl Staged {
    /// Checks the plan; the patterns it begins with are added, each with the slots that are wanted of it.
    pub fn new(prepared: Arc<Prepared>, ids: IdScheme, patterns: &mut build::Patterns) -> Result<Staged, RenderError> {
        build::stages(&prepared.plan, ids, patterns)?;
        Ok(Staged { prepared, ids })
    }

    pub fn start(&self, outside: Outside, installed: Time) -> Result<Stages, RenderError> {
        let mut patterns = Vec::new();
        let root = build::stages(&self.prepared.plan, self.ids, &mut patterns)?;
        Ok(Stages {
            prepared: self.prepared.clone(),
            ids: self.ids,
            outside,
            root,
            sources: patterns.len(),
            context: GraphFree::rows(self.ids, &self.prepared.plan.names),
            first: Some(installed.saturating_sub(1)),
            watched: Watched::default(),
            #[cfg(test)]
            ticks: Vec::new(),
        })
    }
}

impl Stages {
    /// The first tick at which time alone changes the answer.
    pub fn next_turn(&self) -> Option<Time> {
        let turn = self.root.next_turn();
        (turn < Clock::NEVER).then(|| Tick::at_millis(turn.max(0) as u64).0)
    }

    fn set_alarm(&mut self) {
        let turn = self.next_turn();
        self.outside.alarm.set(turn.map(|turn| Tick(turn).millis()));
    }

    pub fn health(&self) -> &Arc<Health> {
        &self.outside.health
    }

    /// Answers complete ticks in their order: all before `frontier`, unless `enough` says so after one. An error says why a tick
    /// has no answer; then these stages are of no more use.
    pub fn turn(&mut self, input: &mut Input, frontier: Time, enough: &mut dyn FnMut() -> bool) -> Result<Turned, String> {
        let watched = std::mem::take(&mut self.watched);
        let turned = self.answer(input, frontier, enough, &watched);
        self.watched = watched;
        // Also where it was enough: that may have been the last there is to do until then.
        self.set_alarm();
        turned
    }

    /// Whether anything may follow from what is touched, as far as ticks have been answered. A tick in which nothing may, and in
    /// which nothing else changes and no row turns for time, has the answer of the one before.
    pub fn hears(&self, touched: &Row) -> bool {
        hears(&self.root, &self.watched, touched)
    }

    fn answer(
        &mut self,
        input: &mut Input,
        frontier: Time,
        enough: &mut dyn FnMut() -> bool,
        watched: &Watched,
    ) -> Result<Turned, String> {
        let mut turned = Turned { changes: Vec::new(), upper: frontier, taken: 0 };
        let (prepared, symbols, health) = (self.prepared.clone(), self.outside.symbols.clone(), self.outside.health.clone());
        let mut evaluator = Evaluator::new(&prepared, &symbols).watching(watched);
        let made = Made::new(&health);
        let context = Bounded::new(&self.context, &health);
        loop {
            let next = input.first().into_iter().chain(self.first).chain(self.next_turn()).min();
            let Some(time) = next.filter(|time| *time < frontier) else { return Ok(turned) };
            let first = self.first.take_if(|first| *first == time).is_some();
            let turns = first || self.next_turn().is_some_and(|turn| turn <= time);
            let TickInput { mut sources, mut touched, count, is_of_interest } = self.take_in(input, time, watched, turns);
            turned.taken += count;
            if !is_of_interest {
                // Most changes concern other queries: the graph need not be looked at.
                if enough() {
                    turned.upper = time + 1;
                    return Ok(turned);
                }
                continue;
            }
            sources.resize_with(self.sources, Vec::new);
            touched.settle();
            made.begin();
            let snapshot = self.outside.published.at(time);
            evaluator.share_scans();
            #[cfg(test)]
            self.ticks.push(time);
            let mut turn = Turn {
                first,
                now: Tick(time).millis() as i64,
                sources,
                touched,
                moved: Moved::default(),
                looking: each::Looking {
                    view: &snapshot,
                    evaluator: &mut evaluator,
                    watched: Some(watched),
                    ids: self.ids,
                    open_cypher: self.outside.open_cypher,
                },
                context: &context,
                made: &made,
                health: &health,
                row: vec![Value::Null; prepared.plan.width.max(1)],
            };
            turn.moved = turn.looking.follow(&turn.touched.own, turn.now, turn.health);
            turn.sources.iter_mut().for_each(consolidate);
            let mut rows = self.root.step(&mut turn);
            if let Some(reason) = made.too_many() {
                return Err(reason);
            }
            consolidate(&mut rows);
            rows.into_iter().for_each(|(row, count)| push_in_pieces(&mut turned.changes, row, count, time));
            if enough() {
                turned.upper = time + 1;
                return Ok(turned);
            }
        }
    }

    /// Takes in all that has come of one tick. `turns` where its answer may be another one in any case.
    fn take_in(&self, input: &mut Input, time: Time, watched: &Watched, turns: bool) -> TickInput {
        let mut tick = TickInput { sources: Vec::new(), touched: Touched::default(), count: 0, is_of_interest: turns };
        while let Some(change) = input.next_of(time) {
            tick.count += 1;
            if change.source == TOUCHED {
                tick.is_of_interest = tick.is_of_interest || hears(&self.root, watched, &change.row);
                tick.touched.add(&change.row);
                continue;
            }
            tick.is_of_interest = true;
            tick.sources.resize_with(self.sources, Vec::new);
            tick.sources[change.source as usize].push((change.row, i64::from(change.diff)));
        }
        tick
    }
}

/// What has come of one tick.
struct TickInput {
    /// Changes of the rows of each pattern; none at all where no pattern has any.
    sources: Vec<Changes>,
    /// What of the graph has changed that a row may have looked at.
    touched: Touched,
    /// How many changes that is.
    count: usize,
    /// Whether the answer of the tick may be another one than that of the tick before.
    is_of_interest: bool,
}

/// Adds a row, and how many more of it there are. A count that no `i32` holds comes in pieces, none of which is nothing; the last
/// takes the row along.
fn push_in_pieces(changes: &mut Vec<RowChange>, row: Row, count: i64, time: Time) {
    let change = |row: Row, diff: i32| RowChange { row, time, diff, query: QueryNumber::default(), source: 0 };
    let piece = |left: i64| left.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    let mut left = count;
    while i64::from(piece(left)) != left {
        changes.push(change(row.clone(), piece(left)));
        left -= i64::from(piece(left));
    }
    changes.push(change(row, piece(left)));
}

/// What has come of some ticks.
pub struct Turned {
    pub changes: Vec<RowChange>,
    /// Everything before this has been answered.
    pub upper: Time,
    /// How many changes have been taken in for it.
    pub taken: usize,
}

/// Changes of complete ticks, in parts of which none has an earlier tick than the one before it.
#[derive(Default)]
pub struct Input {
    parts: VecDeque<Vec<RowChange>>,
    /// The changes of one part; the last is the first to be taken.
    current: Vec<RowChange>,
}

impl Input {
    pub fn extend(&mut self, parts: &mut Vec<Vec<RowChange>>) {
        self.parts.extend(parts.drain(..));
    }

    /// The tick of the next change.
    fn first(&mut self) -> Option<Time> {
        while self.current.is_empty()
            && let Some(part) = self.parts.pop_front()
        {
            self.current = part;
            self.current.sort_unstable_by_key(|change| Reverse(change.time));
        }
        self.current.last().map(|change| change.time)
    }

    fn next_of(&mut self, time: Time) -> Option<RowChange> {
        if self.first() == Some(time) { self.current.pop() } else { None }
    }
}

/// Whether what was touched may change anything of these stages.
fn hears(root: &Stage, watched: &Watched, touched: &Row) -> bool {
    own_of(touched).is_some() && !watched.is_empty() || marks_of(touched).any(|mark| root.looked(mark))
}

impl Stage {
    fn inputs(&self) -> impl Iterator<Item = &Stage> {
        let (first, second) = match self {
            Stage::Source(_) | Stage::Unit(_) => (None, None),
            Stage::Filter { input, .. }
            | Stage::Project { input, .. }
            | Stage::Unwind { input, .. }
            | Stage::Distinct { input, .. } => (Some(input), None),
            Stage::Union(left, right) => (Some(left), Some(right)),
            Stage::Each(stage) => (Some(&stage.input), None),
            Stage::Group(stage) => (Some(&stage.input), None),
            Stage::Top(stage) => (Some(&stage.input), None),
            Stage::Join(stage) => (Some(&stage.left.input), Some(&stage.right.input)),
        };
        first.into_iter().chain(second).map(|input| &**input)
    }

    /// The first millisecond at which time alone changes something.
    fn next_turn(&self) -> i64 {
        let own = match self {
            Stage::Filter { timed, .. } | Stage::Project { timed, .. } | Stage::Unwind { timed, .. } => {
                timed.as_ref().map_or(Clock::NEVER, Timed::next_turn)
            }
            Stage::Each(stage) => stage.next_turn(),
            _ => Clock::NEVER,
        };
        self.inputs().map(Stage::next_turn).fold(own, i64::min)
    }

    /// Whether a row of any of them has looked there.
    fn looked(&self, mark: Mark) -> bool {
        matches!(self, Stage::Each(stage) if stage.looked(mark)) || self.inputs().any(|input| input.looked(mark))
    }

    fn step(&mut self, turn: &mut Turn) -> Changes {
        match self {
            Stage::Source(number) => std::mem::take(&mut turn.sources[*number]),
            Stage::Unit(width) if turn.first => vec![(Row((0..*width).map(|_| Value::Null).collect()), 1)],
            Stage::Unit(_) => Vec::new(),
            Stage::Filter { input, layout, condition, out, timed } => {
                let changes = input.step(turn);
                each_row(changes, layout, turn, timed, |row, context, each| {
                    if valued(condition, row, context)?.holds() {
                        let _ = each(out.collect(row));
                    }
                    Ok(())
                })
            }
            Stage::Project { input, layout, items, out, timed } => {
                let changes = input.step(turn);
                let mut values: Vec<Value> = Vec::new();
                each_row(changes, layout, turn, timed, |row, context, each| {
                    values.clear();
                    for (_, expr) in items.iter() {
                        values.push(valued(expr, row, context)?);
                    }
                    for ((slot, _), value) in items.iter().zip(values.drain(..)) {
                        row[*slot] = value;
                    }
                    let _ = each(out.collect(row));
                    Ok(())
                })
            }
            Stage::Unwind { input, layout, list, into, out, timed } => {
                let changes = input.step(turn);
                each_row(changes, layout, turn, timed, |row, context, each| {
                    for element in unwound(valued(list, row, context)?) {
                        row[*into] = element;
                        if each(out.collect(row)).is_break() {
                            break;
                        }
                    }
                    Ok(())
                })
            }
            Stage::Distinct { input, layout, counts, out } => {
                let mut changes = input.step(turn);
                consolidate(&mut changes);
                let flips = flips(counts, changes);
                if layout.0 == out.0 {
                    return flips;
                }
                each_row(flips, layout, turn, &mut None, |row, _, each| {
                    let _ = each(out.collect(row));
                    Ok(())
                })
            }
            Stage::Union(left, right) => {
                let mut changes = left.step(turn);
                changes.append(&mut right.step(turn));
                changes
            }
            Stage::Each(stage) => stage.step(turn),
            Stage::Group(stage) => stage.step(turn),
            Stage::Top(stage) => stage.step(turn),
            Stage::Join(stage) => stage.step(turn),
        }
    }
}

/// Which rows there are at all from here on, or no longer. `counts` says how often each is there.
fn flips(counts: &mut FxHashMap<Row, i64>, changes: Changes) -> Changes {
    let mut flips = Vec::new();
    for (row, diff) in changes {
        let count = counts.entry(row.clone()).or_default();
        let before = *count > 0;
        *count += diff;
        let after = *count > 0;
        if *count == 0 {
            counts.remove(&row);
        }
        if before != after {
            flips.push((row, i64::from(after) - i64::from(before)));
        }
    }
    flips
}

/// Makes rows out of each row, the same number of times, until there are too many.
fn each_row(
    changes: Changes,
    layout: &Layout,
    turn: &mut Turn,
    timed: &mut Option<Timed>,
    mut make: impl FnMut(&mut [Value], &dyn Context, &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), NoValue>,
) -> Changes {
    let (values, context, made) = (&mut turn.row, turn.context, turn.made);
    if let Some(timed) = timed {
        return timed.step(changes, turn.now, |of, clock| {
            let mut found = Vec::new();
            layout.spread(of, values);
            context.begin();
            context.value(make(values, &At { context, clock }, &mut |row| {
                found.push(row);
                made.beyond(&found)
            }));
            context.end(of, 1);
            found
        });
    }
    let mut out = Vec::with_capacity(changes.len());
    let mut found = Vec::new();
    for (row, diff) in changes {
        layout.spread(&row, values);
        context.begin();
        context.value(make(values, context, &mut |row| {
            found.push(row);
            made.beyond(&found)
        }));
        context.end(&row, diff);
        out.extend(found.drain(..).map(|found| (found, diff)));
        if made.is_too_many() {
            break;
        }
    }
    out
}

/// Leaves one entry a row, and none that changes nothing.
pub fn consolidate(changes: &mut Changes) {
    if changes.len() > 1 {
        changes.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        changes.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
    }
    changes.retain(|(_, diff)| *diff != 0);
}

/// The value of an expression, or which one has none.
#[inline]
fn valued(expr: &Expr, row: &[Value], context: &dyn Context) -> Result<Value, NoValue> {
    expr.evaluate(row, context).map_err(|failure| NoValue::of(expr, failure))
}

/// Whether a condition holds; one that has no value does not.
pub fn holds(condition: &Expr, row: &[Value], context: &dyn Context) -> bool {
    condition.evaluate(row, context).is_ok_and(|value| value.holds())
}

/// The value of an expression over nothing.
fn constant(expr: &Expr, ids: IdScheme) -> Option<Value> {
    if is_clocked(expr) {
        return None;
    }
    expr.evaluate(&[], &GraphFree::constants(ids)).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use weir_cypher_compiler::{Options, StandingMode, compile_standing};
    use weir_model::NodeId;

    use super::looks::Touch;
    use super::*;
    use crate::render::maintained::Maintained;
    use crate::store::GraphId;

    /// Its rows are asked of the graph, and look at the edges of one node.
    pub const LOOKS: &str = "MATCH (n:U) WHERE n.uid = 1 AND NOT EXISTS { (n)-[:P]->({z: 1}) } RETURN n.uid AS uid";

    /// Stages over a graph in which there is nothing.
    pub fn started(text: &str, symbols: &Arc<Symbols>) -> (Maintained, Stages) {
        let ids = IdScheme::default();
        let plan = compile_standing(text, StandingMode::AnyQuery, &Options::default()).expect("it compiles").plan;
        let maintained = Maintained::new(&plan, symbols, ids).expect("it can be maintained");
        let outside = Outside {
            published: Arc::new(Published::new(1)),
            symbols: symbols.clone(),
            open_cypher: false,
            alarm: Alarm::new(Arc::default(), GraphId(0), 0),
            health: Arc::new(Health::of_nobody(ids)),
        };
        let staged = maintained.staged.as_ref().expect("it has stages");
        let stages = staged.start(outside, 1).expect("they are built");
        (maintained, stages)
    }

    fn change(row: Row, time: Time, source: u32) -> RowChange {
        RowChange { row, time, diff: 1, query: QueryNumber::default(), source }
    }

    /// A row of the first pattern of a query, in which all that is read is 1.
    pub fn found(maintained: &Maintained, node: NodeId, time: Time) -> RowChange {
        let source = &maintained.sources[0];
        let own = source.program.nodes[0].slot;
        let value = |expr: &Expr| match expr {
            Expr::Slot(slot) if slot.0 as usize == own => Value::Node(node),
            _ => Value::Integer(1),
        };
        change(Row(source.ending.columns.iter().map(|(_, expr)| value(expr)).collect()), time, 0)
    }

    /// A node that changes.
    pub fn touched(node: NodeId, touches: &[Touch], time: Time) -> Vec<RowChange> {
        let mut changes = Vec::new();
        Touch::rows(node, touches.iter().copied(), &mut |row| changes.push(change(row, time, TOUCHED)));
        changes
    }

    /// A change that no row has looked at costs a look whether one has, and none at the graph.
    #[test]
    fn the_graph_is_looked_at_when_something_changes_that_was_looked_at() {
        const LAST: Time = 1000;
        let by_value = "MATCH (n:U) WHERE n.uid = 1 AND NOT EXISTS { MATCH (m:V) WHERE m.uid = 7 AND m <> n } RETURN n.uid AS u";
        for (text, hears_of_values) in [(LOOKS, false), (by_value, true)] {
            let symbols = Arc::new(Symbols::default());
            let (maintained, mut stages) = started(text, &symbols);
            let (node, kind, another) = (NodeId::new(1, 1), symbols.intern("P"), symbols.intern("Q"));
            let mut changes = vec![found(&maintained, node, 1)];
            for n in 2..LAST {
                changes.extend(touched(NodeId::new(n, n), &[Touch::Edges(kind), Touch::EdgesTo(node)], n));
                changes.extend(touched(node, &[Touch::Edges(another)], n));
            }
            let own = touched(NodeId::new(9, 9), &[Touch::Own], LAST);
            changes.extend(own.clone());
            let edges = touched(node, &[Touch::Edges(kind)], LAST + 1);
            changes.extend(edges.clone());
            let (count, mut input) = (changes.len(), Input::default());
            input.extend(&mut vec![changes]);
            let turned = stages.turn(&mut input, LAST + 2, &mut || false).expect("an answer");
            // That of the installation, and that of the row.
            let later: &[Time] = if hears_of_values { &[LAST] } else { &[LAST + 1] };
            assert_eq!(stages.ticks, [&[0, 1][..], later].concat(), "{text}");
            assert_eq!((turned.changes.len(), turned.upper, turned.taken), (1, LAST + 2, count), "{text}");
            assert_eq!((stages.hears(&own[0].row), stages.hears(&edges[0].row)), (hears_of_values, !hears_of_values), "{text}");
        }
    }
}
