//! What is known of a query without running it: does it write, read, scan, differ from run to run.
//!
//! A plan that writes and does not read takes the fast path of commit, so "reads" errs on the side of yes only where a value
//! may really be a node or an edge: `$that.x` never is, `n.x` always.

use weir_model::expression::{Function, SubqueryKind};
use weir_model::plan::{Operator, Pattern, QueryFacts, Step, Write};
use weir_model::procedure::Body;
use weir_model::{Expr, Value};

use crate::bind::{Draft, Holds};
use crate::walk;

/// Functions that take nodes, edges and paths, alone or in lists, as they are, without looking them up.
const DO_NOT_ASK: &[&str] = &[
    "id",
    "strid",
    "elementid",
    "type",
    "startnode",
    "endnode",
    "nodes",
    "relationships",
    "length",
    "size",
    "coalesce",
    "head",
    "last",
    "tail",
    "reverse",
    // Every id is a node: that one is named asks nothing of the graph.
    "nodewithid",
];

/// Calls of a query that runs at once: one that asks, and one that ends what it finds. Each further one would be made for each
/// row of those before it.
const CALLS_AT_ONCE_MAX: usize = 2;

pub fn facts(draft: &Draft) -> QueryFacts {
    let mut finder = Finder::new(draft);
    walk::operators(&draft.root, &mut |operator| finder.operator(operator));
    // A node in an answer is shown with its labels and properties.
    finder.facts.reads |= draft.columns.iter().any(|(_, slot)| draft.holds(*slot) != Holds::Plain);
    // Beside what may take long it is a call like any other.
    finder.facts.calls |= finder.facts.at_once && (finder.works || finder.calls > CALLS_AT_ONCE_MAX);
    finder.facts.at_once &= !finder.facts.calls;
    finder.facts
}

/// Whether an expression may ask the graph.
pub fn asks(draft: &Draft, expr: &Expr) -> bool {
    let mut finder = Finder::new(draft);
    finder.expression(expr);
    finder.facts.reads
}

/// Whether a function differs from run to run.
pub fn is_chance(function: &Function) -> bool {
    !function.pure && !function.asks_graph
}

/// Whether the value of an expression may be another one when it is worked out again for the same row.
pub fn has_chance(expr: &Expr) -> bool {
    walk::any(expr, &|part| matches!(part, Expr::Call { function, .. } if is_chance(function)))
}

struct Finder<'a> {
    draft: &'a Draft,
    facts: QueryFacts,
    /// The query does more than to call what waits for nobody, and to choose among its rows.
    works: bool,
    /// How many calls there are.
    calls: usize,
}

impl Finder<'_> {
    fn new(draft: &Draft) -> Finder<'_> {
        Finder { draft, facts: QueryFacts::default(), works: false, calls: 0 }
    }

    fn may_be_graph(&self, expr: &Expr) -> bool {
        self.draft.value_holds(expr) != Holds::Plain
    }

    fn expression(&mut self, expr: &Expr) {
        self.facts.fallible |= !is_total(expr);
        self.works |= match expr {
            Expr::Comprehension { .. } | Expr::Quantifier { .. } | Expr::Reduce { .. } | Expr::Subquery(_) => true,
            Expr::Call { function, .. } => function.name == "range",
            _ => false,
        };
        match expr {
            Expr::HasLabels { .. } => self.facts.reads = true,
            Expr::Subquery(subquery) => {
                self.facts.reads = true;
                walk::operators(&subquery.plan, &mut |operator| self.operator(operator));
                if let SubqueryKind::Collect(item) = &subquery.kind {
                    self.expression(item);
                }
                return;
            }
            Expr::Property { of, .. } | Expr::Index { of, .. } => self.facts.reads |= self.may_be_graph(of),
            Expr::Call { function, arguments } => {
                let name = function.name.to_ascii_lowercase();
                let takes_as_is = DO_NOT_ASK.contains(&name.as_str());
                self.facts.reads |= !takes_as_is && arguments.iter().any(|e| self.may_be_graph(e));
                self.facts.impure |= is_chance(function);
            }
            _ => {}
        }
        for child in walk::children(expr) {
            self.expression(child);
        }
    }

    fn operator(&mut self, operator: &Operator) {
        use Operator::*;
        self.works |= match operator {
            Unit | Argument | Filter { .. } | Project { .. } | Aggregate { .. } | Distinct { .. } => false,
            Sort { .. } | Skip { .. } | Limit { .. } | Union { .. } => false,
            Call { procedure, .. } => !procedure.at_once,
            _ => true,
        };
        match operator {
            Unit | Argument | Distinct { .. } | Union { .. } | Optional { .. } => {}
            Subquery { .. } => self.facts.calls = true,
            // What it changes are no facts, but it is no query that may run twice or at a past time either.
            Schema(schema) => {
                self.facts.writes = !schema.only_shows();
                self.facts.impure = self.facts.writes;
                self.facts.fallible = self.facts.writes;
            }
            Recurse { first, until, .. } => {
                first.iter().for_each(|e| self.expression(e));
                self.expression(until);
                self.facts.calls = true;
                self.facts.fallible = true;
            }
            Call { procedure, arguments, .. } => {
                self.calls += 1;
                arguments.iter().for_each(|e| self.expression(e));
                // What a procedure asks of the graph, or a query asks that is not known yet, is not known here.
                self.facts.reads |= !matches!(procedure.body, Body::Rows(_));
                self.facts.writes |= procedure.writes;
                self.facts.scans |= procedure.scans;
                // Who asks what runs, or ends it, waits for none of it.
                self.facts.calls |= !procedure.at_once;
                self.facts.at_once |= procedure.at_once;
                self.facts.ends |= procedure.ends;
                self.facts.fetches |= procedure.fetches;
                self.facts.listens |= procedure.listens;
                self.facts.impure |= !procedure.idempotent;
                self.facts.fallible = true;
            }
            Match { pattern, .. } => self.pattern(pattern),
            Join { keys, .. } => keys.iter().flat_map(|(left, right)| [left, right]).for_each(|e| self.expression(e)),
            Filter { condition, .. } => self.expression(condition),
            Project { items, .. } => items.iter().for_each(|(_, e)| self.expression(e)),
            Aggregate { keys, aggregates, .. } => {
                keys.iter().for_each(|(_, e)| self.expression(e));
                aggregates.iter().flat_map(|(_, a)| &a.arguments).for_each(|e| self.expression(e));
            }
            Sort { keys, limit, .. } => {
                keys.iter().for_each(|key| self.expression(&key.expr));
                limit.iter().for_each(|e| self.expression(e));
            }
            Skip { count, .. } | Limit { count, .. } => {
                self.expression(count);
                self.facts.fallible |= !matches!(count, Expr::Literal(_));
            }
            Unwind { list, .. } => self.expression(list),
            Write { writes, .. } => self.writes(writes),
            Merge { pattern, create, on_create, on_match, .. } => {
                self.facts.reads = true;
                self.pattern(pattern);
                for writes in [create, on_create, on_match] {
                    self.writes(writes);
                }
            }
        }
    }

    fn pattern(&mut self, pattern: &Pattern) {
        for step in &pattern.steps {
            match step {
                Step::Bound { .. } | Step::Test { .. } => {}
                // Every id is a node: entering one asks nothing of the graph.
                Step::Seek { id, .. } => self.expression(id),
                Step::Scan { .. } => {
                    self.facts.scans = true;
                    self.facts.reads = true;
                }
                // Whether there is anything of a node that a list names is asked.
                Step::SeekEach { .. } | Step::Expand { .. } | Step::Ends { .. } => self.facts.reads = true,
            }
        }
        // Where a list of ids leads, it may be so long that another way is taken. What is entered by less looks in indexes alone.
        let mut others = pattern.orders.iter().flatten();
        self.facts.scans |= pattern.looks_for_nodes() && others.any(|step| matches!(step, Step::Scan { .. }));
        for node in &pattern.nodes {
            self.facts.reads |= !node.labels.is_empty() || !node.reads.is_empty() || node.reads_all.is_some();
            node.conditions.iter().for_each(|e| self.expression(e));
        }
        for edge in &pattern.edges {
            let chain =
                edge.chain.iter().flat_map(|chain| chain.edges.iter().chain(&chain.nodes).map(|(_, e)| e).chain(&chain.whole));
            edge.conditions.iter().chain(chain).for_each(|e| self.expression(e));
        }
        pattern.conditions.iter().for_each(|e| self.expression(e));
    }

    fn writes(&mut self, writes: &[Write]) {
        for write in writes {
            self.facts.writes = true;
            // What is written has to be storable, what is deleted free.
            self.facts.fallible |= !matches!(write, Write::AddLabels { .. } | Write::RemoveLabels { .. });
            match write {
                Write::CreateNode { properties, .. } => {
                    self.facts.impure = true;
                    properties.iter().for_each(|e| self.stored(e));
                }
                Write::CreateEdge { properties, .. } => properties.iter().for_each(|e| self.stored(e)),
                Write::SetProperty { target, value, .. } => {
                    self.expression(target);
                    self.stored(value);
                }
                Write::SetProperties { target, value, replace } => {
                    // Which properties an edge has is asked of the graph, whatever variable it is reached by.
                    self.facts.reads |= *replace && self.draft.holds(*target) != Holds::Node;
                    self.stored(value);
                }
                Write::AddLabels { .. } | Write::RemoveLabels { .. } => {}
                Write::RemoveProperty { target, .. } => self.expression(target),
                // Whether a node has edges, and which, is asked of the graph.
                Write::Delete { target, .. } => {
                    self.facts.reads = true;
                    self.expression(target);
                }
                Write::ForEach { list, writes, .. } => {
                    self.expression(list);
                    self.writes(writes);
                }
                Write::Merge { pattern, create, on_create, on_match, then } => {
                    self.facts.reads = true;
                    self.pattern(pattern);
                    for writes in [create, on_create, on_match, then] {
                        self.writes(writes);
                    }
                }
            }
        }
    }

    /// A node that is stored stands for its properties.
    fn stored(&mut self, value: &Expr) {
        self.facts.reads |= self.may_be_graph(value);
        self.expression(value);
    }
}

/// Whether an expression has a value whatever its parts are; those are looked at by themselves. For people: it takes it that
/// values have the types they are used as. `certain`, by which a plan runs, does not.
fn is_total(expr: &Expr) -> bool {
    use weir_model::expression::Binary;
    match expr {
        Expr::Literal(_) | Expr::Slot(_) | Expr::Parameter(_) | Expr::List(_) | Expr::Map(_) | Expr::IsNull { .. } => true,
        Expr::Property { of, .. } | Expr::HasLabels { of, .. } => matches!(**of, Expr::Slot(_)),
        // An OR of equations becomes this.
        Expr::Binary { operator: Binary::In, right, .. } => matches!(**right, Expr::List(_) | Expr::Literal(Value::List(_))),
        Expr::Binary { operator, .. } => matches!(operator, Binary::Equal | Binary::NotEqual | Binary::Same),
        Expr::And(_) | Expr::Or(_) | Expr::Not(_) | Expr::Case { .. } | Expr::Let { .. } => true,
        Expr::Call { function, .. } => matches!(function.name, "id" | "strId" | "labels" | "coalesce" | "idFrom"),
        _ => false,
    }
}
