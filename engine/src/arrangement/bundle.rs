//! Bundle: the properties of a node that became what they are at one tick, as one fact. A fact of its own takes 24 bytes whatever
//! it holds; here a property takes three more than its value, mostly.
//!
//!     count 1 | wide 1 | symbols 2 or 4 each, ascending | ends 1 or 4 each | values
//!     wide    bit 0: symbols take 4 bytes; bit 1: ends do
//!     value   the form of its payload 1 | an integer or a float without the bytes that are zero at its end, or the bytes of anything else
//!
//! The properties of a node in a segment either are facts or lie in a bundle, all of them. It is the last of the node's facts.
//! Whoever reads gets facts: what does not fit a payload stays in the bundle, and the payload points there.

use weir_model::Symbol;
use weir_model::codec::{FORM_ENCODED, FORM_FLOAT, FORM_INTEGER, FORM_LONG_TEXT, FORM_TEXT, arena_bytes, extent, in_arena};
use weir_model::codec::{TEXT_INLINE_MAX, short_text, short_text_bytes};
use weir_model::mutation::{Kind, Payload, Tag};

use super::facts::LAST_SYMBOL;
use super::packing::{from_zigzag, zigzag};
use super::segment::{Fact, Segment};

/// The tag of a bundle: behind those of all properties.
pub const BUNDLE: Tag = Tag::new(Kind::Property, LAST_SYMBOL);

/// Fewer properties stay facts.
const COUNT_MIN: usize = 2;
/// More properties stay facts, too.
const COUNT_MAX: usize = 255;

/// What a value that its payload holds takes at most.
const VALUE_MAX: usize = 1 + TEXT_INLINE_MAX;

const HEAD: usize = 2;
const WIDE_SYMBOLS: u8 = 1;
const WIDE_ENDS: u8 = 2;

/// What bundles are made in, reused from node to node.
#[derive(Debug, Default)]
pub struct Packer {
    values: Vec<u8>,
    ends: Vec<u32>,
}

impl Packer {
    /// Makes a bundle of the properties among the last facts of a segment, those from `start` on, if all came at one tick.
    pub fn pack(&mut self, segment: &mut Segment, start: usize) {
        let facts = &segment.facts[start..];
        let count = facts.iter().rev().take_while(|fact| fact.tag.kind() == Kind::Property).count();
        let properties = &facts[facts.len() - count..];
        let [first, .., last] = properties else { return };
        if !(COUNT_MIN..=COUNT_MAX).contains(&count) || last.tag == BUNDLE || !first.adds() {
            return;
        }
        if properties.iter().any(|fact| fact.when != first.when) {
            return;
        }
        let when = first.when;
        let (mut begun, mut length, mut end) = (segment.arena.len(), 0, 0);
        for extent in properties.iter().filter_map(|fact| extent(fact.tag, fact.payload)) {
            (begun, length) = (begun.min(extent.start), length + extent.len());
        }
        // Room for all, so that each is written without a look at how much there is.
        self.values.clear();
        self.values.resize(count * VALUE_MAX + length, 0);
        self.ends.clear();
        for fact in properties {
            end += put(fact, &segment.arena, &mut self.values[end..]);
            self.ends.push(end as u32);
        }
        let wide_symbols = last.tag.symbol().0 > u32::from(u16::MAX);
        let wide_ends = end > usize::from(u8::MAX);
        let wide = if wide_symbols { WIDE_SYMBOLS } else { 0 } | if wide_ends { WIDE_ENDS } else { 0 };
        let Segment { facts, arena, .. } = segment;
        // What they pointed at is in the bundle now, and mostly lay behind everything else.
        if arena.len() - begun == length {
            arena.truncate(begun);
        }
        let offset = arena.len();
        arena.extend_from_slice(&[count as u8, wide]);
        let symbols = facts[facts.len() - count..].iter().map(|fact| fact.tag.symbol().0);
        if wide_symbols {
            symbols.for_each(|symbol| arena.extend_from_slice(&symbol.to_le_bytes()));
        } else {
            let mut narrow = [[0; 2]; COUNT_MAX];
            narrow.iter_mut().zip(symbols).for_each(|(narrow, symbol)| *narrow = (symbol as u16).to_le_bytes());
            arena.extend_from_slice(narrow[..count].as_flattened());
        }
        if wide_ends {
            self.ends.iter().for_each(|end| arena.extend_from_slice(&end.to_le_bytes()));
        } else {
            arena.extend(self.ends.iter().map(|end| *end as u8));
        }
        arena.extend_from_slice(&self.values[..end]);
        facts.truncate(facts.len() - count);
        facts.push(Fact { tag: BUNDLE, when, payload: in_arena(FORM_ENCODED, offset, arena.len() - offset) });
    }
}

/// Writes a value, and says how much that is.
fn put(Fact { tag, payload, .. }: &Fact, arena: &[u8], out: &mut [u8]) -> usize {
    let form = payload.a as u8;
    out[0] = form;
    if let Some(extent) = extent(*tag, *payload) {
        let length = extent.len();
        out[1..=length].copy_from_slice(&arena[extent]);
        return 1 + length;
    }
    let out = &mut out[..VALUE_MAX];
    1 + match form {
        FORM_INTEGER => {
            let number = zigzag(payload.b as i64);
            out[1..9].copy_from_slice(&number.to_le_bytes());
            (u64::BITS - number.leading_zeros()).div_ceil(8) as usize
        }
        FORM_FLOAT => {
            out[1..9].copy_from_slice(&payload.b.to_be_bytes());
            (u64::BITS - payload.b.trailing_zeros()).div_ceil(8) as usize
        }
        FORM_TEXT => {
            let (bytes, length) = short_text_bytes(*payload);
            out[1..=TEXT_INLINE_MAX].copy_from_slice(&bytes);
            length
        }
        _ => 0,
    }
}

/// A bundle that is read.
#[derive(Clone, Copy)]
pub struct Bundle<'a> {
    segment: &'a Segment,
    fact: &'a Fact,
    symbols: &'a [u8],
    ends: &'a [u8],
    values: &'a [u8],
    /// Where the values begin in the arena.
    offset: usize,
    wide: u8,
}

impl<'a> Bundle<'a> {
    /// The bundle of a node, if it has one, given its facts.
    pub fn of(segment: &'a Segment, facts: &'a [Fact]) -> Option<Bundle<'a>> {
        let fact = facts.last().filter(|fact| fact.tag == BUNDLE)?;
        let bytes = arena_bytes(fact.payload, &segment.arena);
        let (count, wide) = (usize::from(bytes[0]), bytes[1]);
        let (symbols, rest) = bytes[HEAD..].split_at(count * if wide & WIDE_SYMBOLS == 0 { 2 } else { 4 });
        let (ends, values) = rest.split_at(count * if wide & WIDE_ENDS == 0 { 1 } else { 4 });
        let offset = fact.payload.b as usize + bytes.len() - values.len();
        Some(Bundle { segment, fact, symbols, ends, values, offset, wide })
    }

    pub fn time(&self) -> u64 {
        self.segment.time(self.fact)
    }

    /// The property with this key as a fact.
    pub fn property(&self, tag: Tag) -> Option<Fact> {
        let key = tag.symbol().0;
        let place = if self.wide & WIDE_SYMBOLS == 0 {
            let key = u16::try_from(key).ok()?.to_le_bytes();
            self.symbols.as_chunks::<2>().0.iter().position(|symbol| *symbol == key)?
        } else {
            self.symbols.as_chunks::<4>().0.iter().position(|symbol| *symbol == key.to_le_bytes())?
        };
        Some(self.at(place, tag))
    }

    /// All of them, in order.
    pub fn facts(self) -> impl Iterator<Item = Fact> + 'a {
        self.tags().enumerate().map(move |(place, tag)| self.at(place, tag))
    }

    pub fn tags(self) -> impl Iterator<Item = Tag> + 'a {
        let narrow = if self.wide & WIDE_SYMBOLS == 0 { self.symbols } else { &[] };
        let wide = if self.wide & WIDE_SYMBOLS == 0 { &[] } else { self.symbols };
        let narrow = narrow.as_chunks().0.iter().map(|symbol| u32::from(u16::from_le_bytes(*symbol)));
        let wide = wide.as_chunks().0.iter().map(|symbol| u32::from_le_bytes(*symbol));
        narrow.chain(wide).map(|symbol| Tag::new(Kind::Property, Symbol(symbol)))
    }

    fn at(&self, place: usize, tag: Tag) -> Fact {
        let (start, end) = (place.checked_sub(1).map_or(0, |before| self.end(before)), self.end(place));
        Fact { tag, when: self.fact.when, payload: self.payload(start, end) }
    }

    fn end(&self, place: usize) -> usize {
        if self.wide & WIDE_ENDS == 0 {
            return usize::from(self.ends[place]);
        }
        u32::from_le_bytes(self.ends.as_chunks::<4>().0[place]) as usize
    }

    fn payload(&self, start: usize, end: usize) -> Payload {
        let (form, bytes) = (self.values[start], &self.values[start + 1..end]);
        let mut number = [0; 8];
        match form {
            FORM_INTEGER => {
                number[..bytes.len()].copy_from_slice(bytes);
                Payload { a: form.into(), b: from_zigzag(u64::from_le_bytes(number)) as u64 }
            }
            FORM_FLOAT => {
                number[..bytes.len()].copy_from_slice(bytes);
                Payload { a: form.into(), b: u64::from_be_bytes(number) }
            }
            FORM_TEXT => short_text(bytes),
            FORM_LONG_TEXT | FORM_ENCODED => in_arena(form, self.offset + start + 1, bytes.len()),
            _ => Payload { a: form.into(), b: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_model::codec::{decode_payload, encode_payload};
    use weir_model::{Text, Value};

    use super::*;

    fn values() -> Vec<Value> {
        let texts = ["", "a", "fourteen bytes", "fifteen bytes..", "ü"].map(|text| Value::Text(Text::new(text)));
        let integers = [0, 1, -1, 127, 128, -129, i64::MAX, i64::MIN].map(Value::Integer);
        let floats = [0.0, -0.0, 0.5, -1.25, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, 0.1].map(Value::Float);
        let others = [Value::Boolean(true), Value::Boolean(false), Value::List([Value::Integer(1)].into_iter().collect())];
        texts.into_iter().chain(integers).chain(floats).chain(others).collect()
    }

    fn segment(symbols: &[u32], values: &[Value]) -> Segment {
        let mut segment = Segment { times: vec![5, 9], arena: b"before".to_vec(), ..Segment::default() };
        segment.facts.push(Fact { tag: Tag::new(Kind::Label, Symbol(3)), when: 1, payload: Payload::default() });
        for (symbol, value) in symbols.iter().zip(values.iter().cycle()) {
            let payload = encode_payload(value, &mut segment.arena);
            segment.facts.push(Fact { tag: Tag::new(Kind::Property, Symbol(*symbol)), when: 1 << 1 | 1, payload });
        }
        segment
    }

    fn read(segment: &Segment, facts: impl Iterator<Item = Fact>) -> Vec<(Tag, u32, String)> {
        facts.map(|fact| (fact.tag, fact.when, format!("{:?}", decode_payload(fact.payload, &segment.arena)))).collect()
    }

    #[test]
    fn what_is_packed_is_read_back() {
        let values = values();
        let mut packer = Packer::default();
        for first in [0, 300, 65_500, 70_000] {
            for count in [2, 3, 24, 60, 255] {
                let symbols: Vec<u32> = (first..first + count).collect();
                let loose = segment(&symbols, &values);
                let mut packed = loose.clone();
                packer.pack(&mut packed, 0);
                assert_eq!(packed.facts.len(), 2, "{count} from {first}");
                let bundle = Bundle::of(&packed, &packed.facts).expect("there is one");
                let expected = read(&loose, loose.facts[1..].iter().copied());
                assert_eq!(read(&packed, bundle.facts()), expected);
                let one_by_one = expected.iter().map(|(tag, ..)| bundle.property(*tag).expect("it is there"));
                assert_eq!(read(&packed, one_by_one), expected);
                assert!(bundle.property(Tag::new(Kind::Property, Symbol(first + count))).is_none());
                assert!(first == 0 || bundle.property(Tag::new(Kind::Property, Symbol(first - 1))).is_none());
                assert_eq!(bundle.time(), 9);
                // Moved as any other fact.
                let mut moved = Segment { times: vec![5, 9], arena: b"something else".to_vec(), ..Segment::default() };
                moved.extend(packed.facts.iter().copied(), &packed.arena);
                let bundle = Bundle::of(&moved, &moved.facts).expect("it has moved");
                assert_eq!(read(&moved, bundle.facts()), expected);
            }
        }
    }

    #[test]
    fn what_came_at_different_ticks_or_went_stays_as_it_is() {
        let values = values();
        let mut packer = Packer::default();
        let mut stays = |change: fn(&mut Segment)| {
            let mut loose = segment(&[1, 2, 3], &values);
            change(&mut loose);
            let before = loose.facts.len();
            packer.pack(&mut loose, 0);
            assert_eq!(loose.facts.len(), before);
            assert!(Bundle::of(&loose, &loose.facts).is_none());
        };
        stays(|segment| segment.facts[2].when = 1);
        stays(|segment| segment.facts.iter_mut().for_each(|fact| fact.when &= !1));
        stays(|segment| segment.facts.truncate(2));
        stays(|segment| segment.facts.truncate(0));
    }

    #[test]
    fn it_takes_less_than_its_facts() {
        let values = values();
        let mut packed = segment(&(0..24).collect::<Vec<_>>(), &values);
        let size = |segment: &Segment| size_of_val(&segment.facts[..]) + segment.arena.len();
        let before = size(&packed);
        Packer::default().pack(&mut packed, 0);
        assert!(size(&packed) * 2 < before, "{} of {before}", size(&packed));
    }
}
