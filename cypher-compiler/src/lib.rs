//! Cypher text to `Plan`. Pure: no input or output, no clock, no dataflow.
//!
//!     text -> tokens -> syntax tree -> bound draft -> rewritten draft -> Plan
//!             lexer     parser         bind           rewrite            lower
//!
//! `standing` takes the same road for standing queries, with its own restrictions; `explain` prints every stage;
//! `language` is what editors ask, `gremlin` tells the traversals of old clients in Cypher.

mod lexer;
mod parser;
mod ast;
mod bind;
pub mod functions;
pub mod procedures;
mod rewrite;
mod walk;
mod lower;
mod needs;
mod standing;
mod explain;
pub mod language;
pub mod gremlin;
mod error;

pub use error::{Code, Diagnostic, DiagnosticKind, Example, nearest};
pub use explain::{Drawn, Words, draw_standing, explain, explain_noted, explain_operator, explain_plan, expression_text};
pub use lexer::quoted_name;
pub use needs::{Needs, needs};
pub use standing::{StandingMode, StandingPlan, compile_asked, compile_standing, valueless};
use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_model::{IdScheme, Plan, Procedure, Text};

/// What the text does not say.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Parameters known beforehand get the first indices in this order; others are appended as they are met.
    pub parameters: Vec<Text>,
    /// How `idFrom` over constants is computed.
    pub ids: IdScheme,
    /// Procedures the caller brings; one of the name of a builtin stands in its place.
    pub procedures: Vec<Arc<Procedure>>,
    /// It is a text that `do.when` or its like runs: a variable that nothing declares is the parameter of that name.
    pub bare_parameters: bool,
    /// What the text is, in words, where nobody sends it by itself: nothing in it listens.
    pub runs_as: Option<&'static str>,
    /// The graph is of openCypher's model, where CREATE and MERGE take a node that is bound as it is.
    pub open_cypher: bool,
}

/// Compiles an ad-hoc or ingest query.
pub fn compile(text: &str, options: &Options) -> Result<Plan, Vec<Diagnostic>> {
    let (_, mut draft) = bound(text, options)?;
    rewrite::rewrite(&mut draft, options, &mut |_, _| ()).map_err(|broken| vec![broken.diagnostic(text)])?;
    let mut plan = lower::lower(text, draft, lower::orders::Lists::Lead);
    lower::unseen::leave_out_edges(&mut plan);
    Ok(plan)
}

/// The first two stages. Where clauses could not be read, what is certain to be wrong with the others is told too.
fn bound(text: &str, options: &Options) -> Result<(ast::Query, bind::Draft), Vec<Diagnostic>> {
    let parser::Read { query, mut errors, lost_from } = parser::read(text);
    match bind::bind(text, &query, options) {
        Ok(draft) if errors.is_empty() => return Ok((query, draft)),
        Ok(_) => {}
        Err(found) => {
            let lost_from = lost_from.map(|lost| text[..lost].chars().count());
            errors.extend(found.into_iter().filter(|error| lost_from.is_none_or(|lost| is_certain(error, lost))));
        }
    }
    errors.sort_by_key(|error| error.offset);
    errors.truncate(error::ERROR_COUNT_MAX);
    Err(errors)
}

/// Whether an error stands although clauses from an offset on are missing. They may have declared variables, and brought the
/// query to its end.
fn is_certain(error: &Diagnostic, lost_from: usize) -> bool {
    match error.code {
        Code::UnknownFunction | Code::ProcedureNotFound | Code::InvalidNumberOfArguments => true,
        Code::InvalidClauseComposition | Code::DifferentColumnsInUnion => false,
        _ => error.offset < lost_from,
    }
}

/// As `compile`, without rewriting, anchors, or an order of its own: the query as it is written. Slow; tests hold the plan of
/// `compile` against it. Not for shortest paths with conditions: which is the shortest follows from a rule.
pub fn compile_plainly(text: &str, options: &Options) -> Result<Plan, Vec<Diagnostic>> {
    let tree = parser::parse(text)?;
    let draft = bind::bind(text, &tree, options)?;
    Ok(lower::lower_plainly(text, draft, options.ids))
}

/// What is asked of a text: EXPLAIN and PROFILE in front of a query are no part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    Answer,
    /// How the query would run.
    Plan,
    /// How it ran.
    Profile,
    /// What it would be maintained by as a standing query.
    Dataflow,
}

/// Takes EXPLAIN, EXPLAIN STANDING or PROFILE off. The query keeps its place in the text, so that errors in it are found where
/// they are.
pub fn wanted(text: &str) -> (Wanted, Cow<'_, str>) {
    let Some((wanted, rest)) = [("EXPLAIN", Wanted::Plan), ("PROFILE", Wanted::Profile)]
        .into_iter()
        .find_map(|(word, wanted)| Some((wanted, without(text, word)?)))
    else {
        return (Wanted::Answer, Cow::Borrowed(text));
    };
    match without(&rest, "STANDING").filter(|_| wanted == Wanted::Plan) {
        Some(rest) => (Wanted::Dataflow, Cow::Owned(rest)),
        None => (wanted, Cow::Owned(rest)),
    }
}

/// The text with blanks in place of the word it begins with, if it does. Comments may stand on either side of it.
fn without(text: &str, word: &str) -> Option<String> {
    let (error::Span { start, end }, apart) = lexer::first_word(text)?;
    (apart && text[start..end].eq_ignore_ascii_case(word))
        .then(|| format!("{}{}{}", &text[..start], " ".repeat(word.len()), &text[end..]))
}

/// Whether a query may be nothing but a call: one that leaves out its arguments takes parameters by their names, so that its plan
/// goes by which of them are given.
pub fn begins_with_call(text: &str) -> bool {
    lexer::first_word(text).is_some_and(|(span, _)| text[span.start..span.end].eq_ignore_ascii_case("CALL"))
}

/// The error for a parameter that the text uses and the caller does not give. Whether that is an error is the caller's choice:
/// ingest queries know their parameters, an ad-hoc query comes with its own.
pub fn unknown_parameter(text: &str, name: &str) -> Diagnostic {
    unknown_in(text, &parameter_places(text), name)
}

/// As `unknown_parameter`, for several: one for each, but no more than are told of any text. Where there are none the text is
/// not looked at.
pub fn unknown_parameters<'a>(text: &str, names: impl IntoIterator<Item = &'a Text>) -> Vec<Diagnostic> {
    let names: Vec<&Text> = names.into_iter().take(error::ERROR_COUNT_MAX).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let places = parameter_places(text);
    names.into_iter().map(|name| unknown_in(text, &places, name)).collect()
}

fn unknown_in(text: &str, places: &FxHashMap<Text, error::Span>, name: &str) -> Diagnostic {
    let span = places.get(name).copied().unwrap_or_default();
    Diagnostic::compile(text, span, Code::MissingParameter, format!("Unknown parameter `{name}`"))
}

/// Where each parameter stands first.
fn parameter_places(text: &str) -> FxHashMap<Text, error::Span> {
    use lexer::TokenKind;
    let mut places = FxHashMap::default();
    for pair in lexer::lex(text).tokens.windows(2).filter(|pair| pair[0].kind == TokenKind::Symbol("$")) {
        let name = match &pair[1].kind {
            TokenKind::Word(word) | TokenKind::Quoted(word) => word.clone(),
            TokenKind::Integer(n) => Text::from(n.to_string()),
            _ => continue,
        };
        places.entry(name).or_insert(pair[0].span);
    }
    places
}

/// Reads the text without binding names: whether it is Cypher at all.
pub fn parse(text: &str) -> Result<ast::Query, Vec<Diagnostic>> {
    parser::parse(text)
}

#[cfg(test)]
mod tests;
