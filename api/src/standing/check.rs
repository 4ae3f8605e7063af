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

    /// As `with_the_rest`, for a request to a query, beside all its outputs but those that `name` names, which are to be changed.
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

    /// The outputs with which nothing is wrong, and what is wrong with the others.
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
        if name.is_empty() {
            return Err(ApiError::bad("The name of a standing query output has at least one character"));
        }
        if name.contains('\0') {
            return Err(ApiError::bad("The name of a standing query output cannot contain a zero byte".to_owned()));
        }
        let earlier = || new[..index].iter().find(|(other, _)| other == name).map(|(_, earlier)| earlier);
        if let Some(other) = holder(there, name).or_else(earlier) {
            return Err(taken(name, [other, output]));
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

/// Whether the names of outputs that were looked at are free still, beside those that are there by now: what is looked up for
/// them may take seconds, in which others come.
pub(super) fn check_free(there: &[(String, Output)], new: &[(String, Output)]) -> Result<(), ApiError> {
    let mut problems = Vec::new();
    for (name, output) in new {
        if let Some(other) = holder(there, name)
            && !goes_on(&mut problems, (name.clone(), output), taken(name, [other, output]))?
        {
            break;
        }
    }
    together(problems).map_or(Ok(()), Err)
}

/// The output that has a name.
fn holder<'a>(there: &'a [(String, Output)], name: &str) -> Option<&'a Output> {
    let has = |(other, known): &&(String, Output)| other == name || known.workflow() == Some(name);
    there.iter().find(has).map(|(_, holder)| holder)
}

/// Of two outputs that one name stands for. What the further destinations of a workflow are called is weir's own choice, so it is
/// told where that is the reason. It is no free name instead: changed, they go on where the one of the same number stood.
fn taken(name: &str, both: [&Output; 2]) -> ApiError {
    let as_part = |output: &Output| {
        let of = output.workflow()?;
        let number = name.strip_prefix(of)?.strip_prefix('#')?;
        Some(format!(
            "There is already a standing query output named `{name}`, as destination {number} of '{of}' is called; choose another name for one of the two"
        ))
    };
    let told = both.into_iter().find_map(as_part);
    ApiError::bad(told.unwrap_or_else(|| format!("There is already a standing query output named '{name}'")))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use crossbeam_channel::{Receiver, Sender, bounded};
    use serde_json::{Value as Json, json};
    use weir_connectors::{ConnectorError, Destination, DestinationConfig, DestinationContext, FilePolicy, Retries};
    use weir_model::Position;

    use super::*;
    use crate::standing::tests::queries;
    use crate::wire::letters::Refusals;
    use crate::wire::standing::{DestinationOutput, StandingSettings};

    /// Something is looked up for it, until it is told that the rest has been done.
    struct Slow {
        asked: Sender<()>,
        goes_on: Receiver<()>,
    }

    impl DestinationConfig for Slow {
        fn settings(&self) -> Json {
            json!({"type": "Slow"})
        }

        fn try_out(&self, _: &FilePolicy) -> Result<(), ConnectorError> {
            let is_told = self.asked.send(()).is_ok() && self.goes_on.recv_timeout(Duration::from_secs(20)).is_ok();
            is_told.then_some(()).ok_or_else(|| ConnectorError::config("type", "nothing else was done meanwhile"))
        }

        fn open(&self, _: &DestinationContext, _: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
            Err(ConnectorError::config("type", "is not opened"))
        }
    }

    #[test]
    fn nobody_waits_for_what_is_looked_up_for_an_output_and_what_comes_meanwhile_counts() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let _entered = threads.enter();
        let (engine, queries) = queries();
        let graph = engine.default_graph();
        let drops = json!({"type": "Drop"});
        let pattern = json!({"type": "Cypher", "query": "MATCH (n) RETURN DISTINCT id(n)"});
        let settings = StandingSettings::decode(&json!({"pattern": pattern, "outputs": {"there": drops}})).expect("settings");
        let (query, _) = queries.create(&graph, "q", settings, false).expect("it is created");

        let (asked, is_asked) = bounded(1);
        let (go_on, goes_on) = bounded(1);
        let slow: Arc<dyn DestinationConfig> = Arc::new(Slow { asked, goes_on });
        let named = |name: &str| {
            let output = DestinationOutput { config: slow.clone(), refusals: Refusals::GiveUp, retries: Retries::default() };
            vec![(name.to_owned(), Output::Destination(output))]
        };
        let meanwhile = |then: &dyn Fn()| {
            is_asked.recv_timeout(Duration::from_secs(60)).expect("it is looked at");
            then();
            go_on.send(()).expect("it is waited for");
        };
        let added = std::thread::scope(|scope| {
            let adding = scope.spawn(|| queries.add_outputs(&query, named("new")));
            meanwhile(&|| {
                let quick = Output::decode(&drops).expect("an output");
                queries.add_outputs(&query, vec![("new".to_owned(), quick)]).expect("the name is free");
            });
            adding.join().expect("it ends")
        });
        let refusal = added.expect_err("the name is taken").to_string();
        assert!(refusal.contains("There is already a standing query output named 'new'"), "{refusal}");

        let changed = std::thread::scope(|scope| {
            let changing = scope.spawn(|| queries.change_output(&query, "there", named("there")));
            meanwhile(&|| assert_eq!(queries.remove_output(&query, "there").expect("it is removed").len(), 1));
            changing.join().expect("it ends")
        });
        assert!(!changed.expect("it is looked for once more"), "what was to be changed is gone");
    }
}
