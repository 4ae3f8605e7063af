//! Runs a Plan over a View: rows go to the caller, changes become Mutations.
//!
//! ```text
//! record -> Seek, Expand, Project, ... (rows pushed from operator to operator) -> rows out
//!                                  \-> Write -> Mutations
//! ```
//!
//! Rows are *pushed*: an operator changes slots of the one row in place, hands it on, and puts back what it changed. So a
//! plan that buffers nothing allocates nothing a row, which the ingest path lives on. It does not know where the view
//! comes from, nor what becomes of the mutations; names are resolved to symbols once a plan, in `Prepared`.
//!
//! A plan that reads the graph works clause by clause: each write takes in all its rows before it changes anything, and
//! later clauses see the changes through an `Overlay`. A plan that only writes streams straight through.
//!
//!     context     what an expression may ask of the graph, answered from the view in force
//!     operators   the operators of a plan, each in the form "for every row of my input, call `next`"
//!     pattern     MATCH: a pattern visited in the order of its steps, one row for each way it fits
//!     choice      which of its orders that is, by what the graph holds
//!     scan        the nodes a pattern may begin at
//!     chain       edges one after another, none of them twice
//!     shortest    shortest chains between two nodes
//!     call        CALL: procedures, queries in place of a call, and subqueries
//!     subquery    subqueries in expressions, which only the run itself can answer
//!     procedures  those that ask or change the graph
//!     fetched     what some of them brought from outside, kept for the attempts after the first
//!     write       from rows to Mutations
//!     removal     nodes and edges as the facts that go with them
//!     sort        rows by the values of expressions, all of them or only the first
//!     keys        what rows are grouped by, or told apart by
//!     limits      how long a query may run and how much it may hold
//!     pool        what all queries hold that run at a time
//!     stack       how deep a run may go
//!     profile     how often each operator gave a row, what it read for that, and how long it took
//!
//! Those who ask again and again, standing queries and streams, need more:
//!
//!     spared      whether a failure ends the run, or only the row it happened at
//!     watched     nodes found by a value of theirs, kept from tick to tick
//!     filed       how those are kept: by a value that they have, or in the order of properties
//!     spots       those in order, found by ranges of several properties at once
//!     unanchored  runs in which an anchor (`id(n) = …`) named no node, for the stream to tell

mod context;
mod operators;
mod pattern;
mod choice;
mod scan;
mod chain;
mod shortest;
mod call;
mod subquery;
mod procedures;
mod fetched;
mod write;
pub mod removal;
mod sort;
mod keys;
mod limits;
pub mod pool;
mod stack;
mod profile;
mod spared;
mod watched;
mod filed;
mod spots;
mod unanchored;

#[cfg(test)]
mod call_tests;
#[cfg(test)]
mod cypher_tests;
#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod pattern_tests;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::arithmetic::mismatch;
use weir_model::expression::FailureKind;
use weir_model::plan::{Name, Operator, Slot, Write};
use weir_model::{Clock, Context, Expr, Failure, IdScheme, Mutations, NodeId, Plan, Symbol, Text, Value};

pub use self::choice::IndexName;
pub use self::context::{Deleted, Names, Reader, unwound};
pub use self::fetched::Fetched;
use self::limits::Budget;
pub use self::limits::{Limits, weight_beside};
use self::operators::{Run, Scratch};
pub use self::profile::{Counts, Profile};
use self::scan::Scans;
pub use self::spared::NoValue;
use self::spared::Spared;
pub use self::spots::{Ranges, is_within};
use self::unanchored::UnanchoredSoFar;
pub use self::watched::{Moved, Sought, Watched, Which};
use crate::history::Recall;
use crate::symbols::{Symbols, UNKNOWN};
use crate::view::View;
use crate::view::overlay::Overlay;

/// A plan with its names resolved against one engine's symbols. Made once, shared by every run.
pub struct Prepared {
    pub plan: Arc<Plan>,
    /// The symbol of each `Name`. One that is `UNKNOWN` is looked for again before each run; once known, it stays. Runs that are
    /// under way when it becomes known do not mind: nothing in their views has it.
    symbols: Vec<AtomicU32>,
    /// Whether names that have no symbol get one, which is needed for what is written.
    interns: bool,
    /// The label by which a node is there in the graph model of openCypher. Its name is empty, and it is never shown.
    existence: Symbol,
    writes: bool,
    reads: bool,
    creates_edges: bool,
    /// Slots of which more is asked of the graph than which node is in them, once a pattern has put one there.
    asked: FxHashSet<Slot>,
}

impl Prepared {
    /// For runs of any length, as of what follows the graph as it changes: all names have symbols from here on.
    pub fn new(plan: impl Into<Arc<Plan>>, symbols: &Symbols) -> Prepared {
        Prepared::resolve(plan, symbols, true)
    }

    /// For runs that look at one moment each, by an evaluator that is made when that moment is there. A plan that only reads
    /// gives no name a symbol: the symbol table never forgets one, and would grow with every name that was ever asked for.
    pub fn of_moments(plan: impl Into<Arc<Plan>>, symbols: &Symbols) -> Prepared {
        Prepared::resolve(plan, symbols, false)
    }

    fn resolve(plan: impl Into<Arc<Plan>>, symbols: &Symbols, interns: bool) -> Prepared {
        let plan: Arc<Plan> = plan.into();
        let writes = plan.facts.writes || contains_write(&plan.root, &|_| true);
        // Deleting looks for edges, replacing the properties of an edge for what is there.
        let looks = |write: &Write| match write {
            Write::Delete { .. } => true,
            Write::SetProperties { target, replace: true, .. } => creates_edge_in(&plan.root, *target),
            _ => false,
        };
        let hydrates = writes && !plan.columns.is_empty();
        let reads = plan.facts.reads || hydrates || contains_write(&plan.root, &looks);
        let creates_edges = contains_write(&plan.root, &|write| matches!(write, Write::CreateEdge { .. }));
        let asked = asked(&plan);
        // A query that listens sees moment after moment, with names that are not known yet.
        let interns = interns || writes || plan.facts.listens;
        let resolved = |name: &Text| if interns { symbols.intern(name) } else { symbols.get(name).unwrap_or(UNKNOWN) };
        let names = plan.names.iter().map(|name| AtomicU32::new(resolved(name).0)).collect();
        Prepared { symbols: names, interns, existence: symbols.intern(""), plan, writes, reads, creates_edges, asked }
    }

    pub fn symbol(&self, name: Name) -> Symbol {
        Symbol(self.symbols[name.0 as usize].load(Ordering::Relaxed))
    }

    fn unknown(&self) -> impl Iterator<Item = (&AtomicU32, &Text)> {
        self.symbols.iter().zip(&self.plan.names).filter(|(symbol, _)| symbol.load(Ordering::Relaxed) == UNKNOWN.0)
    }

    /// Names that have come to stand for something. Whoever looks at the graph as it is now has to know them.
    pub(crate) fn look_for_names(&self, symbols: &Symbols) {
        if self.interns {
            return;
        }
        for (symbol, name) in self.unknown() {
            symbols.get(name).inspect(|known| symbol.store(known.0, Ordering::Relaxed));
        }
    }

    /// Of a query that runs within this one.
    fn inner(&self, plan: Arc<Plan>, symbols: &Symbols) -> Prepared {
        Prepared::resolve(plan, symbols, self.interns)
    }

    pub fn writes(&self) -> bool {
        self.writes
    }

    /// Whether a run may ask its view anything. Where it may not, the view can be empty and needs no validation.
    /// Parallel edges are numbered, so where there are any, to create one is to look.
    pub fn reads(&self, open_cypher: bool) -> bool {
        self.reads || (open_cypher && self.creates_edges)
    }
}

/// See `Prepared::asked`.
fn asked(plan: &Plan) -> FxHashSet<Slot> {
    fn of_expression(expr: &Expr, asked: &mut FxHashSet<Slot>) {
        match expr {
            Expr::Property { of, .. } | Expr::HasLabels { of, .. } | Expr::Index { of, .. } => asked.extend(slot(of)),
            Expr::Call { function, arguments } if matches!(function.name, "labels" | "properties" | "keys" | "degree") => {
                asked.extend(arguments.iter().filter_map(slot));
            }
            _ => {}
        }
        expr.children().into_iter().for_each(|child| of_expression(child, asked));
    }
    fn slot(expr: &Expr) -> Option<Slot> {
        if let Expr::Slot(slot) = expr { Some(*slot) } else { None }
    }
    let mut asked: FxHashSet<Slot> = plan.columns.iter().map(|(_, slot)| *slot).collect();
    let mut expressions = Vec::new();
    plan.root.all_expressions(&mut expressions);
    expressions.into_iter().for_each(|expr| of_expression(expr, &mut asked));
    // What only changes its name; the last comes first, as names do.
    let mut renamed = Vec::new();
    plan.root.each_below(&mut |operator| {
        if let Operator::Project { items, .. } = operator {
            renamed.extend(items.iter().filter_map(|(into, expr)| Some((*into, slot(expr)?))));
        }
    });
    for (into, from) in renamed.into_iter().rev() {
        if asked.contains(&into) {
            asked.insert(from);
        }
    }
    asked
}

/// What a run depends on besides its plan.
pub struct Environment<'a> {
    pub view: &'a dyn View,
    /// By `Plan::parameters`; one that is missing is null.
    pub parameters: &'a [Value],
    pub ids: IdScheme,
    /// The clock, which says the same for the whole query.
    pub now: Clock<'a>,
    pub fresh_id: &'a dyn Fn() -> NodeId,
    pub limits: Limits<'a>,
    /// What came before what the view shows, where that may be asked for.
    pub recall: Option<&'a Recall<'a>>,
    /// As in `GraphOptions`. Each CREATE of an edge makes a new one; otherwise creating what exists changes nothing.
    pub open_cypher: bool,
}

/// What a part gives of each of its rows.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub slots: &'a [usize],
    /// Nodes and edges with what is known of them.
    pub in_full: bool,
}

/// What is done with a run.
type Body<'b> = &'b mut dyn FnMut(&Run, &mut [Value]) -> Result<(), Failure>;

/// Runs one plan again and again, keeping its buffers and the symbols it has met.
pub struct Evaluator<'p> {
    prepared: &'p Prepared,
    names: Names<'p>,
    scratch: Scratch,
    row: Vec<Value>,
    fetched: Option<&'p Fetched>,
    /// Where runs share what their scans keep.
    scans: Option<Scans>,
    /// Where what is looked for by value is kept beyond them.
    watched: Option<&'p Watched>,
    /// What parts have left out.
    spared: Spared,
    unanchored: UnanchoredSoFar,
}

impl<'p> Evaluator<'p> {
    pub fn new(prepared: &'p Prepared, symbols: &'p Symbols) -> Evaluator<'p> {
        prepared.look_for_names(symbols);
        let row = vec![Value::Null; prepared.plan.width.max(1)];
        Evaluator {
            prepared,
            names: Names::new(symbols),
            scratch: Scratch::default(),
            row,
            fetched: None,
            scans: None,
            watched: None,
            spared: Spared::default(),
            unanchored: UnanchoredSoFar::default(),
        }
    }

    /// For a query that may have to run again.
    pub fn keeping(self, fetched: Option<&'p Fetched>) -> Evaluator<'p> {
        Evaluator { fetched, ..self }
    }

    /// The runs from here on look at one view, and write nothing: what the scans of one keep is there for the next.
    pub fn share_scans(&mut self) {
        self.scans = Some(Scans::default());
    }

    /// Whether runs since this was asked last have found nodes by the scan of another one.
    pub fn has_used_scans(&self) -> bool {
        self.scans.as_ref().is_some_and(|scans| scans.used.take())
    }

    /// For runs that only read, each over the view that was followed last.
    pub fn watching(self, watched: &'p Watched) -> Evaluator<'p> {
        Evaluator { watched: Some(watched), ..self }
    }

    /// How often a row was left out in parts that ran since this was asked last, and why the last was.
    pub fn take_left_out(&self) -> Option<(u64, NoValue)> {
        self.spared.take()
    }

    /// Whether an anchor named no node in runs since this was asked last: it was null, or no id.
    pub fn take_unanchored(&self) -> bool {
        self.unanchored.take()
    }

    /// What an anchor did since this was asked last was part of what failed, and is told with it.
    pub fn forget_unanchored(&self) {
        self.unanchored.forget();
    }

    /// The first anchor that ever named no node.
    pub fn unanchored_by(&self) -> Option<Expr> {
        self.unanchored.anchor()
    }

    /// One run. Rows hold the columns of the plan, with nodes and edges in full. When it fails, `mutations` is as before,
    /// whatever rows were given out.
    pub fn run(
        &mut self,
        environment: &Environment,
        mutations: &mut Mutations,
        each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        self.run_profiled(environment, None, mutations, each)
    }

    /// As `run`; the profile, of the same plan, is filled.
    pub fn run_profiled(
        &mut self,
        environment: &Environment,
        profile: Option<&Profile>,
        mutations: &mut Mutations,
        each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        self.row.iter_mut().for_each(|value| *value = Value::Null);
        self.within(environment, profile, mutations, &mut |run, row| run.to_columns(row, each))
    }

    /// A part of the plan, which starts at `Argument`, over one row of the plan. It gives the values that are wanted. A row
    /// within it that fails is left out (`take_left_out`); an error is what ends all of it, as to run out of time.
    pub fn run_part(
        &mut self,
        part: &Operator,
        argument: &[Value],
        wanted: Wanted<'_>,
        environment: &Environment,
        mutations: &mut Mutations,
        each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        self.row.clone_from_slice(argument);
        let mut values: Vec<Value> = Vec::with_capacity(wanted.slots.len());
        self.spared.by_row.set(true);
        let ran = self.within(environment, None, mutations, &mut |run, row| {
            let give = &mut |row: &mut [Value]| {
                values.clear();
                let mut room = run.budget.room();
                for slot in wanted.slots {
                    let value = &row[*slot];
                    values.push(if wanted.in_full { run.reader.hydrate(value, &mut room)? } else { value.clone() });
                }
                Ok(each(&values))
            };
            run.run(part, row, give).map(drop)
        });
        self.spared.by_row.set(false);
        ran
    }

    /// For whoever wants values of expressions of the plan.
    pub fn in_context(&mut self, environment: &Environment, act: &mut dyn FnMut(&dyn Context)) {
        let ended = self.within(environment, None, &mut Mutations::default(), &mut |run, _| {
            act(run);
            Ok(())
        });
        // Nothing was written that it could ask for.
        debug_assert!(ended.is_ok());
    }

    /// How the patterns of the plan would be visited, with these parameters, as the graph is now: by operator.
    pub fn ways(&mut self, environment: &Environment, index_name: IndexName) -> FxHashMap<*const Operator, String> {
        let mut ways = FxHashMap::default();
        let ended = self.within(environment, None, &mut Mutations::default(), &mut |run, row| {
            run.ways(&run.prepared.plan.root, row, index_name, &mut ways);
            Ok(())
        });
        // Nothing in it can fail.
        debug_assert!(ended.is_ok());
        ways
    }

    /// Sets up a run and takes it down again.
    fn within(
        &mut self,
        environment: &Environment,
        profile: Option<&Profile>,
        mutations: &mut Mutations,
        body: Body<'_>,
    ) -> Result<(), Failure> {
        let mark = mutations.mark();
        let overlay = Overlay::new(environment.view);
        let layered = self.prepared.writes && self.prepared.reads(environment.open_cypher);
        let view: &dyn View = if layered { &overlay } else { environment.view };
        let counting = profile.map(|profile| profile::Counting { base: view, profile });
        let view: &dyn View = counting.as_ref().map_or(view, |counting| counting);
        profile.iter().for_each(|profile| profile.begin());
        // What a failed run left behind.
        self.scratch.reset((0, 0));
        let (applied, budget) = (Cell::new(mark.0), Budget::noting(&environment.limits, environment.view));
        let shared = RefCell::new(std::mem::take(mutations));
        let own = Scans::default();
        let run = Run {
            prepared: self.prepared,
            environment,
            reader: Reader { prepared: self.prepared, names: &self.names, view, environment, deleted: Deleted::default().into() },
            overlay: layered.then_some(&overlay),
            applied: &applied,
            mutations: &shared,
            budget: &budget,
            scratch: &self.scratch,
            chosen: Default::default(),
            figures: Default::default(),
            scans: self.scans.as_ref().unwrap_or(&own),
            watched: self.watched,
            depth: 0,
            profile,
            fetched: self.fetched,
            spared: &self.spared,
            unanchored: &self.unanchored,
        };
        let mut result = body(&run, &mut self.row);
        if result.is_ok() && run.reader.deleted.asked.get() {
            let message = "The query asks for or changes what is known of a node or relationship that it has deleted before";
            result = Err(Failure::new(FailureKind::Deleted, message));
        }
        drop(run);
        *mutations = shared.into_inner();
        if result.is_err() {
            mutations.truncate(mark);
        }
        result
    }
}

/// Runs a plan once. Callers with many records keep an `Evaluator`.
pub fn evaluate(
    prepared: &Prepared,
    symbols: &Symbols,
    environment: &Environment,
    mutations: &mut Mutations,
    each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
) -> Result<(), Failure> {
    Evaluator::new(prepared, symbols).run(environment, mutations, each)
}

fn contains_write(operator: &Operator, wanted: &dyn Fn(&Write) -> bool) -> bool {
    fn any(writes: &[Write], wanted: &dyn Fn(&Write) -> bool) -> bool {
        writes.iter().any(|write| {
            let inside = match write {
                Write::ForEach { writes, .. } => any(writes, wanted),
                Write::Merge { create, on_create, on_match, then, .. } => {
                    [create, on_create, on_match, then].into_iter().any(|writes| any(writes, wanted))
                }
                _ => false,
            };
            inside || wanted(write)
        })
    }
    let here = match operator {
        Operator::Write { writes, .. } => any(writes, wanted),
        Operator::Merge { create, on_create, on_match, .. } => {
            any(create, wanted) || any(on_create, wanted) || any(on_match, wanted)
        }
        Operator::Optional { inner, .. } | Operator::Subquery { inner, .. } | Operator::Recurse { inner, .. } => {
            contains_write(inner, wanted)
        }
        Operator::Union { right, .. } | Operator::Join { right, .. } => contains_write(right, wanted),
        _ => false,
    };
    here || operator.input().is_some_and(|input| contains_write(input, wanted))
}

fn creates_edge_in(operator: &Operator, target: weir_model::plan::Slot) -> bool {
    contains_write(operator, &|write| matches!(write, Write::CreateEdge { slot: Some(slot), .. } if *slot == target))
}

/// What a condition says of its row: null is no. A list holds when it is not empty.
fn holds(condition: &Expr, row: &[Value], context: &dyn Context) -> Result<bool, Failure> {
    match &*condition.look(row, context)? {
        Value::Boolean(answer) => Ok(*answer),
        Value::Null => Ok(false),
        Value::List(items) => Ok(!items.is_empty()),
        other => Err(mismatch("Bool", other, "a condition")),
    }
}
