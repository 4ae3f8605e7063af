//! A standing query as it is stored, and brought back after a restart.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_connectors::fetch;
use weir_engine::Graph;
use weir_model::lock::lock;
use weir_model::{IdScheme, QueryId, Text};

use super::check::compiled;
use super::{Begin, Query, StandingQueries};
use crate::error::ApiError;
use crate::wire::family::Family;
use crate::wire::standing::StandingSettings;

/// How long a start waits for web servers that have the schemas of outputs, for all of them together; then each has a moment.
/// Where that is not enough an output is parked, and its schema is asked for while everything else goes on.
const SCHEMAS_TIME_MAX: Duration = Duration::from_secs(5);

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
        fetch::all_within(SCHEMAS_TIME_MAX, || self.restore_all())
    }

    fn restore_all(&self) -> Result<(), ApiError> {
        for graph in self.engine.graphs().iter().filter_map(|name| self.engine.graph(name)) {
            let prefix = key(&graph, "");
            for (key, stored) in self.engine.metadata_list(&prefix)? {
                if let Err(error) = self.revive(&graph, &key, &stored) {
                    let (namespace, query) = (graph.name(), key.strip_prefix(&prefix).unwrap_or(&key));
                    tracing::error!(
                        namespace,
                        query,
                        "the standing query stored as '{key}' cannot be restored: {error}. The log is kept from where its \
                         outputs stood, so that a weir that can restore it goes on there; to give that up, delete it"
                    );
                    lock(&self.unrestored).insert(key);
                }
            }
            self.forget_if_all_there(&graph);
        }
        Ok(())
    }

    /// What one that is not restored has delivered is to be known to a weir that can restore it.
    fn forget_if_all_there(&self, graph: &Graph) {
        let prefix = key(graph, "");
        if !lock(&self.unrestored).iter().any(|key| key.starts_with(&prefix)) {
            graph.forget_delivery_to_nobody();
        }
    }

    /// Whether there is one of this name that could not be restored.
    pub(super) fn is_unrestored(&self, graph: &Graph, name: &str) -> bool {
        lock(&self.unrestored).contains(&key(graph, name))
    }

    /// Deletes one that could not be restored. Answers with what is known of it; None where there is none such.
    pub fn delete_unrestored(&self, graph: &Graph, name: &str, family: Family) -> Result<Option<Json>, ApiError> {
        // None becomes one such while weir runs: nobody waits, or has others wait, for one that was never there.
        if !self.is_unrestored(graph, name) {
            return Ok(None);
        }
        // Of all of them: what is forgotten at the end is what nobody is there for, while nobody begins with an output.
        let _all = self.turns.of_all(graph, "deleted")?;
        if !self.is_unrestored(graph, name) {
            return Ok(None);
        }
        let key = key(graph, name);
        let stored = self.engine.metadata(&key)?.unwrap_or_default();
        self.engine.set_metadata(&key, None)?;
        lock(&self.unrestored).remove(&key);
        self.forget_if_all_there(graph);
        let stored: Json = serde_json::from_slice(&stored).unwrap_or_default();
        Ok(Some(json!({
            "name": name,
            "internalId": stored["id"],
            "pattern": stored["settings"]["pattern"],
            "outputs": if family.is_v2() { json!([]) } else { json!({}) },
            "includeCancellations": stored["settings"]["includeCancellations"],
            "inputBufferSize": stored["settings"]["inputBufferSize"],
            "stats": {},
        })))
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
