//! What cannot be maintained in mode AnyQuery, found with its place: writes, procedures that do more than look, chance, the
//! current time, and parameters, which nobody would give.

use weir_model::procedure::Body;
use weir_model::{Expr, Procedure};

use super::classify::changes_by_itself;
use super::clock::HINT;
use crate::ast::{Clause, ClauseKind, Query};
use crate::bind::Draft;
use crate::error::{Code, Diagnostic, Span};
use crate::lexer::{self, TokenKind};
use crate::{Options, procedures, unknown_parameter};

const CODE: Code = Code::NotMaintainable;

/// Clauses that cannot stand in a standing query.
pub fn clauses(text: &str, query: &Query, options: &Options) -> Result<(), Vec<Diagnostic>> {
    let mut found = Vec::new();
    of_query(text, query, options, &mut found);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

fn of_query(text: &str, query: &Query, options: &Options, found: &mut Vec<Diagnostic>) {
    for clause in query.first.iter().chain(query.unions.iter().flat_map(|(_, _, clauses)| clauses)) {
        of_clause(text, clause, options, found);
    }
}

fn of_clause(text: &str, clause: &Clause, options: &Options, found: &mut Vec<Diagnostic>) {
    let why = match &clause.kind {
        ClauseKind::Match { .. } | ClauseKind::Unwind { .. } | ClauseKind::With { .. } | ClauseKind::Return(_) => return,
        ClauseKind::Subquery { query, .. } | ClauseKind::Recurse { query, .. } => return of_query(text, query, options, found),
        ClauseKind::Call { procedure, .. } => match procedures::find(&procedure.text, options) {
            Some(Ok(known)) => match trouble(&known) {
                Some(trouble) => format!("procedure `{}` {trouble}, and cannot stand in it", known.name),
                None => return,
            },
            // One that is not there is an error anywhere.
            _ => return,
        },
        ClauseKind::LoadCsv { .. } => "LOAD CSV reads what is no part of it".to_owned(),
        kind => format!("{} changes it, and cannot stand there", crate::bind::keyword(kind)),
    };
    let message = format!("A standing query's results follow from the graph: {why}");
    found.push(Diagnostic::compile(text, clause.span, CODE, message));
}

/// Why a procedure is none whose rows follow from the graph as it is.
fn trouble(procedure: &Procedure) -> Option<&'static str> {
    let is_more = procedure.writes || !procedure.idempotent || matches!(procedure.body, Body::Query(_));
    match procedure.name.as_str() {
        "debug.sleep" | "util.sleep" => Some("keeps all others waiting"),
        name if name.starts_with("history.") => Some("tells of the past"),
        _ => is_more.then_some("does more than look at the graph"),
    }
}

/// Expressions that cannot.
pub fn expressions(text: &str, draft: &Draft) -> Result<(), Vec<Diagnostic>> {
    if let Some(name) = draft.parameters.first() {
        return Err(vec![unknown_parameter(text, name)]);
    }
    let mut all = Vec::new();
    draft.root.all_expressions(&mut all);
    let mut found = None;
    all.into_iter().for_each(|expr| of_expression(expr, &mut found));
    match found {
        Some((name, bare)) => {
            let hint = (!name.starts_with("rand")).then(|| HINT.to_owned());
            Err(vec![Diagnostic::compile(text, place(text, name, bare), CODE, by_itself(name)).with_hint(hint)])
        }
        None => Ok(()),
    }
}

/// What is said of a function that depends on chance, or on the current time.
pub fn by_itself(name: &str) -> String {
    format!("A standing query's results follow from the graph: `{name}()` does not, and cannot stand in them")
}

/// The first function of an expression that depends on those, and whether it is called without arguments.
pub fn of_expression(expr: &Expr, found: &mut Option<(&'static str, bool)>) {
    if let Expr::Clocked(_) = expr {
        return;
    }
    if let Expr::Call { function, arguments } = expr
        && changes_by_itself(expr)
    {
        found.get_or_insert((function.name, arguments.is_empty()));
    }
    expr.children().into_iter().for_each(|child| of_expression(child, found));
}

/// Where a function is called by this name, `bare` without arguments.
fn place(text: &str, name: &str, bare: bool) -> Span {
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
    let calls = (0..tokens.len()).filter(|at| is_name(*at) && symbol(at + length, "("));
    let mut calls = calls.filter(|at| !bare || symbol(at + length + 1, ")"));
    calls.next().map_or(Span::default(), |at| Span { start: tokens[at].span.start, end: tokens[at + length - 1].span.end })
}
