//! Limits of nodes in memory, by shard. The reference service puts nodes to sleep by them; here they are kept and told, and
//! nothing follows from them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_model::lock::lock;

use super::reply::Reply;
use super::request::Request;
use crate::app::App;
use crate::error::ApiError;
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::Family;

/// The limits of shards as they were set last, until weir stops.
#[derive(Default)]
pub struct ShardLimits {
    set: Mutex<BTreeMap<u64, (i64, i64)>>,
}

impl ShardLimits {
    /// The limits of every shard that has some.
    fn all(&self, app: &App) -> BTreeMap<u64, (i64, i64)> {
        let configured = |key: &str| app.settings.effective[key].as_i64();
        let count = configured("shard-count").unwrap_or_default().clamp(0, 4096) as u64;
        let usual = configured("in-memory-soft-node-limit").zip(configured("in-memory-hard-node-limit"));
        let set = lock(&self.set);
        (0..count).filter_map(|shard| Some((shard, set.get(&shard).copied().or(usual)?))).collect()
    }
}

pub async fn get(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    request.check_member()?;
    shown(&app)
}

fn shown(app: &App) -> Result<Reply, ApiError> {
    let all = app.shard_limits.all(app);
    let shown = all.iter().map(|(shard, (soft, hard))| (shard.to_string(), json!({"softLimit": soft, "hardLimit": hard})));
    Ok(Reply::Value(Json::Object(shown.collect::<JsonMap<_, _>>())))
}

/// Shards that are not named keep their limits.
pub async fn set(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let wanted = decode(&request.data()?).map_err(ApiError::Decode)?;
    let count = app.settings.effective["shard-count"].as_u64().unwrap_or_default();
    let unknown: Vec<String> = wanted.keys().filter(|shard| **shard >= count).map(u64::to_string).collect();
    if !unknown.is_empty() {
        let reason = format!("The following shards do not exist: {}", unknown.join(", "));
        return Err(if request.family == Family::V1 { ApiError::Failed(reason) } else { ApiError::bad(reason) });
    }
    lock(&app.shard_limits.set).extend(wanted);
    shown(&app)
}

fn decode(body: &Json) -> Result<BTreeMap<u64, (i64, i64)>, Vec<String>> {
    let mut mistakes = Mistakes::default();
    let mut limits = BTreeMap::new();
    if let Some(shards) = Fields::of(body, "", &mut mistakes) {
        for (key, value) in shards.entries() {
            let Ok(shard) = key.parse() else {
                mistakes.at("", format!("For input string: \"{key}\""));
                continue;
            };
            let Some(fields) = Fields::of(value, &format!(".{key}"), &mut mistakes) else { continue };
            let mut limit = |name| {
                fields.required(name, &mut mistakes)?;
                fields.int(name, &mut mistakes)
            };
            if let (Some(soft), Some(hard)) = (limit("softLimit"), limit("hardLimit")) {
                limits.insert(shard, (soft, hard));
            }
        }
    }
    mistakes.or(Some(limits))
}
