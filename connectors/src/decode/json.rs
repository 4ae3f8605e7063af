//! One JSON document a frame.

use weir_model::{Value, json};

use super::Decoder;
use crate::frames::Frame;

pub struct JsonDecoder;

impl Decoder for JsonDecoder {
    fn record(&self, frame: Frame<'_>) -> Result<Value, String> {
        json::parse(frame.bytes).map_err(|error| format!("the record is not JSON: {error}"))
    }
}
