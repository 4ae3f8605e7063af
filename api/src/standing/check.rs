//! Whether a request for a standing query can be met: its pattern and its outputs are checked and compiled before anything is
//! kept of them. Clients of v1 are told the first that is wrong, others all of it.

use weir_cypher_compiler::{Options, StandingPlan, compile_standing};
use weir_engine::Graph;
use weir_model::Text;

use super::{Query, StandingQueries};
use crate::error::{ApiError, both};
use crate::outputs::{Link, check_secrets};
use crate::procedures::Preparing;
use crate::wire::standing::{Mode, Output, PatternSettings};

impl StandingQueries {
    /// The outputs, checked and compiled, beside those that are there.
    pub(super) fn links(
        &self,
        graph: &Graph,
        there: &[(String, Output)],
        new: &[(String, Output)],
    ) -> Result<Vec<(String, Link)>, ApiError> {
        let (links, problems) = self.looked_at(graph, there, new)?;
        together(problems).map_or(Ok(links), Err)
    }

    pub(super) fn checked(&self, graph: &Graph, pattern: &mut PatternSettings) -> Result<StandingPlan, ApiError> {
        self.procedures.check_text(&pattern.query)?;
        compiled(graph, pattern)
    }

    /// What could not be read of a request, with what is wrong with the rest of it: a pattern, and outputs beside those that are
    /// there.
    pub fn with_the_rest(
        &self,
        mistakes: Vec<String>,
        graph: &Graph,
        there: &[(String, Output)],
        (pattern, outputs): (Option<PatternSettings>, Vec<(String, Output)>),
    ) -> ApiError {
        let mut error = ApiError::Decode(mistakes);
        if let Some(Err(wrong)) = pattern.map(|mut pattern| self.checked(graph, &mut pattern)) {
            error = error.and(wrong);
        }
        self.with_outputs(error, graph, there, &outputs)
    }

    /// The same of a request to a query, beside all its outputs but those with a name that are to be changed.
    pub fn with_the_rest_for(
        &self,
        query: &Query,
        mistakes: Vec<String>,
        name: Option<&str>,
        rest: (Option<PatternSettings>, Vec<(String, Output)>),
    ) -> ApiError {
        let mut there = query.settings().outputs;
        there.retain(|(other, output)| name.is_none_or(|name| other != name && output.workflow() != Some(name)));
        self.with_the_rest(mistakes, &query.graph, &there, rest)
    }

    /// What is wrong with a request, with what is wrong with the workflows in it.
    pub(super) fn with_outputs(
        &self,
        error: ApiError,
        graph: &Graph,
        there: &[(String, Output)],
        outputs: &[(String, Output)],
    ) -> ApiError {
        // Clients of v1 are told the first that is wrong.
        if !error.is_of_request() || outputs.iter().all(|(_, output)| output.workflow().is_none()) {
            return error;
        }
        let problems = self.looked_at(graph, there, outputs).map_or_else(|_| Vec::new(), |(_, problems)| problems);
        error.and(ApiError::Bad(told(&problems)))
    }

    /// Those of the outputs with which nothing is wrong, and what is wrong with the others.
    fn looked_at<'o>(
        &self,
        graph: &Graph,
        there: &[(String, Output)],
        new: &'o [(String, Output)],
    ) -> Result<LookedAt<'o>, ApiError> {
        let (mut links, mut problems) = (Vec::new(), Vec::new());
        for (index, (name, output)) in new.iter().enumerate() {
            match self.link(graph, there, new, index) {
                Ok(link) => links.push((name.clone(), link)),
                Err(error) => {
                    if !goes_on(&mut problems, (name.clone(), output), error)? {
                        break;
                    }
                }
            }
        }
        Ok((links, problems))
    }

    /// One of the new outputs.
    fn link(&self, graph: &Graph, there: &[(String, Output)], new: &[(String, Output)], index: usize) -> Result<Link, ApiError> {
        let (name, output) = &new[index];
        let taken = there.iter().any(|(other, known)| other == name || known.workflow() == Some(name.as_str()));
        if name.is_empty() {
            return Err(ApiError::bad("The name of a standing query output has at least one character"));
        }
        if name.contains('\0') {
            return Err(ApiError::bad("The name of a standing query output cannot contain a zero byte".to_owned()));
        }
        if taken || new[..index].iter().any(|(other, _)| other == name) {
            return Err(ApiError::bad(format!("There is already a standing query output named '{name}'")));
        }
        output.texts().into_iter().try_for_each(|text| self.procedures.check_text(text))?;
        let prepare = || Link::prepare(output, Preparing::new(graph, &self.procedures));
        let link = match output.workflow() {
            Some(_) => both(check_secrets(output), prepare())?.1,
            // Clients of v1 are told the first that is wrong.
            None => check_secrets(output).and_then(|()| prepare())?,
        };
        let is_part = |other: &Output| other.workflow().is_some() && other.workflow() == output.workflow();
        let parts = new.iter().filter(|(_, other)| is_part(other)).count();
        if parts > 1 && link.writes() {
            return Err(ApiError::bad(format!(
                "The resultEnrichment of '{name}' changes the graph and would do so for each of its {parts} destinations; give each an output of its own"
            )));
        }
        Ok(link)
    }
}

/// What is wrong with an output of v2, which is one destination of a workflow.
pub(super) struct Problem<'a> {
    name: String,
    workflow: &'a str,
    error: ApiError,
}

/// Outputs with which nothing is wrong, and what is wrong with others.
type LookedAt<'a> = (Vec<(String, Link)>, Vec<Problem<'a>>);

/// What is wrong with one of the outputs of a request. False: the others need not be looked at, for clients of v1 are told the
/// first, and what is no mistake of the request says nothing of what is.
pub(super) fn goes_on<'o>(
    problems: &mut Vec<Problem<'o>>,
    (name, output): (String, &'o Output),
    error: ApiError,
) -> Result<bool, ApiError> {
    match output.workflow().filter(|_| error.is_of_request()) {
        Some(workflow) => problems.push(Problem { name, workflow, error }),
        None if problems.is_empty() => return Err(error),
        None => return Ok(false),
    }
    Ok(true)
}

/// All that is wrong with the workflows of a request; none where nothing is. One problem alone is told as it is, also where
/// several destinations share it.
pub(super) fn together(problems: Vec<Problem<'_>>) -> Option<ApiError> {
    let all = told(&problems);
    let are_unreadable = problems.iter().all(|problem| matches!(problem.error, ApiError::Decode(_)));
    let first = problems.into_iter().next()?.error;
    Some(match (first.reasons().len() == all.len(), are_unreadable) {
        (true, _) => first,
        (false, true) => ApiError::Decode(all),
        (false, false) => ApiError::Bad(all),
    })
}

/// Each of the problems once, by the workflow.
fn told(problems: &[Problem<'_>]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for Problem { name, workflow, error } in problems {
        for reason in error.reasons() {
            // The names of further destinations are weir's own.
            let reason = reason.replace(&format!("'{name}'"), &format!("'{workflow}'"));
            let told = format!("The output '{workflow}': {reason}");
            if !all.contains(&told) {
                all.push(told);
            }
        }
    }
    all
}

/// The plan of a text that names no mode.
pub fn compiled_text(graph: &Graph, text: &str) -> Result<StandingPlan, ApiError> {
    let (query, mode) = (text.to_owned(), Mode::DistinctId);
    compiled(graph, &mut PatternSettings { query, mode, mode_given: false, columns: Vec::new() })
}

/// The plan in the mode that was asked for. Where none was, and the usual one takes no such text, any query that reads is taken.
pub(super) fn compiled(graph: &Graph, pattern: &mut PatternSettings) -> Result<StandingPlan, ApiError> {
    let options = Options { ids: graph.ids(), ..Options::default() };
    let compile = |mode: Mode| compile_standing(&pattern.query, mode.of_compiler(), &options);
    let mut standing = match compile(pattern.mode) {
        Err(_) if !pattern.mode_given => {
            let standing = compile(Mode::AnyQuery)?;
            pattern.mode = Mode::AnyQuery;
            standing
        }
        compiled => compiled?,
    };
    if let Some(columns) = in_order(&standing.plan.columns, &pattern.columns) {
        standing.plan.columns = columns;
    }
    Ok(standing)
}

/// Columns in the order of these names. None where they are not the same.
pub(super) fn in_order<T: Clone>(columns: &[(Text, T)], names: &[Text]) -> Option<Vec<(Text, T)>> {
    if columns.len() != names.len() {
        return None;
    }
    names.iter().map(|name| columns.iter().find(|(other, _)| other == name).cloned()).collect()
}
