//! Protobuf: one message a frame.

use std::sync::Arc;

use weir_model::Value;
use weir_model::protobuf::{MessageType, Wanted};

use super::Decoder;
use crate::frames::Frame;

pub struct ProtobufDecoder {
    pub message: MessageType,
    pub wanted: Wanted,
}

impl Decoder for ProtobufDecoder {
    fn record(&self, frame: Frame<'_>) -> Result<Value, String> {
        let map = self.message.decode(frame.bytes, &self.wanted);
        let wrong = |error| format!("the record is not {}: {error}", self.message.full_name());
        Ok(Value::Map(Arc::new(map.map_err(wrong)?)))
    }
}
