//! The bytes of the message, as they are.

use weir_model::Value;

use super::Decoder;
use crate::frames::Frame;

pub struct RawDecoder;

impl Decoder for RawDecoder {
    fn record(&self, frame: Frame<'_>) -> Result<Value, String> {
        Ok(Value::Bytes(frame.bytes.into()))
    }
}
