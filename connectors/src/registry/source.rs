//! Records whose schemas a registry has: before a batch is handed on, each schema that it names is there.
//!
//!     source ─ batch ─> numbers of schemas ─ those not known: asked for, the batch held back ─> batch with its decoders
//!
//! While the registry cannot be reached the stream waits, as it does for its source. A schema that the registry does not have
//! makes the records fail that name it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use weir_model::protobuf::{Declared, MessageType, Wanted};
use weir_model::{Position, Text, Value};

use super::{Failed, MAGIC, Registration, Registry};
use crate::avro::AvroDecoder;
use crate::bell::Call;
use crate::decode::Decoder;
use crate::error::ConnectorError;
use crate::feed::Trouble;
use crate::frames::{Frame, Frames, Limits, Progress};
use crate::source::Source;

/// Schemas kept at once, unless a single batch names more.
const KEPT_MAX: usize = 1000;

/// A schema that was not there is taken for absent this long.
const ABSENT_TIME_MAX: Duration = Duration::from_secs(30);

/// The pause between two questions when one has failed, at first.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The pause between two questions when one has failed, at most.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Messages in a message that the header of a record goes down.
const PLACES_MAX: usize = 16;

/// What the schemas are expected to be, and how records are read by them.
#[derive(Clone)]
pub enum Kind {
    Avro {
        logical: bool,
    },
    /// The keys that anybody looks at; all without them.
    Protobuf {
        wanted: Option<Arc<[Text]>>,
    },
}

/// A schema that is there, or why it is not.
#[derive(Clone)]
enum Known {
    Avro(Arc<AvroDecoder>),
    Protobuf(Arc<Declared>, Option<Arc<[Text]>>),
    Unusable(String, Instant),
}

type Schemas = HashMap<u32, Known>;

/// A source around another one.
pub struct Registered {
    inner: Box<dyn Source>,
    kind: Kind,
    registry: Registry,
    runtime: Handle,
    schemas: Arc<Schemas>,
    /// Read then, and not handed on.
    held: Option<(Frames, Progress, Instant)>,
    /// An answer that is on its way.
    asking: Option<(u32, JoinHandle<Result<Registration, Failed>>)>,
    trouble: Trouble,
    again: Instant,
    pause: Duration,
}

impl Registered {
    pub fn new(inner: Box<dyn Source>, kind: Kind, registry: Registry, runtime: &Handle) -> Registered {
        let trouble = Trouble::new(&registry.place);
        Registered {
            inner,
            kind,
            registry,
            runtime: runtime.clone(),
            schemas: Arc::default(),
            held: None,
            asking: None,
            trouble,
            again: Instant::now(),
            pause: PAUSE_MIN,
        }
    }

    /// The schemas that a batch names and that are not known yet, or were not any more when it was read. Of very many that are
    /// absent the first are not to be asked for again before the last were.
    fn missing(&self, batch: &Frames, read_at: Instant) -> BTreeSet<u32> {
        let mut last = None;
        let mut missing = BTreeSet::new();
        for index in 0..batch.len() {
            let Ok((id, _)) = header(batch.get(index).bytes) else { continue };
            if last.replace(id) == Some(id) {
                continue;
            }
            let is_known = match self.schemas.get(&id) {
                Some(Known::Unusable(_, since)) => read_at.saturating_duration_since(*since) <= ABSENT_TIME_MAX,
                known => known.is_some(),
            };
            if !is_known {
                missing.insert(id);
            }
        }
        missing
    }

    /// Asks for a schema; false when the time is over before it is there.
    fn learn(&mut self, id: u32, batch: &Frames, deadline: Instant) -> bool {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        if Instant::now() < self.again {
            std::thread::sleep(left(self.again.min(deadline)));
            if Instant::now() < self.again {
                return false;
            }
        }
        let (runtime, registry) = (self.runtime.clone(), self.registry.clone());
        let (id, mut asking) =
            self.asking.take().unwrap_or_else(|| (id, runtime.spawn(async move { registry.schema(id).await })));
        let answer = runtime.block_on(async { tokio::time::timeout(left(deadline), &mut asking).await });
        let known = match answer {
            Err(_) => {
                self.asking = Some((id, asking));
                return false;
            }
            Ok(Ok(Ok(found))) => self.kind.known(found),
            Ok(Ok(Err(Failed::Absent(reason)))) => Known::Unusable(reason, Instant::now()),
            Ok(Ok(Err(Failed::Passing(reason)))) => return self.wait(&reason),
            Ok(Err(error)) => return self.wait(&error.to_string()),
        };
        self.trouble.clear();
        self.pause = PAUSE_MIN;
        let schemas = Arc::make_mut(&mut self.schemas);
        if schemas.len() >= KEPT_MAX {
            let named: BTreeSet<u32> =
                (0..batch.len()).filter_map(|index| Some(header(batch.get(index).bytes).ok()?.0)).collect();
            schemas.retain(|id, _| named.contains(id));
        }
        schemas.insert(id, known);
        true
    }

    fn wait(&mut self, reason: &str) -> bool {
        self.trouble.note(reason);
        self.again = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        false
    }
}

impl Kind {
    /// Reads records that name one of these schemas, without a registry.
    pub fn decoder(&self, found: impl IntoIterator<Item = Registration>) -> Arc<dyn Decoder> {
        let schemas = found.into_iter().map(|found| (found.id, self.known(found))).collect();
        Arc::new(ByNumber { schemas: Arc::new(schemas) })
    }

    fn known(&self, found: Registration) -> Known {
        let Registration { id, kind, text, references } = found;
        let unusable = |problem: String| Known::Unusable(format!("schema {id}: {problem}"), Instant::now());
        match self {
            Kind::Avro { .. } if kind != "AVRO" => unusable(format!("is of {kind}, and the format of the stream is Avro")),
            Kind::Protobuf { .. } if kind != "PROTOBUF" => {
                unusable(format!("is of {kind}, and the format of the stream is Protobuf"))
            }
            Kind::Avro { logical } => {
                let others: Vec<&str> = references.iter().map(|(_, text)| text.as_str()).collect();
                AvroDecoder::with(&text, &others, *logical).map_or_else(unusable, |decoder| Known::Avro(Arc::new(decoder)))
            }
            Kind::Protobuf { wanted } => {
                let declared = Declared::read(&text, &references);
                declared.map_or_else(
                    |error| unusable(error.to_string()),
                    |declared| Known::Protobuf(Arc::new(declared), wanted.clone()),
                )
            }
        }
    }
}

impl Source for Registered {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        let deadline = Instant::now() + limits.wait_max;
        let (mut held, progress, read_at) = match self.held.take() {
            Some(held) => held,
            None => {
                let progress = self.inner.next(limits, batch)?;
                (std::mem::take(batch), progress, Instant::now())
            }
        };
        for id in self.missing(&held, read_at) {
            if !self.learn(id, &held, deadline) {
                self.held = Some((held, progress, read_at));
                // It may be a while until the registry answers.
                self.inner.hold();
                return Ok(Progress::More);
            }
        }
        held.decoder = Some(Arc::new(ByNumber { schemas: self.schemas.clone() }));
        *batch = held;
        Ok(progress)
    }

    fn durable(&mut self, position: &Position) -> Result<(), ConnectorError> {
        self.inner.durable(position)
    }

    fn rest(&mut self, call: Call) -> bool {
        self.held.is_none() && self.asking.is_none() && self.inner.rest(call)
    }

    fn hold(&mut self) -> Option<Duration> {
        self.inner.hold()
    }

    fn lag(&mut self) -> Option<u64> {
        self.inner.lag()
    }

    fn notice(&self) -> Option<String> {
        self.inner.notice()
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.get().or_else(|| self.inner.trouble())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some((_, asking)) = self.asking.take() {
            asking.abort();
        }
    }
}

/// The number of the schema, and what is behind it.
fn header(bytes: &[u8]) -> Result<(u32, &[u8]), String> {
    let written = "was it written by a serializer that uses the registry? Without one the format takes `schemaUrl`";
    match bytes.split_first_chunk::<5>() {
        Some(([MAGIC, id @ ..], datum)) => Ok((u32::from_be_bytes(*id), datum)),
        Some(([first, ..], _)) => {
            Err(format!("the record begins with {first} instead of 0 and the number of a schema; {written}"))
        }
        None => Err(format!("the record is too short for the number of a schema; {written}")),
    }
}

/// Reads each record by the schema that it names.
struct ByNumber {
    schemas: Arc<Schemas>,
}

impl Decoder for ByNumber {
    fn record(&self, frame: Frame<'_>) -> Result<Value, String> {
        let (id, datum) = header(frame.bytes)?;
        match self.schemas.get(&id) {
            Some(Known::Avro(decoder)) => decoder.record(Frame { bytes: datum, ..frame }),
            Some(Known::Protobuf(declared, wanted)) => {
                let (places, bytes) = places(datum)?;
                let message: MessageType = declared.at(&places).map_err(|error| error.to_string())?;
                let wanted = match wanted {
                    None => Wanted::All,
                    Some(keys) => message.wanted(keys.iter().map(Text::as_str)),
                };
                let wrong = |error| format!("the record is not {}: {error}", message.full_name());
                Ok(Value::Map(Arc::new(message.decode(bytes, &wanted).map_err(wrong)?)))
            }
            Some(Known::Unusable(reason, _)) => Err(reason.clone()),
            None => Err(format!("schema {id} is not there")),
        }
    }
}

/// Which message of the schema it is: how many numbers follow, and these. A single 0 is the first message.
fn places(bytes: &[u8]) -> Result<(Vec<usize>, &[u8]), String> {
    let mut rest = bytes;
    let mut number = || {
        let mut number = 0u64;
        for shift in (0..63).step_by(7) {
            let (byte, after) = rest.split_first().ok_or("the record ends before its message is named")?;
            rest = after;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                let plain = (number >> 1) as i64 ^ -((number & 1) as i64);
                return usize::try_from(plain).map_err(|_| format!("the record names a message by {plain}"));
            }
        }
        Err("the record names a message by a number of too many bytes".to_owned())
    };
    let count = number()?;
    if count > PLACES_MAX {
        return Err(format!("the record names a message that lies within {count} others"));
    }
    let places = if count == 0 { vec![0] } else { (0..count).map(|_| number()).collect::<Result<_, _>>()? };
    Ok((places, rest))
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
