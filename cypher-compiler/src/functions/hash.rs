//! Functions that turn values into ids and hashes, exact to the bit: other systems compute the same ids.
//!
//! Each argument is fed to murmur3 (128 bits, x64, seed 0) as a tag for its type and its content; the digests, one after
//! the other, go through the rule of the id scheme.

use md5::Digest;
use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::id::{EdgeKey, IdScheme, NodeId};
use weir_model::order::compare_text;
use weir_model::temporal::{SECONDS_PER_DAY, SECONDS_PER_MONTH};
use weir_model::value::Value;

use super::{id_value, strict, wrong_signature};

const ARGUMENTS_MAX: usize = 16;

pub(super) static FUNCTIONS: &[Function] = &[
    strict("idFrom", 1, ARGUMENTS_MAX, "idFrom(value :: ANY, ...) :: ANY", id_from).about(
        "The id made of values: always the same for the same values. What a query says where a node is to be found.",
        "RETURN idFrom('Person', 'Alice')",
    ),
    strict("locIdFrom", 2, ARGUMENTS_MAX, "locIdFrom(position :: INTEGER, value :: ANY, ...) :: ANY", loc_id_from)
        .about("As idFrom, at a position of the cluster; only where ids have positions.", "RETURN locIdFrom(null, 'a')"),
    strict("getHost", 1, 1, "getHost(node :: ANY) :: INTEGER", |_, _| Ok(Value::Null))
        .about("The position an id has in it; null where ids have none.", "RETURN getHost(idFrom('a'))"),
    strict("quineId", 1, 1, "quineId(id :: STRING) :: ANY", quine_id)
        .about("The id that text stands for; null when it is none.", "RETURN quineId('not an id')"),
    strict("hash", 0, 15, "hash(value :: ANY, ...) :: INTEGER", hash).about(
        "A number made of values: always the same for the same values, and well spread.",
        "RETURN hash('Person', 'Alice')",
    ),
    strict("kafkaHash", 1, 1, "kafkaHash(value :: ANY) :: INTEGER", kafka_hash)
        .about("The number by which Kafka's default partitioner chooses the partition of a key.", "RETURN kafkaHash('foobar')"),
];

fn id_from(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let ids = context.ids();
    let mut digests = [0; 16 * ARGUMENTS_MAX];
    let places = digests.as_chunks_mut::<16>().0;
    for (place, argument) in places.iter_mut().zip(arguments) {
        *place = digest(argument, ids);
    }
    Ok(id_value(ids, id_of_digests(&digests[..16 * arguments.len().min(ARGUMENTS_MAX)], ids)))
}

/// The id a scheme makes of the digests of values.
pub(super) fn id_of_digests(digests: &[u8], ids: IdScheme) -> NodeId {
    match ids {
        IdScheme::Uuid => versioned(&md5::Md5::digest(digests), 3),
        IdScheme::Uuid3 { namespace } => versioned(&md5::Md5::new().chain_update(namespace).chain_update(digests).finalize(), 3),
        IdScheme::Uuid4 => versioned(&sha2::Sha256::digest(digests), 4),
        IdScheme::Uuid5 { namespace } => {
            versioned(&sha1::Sha1::new().chain_update(namespace).chain_update(digests).finalize(), 5)
        }
        IdScheme::Long { consecutive } => {
            let n = i64::from_be_bytes(front(&sha2::Sha256::digest(digests)));
            // Integers beyond 2^53 lose digits in JavaScript clients.
            NodeId::new(0, (if consecutive { n } else { n % (1 << 53) }) as u64)
        }
    }
}

/// The first sixteen bytes as a UUID of that version.
fn versioned(bytes: &[u8], version: u8) -> NodeId {
    let mut id: [u8; 16] = front(bytes);
    id[6] = id[6] & 0x0f | version << 4;
    id[8] = id[8] & 0x3f | 0x80;
    NodeId::from_bytes(id)
}

/// The first bytes of a hash, which is never shorter.
fn front<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

fn loc_id_from(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let Value::Integer(_) = arguments[0] else {
        return Err(wrong_signature("locIdFrom(position :: INTEGER, value :: ANY, ...) :: ANY", arguments));
    };
    let provider = match context.ids() {
        IdScheme::Uuid => "uuid",
        IdScheme::Uuid3 { .. } => "uuid-3",
        IdScheme::Uuid4 => "uuid-4",
        IdScheme::Uuid5 { .. } => "uuid-5",
        IdScheme::Long { .. } => "long",
    };
    let message = format!(
        "Unable to use a non-namespaced ID provider ({provider}) with a namespace-dependent function locIdFrom: ids \
         that carry a position (`quine.id.partitioned = true`) are not supported; use idFrom"
    );
    Err(Failure::new(FailureKind::ConstraintViolation, message))
}

fn quine_id(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Text(text) => Ok(context.ids().parse(text).map_or(Value::Null, |id| id_value(context.ids(), id))),
        _ => Err(wrong_signature("quineId(id :: STRING) :: ANY", arguments)),
    }
}

fn hash(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let mut state = Murmur3::default();
    arguments.iter().for_each(|argument| state.put(&digest(argument, context.ids())));
    Ok(Value::Integer(i64::from_le_bytes(front(&state.finish()))))
}

/// The partition hash of Kafka's own producers.
fn kafka_hash(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let bytes = match &arguments[0] {
        Value::Text(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
        Value::Id(id) => &id.to_bytes(),
        _ => return Err(wrong_signature("kafkaHash(value :: ANY) :: INTEGER", arguments)),
    };
    Ok(Value::Integer(i64::from(murmur2(bytes) & 0x7fff_ffff)))
}

/// The digest of one value.
pub(super) fn digest(value: &Value, ids: IdScheme) -> [u8; 16] {
    let mut state = Murmur3::default();
    feed(value, ids, &mut state);
    state.finish()
}

/// What stands for an edge where a number is asked for. Exact in a float, so that clients whose numbers are floats keep it.
pub(super) fn edge_number(edge: &EdgeKey, ids: IdScheme) -> i64 {
    let mut state = Murmur3::default();
    feed_edge(edge, ids, &mut state);
    state.put(&edge.ordinal.to_le_bytes());
    i64::from_le_bytes(front(&state.finish())) & ((1 << 53) - 1)
}

/// The tags are the hash codes a JVM gives the names of the types.
fn feed(value: &Value, ids: IdScheme, state: &mut Murmur3) {
    let tag = |state: &mut Murmur3, tag: i32| state.put(&tag.to_le_bytes());
    match value {
        Value::Null => tag(state, 2_439_591),
        Value::Boolean(true) => tag(state, 2_615_726),
        Value::Boolean(false) => tag(state, 67_643_651),
        Value::Integer(n) => {
            tag(state, 2_374_300);
            state.put(&n.to_le_bytes());
        }
        Value::Float(x) => {
            tag(state, 2_052_876_273);
            // Arithmetic gives NaNs of several patterns; here there is one.
            let bits = if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
            state.put(&bits.to_le_bytes());
        }
        Value::Text(text) => {
            tag(state, 83_473);
            state.put(text.as_bytes());
        }
        Value::Bytes(bytes) => {
            tag(state, 64_671_819);
            state.put(bytes);
        }
        Value::Id(id) => {
            tag(state, 64_671_819);
            feed_id(*id, ids, state);
        }
        Value::List(items) => {
            tag(state, 2_368_702);
            state.put(&(items.len() as i32).to_le_bytes());
            items.iter().for_each(|item| feed(item, ids, state));
        }
        Value::Map(map) => {
            tag(state, 77_116);
            state.put(&(map.len() as i32).to_le_bytes());
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|x, y| compare_text(&x.0, &y.0));
            for (key, value) in entries {
                state.put(key.as_bytes());
                feed(value, ids, state);
            }
        }
        Value::DateTime(at) => {
            tag(state, 1_857_393_595);
            state.put(&at.nano.to_le_bytes());
            state.put(&at.epoch_second.to_le_bytes());
            let zone = at.zone.as_deref().map_or(at.offset_seconds, java_hash);
            state.put(&zone.to_le_bytes());
        }
        Value::LocalDateTime(at) => {
            tag(state, 1_153_828_870);
            state.put(&at.epoch_day.to_le_bytes());
            state.put(&at.nano_of_day.to_le_bytes());
        }
        Value::Date(date) => {
            tag(state, 2_122_702);
            state.put(&date.epoch_day.to_le_bytes());
        }
        Value::Time(time) => {
            tag(state, 2_606_829);
            state.put(&time.nano_of_day.to_le_bytes());
            state.put(&time.offset_seconds.to_le_bytes());
        }
        Value::LocalTime(time) => {
            tag(state, 798_759_096);
            state.put(&time.nano_of_day.to_le_bytes());
        }
        Value::Duration(duration) => {
            tag(state, -1_927_368_268);
            state.put(&duration.nanos.to_le_bytes());
            let seconds =
                duration.months.wrapping_mul(SECONDS_PER_MONTH).wrapping_add(duration.days.wrapping_mul(SECONDS_PER_DAY));
            state.put(&seconds.wrapping_add(duration.seconds).to_le_bytes());
        }
        Value::Node(id) => feed_node(*id, ids, state),
        Value::FullNode(node) => feed_node(node.id, ids, state),
        Value::Edge(edge) => feed_edge(edge, ids, state),
        Value::FullEdge(edge) => feed_edge(&edge.key, ids, state),
        Value::Path(path) => {
            tag(state, 2_480_197);
            state.put(&(path.steps.len() as i32).to_le_bytes());
            feed_node(path.start, ids, state);
            for (edge, node) in &path.steps {
                feed_edge(edge, ids, state);
                feed_node(*node, ids, state);
            }
        }
    }
}

fn feed_id(id: NodeId, ids: IdScheme, state: &mut Murmur3) {
    match ids {
        IdScheme::Long { .. } => state.put(&id.low.to_be_bytes()),
        _ => state.put(&id.to_bytes()),
    }
}

fn feed_node(id: NodeId, ids: IdScheme, state: &mut Murmur3) {
    state.put(&2_433_570i32.to_le_bytes());
    feed_id(id, ids, state);
}

fn feed_edge(edge: &EdgeKey, ids: IdScheme, state: &mut Murmur3) {
    state.put(&(-97_531_304i32).to_le_bytes());
    feed_id(edge.source, ids, state);
    state.put(edge.kind.as_bytes());
    feed_id(edge.target, ids, state);
}

/// `String.hashCode` of a JVM.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// MurmurHash3, the variant for 64-bit machines with 128 bits of result, fed piece by piece.
#[derive(Default)]
struct Murmur3 {
    h1: u64,
    h2: u64,
    pending: [u8; 16],
    length: usize,
}

impl Murmur3 {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;

    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let filled = self.length % 16;
            let taken = bytes.len().min(16 - filled);
            self.pending[filled..filled + taken].copy_from_slice(&bytes[..taken]);
            self.length += taken;
            bytes = &bytes[taken..];
            if self.length.is_multiple_of(16) {
                self.block();
            }
        }
    }

    fn halves(&self) -> (u64, u64) {
        let n = u128::from_le_bytes(self.pending);
        (n as u64, (n >> 64) as u64)
    }

    fn block(&mut self) {
        let (k1, k2) = self.halves();
        self.h1 ^= Self::mix_first(k1);
        self.h1 = self.h1.rotate_left(27).wrapping_add(self.h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        self.h2 ^= Self::mix_second(k2);
        self.h2 = self.h2.rotate_left(31).wrapping_add(self.h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }

    fn mix_first(k: u64) -> u64 {
        k.wrapping_mul(Self::C1).rotate_left(31).wrapping_mul(Self::C2)
    }

    fn mix_second(k: u64) -> u64 {
        k.wrapping_mul(Self::C2).rotate_left(33).wrapping_mul(Self::C1)
    }

    fn finish(mut self) -> [u8; 16] {
        let rest = self.length % 16;
        if rest > 0 {
            self.pending[rest..].fill(0);
            let (k1, k2) = self.halves();
            self.h1 ^= Self::mix_first(k1);
            self.h2 ^= Self::mix_second(k2);
        }
        let (mut h1, mut h2) = (self.h1 ^ self.length as u64, self.h2 ^ self.length as u64);
        h1 = h1.wrapping_add(h2);
        h2 = h2.wrapping_add(h1);
        h1 = avalanche(h1);
        h2 = avalanche(h2);
        h1 = h1.wrapping_add(h2);
        h2 = h2.wrapping_add(h1);
        (u128::from(h2) << 64 | u128::from(h1)).to_le_bytes()
    }
}

fn avalanche(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ k >> 33
}

/// MurmurHash2, 32 bits, with Kafka's seed.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut h = 0x9747_b28c ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        h = (h ^ u32::from_le_bytes(last)).wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^ h >> 15
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, call_with};
    use super::*;
    use weir_model::value::{Date, DateTime, Duration, Text};

    const ALL: [IdScheme; 6] = [
        IdScheme::Uuid,
        IdScheme::Uuid3 { namespace: [0; 16] },
        IdScheme::Uuid4,
        IdScheme::Uuid5 { namespace: [0; 16] },
        IdScheme::Long { consecutive: true },
        IdScheme::Long { consecutive: false },
    ];

    fn id(ids: IdScheme, arguments: &[Value]) -> String {
        match call_with(ids, "idFrom", arguments) {
            Ok(Value::Id(id)) => ids.text(id),
            Ok(Value::Integer(n)) => n.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_scheme_makes_the_published_ids() {
        let check = |arguments: &[Value], expected: [&str; 6]| {
            for (ids, expected) in ALL.into_iter().zip(expected) {
                assert_eq!(id(ids, arguments), expected, "{arguments:?} under {ids:?}");
            }
        };
        check(
            &[Value::Integer(1)],
            [
                "27dd96d6-75be-30f8-8d97-71b670468f39",
                "e1ef72d0-f629-38e3-8213-e2cf785e4b6e",
                "e00dbebe-68e2-40c5-af9f-f5bdc006fa33",
                "cb1d7a8b-562c-536f-b41a-5585d005008a",
                "-2301974109503688507",
                "-5138299544735547",
            ],
        );
        check(
            &[Value::text("Person"), Value::text("Alice")],
            [
                "3ae89e75-81c7-3e3f-9aea-b95a135fd36b",
                "8b7dc8a6-f458-3611-aea7-b55ad600c791",
                "ea34ee16-fc75-446d-8f6e-b24608fd391e",
                "5a4109fb-5860-5589-bc70-595313111bb7",
                "-1570368587553229715",
                "-3115917228297107",
            ],
        );
    }

    #[test]
    fn every_type_has_its_bytes() {
        let check = |argument: Value, expected: &str| assert_eq!(id(IdScheme::Uuid, &[argument]), expected);
        let list = |items: &[Value]| Value::list(items.to_vec());
        check(Value::Float(1.0), "4cb89d67-138a-39a7-b7cc-8630ce8be20a");
        check(Value::Float(-0.0), "ae50b55d-df3e-3639-b35f-4043e0b4d0ff");
        check(Value::Float(-f64::NAN), "3ae72c02-b4e8-3498-bea9-0c53949a390d");
        check(Value::text(""), "77b5d101-faa1-3e5f-82b2-406927138be0");
        check(Value::text("P Sherman 42 Wallaby Way, Syndey"), "83207c05-0caf-3081-ad58-d1d3b8bd52f8");
        check(Value::text("🌈"), "da7de110-78f6-3722-aa05-7660a62aee4d");
        check(Value::Boolean(true), "5edfd1fc-4850-3e33-bd6c-6f4f9783fba2");
        check(Value::Boolean(false), "2c9b25fd-ed15-33d2-a62c-b227265f358f");
        check(list(&[Value::Null]), "ac0d030a-a8b6-39f4-9292-4df9d366b54d");
        check(
            list(&[Value::Integer(1), Value::text("x"), list(&[Value::Boolean(true)])]),
            "e6b69f3a-7b5b-33b6-9b2a-e6a2c9903b3c",
        );
        check(
            Value::map([(Text::new("b"), Value::Integer(2)), (Text::new("a"), Value::text("x"))]),
            "8245cc0d-565b-3001-b7da-74f73149eec1",
        );
        check(Value::Bytes([0xca, 0xfe, 0xc0, 0xde].as_slice().into()), "0631ddd6-f5c4-3221-ab84-78fb3c5d426a");
        check(Value::Date(Date::of(1995, 4, 24).expect("a date")), "51693421-4f7d-37f7-8cec-fcfda61707d8");
        let instant = |epoch_second, nano, offset_seconds, zone: Option<&str>| {
            Value::DateTime(DateTime { epoch_second, nano, offset_seconds, zone: zone.map(Text::new) }.into())
        };
        check(instant(1_682_460_279, 0, 0, None), "6132ea60-7675-33c2-9879-5e70430292d8");
        check(instant(1_607_537_741, 914_000_000, -18_000, None), "ea20af58-efb5-3d6b-8f55-27208edb3690");
        check(instant(1_607_537_741, 914_000_000, -18_000, Some("America/Montreal")), "5ea6e153-ae63-36f9-823c-92eb8654e6eb");
        let duration = Duration { seconds: 20, nanos: 345_000_000, ..Duration::default() };
        check(Value::Duration(duration.into()), "b1edc337-dc7f-30cc-8d68-e2bf9b621f52");
    }

    /// As the JVM names them, whatever way they are written.
    #[test]
    fn zones_behind_universal_time_are_hashed_by_name() {
        for (zone, expected) in [
            ("UTC+01:00", "f05c2a8c-734f-3cbe-a8cd-b9f0ae9a7029"),
            ("UTC+1", "f05c2a8c-734f-3cbe-a8cd-b9f0ae9a7029"),
            ("GMT+1", "59c14fdc-217e-3ce1-9632-a08f60631efc"),
            ("GMT+0100", "59c14fdc-217e-3ce1-9632-a08f60631efc"),
            ("UT", "1e066e07-fc31-3269-9c85-9e04b2a7a469"),
            ("GMT-05:30", "a4624375-722c-3e83-8bbc-b157b611eb55"),
            ("GMT+0", "0ae73f42-4fc1-3a00-89e6-98984699a4c0"),
            ("GMT", "0ae73f42-4fc1-3a00-89e6-98984699a4c0"),
            ("+01:00", "25f2c2c8-582f-389b-8b85-48bb43fec248"),
        ] {
            let at = call("datetime", &[Value::text(&format!("2024-01-01T00:00:00Z[{zone}]"))]).expect(zone);
            assert_eq!(id(IdScheme::Uuid, &[at]), expected, "{zone}");
        }
    }

    #[test]
    fn hashes_agree_with_the_published_ones() {
        assert_eq!(call("hash", &[Value::Integer(1)]), Ok(Value::Integer(-6_742_330_667_458_584_925)));
        assert_eq!(call("hash", &[Value::text("hello"), Value::text("world")]), Ok(Value::Integer(-4_767_192_920_109_006_557)));
        assert_eq!(call("hash", &[]), Ok(Value::Integer(0)));
        assert_eq!(call("hash", &[Value::Null]), Ok(Value::Null));
        assert_eq!(murmur2(b"21") as i32, -973_932_308);
        assert_eq!(murmur2(b"foobar") as i32, -790_332_482);
        assert_eq!(call("kafkaHash", &[Value::text("abc")]), Ok(Value::Integer(479_470_107)));
        assert_eq!(call("kafkaHash", &[Value::text("foobar")]), Ok(Value::Integer(1_357_151_166)));
    }

    #[test]
    fn ids_with_a_position_are_refused_with_the_reason() {
        let failure = call("locIdFrom", &[Value::Integer(1), Value::text("a")]).expect_err("not partitioned");
        assert_eq!(failure.kind, FailureKind::ConstraintViolation);
        assert!(failure.message.contains("locIdFrom"), "{failure}");
        assert_eq!(call("locIdFrom", &[Value::Null, Value::text("a")]), Ok(Value::Null));
        assert_eq!(call("idFrom", &[Value::Integer(1), Value::Null]), Ok(Value::Null));
    }
}
