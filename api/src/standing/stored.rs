//! A standing query as it is stored, and brought back after a restart.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use weir_engine::Graph;
use weir_model::lock::lock;
use weir_model::{IdScheme, QueryId, Text};

use super::check::compiled;
use super::{Begin, Query, StandingQueries};
use crate::error::ApiError;
use crate::wire::standing::StandingSettings;

/// What is stored of a query.
pub(super) struct Definition<'a> {
    pub name: &'a str,
    pub id: QueryId,
    /// As the engine has it: another one when the query has been replaced.
    pub installation: QueryId,
    pub settings: &'a StandingSettings,
    /// How often the definition of an output was replaced, where it was.
    pub changes: &'a BTreeMap<String, u64>,
}

impl StandingQueries {
    /// Brings back the queries that were there. To be called before the engine replays its log, so that results that were
    /// not delivered before the restart are found.
    pub fn restore(&self) -> Result<(), ApiError> {
        for graph in self.engine.graphs().iter().filter_map(|name| self.engine.graph(name)) {
            let mut are_all_there = true;
            for (key, stored) in self.engine.metadata_list(&key(&graph, ""))? {
                if let Err(error) = self.revive(&graph, &key, &stored) {
                    tracing::error!("the standing query stored as '{key}' cannot be restored: {error}");
                    are_all_there = false;
                }
            }
            // What one that is not restored has delivered is to be known to a weir that can restore it.
            if are_all_there {
                graph.forget_delivery_to_nobody();
            }
        }
        Ok(())
    }

    fn revive(&self, graph: &Graph, key: &str, stored: &[u8]) -> Result<(), ApiError> {
        let stored: Json = serde_json::from_slice(stored).map_err(|error| ApiError::Failed(error.to_string()))?;
        if stored["state"] != "installed" {
            self.engine.set_metadata(key, None)?;
            return Ok(());
        }
        let name = stored["name"].as_str().unwrap_or_default();
        let id = stored["id"].as_str().and_then(|text| IdScheme::Uuid.parse(text));
        let id = QueryId(id.ok_or_else(|| ApiError::Failed("it has no id".to_owned()))?);
        let mut settings = StandingSettings::decode(&stored["settings"]).map_err(ApiError::Decode)?;
        let columns = stored["columns"].as_array().into_iter().flatten();
        settings.pattern.columns = columns.filter_map(Json::as_str).map(Text::new).collect();
        let plan = compiled(graph, &mut settings.pattern)?.plan;
        let changes = stored["changes"].as_object().into_iter().flatten();
        let changes: BTreeMap<_, _> = changes.filter_map(|(output, count)| Some((output.clone(), count.as_u64()?))).collect();
        let installation = match stored["installation"].as_str() {
            None => id,
            Some(text) => {
                let other = IdScheme::Uuid.parse(text);
                QueryId(other.ok_or_else(|| ApiError::Failed("its installation has no id".to_owned()))?)
            }
        };
        let definition = Definition { name, id, installation, settings: &settings, changes: &changes };
        self.install(graph, &definition, plan, Begin::Again)?;
        Ok(())
    }

    pub(super) fn store_installed(&self, query: &Query, settings: &StandingSettings) -> Result<(), ApiError> {
        self.store_as(query, query.installed().id(), settings)
    }

    /// The query with another installation, or other settings.
    pub(super) fn store_as(&self, query: &Query, installation: QueryId, settings: &StandingSettings) -> Result<(), ApiError> {
        let changes = lock(&query.changes);
        let definition = Definition { name: &query.name, id: query.id, installation, settings, changes: &changes };
        self.store(&query.graph, &definition, "installed")
    }

    pub(super) fn store(&self, graph: &Graph, definition: &Definition<'_>, state: &str) -> Result<(), ApiError> {
        let &Definition { name, id, installation, settings, changes } = definition;
        let mut stored = json!({"name": name, "id": id.0.to_string(), "state": state, "settings": settings.to_stored_json()});
        if installation != id {
            stored["installation"] = installation.0.to_string().into();
        }
        if !changes.is_empty() {
            stored["changes"] = json!(changes);
        }
        if !settings.pattern.columns.is_empty() {
            stored["columns"] = settings.pattern.columns.iter().map(|name| name.as_str()).collect();
        }
        Ok(self.engine.set_metadata(&key(graph, name), Some(stored.to_string().as_bytes()))?)
    }
}

/// Where a definition is stored: with its graph, so that it goes when the graph does.
pub(super) fn key(graph: &Graph, name: &str) -> String {
    format!("{}standing/{name}", graph.id().metadata_prefix())
}
