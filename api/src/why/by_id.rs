//! By id: the row whose id is asked for is found first. Its values then narrow what is worked out to tell of it.

use std::cell::RefCell;

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_engine::Row;
use weir_engine::view::View;
use weir_engine::why::{Sought, Staged};
use weir_model::plan::Slot;
use weir_model::{Map, NodeId, Tick, Value};

use super::staged::failed;
use super::{Question, SHOWN_MAX, when};
use crate::error::ApiError;

/// What an id says.
pub enum ById {
    /// The result has these values, if it is there.
    Is(JsonMap<String, Json>),
    /// No row of the answer has it, or there was no time to look at all of them; some that have others.
    NoRow { at: Tick, gave_up: bool, others: Vec<Json> },
    /// Nothing that narrows: no id is asked for, or no column shows a node of each pattern.
    Nothing,
}

impl Question<'_> {
    pub fn by_id(&self, at: Option<Tick>) -> Result<ById, ApiError> {
        let (Some(id), None) = (self.asked.result_id, &self.asked.data) else { return Ok(ById::Nothing) };
        let staged = Staged::new(self.graph, &self.standing.plan)?;
        let Some(column) = staged.pivot() else { return Ok(ById::Nothing) };
        let (moment, at) = self.graph.moment(at)?;
        let others = RefCell::new(Vec::new());
        let sought = self.by_node(&staged, column, id, moment.view(), at).unwrap_or_else(|| {
            let is_meant = |row: &Row| {
                let values = self.columns(row);
                let is_it = self.result_id(&values) == id;
                let mut others = others.borrow_mut();
                if !is_it && others.len() < SHOWN_MAX {
                    others.push(self.json(&values));
                }
                is_it
            };
            let Sought { found, gave_up } = self.graph.seek_row(&staged, column, moment.view(), at, &is_meant);
            Sought { found: found.map(|row| self.columns(&row)), gave_up }
        });
        failed(&moment)?;
        Ok(match sought.found.map(|values| self.json(&values)) {
            Some(Json::Object(data)) => ById::Is(data),
            _ => ById::NoRow { at, gave_up: sought.gave_up, others: others.into_inner() },
        })
    }

    /// Where the id of a node is the whole row, and so that of the result follows from it: also of a result that is not there.
    fn by_node(&self, staged: &Staged<'_>, column: Slot, id: NodeId, view: &dyn View, at: Tick) -> Option<Sought<Map>> {
        let [(name, _)] = self.standing.plan.columns.as_slice() else { return None };
        let row = |value| Map::from_iter([(name.clone(), value)]);
        let is_meant = |value: &Value| self.result_id(&row(value.clone())) == id;
        let Sought { found, gave_up } = self.graph.seek_node(staged, column, view, at, &is_meant)?;
        Some(Sought { found: found.map(row), gave_up })
    }

    pub fn no_row(&self, at: Tick, is_staged: bool, gave_up: bool, others: Vec<Json>) -> Json {
        let mut answer = json!({"moment": when(at), "matches": [], "more": false, "staged": is_staged, "gaveUp": gave_up});
        answer["whyNot"] = match gave_up {
            true => json!([]),
            false => json!([{"fails": "no row of the answer has this id", "values": {}}]),
        };
        answer["otherResults"] = others.into();
        answer
    }
}
