//! Maintained: a standing query's plan taken apart, resolved to slots and symbols, and checked.
//!
//!     pattern ─┐
//!     pattern ─┼─ rows ─> stages ─> results
//!     touched ─┘
//!
//! A query that is one pattern and a list of expressions has no stages: its rows are its results.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use weir_model::mutation::{Kind, Tag};
use weir_model::plan::{Name, Operator, Pattern, Plan, Slot, Step};
use weir_model::{Expr, GraphFree, IdScheme, Symbol, Text};

use super::constants::Constants;
use super::family::{Ending, Member};
use super::health::Health;
use super::program::{Program, RenderError, place};
use super::stages::Staged;
use super::{QueryNumber, Time};
use crate::evaluate::Prepared;
use crate::symbols::Symbols;

/// The source of changes that are no rows: nodes that changed.
pub const TOUCHED: u32 = u32::MAX;

/// A pattern of a query: what it shares with others, and what it does not.
pub struct Source {
    pub program: Arc<Program>,
    /// Programs with the same name are the same.
    pub name: Arc<str>,
    pub constants: Arc<Constants>,
    pub ending: Arc<Ending>,
}

impl Source {
    fn new(
        pattern: &Pattern,
        plan: &Plan,
        filters: Vec<Expr>,
        columns: Vec<(Text, Expr)>,
        symbols: &Symbols,
        ids: IdScheme,
    ) -> Result<Source, RenderError> {
        let expressions = filters.iter().chain(columns.iter().map(|(_, expr)| expr));
        let asked = expressions.flat_map(|expr| expr.slots()).map(place).collect();
        let (program, constants) = Program::new(pattern, &asked, (&plan.names, plan.width), symbols, ids)?;
        let name = program.name(pattern).into();
        let context = GraphFree::rows(ids, &plan.names);
        let ending = Ending { name: format!("{filters:?} {columns:?} {context:?}").into(), filters, columns, context };
        Ok(Source { program: Arc::new(program), name, constants: Arc::new(constants), ending: Arc::new(ending) })
    }

    /// The pattern as a member of its family: the one of this number in a query that changes from tick `since` on concern.
    pub fn member(&self, (query, source): (QueryNumber, u32), since: Time, health: &Arc<Health>) -> Member {
        let (constants, ending) = (self.constants.clone(), self.ending.clone());
        Member { query, source, since, constants, ending, health: health.clone() }
    }
}

pub struct Maintained {
    /// The patterns, by the number their rows carry.
    pub sources: Vec<Source>,
    pub columns: Arc<[Text]>,
    /// Each distinct row counts once.
    pub distinct: bool,
    /// Time alone changes its answer.
    pub clocked: bool,
    /// What stands above the patterns.
    pub staged: Option<Arc<Staged>>,
    /// Which changes of nodes the stages must hear of; None where they do not look at the graph.
    pub interest: Option<Arc<Interest>>,
}

impl Maintained {
    pub fn new(plan: &Plan, symbols: &Symbols, ids: IdScheme) -> Result<Maintained, RenderError> {
        let columns: Arc<[Text]> = plan.columns.iter().map(|(name, _)| name.clone()).collect();
        if let Some(simple) = Simple::of(plan).filter(|_| !asks_clock(&plan.root)) {
            let item =
                |slot: &Slot| simple.items.iter().find(|(into, _)| into == slot).map_or(Expr::Slot(*slot), |(_, e)| e.clone());
            let made = plan.columns.iter().map(|(name, slot)| (name.clone(), item(slot))).collect();
            let source = Source::new(simple.pattern, plan, simple.filters, made, symbols, ids)?;
            let sources = vec![source];
            return Ok(Maintained { sources, columns, distinct: simple.distinct, clocked: false, staged: None, interest: None });
        }
        let mut patterns = Vec::new();
        let prepared = Arc::new(Prepared::new(plan.clone(), symbols));
        let staged = Staged::new(prepared.clone(), ids, &mut patterns)?;
        let source = |(pattern, slots): (Pattern, BTreeSet<Slot>)| {
            let columns = slots.into_iter().map(|slot| (Text::default(), Expr::Slot(slot))).collect();
            Source::new(&pattern, plan, Vec::new(), columns, symbols, ids)
        };
        let sources = patterns.into_iter().map(source).collect::<Result<_, _>>()?;
        let interest = Interest::of(plan, &prepared).map(Arc::new);
        Ok(Maintained {
            sources,
            columns,
            distinct: false,
            clocked: asks_clock(&plan.root),
            staged: Some(Arc::new(staged)),
            interest,
        })
    }
}

/// A list of expressions over one pattern with conditions, with DISTINCT or without.
struct Simple<'p> {
    distinct: bool,
    items: &'p [(Slot, Expr)],
    filters: Vec<Expr>,
    pattern: &'p Pattern,
}

impl<'p> Simple<'p> {
    fn of(plan: &'p Plan) -> Option<Simple<'p>> {
        // What DISTINCT tells apart must be what is given: of `WITH DISTINCT a, b RETURN a` equal rows stay.
        let is_column = |slot: &Slot| plan.columns.iter().any(|(_, column)| column == slot);
        let (distinct, mut operator) = match &plan.root {
            Operator::Distinct { input, slots }
                if slots.iter().all(is_column) && plan.columns.iter().all(|(_, slot)| slots.contains(slot)) =>
            {
                (true, &**input)
            }
            root => (false, root),
        };
        let mut items: &[(Slot, Expr)] = &[];
        if let Operator::Project { input, items: projected } = operator {
            (operator, items) = (input, projected);
        }
        let mut filters = Vec::new();
        while let Operator::Filter { input, condition } = operator {
            filters.push(condition.clone());
            operator = input;
        }
        match operator {
            Operator::Match { input, pattern } if matches!(**input, Operator::Unit) => {
                Some(Simple { distinct, items, filters, pattern })
            }
            _ => None,
        }
    }
}

/// Whether a condition in the expression turns for time alone.
pub fn is_clocked(expr: &Expr) -> bool {
    matches!(expr, Expr::Clocked(_)) || expr.children().into_iter().any(is_clocked)
}

/// As `is_clocked`, of all expressions of a plan.
pub fn asks_clock(operator: &Operator) -> bool {
    let mut expressions = Vec::new();
    operator.all_expressions(&mut expressions);
    expressions.into_iter().any(is_clocked)
}

/// The facts whose changes can change what a query looks up row by row.
#[derive(Default, PartialEq, Eq)]
pub struct Interest {
    everything: bool,
    labels: FxHashSet<Symbol>,
    properties: FxHashSet<Symbol>,
    any_edge: bool,
    kinds: FxHashSet<Symbol>,
    /// Slots in which there are nodes, and nothing else. Emptied once the interest is made: queries that ask for the same may
    /// have other slots.
    nodes: FxHashSet<Slot>,
}

impl Interest {
    /// None where nothing is looked up.
    fn of(plan: &Plan, prepared: &Prepared) -> Option<Interest> {
        let mut interest = Interest { everything: matches!(plan.root, Operator::Subquery { .. }), ..Interest::default() };
        let mut edges = FxHashSet::default();
        bound(&plan.root, &mut interest.nodes, &mut edges);
        interest.nodes.retain(|slot| !edges.contains(slot));
        let mut looks = false;
        each_part(&plan.root, &mut |part| {
            looks = true;
            interest.operator(part, prepared);
        });
        interest.nodes = FxHashSet::default();
        looks.then_some(interest)
    }

    fn operator(&mut self, operator: &Operator, prepared: &Prepared) {
        operator.each_below(&mut |operator| match operator {
            Operator::Match { pattern, .. } => self.pattern(pattern, prepared),
            Operator::Call { .. } | Operator::Recurse { .. } => self.everything = true,
            _ => {}
        });
        let mut expressions = Vec::new();
        operator.all_expressions(&mut expressions);
        expressions.into_iter().for_each(|expr| self.expression(expr, prepared));
    }

    fn pattern(&mut self, pattern: &Pattern, prepared: &Prepared) {
        let symbol = |name: &Name| prepared.symbol(*name);
        // Whether a node is there at all is seen by whoever looks at all of them.
        let of_all = |step: &Step| matches!(step, Step::Scan { node, .. } if pattern.nodes[*node].labels.is_empty());
        self.everything |= pattern.orders.iter().flatten().chain(&pattern.steps).any(of_all);
        for node in &pattern.nodes {
            self.labels.extend(node.labels.iter().map(symbol));
            self.properties.extend(node.reads.iter().map(|(key, _)| symbol(key)));
            self.everything |= node.reads_all.is_some();
        }
        for edge in &pattern.edges {
            self.any_edge |= edge.kinds.is_empty() || !edge.reads.is_empty();
            self.kinds.extend(edge.kinds.iter().map(symbol));
        }
    }

    fn expression(&mut self, expr: &Expr, prepared: &Prepared) {
        match expr {
            Expr::Property { of, key } => {
                self.properties.insert(prepared.symbol(*key));
                self.any_edge |= !matches!(&**of, Expr::Slot(slot) if self.nodes.contains(slot));
            }
            Expr::HasLabels { labels, .. } => self.labels.extend(labels.iter().map(|label| prepared.symbol(*label))),
            Expr::Subquery(subquery) => self.operator(&subquery.plan, prepared),
            Expr::Index { .. } => self.everything = true,
            Expr::Call { function, .. } if function.asks_graph => self.everything = true,
            _ => {}
        }
        expr.children().into_iter().for_each(|child| self.expression(child, prepared));
    }

    pub fn concerns(&self, tag: Tag) -> bool {
        self.everything
            || match tag.kind() {
                Kind::Label => self.labels.contains(&tag.symbol()),
                Kind::Property => self.properties.contains(&tag.symbol()),
                Kind::ClearProperties => true,
                Kind::Out | Kind::In | Kind::OutParallel | Kind::InParallel | Kind::EdgeProperty => {
                    self.any_edge || self.kinds.contains(&tag.symbol())
                }
            }
    }
}

/// The slots that patterns put nodes and edges into.
fn bound(operator: &Operator, nodes: &mut FxHashSet<Slot>, edges: &mut FxHashSet<Slot>) {
    operator.each_below(&mut |operator| {
        if let Operator::Match { pattern, .. } = operator {
            nodes.extend(pattern.nodes.iter().map(|node| node.slot));
            edges.extend(pattern.edges.iter().filter_map(|edge| edge.slot));
        }
    });
    let mut expressions = Vec::new();
    operator.all_expressions(&mut expressions);
    expressions.into_iter().for_each(|expr| bound_within(expr, nodes, edges));
}

fn bound_within(expr: &Expr, nodes: &mut FxHashSet<Slot>, edges: &mut FxHashSet<Slot>) {
    if let Expr::Subquery(subquery) = expr {
        bound(&subquery.plan, nodes, edges);
    }
    expr.children().into_iter().for_each(|child| bound_within(child, nodes, edges));
}

/// The parts of the plan that ask the graph row by row.
fn each_part<'p>(operator: &'p Operator, visit: &mut dyn FnMut(&'p Operator)) {
    if let Operator::Subquery { input, inner, .. } = operator {
        visit(inner);
        return each_part(input, visit);
    }
    operator.children().into_iter().for_each(|child| each_part(child, visit));
}
