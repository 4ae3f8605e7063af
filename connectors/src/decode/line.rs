//! The line itself, as text. What is not UTF-8 becomes U+FFFD: a log with one bad byte is still worth reading.

use weir_model::{Text, Value};

use super::Decoder;
use crate::frames::Frame;

pub struct LineDecoder;

impl Decoder for LineDecoder {
    fn record(&self, frame: Frame<'_>) -> Result<Value, String> {
        Ok(Value::Text(Text::from_utf8_lossy(frame.bytes)))
    }
}
