//! What crosses the rim: a Record comes in with its Position, a Match goes out.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::tick::Tick;
use crate::value::{Map, Value};

/// One decoded unit of a source: what the ingest query sees as `$that`.
#[derive(Clone, Debug)]
pub struct Record {
    pub value: Value,
}

/// Where a source stands. Opaque to everyone but that source; stored in the same write as the effects of the records
/// before it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Position(pub Vec<u8>);

/// One result of a standing query.
#[derive(Clone, Debug)]
pub struct Match {
    /// False for a cancellation: a row reported before no longer matches.
    pub positive: bool,
    /// The tick whose change made or broke the match.
    pub tick: Tick,
    pub data: Arc<Map>,
}

impl Match {
    /// `{"meta": {"isPositiveMatch": …}, "data": {…}}` as a value: what outputs see as `$that`.
    pub fn to_value(&self) -> Value {
        let meta = Value::map([("isPositiveMatch".into(), Value::Boolean(self.positive))]);
        Value::map([("meta".into(), meta), ("data".into(), Value::Map(self.data.clone()))])
    }
}
