//! Staged: the answer of a query with stages as of one moment, with what each row was made of; what is meant in it, and where the
//! rest stops.

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::time::Instant;

use weir_model::expression::Failure;
use weir_model::plan::{Plan, Slot};
use weir_model::{Context, Expr, GraphFree, NodeId, Tick, Value};

use super::search::{Around, Search};
use super::through::{before, of_items, replaced};
use super::{Made, Origin, Reason, TRIES_MAX, deadline, origins};
use crate::error::EngineError;
use crate::evaluate::{Environment, Evaluator, Limits, Prepared};
use crate::graph::Graph;
use crate::history::Moment;
use crate::render::Row;
use crate::render::maintained::asks_clock;
use crate::render::stages::derive::{Derived, Ladder, Level, Of, Scene, What};
use crate::view::{EdgeRef, View};

/// Rows of all stages together that are worked out for one question.
const ROWS_MAX: usize = 500_000;

/// Obstacles that are told for each pattern.
const STOPS_MAX: usize = 5;

/// Rows that are followed for each pattern.
const FOLLOWED_MAX: usize = 50;

/// A plan with stages, for those who ask why.
pub struct Staged<'p> {
    plan: &'p Plan,
    prepared: Prepared,
    ladder: Ladder,
    origins: Vec<Origin<'p>>,
    /// When whoever asks has waited long enough.
    deadline: Instant,
}

/// The answer as of a moment.
pub struct Worked<'s> {
    pub at: Tick,
    pub levels: Vec<Level<'s>>,
    /// Of each pattern its matches, as its nodes and edges.
    pub matches: Vec<Vec<Matched>>,
    /// More would have had to be tried, or more rows worked out.
    pub gave_up: bool,
    /// The first millisecond after the moment at which time alone changes something.
    pub turn: i64,
}

pub struct Matched {
    pub nodes: Box<[NodeId]>,
    pub edges: Box<[EdgeRef]>,
}

/// Of a pattern, by its number: the nodes that are given, once for each part of its matches that is wanted.
type Parts<'a> = &'a dyn Fn(usize) -> Vec<Vec<(usize, NodeId)>>;

/// A look at a value.
pub type Fits<'a> = &'a dyn Fn(&Value) -> bool;

/// What the rows that are meant show, and whether it is that.
pub type Wanted<'a> = (Expr, Fits<'a>);

/// What is asked about.
#[derive(Default)]
pub struct Meant<'a> {
    /// What is asked of columns, by their slots.
    pub values: Vec<(Slot, Fits<'a>)>,
    /// What is asked of the whole row.
    pub row: Option<&'a dyn Fn(&Row) -> bool>,
    /// By pattern: those of its nodes that are given.
    pub nodes: Vec<Vec<(usize, NodeId)>>,
    /// By level: which of its rows are meant, where that is known otherwise.
    pub rows: Vec<(usize, Vec<bool>)>,
}

/// A row from which nothing goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The stage that makes nothing of it.
    pub level: usize,
    /// Which of its inputs the row is of, and the number of the row.
    pub input: usize,
    pub row: u32,
    /// Where rows of both sides of a join are meant: the one of the other side, with which it does not go together.
    pub with: Option<u32>,
}

/// Which rows are meant.
#[derive(Default)]
pub struct Found {
    /// Rows of the answer, by number.
    pub rows: Vec<u32>,
    /// Where no row of the answer is meant: where rows that could have become one stop.
    pub stops: Vec<Stop>,
    /// Rows of the answer that come of what is meant, with other values.
    pub others: Vec<u32>,
    /// Patterns of which no match is meant, by number, though something is said of them, or that have none.
    pub missing: Vec<usize>,
    /// Where no row shows all that is asked for: patterns, by number, whose rows that show the most of it are followed in place
    /// of those that are meant.
    pub near: Vec<usize>,
    /// Of the rows of `near` that nothing comes of: where each stops, and which columns it does not show as they are asked for.
    pub lacks: Vec<(Stop, Vec<Slot>)>,
}

impl<'p> Staged<'p> {
    pub fn new(graph: &Graph, plan: &'p Plan) -> Result<Staged<'p>, EngineError> {
        let ladder = Ladder::new(plan, graph.ids())?;
        let origins = origins(plan).iter().map(|origin| Origin::of(plan, origin.pattern)).collect();
        let prepared = Prepared::new(plan.clone(), graph.symbols());
        Ok(Staged { plan, prepared, ladder, origins, deadline: deadline() })
    }

    /// For those who wait until then.
    pub fn until(self, deadline: Instant) -> Staged<'p> {
        Staged { deadline, ..self }
    }

    pub fn plan(&self) -> &'p Plan {
        self.plan
    }

    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    pub fn origins(&self) -> &[Origin<'p>] {
        &self.origins
    }

    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whoever asks has waited long enough: not all that was to be looked at was.
    pub fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    pub(super) fn is_clocked(&self) -> bool {
        asks_clock(&self.plan.root)
    }

    pub(super) fn scene<'v>(&self, graph: &'v Graph, view: &'v dyn View, at: Tick) -> Scene<'v> {
        Scene {
            view,
            symbols: graph.symbols(),
            ids: graph.ids(),
            open_cypher: graph.open_cypher(),
            now: at.millis() as i64,
            rows_max: ROWS_MAX,
            deadline: self.deadline,
        }
    }
}

impl Graph {
    /// The graph as of a moment, and which that is; none is the present.
    pub fn moment(&self, at: Option<Tick>) -> Result<(Moment, Tick), EngineError> {
        let Some(at) = at else {
            self.readable()?;
            let snapshot = self.snapshot();
            let at = snapshot.tick();
            return Ok((Moment::Present(Box::new(snapshot)), at));
        };
        Ok((self.at(at)?, at))
    }

    /// The answer of a query with stages, as far as it comes of matches with these nodes.
    pub fn work<'s>(&self, staged: &'s Staged<'_>, seeds: &[Vec<(usize, NodeId)>], view: &dyn View, at: Tick) -> Worked<'s> {
        let parts = |source: usize| vec![seeds.get(source).cloned().unwrap_or_default()];
        self.work_parts(staged, &parts, TRIES_MAX, view, at)
    }

    /// As `work`, for matches with the nodes of any of the parts.
    pub(super) fn work_parts<'s>(
        &self,
        staged: &'s Staged<'_>,
        parts: Parts<'_>,
        tries_max: u64,
        view: &dyn View,
        at: Tick,
    ) -> Worked<'s> {
        let plan = staged.plan;
        let base = GraphFree::rows(self.ids(), &plan.names).at(at.millis() as i64);
        let (mut tries, mut rows, mut gave_up) = (0, 0, false);
        let mut matches: Vec<Vec<Matched>> = staged.origins.iter().map(|_| Vec::new()).collect();
        let scene = staged.scene(self, view, at);
        let derived = staged.ladder.derive(&staged.prepared, &scene, &mut |source| {
            let (Some(origin), Some(found)) = (staged.origins.get(source), matches.get_mut(source)) else { return Vec::new() };
            let (slots, mut given) = (staged.ladder.slots(source), Vec::new());
            let mut take = |made: &Made| {
                found.push(Matched { nodes: made.nodes.as_slice().into(), edges: made.edges.as_slice().into() });
                given.push(Row(slots.iter().map(|slot| made.row[slot.0 as usize].clone()).collect()));
                rows += 1;
                if rows < ROWS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let around = Around { graph: self, view, context: &base, tries_max: tries_max - tries, deadline: staged.deadline };
            // One for all parts, of which there may be thousands.
            let mut search = Search::new(origin, around, None, &[], &mut take);
            for seeds in parts(source) {
                search.give(&seeds);
                let _ = search.go_on();
            }
            gave_up |= search.gave_up;
            tries = (tries + search.tries).min(tries_max);
            gave_up |= rows >= ROWS_MAX || staged.is_late();
            given
        });
        let Derived { levels, gave_up: too_many, turn } = derived;
        Worked { at, levels, matches, gave_up: gave_up || too_many, turn }
    }

    /// The facts that a match of a pattern rests on.
    pub fn reasons_of(
        &self,
        staged: &Staged<'_>,
        source: usize,
        of: &Matched,
        view: &dyn View,
        at: Tick,
    ) -> Result<(Made, Vec<Reason>), EngineError> {
        let origin = &staged.origins[source];
        let base = GraphFree::rows(self.ids(), &staged.plan.names).at(at.millis() as i64);
        let around = Around { graph: self, view, context: &base, tries_max: 0, deadline: staged.deadline };
        let mut ignored = |_: &Made| ControlFlow::Break(());
        let row = Search::new(origin, around, None, &[], &mut ignored).fill(&of.nodes, &of.edges);
        let made = Made { row, nodes: of.nodes.to_vec(), edges: of.edges.to_vec() };
        let reasons = self.reasons(origin, &made, at)?;
        Ok((made, reasons))
    }
}

impl<'s> Worked<'s> {
    pub fn root(&self) -> usize {
        self.levels.len().saturating_sub(1)
    }

    pub fn rows(&self) -> &[(Row, Of)] {
        self.levels.last().map_or(&[], |level| &level.rows)
    }

    /// A row of a level as a row of the plan.
    pub fn spread(&self, level: &Level<'_>, row: &Row, width: usize) -> Vec<Value> {
        let mut values = vec![Value::Null; width.max(1)];
        for (slot, value) in level.slots.iter().zip(&row.0) {
            values[slot.0 as usize].clone_from(value);
        }
        values
    }

    /// Looks for what is meant. `view` is that of the moment: what is shown may be read of nodes. Where it gets late, rows are
    /// passed over.
    pub fn find(&self, graph: &Graph, staged: &Staged<'_>, meant: &Meant<'_>, view: &dyn View) -> Found {
        let mut found = Found::default();
        let limits = Limits { deadline: Some(staged.deadline()), time_max: None, ..Limits::default() };
        let environment = Environment { limits, ..graph.looked_at(view, self.at) };
        let mut evaluator = Evaluator::new(staged.prepared(), graph.symbols());
        evaluator.in_context(&environment, &mut |context| found = self.find_in(context, staged.plan.width, meant));
        found
    }

    fn find_in(&self, context: &dyn Context, width: usize, meant: &Meant<'_>) -> Found {
        let of_nodes = self.with_nodes(meant);
        let wanted = self.wanted(meant);
        let is_meant = |at: usize, number: usize, row: &Row| {
            if of_nodes[at].as_ref().is_some_and(|is| !is[number]) {
                return false;
            }
            if wanted[at].is_empty() {
                return true;
            }
            let values = self.spread(&self.levels[at], row, width);
            wanted[at].iter().all(|(expr, fits)| expr.evaluate(&values, context).is_ok_and(|value| fits(&value)))
        };
        // Once for each level: many patterns may lie below one.
        let known: Vec<OnceCell<Vec<u32>>> = self.levels.iter().map(|_| OnceCell::new()).collect();
        let meant_at = |at: usize| -> Vec<u32> {
            let find = || {
                let rows = self.levels[at].rows.iter().zip(0u32..);
                rows.filter(|((row, _), number)| is_meant(at, *number as usize, row)).map(|(_, number)| number).collect()
            };
            known[at].get_or_init(find).clone()
        };
        let root = self.root();
        let mut found = Found::default();
        if self.levels.is_empty() {
            return found;
        }
        found.rows = meant_at(root);
        found.rows.retain(|number| meant.row.is_none_or(|is| is(&self.rows()[*number as usize].0)));
        if !found.rows.is_empty() {
            return found;
        }
        let says = |at: &usize| of_nodes[*at].is_some() || !wanted[*at].is_empty();
        found.stops = self.apart(&says, &meant_at);
        let apart: Vec<usize> = found.stops.iter().map(|stop| stop.level).collect();
        let above = self.above();
        let leaves = || (0..self.levels.len()).filter(|at| self.levels[*at].inputs.is_empty());
        let no_leaf_says = !leaves().any(|leaf| says(&leaf));
        for leaf in leaves() {
            // From the answer down: the first stage that has rows as they are meant.
            let way = way_up(leaf, &above);
            let start = way
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, at)| says(at))
                .find_map(|(place, at)| Some((place, meant_at(*at))).filter(|(_, rows)| !rows.is_empty()));
            let all = || (0, (0..self.levels[leaf].rows.len() as u32).collect::<Vec<u32>>());
            // Where nothing is said that could be looked for, any row tells why there are none.
            let is_any = no_leaf_says && self.rows().is_empty() && !self.is_optional(&way);
            let start = start.or_else(|| is_any.then(all)).filter(|(_, rows)| !rows.is_empty());
            let Some((place, rows)) = start else {
                if let What::Pattern(source) = self.levels[leaf].what
                    && (says(&leaf) || (self.levels[leaf].rows.is_empty() && !self.is_optional(&way)))
                {
                    found.missing.push(source);
                }
                continue;
            };
            self.follow_some(&way[place..], &rows, &apart, &mut found);
        }
        if found.stops.is_empty() && found.others.is_empty() {
            self.find_near((context, width), meant, &of_nodes, &mut found);
        }
        found.others.sort_unstable();
        found.others.dedup();
        found
    }

    /// What becomes of the rows that show the most of what is asked for, where none shows all of it.
    fn find_near(
        &self,
        (context, width): (&dyn Context, usize),
        meant: &Meant<'_>,
        of_nodes: &[Option<Vec<bool>>],
        found: &mut Found,
    ) {
        // Of one value alone there is no part.
        if meant.values.len() < 2 {
            return;
        }
        // By column, then by level.
        let values = meant.values.iter();
        let columns: Vec<_> = values.map(|of| self.wanted(&Meant { values: vec![*of], ..Meant::default() })).collect();
        // Which columns a row of a level shows as they are asked for, and which otherwise; of others it says nothing.
        let shown = |at: usize, row: &Row, each: &mut dyn FnMut(usize, bool)| {
            let values = self.spread(&self.levels[at], row, width);
            for (column, wanted) in columns.iter().enumerate().filter(|(_, wanted)| !wanted[at].is_empty()) {
                let fits = |(expr, fits): &Wanted<'_>| expr.evaluate(&values, context).is_ok_and(|value| fits(&value));
                each(column, wanted[at].iter().all(fits));
            }
        };
        // By level, the most that a row of it shows, and the first rows that show so much. Many patterns may lie below one.
        let best_of = |at: usize| {
            let (mut most, mut rows) = (0, Vec::new());
            let of_nodes = of_nodes[at].as_deref();
            for ((row, _), number) in self.levels[at].rows.iter().zip(0u32..) {
                if of_nodes.is_some_and(|is| !is[number as usize]) {
                    continue;
                }
                let mut count = 0;
                shown(at, row, &mut |_, fits| count += usize::from(fits));
                if count > most {
                    most = count;
                    rows.clear();
                }
                if count == most && count > 0 && rows.len() < FOLLOWED_MAX {
                    rows.push(number);
                }
            }
            (most, rows)
        };
        let best: Vec<(usize, Vec<u32>)> = (0..self.levels.len()).map(best_of).collect();
        let above = self.above();
        for leaf in (0..self.levels.len()).filter(|at| self.levels[*at].inputs.is_empty()) {
            let way = way_up(leaf, &above);
            // From the answer down, as far as more is shown there.
            let (mut most, mut start) = (0, 0);
            for (place, at) in way.iter().enumerate().rev() {
                if best[*at].0 > most {
                    (most, start) = (best[*at].0, place);
                }
            }
            let rows: &[u32] = if most > 0 { &best[way[start]].1 } else { &[] };
            let before = found.stops.len();
            for row in rows {
                match self.follow(&way[start..], *row) {
                    Ok(others) => found.others.extend(others),
                    Err(stop) if found.stops.len() < before + STOPS_MAX && !found.stops.contains(&stop) => {
                        let mut lacks = Vec::new();
                        let mut take = |column: usize, fits: bool| {
                            if !fits {
                                lacks.push(meant.values[column].0);
                            }
                        };
                        shown(way[start], &self.levels[way[start]].rows[*row as usize].0, &mut take);
                        found.stops.push(stop);
                        found.lacks.push((stop, lacks));
                    }
                    Err(_) => {}
                }
            }
            if most > 0
                && let What::Pattern(source) = self.levels[leaf].what
            {
                found.near.push(source);
            }
        }
    }

    /// Follows the first of these rows, of the first level of a way, and notes what comes of them. Where they stop at one of the
    /// levels `apart`, that is known already.
    fn follow_some(&self, way: &[usize], rows: &[u32], apart: &[usize], found: &mut Found) {
        let mut stops = 0;
        for row in rows.iter().take(FOLLOWED_MAX) {
            match self.follow(way, *row) {
                Ok(others) => found.others.extend(others),
                Err(stop) if apart.contains(&stop.level) => {}
                Err(stop) if stops < STOPS_MAX && !found.stops.contains(&stop) => {
                    stops += 1;
                    found.stops.push(stop);
                }
                Err(_) => {}
            }
            if stops == STOPS_MAX && !found.others.is_empty() {
                break;
            }
        }
    }

    /// Follows a row of the first of these levels up to the answer, or to where all that came of it stops.
    fn follow(&self, way: &[usize], row: u32) -> Result<Vec<u32>, Stop> {
        let mut rows = vec![row];
        for pair in way.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let input = self.levels[to].inputs.iter().position(|input| *input == from).unwrap_or_default();
            let comes = |of: &Of| is_of(of, input, &rows);
            let next: Vec<u32> =
                self.levels[to].rows.iter().zip(0..).filter(|((_, of), _)| comes(of)).map(|(_, number)| number).collect();
            if next.is_empty() {
                return Err(Stop { level: to, input, row: rows[0], with: None });
            }
            rows = next;
        }
        Ok(rows)
    }

    /// Whether there may be rows of the answer where the first of these levels has none.
    fn is_optional(&self, way: &[usize]) -> bool {
        way.windows(2).any(|pair| {
            let above = &self.levels[pair[1]];
            matches!(above.what, What::Join { stays: true, .. }) && above.inputs.get(1) == Some(&pair[0])
        })
    }

    /// Joins of which rows of both sides are meant, and none of the one goes together with one of the other.
    fn apart(&self, says: &dyn Fn(&usize) -> bool, meant_at: &dyn Fn(usize) -> Vec<u32>) -> Vec<Stop> {
        let mut stops = Vec::new();
        for (at, level) in self.levels.iter().enumerate().filter(|(_, level)| matches!(level.what, What::Join { .. })) {
            let [left, right] = level.inputs[..] else { continue };
            if !says(&left) || !says(&right) {
                continue;
            }
            let (lefts, rights) = (meant_at(left), meant_at(right));
            let are_meant = |left, right| lefts.binary_search(left).is_ok() && rights.binary_search(right).is_ok();
            let is_joined = level.rows.iter().any(|(_, of)| matches!(of, Of::Two(left, right) if are_meant(left, right)));
            if let (Some(row), Some(with), false) = (lefts.first(), rights.first(), is_joined) {
                stops.push(Stop { level: at, input: 0, row: *row, with: Some(*with) });
            }
        }
        stops
    }

    /// Why an expression has no value in a row of the plan; None where it has one.
    pub fn failure(&self, graph: &Graph, staged: &Staged<'_>, expr: &Expr, row: &[Value]) -> Option<Failure> {
        let context = GraphFree::rows(graph.ids(), &staged.plan.names).at(self.at.millis() as i64);
        expr.evaluate(row, &context).err()
    }

    /// For each level the one above it, and as which input.
    fn above(&self) -> Vec<Option<(usize, usize)>> {
        let mut above = vec![None; self.levels.len()];
        for (at, level) in self.levels.iter().enumerate() {
            level.inputs.iter().enumerate().for_each(|(place, input)| above[*input] = Some((at, place)));
        }
        above
    }

    /// By level, where nodes are given below it: which of its rows come of them.
    fn with_nodes(&self, meant: &Meant<'_>) -> Vec<Option<Vec<bool>>> {
        let mut all: Vec<Option<Vec<bool>>> = Vec::with_capacity(self.levels.len());
        // Which are given below each.
        let mut given_below: Vec<Vec<NodeId>> = Vec::with_capacity(self.levels.len());
        for (at, level) in self.levels.iter().enumerate() {
            let given = match level.what {
                What::Pattern(source) => meant.nodes.get(source).into_iter().flatten().map(|(_, id)| *id).collect(),
                _ => level.inputs.iter().flat_map(|input| given_below[*input].clone()).collect(),
            };
            given_below.push(given);
            // A row without the other half is none with a node that only the other half has.
            let is_alone_meant = match (&level.what, level.inputs.as_slice()) {
                (What::Join { stays: true, .. }, [left, right]) => {
                    given_below[*right].iter().all(|id| given_below[*left].contains(id))
                }
                _ => true,
            };
            let mut here: Option<Vec<bool>> = match level.what {
                What::Pattern(source) => {
                    let given = meant.nodes.get(source).filter(|given| !given.is_empty());
                    let fits =
                        |of: &Matched, given: &[(usize, NodeId)]| given.iter().all(|(node, id)| of.nodes.get(*node) == Some(id));
                    given.map(|given| self.matches[source].iter().take(level.rows.len()).map(|of| fits(of, given)).collect())
                }
                _ if level.inputs.iter().any(|input| all[*input].is_some()) => {
                    let side = |input: usize, row: u32| {
                        level.inputs.get(input).and_then(|input| all[*input].as_ref()).map(|is| is[row as usize])
                    };
                    let comes = |of: &Of| match of {
                        Of::Match(_) | Of::Nothing => false,
                        Of::One(row) => is_alone_meant && side(0, *row) == Some(true),
                        Of::Right(row) => side(1, *row) == Some(true),
                        Of::Two(left, right) => side(0, *left) != Some(false) && side(1, *right) != Some(false),
                        Of::Many(rows) => rows.iter().any(|row| side(0, *row) == Some(true)),
                    };
                    Some(level.rows.iter().map(|(_, of)| comes(of)).collect())
                }
                _ => None,
            };
            for (_, known) in meant.rows.iter().filter(|(of, _)| *of == at) {
                let is = here.get_or_insert_with(|| vec![true; level.rows.len()]);
                is.iter_mut().zip(known).for_each(|(is, known)| *is &= *known);
            }
            all.push(here);
        }
        all
    }

    /// What is wanted of the matches of a pattern.
    pub fn wanted_of<'a>(&self, meant: &Meant<'a>, source: usize) -> Vec<Wanted<'a>> {
        let at = self.levels.iter().position(|level| matches!(level.what, What::Pattern(of) if of == source));
        at.map_or_else(Vec::new, |at| self.wanted(meant).swap_remove(at))
    }

    /// By level, what is wanted of its rows.
    fn wanted<'a>(&self, meant: &Meant<'a>) -> Vec<Vec<Wanted<'a>>> {
        let mut all: Vec<Vec<Wanted<'a>>> = self.levels.iter().map(|_| Vec::new()).collect();
        if let Some(last) = all.last_mut() {
            last.extend(meant.values.iter().map(|(slot, fits)| (Expr::Slot(*slot), *fits)));
        }
        for (at, level) in self.levels.iter().enumerate().rev() {
            for (expr, fits) in all[at].clone() {
                let below = match &level.what {
                    What::Project(items) => {
                        let items: Vec<(Slot, Expr)> =
                            items.iter().map(|(into, item)| (Slot(*into as u32), item.clone())).collect();
                        of_items(&expr, &items)
                    }
                    What::Group { keys, out, .. } => {
                        let key = |slot: Slot| {
                            let place = level.slots.iter().position(|of| *of == slot)?;
                            keys.get((*out.get(place)?)?).cloned()
                        };
                        replaced(&expr, &key)
                    }
                    What::Each(asks) => before(asks.inner(), &expr),
                    _ => Some(expr),
                };
                let Some(below) = below else { continue };
                let slots = below.slots();
                for input in &level.inputs {
                    let is_there = slots.iter().all(|slot| self.levels[*input].slots.contains(slot));
                    if is_there && !slots.is_empty() {
                        all[*input].push((below.clone(), fits));
                    }
                }
            }
        }
        all
    }
}

/// The levels from one up to the answer.
fn way_up(leaf: usize, above: &[Option<(usize, usize)>]) -> Vec<usize> {
    std::iter::successors(Some(leaf), |at| above[*at].map(|(next, _)| next)).collect()
}

/// Whether something was made of one of these rows of an input; they ascend.
fn is_of(of: &Of, input: usize, rows: &[u32]) -> bool {
    let has = |row: &u32| rows.binary_search(row).is_ok();
    match of {
        Of::Match(_) | Of::Nothing => false,
        Of::One(one) => input == 0 && has(one),
        Of::Right(one) => input == 1 && has(one),
        Of::Two(left, right) => has(if input == 0 { left } else { right }),
        Of::Many(many) => input == 0 && many.iter().any(has),
    }
}
