//! A standing query that begins as of a past moment: what its answer was then, from history.

use std::ops::ControlFlow;

use weir_cypher_compiler::{Options, compile_asked};
use weir_engine::{EngineError, Graph, QueryOptions, Row};
use weir_model::Tick;

use super::StandingQueries;
use crate::error::ApiError;
use crate::wire::standing::{PatternSettings, StandingSettings, StartFrom};

impl StandingQueries {
    /// The rows of the answer at the moment a query begins as of, each as often as it was there. Nothing where it begins
    /// otherwise.
    pub(super) fn answer_then(&self, graph: &Graph, settings: &StandingSettings) -> Result<Vec<(Row, i64)>, ApiError> {
        let StartFrom::Moment(millis) = settings.start else { return Ok(Vec::new()) };
        let PatternSettings { query, mode, .. } = &settings.pattern;
        let plan = compile_asked(query, mode.of_compiler(), &Options { ids: graph.ids(), ..Options::default() })?;
        let at = Some(Tick::end_of_millis(millis));
        let options = QueryOptions { at, now_millis: Some(millis), ..QueryOptions::default() };
        let mut rows = Vec::new();
        graph
            .query(&graph.prepare(plan), &[], options, &mut |row| {
                rows.push((Row::from_slice(row), 1));
                ControlFlow::Continue(())
            })
            .map_err(|error| match error {
                // No tick is so late as some moments are.
                EngineError::NotYet(_) => EngineError::NotYet(millis),
                other => other,
            })?;
        Ok(rows)
    }
}
