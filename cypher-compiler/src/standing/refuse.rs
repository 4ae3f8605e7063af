//! What cannot be maintained in mode AnyQuery, found with its place: writes, procedures that tell of anything but the graph as it
//! is or do more than look, chance, the current time, and parameters, which nobody would give.

use weir_model::schema::Schema;
use weir_model::{Expr, java_regex};

use super::classify::changes_by_itself;
use super::clock;
use crate::ast::{
    BinaryOperator, Clause, ClauseKind, Expression, ExpressionKind, PatternPart, Projection, Query, SubqueryBody, Yield,
};
use crate::bind::Draft;
use crate::error::{Code, Diagnostic, Span};
use crate::lexer::{self, TokenKind};
use crate::{Options, parser, procedures, unknown_parameter};

const CODE: Code = Code::NotMaintainable;

/// Refuses clauses that cannot stand in a standing query.
pub fn clauses(text: &str, query: &Query, options: &Options) -> Result<(), Vec<Diagnostic>> {
    let mut found = Vec::new();
    of_query(text, query, options, &mut found);
    found.sort_by_key(|found| found.offset);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

fn of_query(text: &str, query: &Query, options: &Options, found: &mut Vec<Diagnostic>) {
    for clause in query.first.iter().chain(query.unions.iter().flat_map(|(_, _, clauses)| clauses)) {
        of_clause(text, clause, options, found);
    }
}

fn of_clause(text: &str, clause: &Clause, options: &Options, found: &mut Vec<Diagnostic>) {
    inside(&clause.kind).into_iter().for_each(|expression| in_expression(text, expression, options, found));
    let why = match &clause.kind {
        ClauseKind::Match { .. } | ClauseKind::Unwind { .. } | ClauseKind::With { .. } | ClauseKind::Return(_) => return,
        ClauseKind::Subquery { query, .. } | ClauseKind::Recurse { query, .. } => return of_query(text, query, options, found),
        ClauseKind::OptionalCall(call) => return of_clause(text, call, options, found),
        ClauseKind::Call { procedure, .. } => {
            // One that is not there is an error anywhere.
            let Some(known) = procedures::known(&procedure.text, options) else { return };
            let Some(trouble) = trouble(&known.name) else { return };
            let who = command(text, clause, &known.name).map_or_else(|| format!("procedure `{}`", known.name), str::to_owned);
            format!("{who} {trouble}, and cannot stand in it")
        }
        ClauseKind::LoadCsv { .. } => "LOAD CSV reads what is no part of it".to_owned(),
        ClauseKind::Schema(Schema::ShowIndexes) => format!("SHOW INDEXES {OF_INDEXES}, and cannot stand in it"),
        ClauseKind::Schema(Schema::ShowExpiries) => format!("SHOW EXPIRIES {OF_RULES}, and cannot stand in it"),
        ClauseKind::Schema(_) => "a command that makes or drops an index or a rule has none, and cannot stand there".to_owned(),
        kind => format!("{} changes it, and cannot stand there", crate::bind::keyword(kind)),
    };
    let message = format!("A standing query's results follow from the graph: {why}");
    found.push(Diagnostic::compile(text, clause.span, CODE, message));
}

/// The expressions of a clause that may stand, those of its patterns among them.
fn inside(kind: &ClauseKind) -> Vec<&Expression> {
    match kind {
        ClauseKind::Match { parts, condition, .. } => of_parts(parts).chain(condition).collect(),
        ClauseKind::Unwind { list, .. } => vec![list],
        ClauseKind::With { projection, condition } => of_projection(projection).chain(condition).collect(),
        ClauseKind::Return(projection) => of_projection(projection).collect(),
        ClauseKind::Call { arguments, yields, .. } => {
            let condition = if let Some(Yield::Columns { condition, .. }) = yields { condition.as_ref() } else { None };
            arguments.iter().flatten().chain(condition).collect()
        }
        ClauseKind::Recurse { first, until, .. } => first.iter().map(|(value, _)| value).chain([until]).collect(),
        _ => Vec::new(),
    }
}

fn of_projection(projection: &Projection) -> impl Iterator<Item = &Expression> {
    let order = projection.order.iter().map(|(key, _)| key);
    projection.items.iter().map(|item| &item.expression).chain(order).chain(&projection.skip).chain(&projection.limit)
}

fn of_parts(parts: &[PatternPart]) -> impl Iterator<Item = &Expression> {
    parts.iter().flat_map(|part| {
        let edges = part.steps.iter().flat_map(|(edge, _)| edge.properties.iter().chain(&edge.condition));
        let nodes = [&part.start].into_iter().chain(part.steps.iter().map(|(_, node)| node));
        edges.chain(nodes.flat_map(|node| node.properties.iter().chain(&node.condition)))
    })
}

/// The clauses of subqueries that are expressions, and regular expressions that nobody can run.
fn in_expression(text: &str, expression: &Expression, options: &Options, found: &mut Vec<Diagnostic>) {
    if let ExpressionKind::Binary(BinaryOperator::Regex, _, right) = &*expression.kind
        && let ExpressionKind::Text(regex) = &*right.kind
        && let Err(failure) = java_regex::check(regex)
    {
        found.push(Diagnostic::compile(text, right.span, Code::InvalidRegex, failure.message));
    }
    let below: Vec<&Expression> = match &*expression.kind {
        ExpressionKind::Subquery { body: SubqueryBody::Query(query), .. } => return of_query(text, query, options, found),
        ExpressionKind::Subquery { body: SubqueryBody::Pattern { parts, condition }, .. } => {
            of_parts(parts).chain(condition).collect()
        }
        ExpressionKind::Pattern(part) => of_parts(std::slice::from_ref(part)).collect(),
        ExpressionKind::PatternComprehension { part, filter, result } => {
            of_parts(std::slice::from_ref(part)).chain(filter).chain([result]).collect()
        }
        _ => expression.children(),
    };
    below.into_iter().for_each(|below| in_expression(text, below, options, found));
}

const OF_INDEXES: &str = "tells of indexes, which are no facts of it";
const OF_RULES: &str = "tells of rules, which are no facts of it";

/// Procedures whose rows follow from the graph as it is: each is named here, so that a new one is refused until somebody has
/// thought of it.
const FOLLOWING: [&str; 6] =
    ["getFilteredEdges", "db.relationshipTypes", "db.propertyKeys", "dbms.labels", "subscribers", "subscriptions"];

/// Why a procedure is none of `FOLLOWING`.
fn trouble(name: &str) -> Option<&'static str> {
    match name {
        _ if FOLLOWING.contains(&name) => None,
        "debug.sleep" | "util.sleep" => Some("keeps all others waiting"),
        "debug.node" => Some("tells of the past as well"),
        "db.indexes" | "schema.indexes" => Some(OF_INDEXES),
        "schema.expiries" => Some(OF_RULES),
        "query.running" => Some("tells of queries that run"),
        "query.terminate" => Some("ends queries that run"),
        "standing.wiretap" => Some("tells of the results of another one"),
        procedures::LOAD_CSV | "loadJsonLines" | "parseProtobuf" | "toProtobuf" => Some("reads what is no part of it"),
        "log" => Some("writes to the log"),
        _ if name.starts_with("history.") => Some("tells of the past"),
        _ if name.starts_with("help.") => Some("tells of what weir can do"),
        _ => Some("does more than look at the graph"),
    }
}

/// What the text says where it calls a procedure by a command of its own.
fn command(text: &str, clause: &Clause, procedure: &str) -> Option<&'static str> {
    let written = text.get(clause.span.start..)?;
    if written.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("CALL")) {
        return None;
    }
    match procedure {
        "query.running" => Some("SHOW QUERIES"),
        "query.terminate" => Some("TERMINATE QUERY"),
        "schema.indexes" => Some("SHOW INDEXES"),
        "schema.expiries" => Some("SHOW EXPIRIES"),
        "help.procedures" => Some("SHOW PROCEDURES"),
        "help.functions" => Some("SHOW FUNCTIONS"),
        _ => None,
    }
}

/// Refuses expressions that cannot stand in a standing query.
pub fn expressions(text: &str, draft: &Draft, options: &Options) -> Result<(), Vec<Diagnostic>> {
    if let Some(name) = draft.parameters.first() {
        // Not one that is missing: there is nobody who could give it.
        let refused = Diagnostic { code: Code::Parameter, ..unknown_parameter(text, name) };
        return Err(vec![refused.with_hint(Some(super::NO_PARAMETERS.into()))]);
    }
    let refused = of_draft(draft);
    match refused.first() {
        Some((name, _)) => {
            let hint = (!name.starts_with("rand")).then(|| clock::hint(draft).to_owned());
            let place = place(text, &refused, options);
            Err(vec![Diagnostic::compile(text, place, CODE, by_itself(name)).with_hint(hint)])
        }
        None => Ok(()),
    }
}

/// What is said of a function that depends on chance, or on the current time.
pub fn by_itself(name: &str) -> String {
    format!("A standing query's results follow from the graph: `{name}()` does not, and cannot stand in them")
}

/// The name of a function, and whether it is called without arguments.
pub type Refused = (&'static str, bool);

fn of_draft(draft: &Draft) -> Vec<Refused> {
    let (mut all, mut found) = (Vec::new(), Vec::new());
    draft.root.all_expressions(&mut all);
    all.into_iter().for_each(|expr| of_expression(expr, &mut found));
    found
}

/// The calls in an expression that depend on chance, or on the current time.
pub fn of_expression(expr: &Expr, found: &mut Vec<Refused>) {
    if let Expr::Clocked(_) = expr {
        return;
    }
    if let Expr::Call { function, arguments } = expr
        && changes_by_itself(expr)
    {
        found.push((function.name, arguments.is_empty()));
    }
    expr.children().into_iter().for_each(|child| of_expression(child, found));
}

/// Where the first refused function is called. An expression does not know where it was written, and the same call may well stand
/// elsewhere: it is the one without which, and without those before it, fewer are refused.
fn place(text: &str, refused: &[Refused], options: &Options) -> Span {
    let Some(first) = refused.first() else { return Span::default() };
    let count = |refused: &[Refused]| refused.iter().filter(|other| *other == first).count();
    let calls = calls(text, *first);
    let as_many_without = |last: &Call| {
        let mut without = text.to_owned();
        for Call { whole, .. } in calls.iter().take_while(|call| call.whole.end <= last.whole.end) {
            // As long as the call, so that the others stay where they are; no call is shorter.
            let width = whole.end - whole.start;
            without.replace_range(whole.start..whole.end, &format!("{:width$}", "null"));
        }
        let draft = parser::parse(&without).and_then(|tree| super::marked(&without, &tree, options));
        draft.is_ok_and(|draft| count(&of_draft(&draft)) == count(refused))
    };
    let at = calls.partition_point(as_many_without);
    calls.get(at).or(calls.first()).map_or(Span::default(), |call| call.name)
}

struct Call {
    name: Span,
    /// The call with its arguments.
    whole: Span,
}

/// Where a function is called by this name, `bare` without arguments; a call within a call comes before it.
fn calls(text: &str, (name, bare): Refused) -> Vec<Call> {
    let tokens = lexer::lex(text).tokens;
    let words: Vec<&str> = name.split('.').collect();
    let length = 2 * words.len() - 1;
    let is_name = |at: usize| {
        words.iter().enumerate().all(|(i, word)| {
            let of = |offset: usize| tokens.get(at + offset).map(|token| &token.kind);
            let dot = i == 0 || of(2 * i - 1) == Some(&TokenKind::Symbol("."));
            dot && matches!(of(2 * i), Some(TokenKind::Word(found)) if found.eq_ignore_ascii_case(word))
        })
    };
    let symbol = |at: usize, wanted: &'static str| tokens.get(at).map(|token| &token.kind) == Some(&TokenKind::Symbol(wanted));
    let closing = |open: usize| {
        let mut depth = 0;
        let closes = |at: &usize| {
            depth += i32::from(symbol(*at, "(")) - i32::from(symbol(*at, ")"));
            depth == 0
        };
        (open..tokens.len()).find(closes)
    };
    let call = |at: usize| {
        let open = at + length;
        let is_call = is_name(at) && symbol(open, "(") && (!bare || symbol(open + 1, ")"));
        let closed = if is_call { closing(open) } else { None };
        closed.map(|closed| {
            let from = tokens[at].span;
            Call { name: from.to(tokens[open - 1].span), whole: from.to(tokens[closed].span) }
        })
    };
    let mut calls: Vec<Call> = (0..tokens.len()).filter_map(call).collect();
    calls.sort_by_key(|call| call.whole.end);
    calls
}
