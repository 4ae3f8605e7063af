//! By id: the row whose id is asked for is found first. Its values then narrow what is worked out to tell of it.

use std::cell::RefCell;
use std::ops::ControlFlow;

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_engine::Row;
use weir_engine::view::View;
use weir_engine::why::{Origin, Patience, Sought, Staged, deadline};
use weir_model::plan::Slot;
use weir_model::{Map, NodeId, Tick, Value};

use super::staged::failed;
use super::{Others, Question, when};
use crate::error::ApiError;

/// Most who ask so hold the id of a result that was cancelled.
const NO_ROW: &str = "no row of the answer has this id; it may have been there earlier: ask as of then, with at-time";

/// What an id says.
pub enum ById {
    /// The result has these values, if it is there.
    Is(JsonMap<String, Json>),
    /// No row of the answer has it, or there was no time to look at all of them; some that have others.
    NoRow { at: Tick, gave_up: bool, others: Others },
    /// Nothing that narrows: no id is asked for, nothing matches, or the whole answer has to be worked out to find it.
    Nothing,
}

impl Question<'_> {
    pub fn by_id(&self, origins: &[Origin<'_>], at: Option<Tick>) -> Result<ById, ApiError> {
        let (Some(id), None) = (self.asked.result_id, &self.asked.data) else { return Ok(ById::Nothing) };
        let staged = Staged::new(self.graph, &self.standing.plan)?;
        let pivot = staged.pivot();
        let whole = match origins {
            [origin] if origin.whole => Some(origin),
            _ => None,
        };
        if let Some(column) = pivot {
            let (moment, at) = self.graph.moment(at)?;
            let by_node = self.by_node(&staged, column, id, moment.view(), at);
            let found = match (by_node, whole) {
                (Some(sought), _) => Some((sought, Others::default())),
                (None, Some(_)) => None,
                (None, None) => Some(self.by_row(&staged, column, id, moment.view(), at)),
            };
            failed(&moment)?;
            if let Some((sought, others)) = found {
                return Ok(self.said(sought, at, others));
            }
        }
        match whole {
            // Where nodes are given that narrow it as well, what they leave is looked through as it is told.
            Some(origin) if pivot.is_some() || self.asked.nodes.is_empty() => self.by_match(origin, id, at),
            _ => Ok(ById::Nothing),
        }
    }

    fn said(&self, sought: Sought<Map>, at: Tick, others: Others) -> ById {
        match sought.found.map(|values| self.json(&values)) {
            Some(Json::Object(data)) => ById::Is(data),
            _ => ById::NoRow { at, gave_up: sought.gave_up, others },
        }
    }

    /// Among the rows of the answer, which fall apart into those of the nodes that a column shows; and some that have other ids.
    fn by_row(&self, staged: &Staged<'_>, column: Slot, id: NodeId, view: &dyn View, at: Tick) -> (Sought<Map>, Others) {
        let others = RefCell::new(Others::default());
        let is_meant = |row: &Row| {
            let values = self.columns(row);
            let is_it = self.result_id(&values) == id;
            if !is_it {
                others.borrow_mut().add(|| values);
            }
            is_it
        };
        let Sought { found, gave_up } = self.graph.seek_row(staged, column, view, at, &is_meant);
        (Sought { found: found.map(|row| self.columns(&row)), gave_up }, others.into_inner())
    }

    /// Where each match of the pattern is a row: no stage has to be worked out, and nothing behind the first that has the id.
    fn by_match(&self, origin: &Origin<'_>, id: NodeId, at: Option<Tick>) -> Result<ById, ApiError> {
        let (mut found, mut others) = (None, Others::default());
        let looked = self.graph.why(origin, &[], &[], (Patience::Time, deadline()), at, &mut |made| {
            let values = self.values(origin, made);
            if self.result_id(&values) == id {
                found = Some(values);
                return ControlFlow::Break(());
            }
            others.add(|| values);
            ControlFlow::Continue(())
        })?;
        // Where nothing matches at all, it is told how far the pattern gets.
        if found.is_none() && others.came == 0 && !looked.gave_up {
            return Ok(ById::Nothing);
        }
        let gave_up = found.is_none() && looked.gave_up;
        Ok(self.said(Sought { found, gave_up }, looked.at, others))
    }

    /// Where the id of a node is the whole row, and so that of the result follows from it: also of a result that is not there.
    fn by_node(&self, staged: &Staged<'_>, column: Slot, id: NodeId, view: &dyn View, at: Tick) -> Option<Sought<Map>> {
        let [(name, _)] = self.standing.plan.columns.as_slice() else { return None };
        let row = |value| Map::from_iter([(name.clone(), value)]);
        let is_meant = |value: &Value| self.result_id(&row(value.clone())) == id;
        let Sought { found, gave_up } = self.graph.seek_node(staged, column, view, at, &is_meant)?;
        Some(Sought { found: found.map(row), gave_up })
    }

    pub fn no_row(&self, at: Tick, is_staged: bool, gave_up: bool, others: &Others) -> Json {
        let mut answer = json!({"moment": when(at), "matches": [], "more": false, "staged": is_staged, "gaveUp": gave_up});
        answer["whyNot"] = match gave_up {
            true => json!([]),
            false => json!([{"fails": NO_ROW, "values": {}}]),
        };
        answer["otherResults"] = self.shown(others);
        answer
    }
}
