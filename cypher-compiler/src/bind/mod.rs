//! Syntax tree to draft: names become slots, functions are found, MATCH becomes a query graph.
//!
//! A draft is a plan whose patterns have no order yet: conditions lie unsorted in `Pattern::conditions`, `steps` are empty.
//! All errors of a query are gathered, not the first only.
//!
//!     draft       a plan in the making, and what later stages need to know of each slot
//!     scope       which variables are visible, and the slots they stand for
//!     clause      MATCH, UNWIND, and the way from one clause to the next
//!     pattern     a pattern becomes a query graph
//!     expression  variables to slots, names to indices, calls to functions
//!     types       what the text alone tells about types
//!     projection  WITH and RETURN
//!     aggregate   aggregating functions, taken out of the expression they stand in
//!     update      CREATE, MERGE, SET, REMOVE, DELETE, FOREACH
//!     subquery    queries inside expressions
//!     call        CALL, and LOAD CSV

pub mod draft;
mod scope;
mod clause;
mod pattern;
mod expression;
pub mod types;
mod projection;
pub mod aggregate;
mod update;
mod subquery;
mod call;

#[cfg(test)]
mod call_tests;

use std::collections::{HashMap, HashSet};

use weir_model::Text;
use weir_model::plan::{Operator, Slot};

use crate::Options;
use crate::ast::{Clause, ClauseKind, Query};
use crate::error::{Code, Diagnostic, ERROR_COUNT_MAX, Span, nearest};
pub use draft::{Draft, Holds};
pub use pattern::{is_shortest, is_true};
use scope::Scope;

pub fn bind(text: &str, query: &Query, options: &Options) -> Result<Draft, Vec<Diagnostic>> {
    let mut binder = Binder::new(text, options);
    (binder.draft.root, binder.draft.columns) = binder.query(query, Operator::Unit);
    binder.check_listening();
    binder.finish()
}

pub struct Binder<'a> {
    text: &'a str,
    options: &'a Options,
    pub draft: Draft,
    pub errors: Vec<Diagnostic>,
    pub scope: Scope,
    /// What a subquery sees of the query around it, whatever its own clauses do.
    outer: Scope,
    /// Where aggregates are collected while the items of a projection are bound; `None` where none may stand.
    aggregates: Option<aggregate::Found>,
    /// What the first clause of a subquery begins with.
    first: call::First,
    /// Whether anything writes, a clause or a procedure.
    has_writes: bool,
    /// The first call of a procedure that listens: its name, and where that stands.
    listens: Option<(Text, Span)>,
}

impl<'a> Binder<'a> {
    pub fn new(text: &'a str, options: &'a Options) -> Binder<'a> {
        Binder {
            text,
            options,
            draft: Draft::new(options),
            errors: Vec::new(),
            scope: Scope::default(),
            aggregates: None,
            outer: Scope::default(),
            first: call::First::Outer,
            has_writes: false,
            listens: None,
        }
    }

    pub fn finish(self) -> Result<Draft, Vec<Diagnostic>> {
        let Binder { draft, mut errors, .. } = self;
        if errors.is_empty() {
            return Ok(draft);
        }
        errors.sort_by_key(|error| error.offset);
        Err(errors)
    }

    pub fn error(&mut self, span: Span, code: Code, message: impl Into<String>) {
        self.error_with_hint(span, code, message, None);
    }

    pub fn error_with_hint(&mut self, span: Span, code: Code, message: impl Into<String>, hint: Option<String>) {
        if self.errors.len() < ERROR_COUNT_MAX {
            self.errors.push(Diagnostic::compile(self.text, span, code, message).with_hint(hint));
        }
    }

    /// `did you mean …?`, for an error that is told. To find out takes a look at each of the names, and is in vain for others.
    fn alike<'n>(&self, name: &str, known: impl Iterator<Item = &'n str>) -> Option<String> {
        if self.errors.len() < ERROR_COUNT_MAX { nearest(name, known) } else { None }
    }

    fn not_yet(&mut self, span: Span, what: &str) {
        self.error(span, Code::Unsupported, format!("{what} is not supported in this version"));
    }

    /// What listens has no last row. So it cannot stand where somebody waits for the last row: in a query that writes, in that of
    /// a stream or an output, and in one that runs in place of a call.
    fn check_listening(&mut self) {
        let Some((name, span)) = self.listens.take() else { return };
        let Some(place) = self.options.runs_as.or(self.has_writes.then_some("a query that writes")) else { return };
        let message = format!(
            "`{name}` waits for results without end, so it cannot stand in {place}; to act on results give the standing query \
             that has them an output of type CypherQuery"
        );
        self.error(span, Code::Unsupported, message);
    }

    /// The operators of a query that begins at `start`, and its columns.
    fn query(&mut self, query: &Query, start: Operator) -> (Operator, Vec<(Text, Slot)>) {
        if matches!(start, Operator::Unit)
            && let Some(call) = self.standalone_call(query)
        {
            return call;
        }
        if let [Clause { kind: ClauseKind::Schema(schema), .. }] = query.first.as_slice() {
            let columns = schema.columns().iter().map(|name| ((*name).into(), self.draft.new_slot(name, Holds::Plain))).collect();
            return (Operator::Schema(schema.clone()), columns);
        }
        let (mut root, columns) = self.single(&query.first, start.clone());
        if query.unions.is_empty() {
            return (root, columns);
        }
        // Every side of a union leaves its values in slots of the union's own.
        let shared: Vec<(Text, Slot)> =
            columns.iter().map(|(name, _)| (name.clone(), self.draft.new_slot(name, Holds::Anything))).collect();
        root = Operator::Project { input: Box::new(root), items: self.copies(&shared, &columns) };
        let mut sides = vec![columns];
        for (all, span, clauses) in &query.unions {
            if *all != query.unions[0].0 {
                self.error(*span, Code::InvalidClauseComposition, "UNION and UNION ALL cannot be mixed in one query");
            }
            let (right, right_columns) = self.single(clauses, start.clone());
            let names = |columns: &[(Text, Slot)]| {
                let mut names: Vec<Text> = columns.iter().map(|(name, _)| name.clone()).collect();
                names.sort();
                names
            };
            if names(&right_columns) != names(&shared) {
                self.error(*span, Code::DifferentColumnsInUnion, "All sub queries in an UNION must have the same column names");
                continue;
            }
            sides.push(right_columns.clone());
            let right = Operator::Project { input: Box::new(right), items: self.copies(&shared, &right_columns) };
            let distinct = (!all).then(|| shared.iter().map(|(_, slot)| *slot).collect());
            root = Operator::Union { left: Box::new(root), right: Box::new(right), distinct };
        }
        let not_plain = sides.iter().flatten().filter(|(_, from)| self.draft.holds(*from) != Holds::Plain);
        let not_plain: HashSet<&str> = not_plain.map(|(name, _)| name.as_str()).collect();
        for (_, slot) in shared.iter().filter(|(name, _)| !not_plain.contains(name.as_str())) {
            self.draft.slots[slot.0 as usize].holds = Holds::Plain;
        }
        (root, shared)
    }

    /// Copies each column into the shared slot of the same name.
    fn copies(&self, shared: &[(Text, Slot)], columns: &[(Text, Slot)]) -> Vec<(Slot, weir_model::Expr)> {
        // The first of two columns of one name, which is an error, as everywhere.
        let slots: HashMap<&str, Slot> = columns.iter().rev().map(|(name, slot)| (name.as_str(), *slot)).collect();
        shared.iter().filter_map(|(name, to)| Some((*to, weir_model::Expr::Slot(*slots.get(name.as_str())?)))).collect()
    }

    /// One query between UNIONs: its operators and its columns.
    fn single(&mut self, clauses: &[Clause], start: Operator) -> (Operator, Vec<(Text, Slot)>) {
        self.check_order(clauses, matches!(self.first, call::First::Expression));
        self.scope = self.first_scope(clauses);
        let mut root = start;
        let mut columns = Vec::new();
        for clause in clauses {
            root = match &clause.kind {
                ClauseKind::Return(projection) => {
                    let (operator, returned) = self.return_clause(root, projection, clause.span);
                    columns = returned;
                    operator
                }
                _ => self.clause(root, clause),
            };
        }
        (root, columns)
    }

    /// Which clause may follow which. A subquery that is an expression need not return anything.
    fn check_order(&mut self, clauses: &[Clause], subquery: bool) {
        let mut updated: Option<&'static str> = None;
        for (i, clause) in clauses.iter().enumerate() {
            let word = keyword(&clause.kind);
            match &clause.kind {
                ClauseKind::Return(_) if i + 1 < clauses.len() => {
                    self.error(
                        clauses[i + 1].span,
                        Code::InvalidClauseComposition,
                        "RETURN can only be used at the end of the query",
                    );
                }
                ClauseKind::With { .. } | ClauseKind::Return(_) => updated = None,
                // A procedure may read or write; what it is called after has been done by then in any case.
                ClauseKind::Call { .. } | ClauseKind::Subquery { .. } | ClauseKind::Recurse { .. } => {}
                ClauseKind::Match { .. } | ClauseKind::Unwind { .. } | ClauseKind::LoadCsv { .. } => {
                    if let Some(before) = updated {
                        self.error(
                            clause.span,
                            Code::InvalidClauseComposition,
                            format!("WITH is required between {before} and {word}"),
                        );
                    }
                }
                _ => updated = Some(word),
            }
        }
        if let Some(last) = clauses.last()
            && !(subquery && matches!(last.kind, ClauseKind::Match { .. }))
            && !can_be_last(&last.kind)
        {
            let word = keyword(&last.kind);
            let message = format!("Query cannot conclude with {word} (must be RETURN or an update clause)");
            self.error(last.span, Code::InvalidClauseComposition, message);
        }
    }
}

fn can_be_last(kind: &ClauseKind) -> bool {
    match kind {
        ClauseKind::Match { .. } | ClauseKind::Unwind { .. } | ClauseKind::With { .. } | ClauseKind::LoadCsv { .. } => false,
        ClauseKind::Call { yields, .. } => yields.is_none(),
        ClauseKind::Subquery { query, .. } => !call::ends_in_return(query),
        ClauseKind::Recurse { .. } => false,
        _ => true,
    }
}

pub fn keyword(kind: &ClauseKind) -> &'static str {
    match kind {
        ClauseKind::Match { optional: true, .. } => "OPTIONAL MATCH",
        ClauseKind::Match { .. } => "MATCH",
        ClauseKind::Unwind { .. } => "UNWIND",
        ClauseKind::With { .. } => "WITH",
        ClauseKind::Return(_) => "RETURN",
        ClauseKind::Create(_) => "CREATE",
        ClauseKind::Merge { .. } => "MERGE",
        ClauseKind::Set(_) => "SET",
        ClauseKind::Remove(_) => "REMOVE",
        ClauseKind::Delete { .. } => "DELETE",
        ClauseKind::ForEach { .. } => "FOREACH",
        ClauseKind::Call { .. } | ClauseKind::Subquery { .. } | ClauseKind::Recurse { .. } => "CALL",
        ClauseKind::OptionalCall(_) => "OPTIONAL CALL",
        ClauseKind::LoadCsv { .. } => "LOAD CSV",
        ClauseKind::Schema(_) => "a command about the graph as a whole",
    }
}

/// Whether a function of that name aggregates.
pub fn is_aggregate(name: &str) -> bool {
    aggregate::kind(name).is_some()
}
