//! Nowhere: results are counted and forgotten.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Position;

use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::error::ConnectorError;

/// Discards results. They count as delivered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Drop {}

impl DestinationConfig for Drop {
    fn settings(&self) -> serde_json::Value {
        crate::settings("Drop", self)
    }

    fn open(&self, _context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        Ok(Box::new(Nowhere))
    }
}

struct Nowhere;

impl Destination for Nowhere {
    fn write(&mut self, _results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        Ok(Written::default())
    }
}
