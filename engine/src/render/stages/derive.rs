//! Derive: the answer of stages at one moment, with what each row of each stage was made of. For those who ask why; nothing is
//! kept.
//!
//! The stages are those that maintain the query, over the rows of its patterns as they are at the moment. Where maintaining
//! counts equal rows, here each is told apart.

use std::cell::Cell;
use std::time::Instant;

use rustc_hash::FxHashMap;
use weir_model::clock::At;
use weir_model::plan::{Operator, Plan, Slot};
use weir_model::{Aggregate, Clock, Context, Expr, GraphFree, IdScheme, Value};

use super::bounds::{Bounded, Made};
use super::each::{Each, Looking};
use super::looks::Touched;
use super::{Layout, Row, Stage, Turn, build, holds};
use crate::evaluate::{Evaluator, Moved, Prepared, unwound};
use crate::render::health::Health;
use crate::render::program::RenderError;
use crate::symbols::Symbols;
use crate::view::View;

/// The stages of a plan, and the slots of the rows of its patterns.
pub struct Ladder {
    root: Stage,
    sources: Vec<Vec<Slot>>,
}

/// One stage, with all its rows.
pub struct Level<'l> {
    pub what: What<'l>,
    /// By number, among the levels.
    pub inputs: Vec<usize>,
    /// Where the values of its rows belong.
    pub slots: Vec<Slot>,
    pub rows: Vec<(Row, Of)>,
    /// Of a window: its input rows in order, by number.
    pub order: Vec<u32>,
}

/// What a stage does.
pub enum What<'l> {
    Pattern(usize),
    Unit,
    Filter(&'l Expr),
    Project(&'l [(usize, Expr)]),
    Unwind(&'l Expr),
    Distinct,
    Union,
    /// What is asked of the graph for each row.
    Each(Asks<'l>),
    /// Of a row that goes on, each value is that of a key or, after the keys, of an aggregate.
    Group {
        keys: &'l [Expr],
        aggregates: &'l [Aggregate],
        out: &'l [Option<usize>],
    },
    /// Ordered by these, downwards or not.
    Window {
        keys: &'l [Expr],
        descending: &'l [bool],
        skip: usize,
        limit: Option<usize>,
    },
    /// What must be equal, of the left and of the right; and whether a row of the left stays where nothing is.
    Join {
        left: &'l [Expr],
        right: &'l [Expr],
        stays: bool,
    },
}

#[derive(Clone, Copy)]
pub struct Asks<'l>(&'l Each);

impl<'l> Asks<'l> {
    /// Starts at `Argument`.
    pub fn inner(&self) -> &'l Operator {
        &self.0.inner
    }

    /// A row that goes in, as a row of the plan.
    pub fn argument(&self, row: &Row, width: usize) -> Vec<Value> {
        let mut values = vec![Value::Null; width.max(1)];
        self.0.layout.spread(row, &mut values);
        values
    }

    /// What comes of a row that goes in.
    pub fn look(&self, row: &Row, prepared: &Prepared, scene: &Scene<'_>) -> Vec<Row> {
        in_turn(prepared, scene, |turn| self.0.look(row, turn).found)
    }
}

/// The rows below that a row was made of, by number.
#[derive(Clone, Debug, PartialEq)]
pub enum Of {
    /// A match of a pattern, by number.
    Match(u32),
    Nothing,
    One(u32),
    Right(u32),
    Two(u32, u32),
    Many(Vec<u32>),
}

/// What is looked at.
pub struct Scene<'v> {
    pub view: &'v dyn View,
    pub symbols: &'v Symbols,
    pub ids: IdScheme,
    pub open_cypher: bool,
    pub now: i64,
    /// Rows that may be made, at most.
    pub rows_max: usize,
    /// After this no more are made.
    pub deadline: Instant,
}

/// What `Ladder::derive` gives.
pub struct Derived<'l> {
    /// The last is the answer.
    pub levels: Vec<Level<'l>>,
    /// There would have been more rows.
    pub gave_up: bool,
    /// The first millisecond after the moment at which time alone changes something.
    pub turn: i64,
}

impl Ladder {
    pub fn new(plan: &Plan, ids: IdScheme) -> Result<Ladder, RenderError> {
        let mut patterns = Vec::new();
        let root = build::stages(plan, ids, &mut patterns)?;
        Ok(Ladder { root, sources: patterns.into_iter().map(|(_, slots)| slots.into_iter().collect()).collect() })
    }

    /// The slots that rows of a pattern hold, in their order.
    pub fn slots(&self, source: usize) -> &[Slot] {
        self.sources.get(source).map_or(&[], Vec::as_slice)
    }

    /// Derives the answer. `matches` gives the rows of a pattern, by number.
    pub fn derive(&self, prepared: &Prepared, scene: &Scene<'_>, matches: &mut dyn FnMut(usize) -> Vec<Row>) -> Derived<'_> {
        in_turn(prepared, scene, |turn| {
            let turns = Cell::new(Clock::NEVER);
            let mut deriving = Deriving {
                ladder: self,
                turn,
                turns: &turns,
                left: scene.rows_max,
                deadline: scene.deadline,
                levels: Vec::new(),
                matches,
            };
            deriving.level(&self.root);
            Derived { gave_up: deriving.left == 0, levels: deriving.levels, turn: turns.get() }
        })
    }
}

/// What stages work with, for one moment.
fn in_turn<R>(prepared: &Prepared, scene: &Scene<'_>, act: impl FnOnce(&mut Turn) -> R) -> R {
    let health = Health::of_nobody(scene.ids);
    let base = GraphFree::rows(scene.ids, &prepared.plan.names);
    let (context, made) = (Bounded::new(&base, &health), Made::new(&health));
    let mut evaluator = Evaluator::new(prepared, scene.symbols);
    let looking =
        Looking { view: scene.view, evaluator: &mut evaluator, watched: None, ids: scene.ids, open_cypher: scene.open_cypher };
    act(&mut Turn {
        first: true,
        now: scene.now,
        sources: Vec::new(),
        touched: Touched::default(),
        moved: Moved::default(),
        looking,
        context: &context,
        made: &made,
        health: &health,
        row: vec![Value::Null; prepared.plan.width.max(1)],
    })
}

struct Deriving<'l, 'd, 't, 'p> {
    ladder: &'l Ladder,
    turn: &'d mut Turn<'t, 'p>,
    turns: &'d Cell<i64>,
    /// Rows that may still be made.
    left: usize,
    deadline: Instant,
    levels: Vec<Level<'l>>,
    matches: &'d mut dyn FnMut(usize) -> Vec<Row>,
}

type Rows = Vec<(Row, Of)>;

impl<'l> Deriving<'l, '_, '_, '_> {
    fn level(&mut self, stage: &'l Stage) -> usize {
        let (what, inputs, slots): (What<'l>, Vec<usize>, Vec<usize>) = match stage {
            Stage::Source(number) => {
                (What::Pattern(*number), Vec::new(), self.ladder.slots(*number).iter().map(|slot| slot.0 as usize).collect())
            }
            Stage::Unit(_) => (What::Unit, Vec::new(), Vec::new()),
            Stage::Filter { input, condition, out, .. } => (What::Filter(condition), vec![self.level(input)], out.0.clone()),
            Stage::Project { input, items, out, .. } => (What::Project(items), vec![self.level(input)], out.0.clone()),
            Stage::Unwind { input, list, out, .. } => (What::Unwind(list), vec![self.level(input)], out.0.clone()),
            Stage::Distinct { input, out, .. } => (What::Distinct, vec![self.level(input)], out.0.clone()),
            Stage::Union(left, right) => {
                let left = self.level(left);
                let slots = self.levels[left].slots.iter().map(|slot| slot.0 as usize).collect();
                (What::Union, vec![left, self.level(right)], slots)
            }
            Stage::Each(each) => (What::Each(Asks(each)), vec![self.level(&each.input)], each.out.0.clone()),
            Stage::Group(group) => (group.made(), vec![self.level(&group.input)], group.slots.clone()),
            Stage::Top(top) => (top.made(), vec![self.level(&top.input)], top.out.0.clone()),
            Stage::Join(join) => {
                (join.made(), vec![self.level(&join.left.input), self.level(&join.right.input)], join.out.0.clone())
            }
        };
        let (mut rows, mut order) = (Rows::new(), Vec::new());
        if self.left > 0 {
            rows = self.rows(stage, &inputs, &mut order);
        }
        // It was too late for some.
        if Instant::now() >= self.deadline {
            self.left = 0;
        }
        let kept = rows.len().min(self.left);
        rows.truncate(kept);
        self.left -= kept;
        let slots = slots.into_iter().map(|slot| Slot(slot as u32)).collect();
        self.levels.push(Level { what, inputs, slots, rows, order });
        self.levels.len() - 1
    }

    /// `order` gets the order of a window.
    fn rows(&mut self, stage: &'l Stage, inputs: &[usize], order: &mut Vec<u32>) -> Rows {
        let none = Rows::new();
        let input = |at: usize| inputs.get(at).and_then(|level| self.levels.get(*level)).map_or(&none, |level| &level.rows);
        let (first, turn) = (input(0), &mut *self.turn);
        let limits = Limits { turns: self.turns, rows_max: self.left, deadline: self.deadline };
        match stage {
            Stage::Source(number) => {
                let rows = (self.matches)(*number);
                rows.into_iter().zip(0..).map(|(row, number)| (row, Of::Match(number))).collect()
            }
            Stage::Unit(width) => vec![(Row((0..*width).map(|_| Value::Null).collect()), Of::Nothing)],
            Stage::Filter { layout, condition, out, .. } => {
                row_by_row(first, layout, turn, &limits, &mut |row, context, give| {
                    if holds(condition, row, context) {
                        give(out.collect(row));
                    }
                })
            }
            Stage::Project { layout, items, out, .. } => row_by_row(first, layout, turn, &limits, &mut |row, context, give| {
                let values = items.iter().map(|(_, expr)| expr.evaluate(row, context)).collect::<Result<Vec<_>, _>>();
                let Ok(values) = values else { return };
                for ((slot, _), value) in items.iter().zip(values) {
                    row[*slot] = value;
                }
                give(out.collect(row));
            }),
            Stage::Unwind { layout, list, into, out, .. } => {
                row_by_row(first, layout, turn, &limits, &mut |row, context, give| {
                    let Ok(list) = list.evaluate(row, context) else { return };
                    for element in unwound(list) {
                        row[*into] = element;
                        give(out.collect(row));
                    }
                })
            }
            Stage::Distinct { layout, out, .. } => distinct(first, layout, out, turn),
            Stage::Union(..) => {
                let left = first.iter().zip(0..).map(|((row, _), number)| (row.clone(), Of::One(number)));
                left.chain(input(1).iter().zip(0..).map(|((row, _), number)| (row.clone(), Of::Right(number)))).collect()
            }
            Stage::Each(each) => asked(first, each, turn, &limits),
            Stage::Group(group) => {
                let groups = group.derive(first.iter().map(|(row, _)| row), turn);
                groups.into_iter().map(|(row, of)| (row, Of::Many(of))).collect()
            }
            Stage::Top(top) => {
                let (rows, all) = top.derive(first.iter().map(|(row, _)| row), turn);
                *order = all;
                rows.into_iter().map(|(row, number)| (row, Of::One(number))).collect()
            }
            Stage::Join(join) => {
                let second = input(1);
                join.derive(first.iter().map(|(row, _)| row), second.iter().map(|(row, _)| row), turn, self.left)
            }
        }
    }
}

/// How far one stage goes.
struct Limits<'d> {
    /// Gets when time alone changes a row.
    turns: &'d Cell<i64>,
    rows_max: usize,
    deadline: Instant,
}

impl Limits<'_> {
    /// Whether these are more rows than may be, or it is too late for another.
    fn is_over(&self, rows: usize) -> bool {
        rows > self.rows_max || Instant::now() >= self.deadline
    }
}

/// Makes rows of the one whose values are given.
type Make<'m> = &'m mut dyn FnMut(&mut [Value], &dyn Context, &mut dyn FnMut(Row));

/// What comes of each row, as far as the limits go.
fn row_by_row(rows: &Rows, layout: &Layout, turn: &mut Turn, limits: &Limits<'_>, make: Make<'_>) -> Rows {
    let mut found = Rows::new();
    for ((row, _), number) in rows.iter().zip(0..) {
        if limits.is_over(found.len()) {
            break;
        }
        layout.spread(row, &mut turn.row);
        turn.context.begin();
        let context = At { context: turn.context, clock: Clock::watched(turn.now, limits.turns) };
        make(&mut turn.row, &context, &mut |row| found.push((row, Of::One(number))));
    }
    found
}

/// Each row once, in the order in which they first came.
fn distinct(rows: &Rows, layout: &Layout, out: &Layout, turn: &mut Turn) -> Rows {
    let mut numbers: FxHashMap<&Row, usize> = FxHashMap::default();
    let mut found: Vec<(&Row, Vec<u32>)> = Vec::new();
    for ((row, _), number) in rows.iter().zip(0..) {
        let at = *numbers.entry(row).or_insert(found.len());
        match found.get_mut(at) {
            Some((_, of)) => of.push(number),
            None => found.push((row, vec![number])),
        }
    }
    let mut shown = |row: &Row| {
        layout.spread(row, &mut turn.row);
        out.collect(&turn.row)
    };
    found.into_iter().map(|(row, of)| (shown(row), Of::Many(of))).collect()
}

/// What the graph answers for each row; of equal ones it is asked once.
fn asked(rows: &Rows, each: &Each, turn: &mut Turn, limits: &Limits<'_>) -> Rows {
    let mut known: FxHashMap<&Row, Vec<Row>> = FxHashMap::default();
    let mut found = Rows::new();
    for ((row, _), number) in rows.iter().zip(0..) {
        if limits.is_over(found.len()) {
            break;
        }
        let answer = known.entry(row).or_insert_with(|| {
            let seen = each.look(row, turn);
            limits.turns.set(limits.turns.get().min(seen.turn.unwrap_or(Clock::NEVER)));
            seen.found
        });
        found.extend(answer.iter().map(|row| (row.clone(), Of::One(number))));
    }
    found
}
