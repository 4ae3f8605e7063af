//! `gen.*.from`: made-up values that are always the same for the same argument. The numbers are those of a JVM's
//! `Random`, seeded with the hash of the argument.

use std::sync::Arc;

use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::value::{FullNode, Map, Text, Value};

use super::hash::{digest, id_of_digests};
use super::{strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("gen.string.from", 1, 2, "gen.string.from(value :: ANY, length :: INTEGER) :: STRING", string).about(
        "Text of letters and digits, 8 unless said otherwise, always the same for the same value.",
        "RETURN gen.string.from('a')",
    ),
    strict("gen.integer.from", 1, 2, "gen.integer.from(value :: ANY, bound :: INTEGER) :: INTEGER", integer)
        .about("An integer below a bound in size, always the same for the same value.", "RETURN gen.integer.from('a', 100)"),
    strict("gen.float.from", 1, 2, "gen.float.from(value :: ANY, factor :: NUMBER) :: FLOAT", float)
        .about("A float from zero to a factor, always the same for the same value.", "RETURN gen.float.from('a')"),
    strict("gen.boolean.from", 1, 2, "gen.boolean.from(value :: ANY, unused :: INTEGER) :: BOOLEAN", boolean)
        .about("True or false, always the same for the same value.", "RETURN gen.boolean.from('hello')"),
    strict("gen.bytes.from", 1, 2, "gen.bytes.from(value :: ANY, length :: INTEGER) :: BYTES", bytes)
        .about("Bytes, 12 unless said otherwise, always the same for the same value.", "RETURN gen.bytes.from('a', 4)"),
    strict("gen.node.from", 1, 2, "gen.node.from(value :: ANY, properties :: INTEGER) :: NODE", node).about(
        "A node value with so many properties, always the same for the same value; nothing is stored.",
        "RETURN properties(gen.node.from('a', 2))",
    ),
];

/// Longer strings are no test data.
const SIZE_MAX: i64 = 1_000_000;
/// Nor are nodes of more properties; the values of a node are longer the more it has.
const PROPERTIES_MAX: i64 = 1_000;

fn string(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let size = size("gen.string.from", arguments, 8, SIZE_MAX)?;
    Ok(Value::Text(Random::of(context, &arguments[0]).text(size)))
}

fn integer(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let bound = match arguments.get(1) {
        None => i64::from(i32::MAX),
        Some(Value::Integer(bound)) => *bound,
        Some(_) => return Err(wrong_signature("gen.integer.from(value :: ANY, bound :: INTEGER) :: INTEGER", arguments)),
    };
    if bound == 0 {
        return Err(Failure::new(FailureKind::Arithmetic, "gen.integer.from: the bound must not be 0"));
    }
    Ok(Value::Integer(Random::of(context, &arguments[0]).long().wrapping_rem(bound)))
}

fn float(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let factor = arguments.get(1).map_or(Some(1.0), super::float);
    let Some(factor) = factor else {
        return Err(wrong_signature("gen.float.from(value :: ANY, factor :: NUMBER) :: FLOAT", arguments));
    };
    Ok(Value::Float(Random::of(context, &arguments[0]).double() * factor))
}

fn boolean(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(Value::Boolean(Random::of(context, &arguments[0]).next(1) != 0))
}

fn bytes(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let size = size("gen.bytes.from", arguments, 12, SIZE_MAX)?;
    let mut random = Random::of(context, &arguments[0]);
    let mut bytes = Vec::with_capacity(size + 4);
    while bytes.len() < size {
        bytes.extend_from_slice(&random.next(32).to_le_bytes());
    }
    bytes.truncate(size);
    Ok(Value::Bytes(bytes.into()))
}

/// A node that is nowhere stored: the id of `idFrom`, properties `0`, `1` and so on.
fn node(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let size = size("gen.node.from", arguments, 4, PROPERTIES_MAX)?;
    let mut random = Random::of(context, &arguments[0]);
    let properties: Map = (0..size).map(|i| (Text::from(i.to_string()), Value::Text(random.text(2 * size)))).collect();
    let id = id_of_digests(&digest(&arguments[0], context.ids()), context.ids());
    Ok(Value::FullNode(Arc::new(FullNode { id, labels: Vec::new(), properties })))
}

fn size(name: &str, arguments: &[Value], default: usize, most: i64) -> Result<usize, Failure> {
    match arguments.get(1) {
        None => Ok(default),
        Some(Value::Integer(size)) if (0..=most).contains(size) => Ok(*size as usize),
        // Text and nodes of a negative size are empty.
        Some(Value::Integer(..0)) if name != "gen.bytes.from" => Ok(0),
        Some(Value::Integer(_)) => {
            Err(Failure::new(FailureKind::InvalidArgument, format!("{name}: the size must lie between 0 and {most}")))
        }
        Some(_) => Err(wrong_signature(&format!("{name}(value :: ANY, size :: INTEGER)"), arguments)),
    }
}

/// The linear congruential generator of `java.util.Random`.
struct Random {
    state: u64,
}

impl Random {
    const FACTOR: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;

    fn of(context: &dyn Context, value: &Value) -> Random {
        let digest = digest(value, context.ids());
        let seed = u64::from_le_bytes(digest.first_chunk().copied().unwrap_or_default());
        Random { state: (seed ^ Self::FACTOR) & Self::MASK }
    }

    /// `bits` random bits, at most 32; with 32 the sign counts.
    fn next(&mut self, bits: u32) -> i32 {
        self.state = self.state.wrapping_mul(Self::FACTOR).wrapping_add(0xB) & Self::MASK;
        (self.state >> (48 - bits)) as i32
    }

    fn long(&mut self) -> i64 {
        (i64::from(self.next(32)) << 32).wrapping_add(i64::from(self.next(32)))
    }

    fn double(&mut self) -> f64 {
        ((i64::from(self.next(26)) << 27) + i64::from(self.next(27))) as f64 / (1u64 << 53) as f64
    }

    /// Evenly from 0 up to the bound, which is no power of two.
    fn below(&mut self, bound: i32) -> i32 {
        loop {
            let bits = self.next(31);
            let value = bits % bound;
            // The last, incomplete run of numbers would favour the small ones.
            if bits.checked_sub(value).and_then(|start| start.checked_add(bound - 1)).is_some() {
                return value;
            }
        }
    }

    fn text(&mut self, length: usize) -> Text {
        const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        (0..length).map(|_| char::from(LETTERS[self.below(62) as usize])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;

    #[test]
    fn the_same_argument_gives_the_published_values() {
        let check = |value: Value, integer: i64, float: f64, boolean: bool, bytes: &str, text: &str| {
            let call = |name: &str| call(name, std::slice::from_ref(&value));
            assert_eq!(call("gen.integer.from"), Ok(Value::Integer(integer)));
            assert_eq!(call("gen.float.from"), Ok(Value::Float(float)));
            assert_eq!(call("gen.boolean.from"), Ok(Value::Boolean(boolean)));
            let made = call("gen.bytes.from").map(|value| value.to_text().to_lowercase());
            assert_eq!(made, Ok(format!("bytes(\"{bytes}\")")));
            assert_eq!(call("gen.string.from"), Ok(Value::text(text)));
        };
        check(Value::text("a"), 891_087_940, 0.428_685_938_568_423_63, false, "9d5cbe6d0833a059a9e675db", "Ua0l4Ns4");
        check(Value::text("hello"), -1_724_088_297, 0.834_370_716_360_777_4, true, "9d5199d5dddc09eec08c2642", "6UsjMj6K");
        check(Value::Integer(1), -1_432_129_803, 0.925_159_585_717_873_6, true, "2e42d7ec99eaf4d02b06c49b", "DG38POFY");
    }

    #[test]
    fn nodes_have_the_id_of_their_argument() {
        let made = call("gen.node.from", &[Value::text("a"), Value::Integer(4)]);
        let Ok(Value::FullNode(node)) = made else { panic!("a node") };
        assert_eq!(node.id.to_string(), "ed76605d-e294-3322-871e-d8466a8281df");
        assert_eq!(node.properties.get("0"), Some(&Value::text("Ua0l4Ns4")));
        assert_eq!(node.properties.get("3"), Some(&Value::text("HwUICPDC")));
    }

    #[test]
    fn a_size_is_had_or_refused() {
        let made = |name: &str, size: i64| call(name, &[Value::text("a"), Value::Integer(size)]);
        let Ok(Value::FullNode(node)) = made("gen.node.from", PROPERTIES_MAX) else { panic!("a node") };
        assert_eq!(node.properties.len() as i64, PROPERTIES_MAX);
        for (name, most) in [("gen.node.from", PROPERTIES_MAX), ("gen.string.from", SIZE_MAX), ("gen.bytes.from", SIZE_MAX)] {
            let failure = made(name, most + 1).expect_err(name);
            assert_eq!(failure.message, format!("{name}: the size must lie between 0 and {most}"));
        }
    }
}
