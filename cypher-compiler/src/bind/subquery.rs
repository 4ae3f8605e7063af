//! Queries inside expressions: patterns as predicates, pattern comprehensions, shortest paths, EXISTS, COUNT, COLLECT.
//!
//! Each is bound as a plan that begins at `Argument`, in the same slots as the query around it: what is in scope outside is
//! visible inside, also after a WITH, and what is declared inside is forgotten at the end.

use weir_model::expression::{Subquery, SubqueryKind};
use weir_model::plan::{Operator, Slot};
use weir_model::{Expr, Text, Value};

use super::call::First;
use super::{Binder, keyword};
use crate::ast::{self, Clause, ClauseKind, Expression, PatternPart, Query, SubqueryBody};
use crate::error::{Code, Span};
use crate::procedures;

impl Binder<'_> {
    /// `(a)-->(:B)`: whether there is one. It may not introduce variables.
    pub fn pattern_predicate(&mut self, part: &PatternPart) -> Expr {
        if !self.check_known(part) {
            return Expr::Literal(Value::Null);
        }
        let plan = self.inside(|binder| binder.matched(std::slice::from_ref(part), None));
        subquery(SubqueryKind::Exists, plan)
    }

    /// `shortestPath(…)` as a value: the path, or null; `allShortestPaths(…)`: the list of them.
    pub fn shortest_path(&mut self, part: &PatternPart, span: Span) -> Expr {
        if !self.check_known(part) {
            return Expr::Literal(Value::Null);
        }
        let ends = [&part.start].into_iter().chain(part.steps.iter().map(|(_, node)| node));
        if let Some(end) = ends.into_iter().find(|end| end.variable.is_none()) {
            let message = "A shortest path as an expression needs variables that are bound already at both ends";
            self.error(end.span, Code::UnexpectedSyntax, message);
            return Expr::Literal(Value::Null);
        }
        let (plan, path) = self.inside(|binder| binder.matched_path(part, None));
        let paths = subquery(SubqueryKind::Collect(Expr::Slot(path)), plan);
        if part.search == weir_model::plan::Search::AllShortest { paths } else { self.resolve("head", vec![paths], span) }
    }

    pub fn pattern_comprehension(&mut self, part: &PatternPart, filter: Option<&Expression>, result: &Expression) -> Expr {
        self.inside(|binder| {
            let plan = binder.matched(std::slice::from_ref(part), filter);
            let result = binder.expression(result);
            subquery(SubqueryKind::Collect(result), plan)
        })
    }

    pub fn subquery(&mut self, kind: ast::SubqueryKind, body: &SubqueryBody, span: Span) -> Expr {
        let bound = self.inside(|binder| match body {
            SubqueryBody::Pattern { parts, condition } => Some((binder.matched(parts, condition.as_ref()), Vec::new())),
            SubqueryBody::Query(query) => binder.reading_query(kind, query),
        });
        let Some((plan, columns)) = bound else { return Expr::Literal(Value::Null) };
        match (kind, columns.as_slice()) {
            (ast::SubqueryKind::Exists, _) => subquery(SubqueryKind::Exists, plan),
            (ast::SubqueryKind::Count, _) => subquery(SubqueryKind::Count, plan),
            (ast::SubqueryKind::Collect, [(_, column)]) => subquery(SubqueryKind::Collect(Expr::Slot(*column)), plan),
            (ast::SubqueryKind::Collect, _) => {
                self.error(span, Code::InvalidClauseComposition, "COLLECT { ... } takes a query that returns exactly one column");
                Expr::Literal(Value::Null)
            }
        }
    }

    /// Binds what has a scope of its own. Aggregates in it are those of its own clauses.
    fn inside<T>(&mut self, bind: impl FnOnce(&mut Self) -> T) -> T {
        let scope = self.scope.clone();
        let outer = std::mem::replace(&mut self.outer, scope.clone());
        let first = std::mem::replace(&mut self.first, First::Expression);
        let aggregates = self.aggregates.take();
        let result = bind(self);
        self.aggregates = aggregates;
        self.outer = outer;
        self.first = first;
        self.scope = scope;
        result
    }

    fn matched(&mut self, parts: &[PatternPart], condition: Option<&Expression>) -> Operator {
        let mut graph = self.query_graph(parts);
        if let Some(condition) = condition {
            let condition = self.condition(condition);
            graph.pattern.conditions.push(condition);
        }
        Operator::Match { input: Box::new(Operator::Argument), pattern: graph.pattern }
    }

    /// As `matched`, of one part, with a name for its path.
    fn matched_path(&mut self, part: &PatternPart, condition: Option<&Expression>) -> (Operator, Slot) {
        let mut operator = self.matched(std::slice::from_ref(part), condition);
        let path = self.draft.new_slot("", super::Holds::Path);
        if let Operator::Match { pattern, .. } = &mut operator {
            let start = pattern.edges.first().map_or(0, |edge| {
                if edge.chain.as_ref().is_some_and(|chain| chain.reversed) { edge.target } else { edge.source }
            });
            let edges = (0..pattern.edges.len()).collect();
            pattern.paths.push(weir_model::plan::PatternPath { slot: path, start, edges });
        }
        (operator, path)
    }

    /// A whole query; none where it would change something.
    fn reading_query(&mut self, kind: ast::SubqueryKind, query: &Query) -> Option<(Operator, Vec<(Text, Slot)>)> {
        let mut all = query.first.iter().chain(query.unions.iter().flat_map(|(_, _, clauses)| clauses));
        if let Some(clause) = all.find(|clause| self.updates(clause)) {
            let word = keyword(&clause.kind);
            let message = format!("{} {{ ... }} cannot contain any updates, but got {word}", format!("{kind:?}").to_uppercase());
            self.error(clause.span, Code::InvalidClauseComposition, message);
            return None;
        }
        Some(self.query(query, Operator::Argument))
    }

    fn updates(&self, clause: &Clause) -> bool {
        let any = |query: &Query| {
            let unions = query.unions.iter().flat_map(|(_, _, clauses)| clauses);
            query.first.iter().chain(unions).any(|clause| self.updates(clause))
        };
        match &clause.kind {
            ClauseKind::Match { .. } | ClauseKind::Unwind { .. } | ClauseKind::With { .. } | ClauseKind::Return(_) => false,
            ClauseKind::LoadCsv { .. } => false,
            ClauseKind::Call { procedure, .. } => {
                matches!(procedures::find(&procedure.text, self.options), Some(Ok(procedure)) if procedure.writes)
            }
            ClauseKind::OptionalCall(call) => self.updates(call),
            ClauseKind::Subquery { query, .. } | ClauseKind::Recurse { query, .. } => any(query),
            _ => true,
        }
    }

    /// Every variable of the pattern must be there already.
    fn check_known(&mut self, part: &PatternPart) -> bool {
        let nodes = [&part.start].into_iter().chain(part.steps.iter().map(|(_, node)| node)).map(|node| &node.variable);
        let edges = part.steps.iter().map(|(edge, _)| &edge.variable);
        let names: Vec<_> = nodes.chain(edges).flatten().collect();
        // All of them, so that each that is missing is named.
        let missing = names.into_iter().filter(|name| self.lookup(name).is_none()).count();
        missing == 0
    }
}

fn subquery(kind: SubqueryKind, plan: Operator) -> Expr {
    // Whether it takes any order is found out when its plan is there as it runs.
    Expr::Subquery(Box::new(Subquery { kind, plan, any_order: false }))
}
