//! Columns: how the facts of a chunk are written, so that like stands beside like and nothing is written that follows from the
//! rest.
//!
//!     names     the numbers of the nodes in their run, and their ids              as they are: whoever asks for a name reads only these
//!     times     the ticks, each as the difference to the one before               ┐
//!     codes     each combination of tag, addition, kind of time, form of value    │
//!     shapes    each sequence of codes that the facts of some node have           │ by zstd, but for columns of bits, which nothing
//!     nodes     the shape of each                                                 │ makes smaller
//!     whens     those times that are not the first or the last of their node      │
//!     ends      of edges: the number of the other node, or its id                 │
//!     values    by tag and form: integers, floats, texts, other bytes             ┘
//!
//! Where values lie in the arena follows from their order and their lengths. Floats that are decimal numbers of few places are
//! integers.

use std::ops::Range;

use rustc_hash::FxHashMap;
use weir_model::codec::{
    EDGE_PROPERTY_HEAD, FORM_ENCODED, FORM_FLOAT, FORM_INTEGER, FORM_TEXT, FORM_TRUE, TEXT_INLINE_MAX, arena_bytes, in_arena,
    short_text, short_text_bytes,
};
use weir_model::mutation::{Kind, Payload, Tag};
use weir_model::{NodeId, Tick};

use super::chunk::Counts;
use super::numbering::{NOBODY, Numbering};
use super::packing::{Packed, Unpacking, put_number};
use super::segment::{Fact, Segment};

/// Which time a fact has: that of the first of its node, that of the one before, or one that is said.
const AS_FIRST: u8 = 0;
const AS_BEFORE: u8 = 1;
const SAID: u8 = 2;

/// Texts are numbered where each of them comes this often on average.
const TIMES_A_TEXT: usize = 4;

/// Decimal places that floats are tried with.
const SCALES: [f64; 5] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0];

/// Integers up to this one are floats, too.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Bytes of an edge with an ordinal in the arena: the other end, the ordinal.
const PARALLEL_BYTES: usize = 20;
const ID_BYTES: usize = 16;

/// The names of the nodes of a chunk. The first id stands elsewhere.
pub struct Names {
    pub ids: Vec<NodeId>,
    /// None where the run has no numbers.
    pub numbers: Vec<u32>,
}

/// Says whether there are numbers, too.
pub fn put_names(ids: &[NodeId], numbering: Option<&mut Numbering>) -> (Packed, bool) {
    let mut out = Packed::default();
    let numbers: Option<Vec<u32>> =
        numbering.and_then(|numbering| ids.iter().map(|id| numbering.of_node(*id)).collect::<Option<Vec<u32>>>());
    out.number(numbers.as_ref().map_or(0, |numbers| 1 + u64::from(numbers[0])));
    if let Some(numbers) = &numbers {
        out.column(&numbers.windows(2).map(|pair| u64::from(pair[1] - pair[0])).collect::<Vec<_>>());
    }
    out.column(&ids.windows(2).map(|pair| pair[1].high - pair[0].high).collect::<Vec<_>>());
    let low = |pair: &[NodeId]| if pair[0].high == pair[1].high { pair[1].low - pair[0].low } else { pair[1].low };
    out.column(&ids.windows(2).map(low).collect::<Vec<_>>());
    (out, numbers.is_some())
}

/// There is at least one.
pub fn take_names(reading: &mut Unpacking<'_>, first: NodeId, count: usize) -> Option<Names> {
    let mut numbers = Vec::new();
    let begin = reading.number()?;
    if let Some(begin) = begin.checked_sub(1) {
        numbers.reserve(count);
        numbers.push(u32::try_from(begin).ok()?);
        for step in reading.column(count - 1)? {
            numbers.push(numbers.last()?.checked_add(u32::try_from(step).ok().filter(|step| *step > 0)?)?);
        }
    }
    let (highs, lows) = (reading.column(count - 1)?, reading.column(count - 1)?);
    let mut ids = Vec::with_capacity(count);
    let mut last = first;
    ids.push(first);
    for (high, low) in highs.into_iter().zip(lows) {
        let low = if high == 0 { last.low.checked_add(low).filter(|low| *low > last.low)? } else { low };
        last = NodeId::new(last.high.checked_add(high)?, low);
        ids.push(last);
    }
    Some(Names { ids, numbers })
}

/// The facts; `ends` says where those of each node end. Gives how long the arena is when they are read back, too.
pub fn put_facts(ends: &[u32], segment: &Segment, mut numbering: Option<&mut Numbering>) -> (Packed, usize) {
    let mut writing = Writing::new(segment);
    let mut start = 0;
    for end in ends {
        writing.node(&segment.facts[start as usize..*end as usize], &mut numbering);
        start = *end;
    }
    writing.finish(numbering.map(|numbering| numbering.count()))
}

/// What a fact is, but for what differs from node to node. Its low byte says whether it was added, which time it has, and the
/// form of its value.
fn code_of(fact: &Fact, time: u8) -> u64 {
    let form = if fact.tag.kind() == Kind::Property { (fact.payload.a as u8).min(FORM_ENCODED) } else { 0 };
    u64::from(fact.tag.0) << 8 | u64::from(form << 3 | time << 1 | u8::from(fact.adds()))
}

#[derive(Clone, Copy)]
struct Code {
    tag: Tag,
    adds: bool,
    time: u8,
    form: u8,
}

impl Code {
    fn read(tag: u64, flags: u8) -> Option<Code> {
        let code = Code { tag: Tag(u32::try_from(tag).ok()?), adds: flags & 1 == 1, time: flags >> 1 & 3, form: flags >> 3 };
        let is_form = code.form <= if code.tag.kind() == Kind::Property { FORM_ENCODED } else { 0 };
        (is_form && code.time <= SAID).then_some(code)
    }

    /// Whether there is more to say of a fact than its code, its time, and the other end.
    fn has_values(&self) -> bool {
        match self.tag.kind() {
            Kind::Property => self.form > FORM_TRUE,
            kind => matches!(kind, Kind::OutParallel | Kind::InParallel | Kind::EdgeProperty),
        }
    }
}

/// Values of one tag and form.
#[derive(Default)]
struct Values {
    numbers: Vec<u64>,
    texts: Vec<Payload>,
    lengths: Vec<usize>,
    bytes: Vec<u8>,
}

/// Where the values of facts with a code are.
#[derive(Clone, Copy)]
struct Known {
    key: u64,
    code: u32,
    values: Option<u32>,
}

struct Writing<'a> {
    segment: &'a Segment,
    codes: Vec<u64>,
    known: FxHashMap<u64, Known>,
    /// The codes of the node before: most nodes have those of their neighbours.
    lately: Vec<Known>,
    columns: Vec<(Code, Values)>,
    places: FxHashMap<(Tag, u8), u32>,
    shapes: Vec<u8>,
    shape_count: u32,
    shape_of: FxHashMap<Vec<u8>, u32>,
    /// The shape of the node before.
    last: (Vec<u8>, u32),
    shape: Vec<u8>,
    nodes: Vec<u8>,
    whens: Vec<u64>,
    ends: Vec<u64>,
    /// Ends that have no number.
    ids: Vec<u8>,
    arena: usize,
}

impl<'a> Writing<'a> {
    fn new(segment: &'a Segment) -> Writing<'a> {
        Writing {
            segment,
            codes: Vec::new(),
            known: FxHashMap::default(),
            lately: Vec::new(),
            columns: Vec::new(),
            places: FxHashMap::default(),
            shapes: Vec::new(),
            shape_count: 0,
            shape_of: FxHashMap::default(),
            last: (Vec::new(), u32::MAX),
            shape: Vec::new(),
            nodes: Vec::new(),
            whens: Vec::new(),
            ends: Vec::new(),
            ids: Vec::new(),
            arena: 0,
        }
    }

    fn node(&mut self, facts: &[Fact], numbering: &mut Option<&mut Numbering>) {
        let (mut first, mut before) = (None, None);
        let (mut runs, mut run) = (0u64, (u32::MAX, 0u64));
        self.shape.clear();
        for (at, fact) in facts.iter().enumerate() {
            let when = fact.when >> 1;
            let time = match when {
                when if first == Some(when) => AS_FIRST,
                when if before == Some(when) => AS_BEFORE,
                _ => SAID,
            };
            first = first.or(Some(when));
            before = Some(when);
            if time == SAID {
                self.whens.push(u64::from(when));
            }
            let key = code_of(fact, time);
            let known = match self.lately.get(at) {
                Some(known) if known.key == key => *known,
                _ => self.look_up(at, key),
            };
            if run.0 != known.code {
                if run.1 > 0 {
                    self.put_shape(run);
                }
                (run, runs) = ((known.code, 0), runs + 1);
            }
            run.1 += 1;
            self.value(fact, known.values, numbering);
        }
        self.put_shape(run);
        let number = self.number_of_shape(runs);
        put_number(&mut self.nodes, u64::from(number));
    }

    fn put_shape(&mut self, (code, count): (u32, u64)) {
        put_number(&mut self.shape, u64::from(code));
        put_number(&mut self.shape, count);
    }

    fn number_of_shape(&mut self, runs: u64) -> u32 {
        if self.last.1 != u32::MAX && self.last.0 == self.shape {
            return self.last.1;
        }
        let number = match self.shape_of.get(&self.shape) {
            Some(number) => *number,
            None => {
                let number = self.shape_count;
                self.shape_count += 1;
                put_number(&mut self.shapes, runs);
                self.shapes.extend_from_slice(&self.shape);
                self.shape_of.insert(self.shape.clone(), number);
                number
            }
        };
        self.last.0.clone_from(&self.shape);
        self.last.1 = number;
        number
    }

    fn look_up(&mut self, at: usize, key: u64) -> Known {
        let known = match self.known.get(&key) {
            Some(known) => *known,
            None => {
                let number = self.codes.len() as u32;
                self.codes.push(key);
                let values = Code::read(key >> 8, key as u8).filter(Code::has_values).map(|code| {
                    let columns = &mut self.columns;
                    *self.places.entry((code.tag, code.form)).or_insert_with(|| {
                        columns.push((code, Values::default()));
                        columns.len() as u32 - 1
                    })
                });
                let known = Known { key, code: number, values };
                self.known.insert(key, known);
                known
            }
        };
        // Of a node with very many facts, what comes first is enough.
        const LATELY_MAX: usize = 64;
        if at < LATELY_MAX {
            self.lately.resize(self.lately.len().max(at + 1), known);
            self.lately[at] = known;
        }
        known
    }

    fn value(&mut self, fact: &Fact, values: Option<u32>, numbering: &mut Option<&mut Numbering>) {
        let (payload, arena) = (fact.payload, &self.segment.arena[..]);
        match fact.tag.kind() {
            Kind::Label | Kind::ClearProperties => return,
            Kind::Out | Kind::In => return self.end(payload.as_node(), numbering),
            _ => {}
        }
        let Some(column) = values else { return };
        let values = &mut self.columns[column as usize].1;
        match (fact.tag.kind(), payload.a as u8) {
            (Kind::Property, FORM_INTEGER | FORM_FLOAT) => values.numbers.push(payload.b),
            (Kind::Property, FORM_TEXT) => values.texts.push(payload),
            (Kind::Property, _) => {
                let bytes = arena_bytes(payload, arena);
                values.lengths.push(bytes.len());
                values.bytes.extend_from_slice(bytes);
                self.arena += bytes.len();
            }
            (kind, _) => {
                let (id, rest) = arena_bytes(payload, arena).split_at(ID_BYTES);
                let rest = if kind == Kind::EdgeProperty { rest } else { &rest[..PARALLEL_BYTES - ID_BYTES] };
                values.lengths.push(rest.len());
                values.bytes.extend_from_slice(rest);
                self.arena += ID_BYTES + rest.len();
                let id = id.first_chunk().copied().unwrap_or_default();
                self.end(NodeId::from_bytes(id), numbering);
            }
        }
    }

    fn end(&mut self, id: NodeId, numbering: &mut Option<&mut Numbering>) {
        let Some(numbering) = numbering else { return self.ids.extend_from_slice(&id.to_bytes()) };
        let number = numbering.of_end(id);
        if number.is_none() {
            self.ids.extend_from_slice(&id.to_bytes());
        }
        self.ends.push(u64::from(number.unwrap_or(numbering.count())));
    }

    /// With how many numbers there are, if other ends have such.
    fn finish(self, numbers: Option<u32>) -> (Packed, usize) {
        let mut out = Packed::default();
        let mut last = 0;
        for time in &self.segment.times {
            out.number(time - last);
            last = *time;
        }
        out.number(self.codes.len() as u64);
        for code in &self.codes {
            out.number(code >> 8);
            out.stream.push(*code as u8);
        }
        out.number(u64::from(self.shape_count));
        out.stream.extend_from_slice(&self.shapes);
        out.stream.extend_from_slice(&self.nodes);
        out.column(&self.whens);
        if let Some(numbers) = numbers {
            out.number(numbers.into());
            out.column(&self.ends);
        }
        out.bits.extend_from_slice(&self.ids);
        for (code, values) in &self.columns {
            values.put(*code, &mut out);
        }
        (out, self.arena)
    }
}

impl Values {
    fn put(&self, code: Code, out: &mut Packed) {
        match code.form {
            FORM_INTEGER => out.integers(&self.numbers.iter().map(|number| *number as i64).collect::<Vec<_>>()),
            FORM_FLOAT => {
                match SCALES.iter().zip(1..).find_map(|(scale, number)| Some((decimals(&self.numbers, *scale)?, number))) {
                    Some((integers, number)) => {
                        out.stream.push(number);
                        out.integers(&integers);
                    }
                    None => {
                        out.stream.push(0);
                        self.numbers.iter().for_each(|number| out.stream.extend_from_slice(&number.to_le_bytes()));
                    }
                }
            }
            FORM_TEXT => put_texts(&self.texts, out),
            _ => {
                self.lengths.iter().for_each(|length| out.number(*length as u64));
                out.stream.extend_from_slice(&self.bytes);
            }
        }
    }
}

/// The floats of these bits as multiples of one part in `scale`, if each is exactly such a number.
fn decimals(bits: &[u64], scale: f64) -> Option<Vec<i64>> {
    let decimal = |bits: &u64| {
        let scaled = (f64::from_bits(*bits) * scale).round();
        (scaled.abs() < EXACT_MAX && (scaled as i64 as f64 / scale).to_bits() == *bits).then_some(scaled as i64)
    };
    bits.iter().map(decimal).collect()
}

fn put_texts(texts: &[Payload], out: &mut Packed) {
    let put = |text: &Payload, out: &mut Packed| {
        let (bytes, length) = short_text_bytes(*text);
        out.stream.push(length as u8);
        out.stream.extend_from_slice(&bytes[..length]);
    };
    let mut numbers: FxHashMap<(u64, u64), u64> = FxHashMap::default();
    let mut different: Vec<Payload> = Vec::new();
    let most = texts.len() / TIMES_A_TEXT;
    let numbered: Option<Vec<u64>> = texts
        .iter()
        .map(|text| {
            let next = numbers.len() as u64;
            let number = *numbers.entry((text.a, text.b)).or_insert(next);
            if number == next {
                different.push(*text);
            }
            (different.len() <= most).then_some(number)
        })
        .collect();
    match numbered {
        Some(numbered) => {
            out.number(1 + different.len() as u64);
            different.iter().for_each(|text| put(text, out));
            out.column(&numbered);
        }
        None => {
            out.number(0);
            texts.iter().for_each(|text| put(text, out));
        }
    }
}

/// What was read of some nodes.
pub struct Read {
    /// Where the facts of each end.
    pub ends: Vec<u32>,
    pub segment: Segment,
    /// Facts whose other end is an id although the run has numbers.
    pub named: Vec<u32>,
}

/// The facts of `put_facts`. Other ends are ids, or where the run has numbers such with `unnamed` ids.
pub fn take_facts(mut reading: Unpacking<'_>, counts: Counts, numbered: bool, upper: Tick) -> Option<Read> {
    let times = take_times(&mut reading, counts.times, upper)?;
    let (codes, columns) = take_codes(&mut reading)?;
    let (runs, shapes) = take_shapes(&mut reading, codes.len())?;
    let (nodes, uses) = take_nodes(&mut reading, counts.nodes, shapes.len())?;
    let runs_used = shapes.iter().zip(&uses).flat_map(|(shape, uses)| runs[shape.clone()].iter().map(move |run| (*run, *uses)));
    let totals = Totals::of(runs_used, (&codes, columns.len()), counts.facts)?;
    let whens = reading.column(totals.said)?;
    if whens.iter().any(|when| *when >= times.len() as u64) {
        return None;
    }
    let mut ends = Ends::read(&mut reading, totals.ends, numbered)?;
    let columns = columns.into_iter().zip(totals.values);
    let mut values = columns.map(|(code, count)| Column::read(&mut reading, code, count)).collect::<Option<Vec<_>>>()?;
    if !reading.ended() {
        return None;
    }
    let segment = Segment::with_capacity(counts.facts, counts.arena);
    let mut read = Read { ends: Vec::with_capacity(counts.nodes), segment, named: Vec::new() };
    let mut whens = whens.into_iter();
    for shape in nodes {
        let (mut first, mut before) = (None, None);
        for (code, count) in &runs[shapes[shape as usize].clone()] {
            let (code, column) = codes[*code as usize];
            for _ in 0..*count {
                let when = match code.time {
                    AS_FIRST => first?,
                    AS_BEFORE => before?,
                    _ => whens.next()? as u32,
                };
                first = first.or(Some(when));
                before = Some(when);
                let arena = &mut read.segment.arena;
                let end = if code.tag.kind().has_end() { ends.next(read.segment.facts.len(), &mut read.named)? } else { NOBODY };
                let payload = match column {
                    Some(column) => values[column as usize].next(code, end, arena)?,
                    None if code.tag.kind().has_end() => Payload::node(end),
                    None => Payload { a: u64::from(code.form), b: 0 },
                };
                if arena.len() > counts.arena {
                    return None;
                }
                read.segment.facts.push(Fact { tag: code.tag, when: when << 1 | u32::from(code.adds), payload });
            }
        }
        read.ends.push(read.segment.facts.len() as u32);
    }
    read.segment.times = times;
    (read.segment.arena.len() == counts.arena).then_some(read)
}

fn take_times(reading: &mut Unpacking<'_>, count: usize, upper: Tick) -> Option<Vec<u64>> {
    let mut times: Vec<u64> = Vec::with_capacity(count);
    for _ in 0..count {
        let step = reading.number()?;
        let time = times.last().map_or(Some(step), |last| last.checked_add(step).filter(|time| last < time))?;
        times.push(Some(time).filter(|time| *time < upper.0)?);
    }
    Some(times)
}

/// A code, and in which column the values of its facts are.
type Coded = (Code, Option<u32>);

/// Of each column of values one of its codes, too.
fn take_codes(reading: &mut Unpacking<'_>) -> Option<(Vec<Coded>, Vec<Code>)> {
    let (mut codes, mut columns) = (Vec::new(), Vec::new());
    let mut places: FxHashMap<(Tag, u8), u32> = FxHashMap::default();
    for _ in 0..reading.count()? {
        let code = Code::read(reading.number()?, reading.byte()?)?;
        let column = code.has_values().then(|| {
            *places.entry((code.tag, code.form)).or_insert_with(|| {
                columns.push(code);
                columns.len() as u32 - 1
            })
        });
        codes.push((code, column));
    }
    Some((codes, columns))
}

/// The number of a code, and how many facts have it one after another.
type Run = (u32, usize);

/// The runs of all shapes one after another, and which of them each shape has.
fn take_shapes(reading: &mut Unpacking<'_>, codes: usize) -> Option<(Vec<Run>, Vec<Range<usize>>)> {
    let (mut runs, mut shapes) = (Vec::new(), Vec::new());
    for _ in 0..reading.count()? {
        let start = runs.len();
        for _ in 0..reading.count()? {
            let (code, count) = (reading.count()?, reading.count()?);
            runs.push((u32::try_from(code).ok().filter(|_| code < codes && count > 0)?, count));
        }
        shapes.push(start..runs.len());
    }
    Some((runs, shapes))
}

/// The shape of each node, and how many nodes have each shape.
fn take_nodes(reading: &mut Unpacking<'_>, count: usize, shapes: usize) -> Option<(Vec<u32>, Vec<usize>)> {
    let (mut nodes, mut uses) = (Vec::with_capacity(count), vec![0usize; shapes]);
    for _ in 0..count {
        let shape = reading.count()?;
        *uses.get_mut(shape)? += 1;
        nodes.push(shape as u32);
    }
    Some((nodes, uses))
}

/// How much there is to read of what follows the nodes.
struct Totals {
    /// Times that are said.
    said: usize,
    ends: usize,
    /// How many values each column has.
    values: Vec<usize>,
}

impl Totals {
    /// What runs come to, each with how many nodes have it. None where that is not `facts` facts.
    fn of(runs: impl Iterator<Item = (Run, usize)>, (codes, columns): (&[Coded], usize), facts: usize) -> Option<Totals> {
        let mut totals = Totals { said: 0, ends: 0, values: vec![0; columns] };
        let mut found = 0usize;
        for ((code, count), uses) in runs {
            let (code, column) = codes[code as usize];
            let count = count.checked_mul(uses)?;
            found = found.checked_add(count).filter(|found| *found <= facts)?;
            totals.said += if code.time == SAID { count } else { 0 };
            totals.ends += if code.tag.kind().has_end() { count } else { 0 };
            if let Some(column) = column {
                totals.values[column as usize] += count;
            }
        }
        (found == facts).then_some(totals)
    }
}

/// What stands for a node of which only the number is known so far.
fn unnamed(number: u32) -> NodeId {
    NodeId::new(NOBODY.high, number.into())
}

/// The number that an id stands for.
pub fn number_of(id: NodeId) -> Option<u32> {
    (id.high == NOBODY.high).then(|| id.low.try_into().ok()).flatten()
}

struct Ends<'a> {
    numbers: std::vec::IntoIter<u64>,
    /// Stands for an id.
    escape: u64,
    ids: std::slice::Iter<'a, [u8; ID_BYTES]>,
    numbered: bool,
}

impl<'a> Ends<'a> {
    fn read(reading: &mut Unpacking<'a>, count: usize, numbered: bool) -> Option<Ends<'a>> {
        let (escape, numbers) = if numbered { (reading.number()?, reading.column(count)?) } else { (0, Vec::new()) };
        let ids = if numbered { numbers.iter().filter(|number| **number == escape).count() } else { count };
        let ids = reading.raw(ids.checked_mul(ID_BYTES)?)?.as_chunks().0.iter();
        Some(Ends { numbers: numbers.into_iter(), escape, ids, numbered })
    }

    fn next(&mut self, fact: usize, named: &mut Vec<u32>) -> Option<NodeId> {
        if self.numbered {
            let number = self.numbers.next()?;
            if number != self.escape {
                return u32::try_from(number).ok().map(unnamed);
            }
            named.push(fact as u32);
        }
        self.ids.next().map(|id| NodeId::from_bytes(*id))
    }
}

enum Column<'a> {
    Numbers(std::vec::IntoIter<u64>),
    Texts(std::vec::IntoIter<Payload>),
    Bytes(std::vec::IntoIter<&'a [u8]>),
}

impl<'a> Column<'a> {
    fn read(reading: &mut Unpacking<'a>, code: Code, count: usize) -> Option<Column<'a>> {
        Some(match code.form {
            FORM_INTEGER => {
                Column::Numbers(reading.integers(count)?.into_iter().map(|number| number as u64).collect::<Vec<_>>().into_iter())
            }
            FORM_FLOAT => {
                let numbers: Vec<u64> = match reading.byte()?.checked_sub(1) {
                    Some(scale) => {
                        let scale = SCALES.get(usize::from(scale))?;
                        reading.integers(count)?.into_iter().map(|number| (number as f64 / scale).to_bits()).collect()
                    }
                    None => {
                        let bytes = reading.bytes(count.checked_mul(8)?)?;
                        bytes.as_chunks().0.iter().map(|bits| u64::from_le_bytes(*bits)).collect()
                    }
                };
                Column::Numbers(numbers.into_iter())
            }
            FORM_TEXT => Column::Texts(take_texts(reading, count)?.into_iter()),
            _ => {
                let mut lengths = Vec::new();
                for _ in 0..count {
                    lengths.push(reading.count()?);
                }
                let bytes = lengths.into_iter().map(|length| reading.bytes(length)).collect::<Option<Vec<_>>>()?;
                Column::Bytes(bytes.into_iter())
            }
        })
    }

    fn next(&mut self, code: Code, end: NodeId, arena: &mut Vec<u8>) -> Option<Payload> {
        let bytes = match self {
            Column::Numbers(numbers) => return Some(Payload { a: u64::from(code.form), b: numbers.next()? }),
            Column::Texts(texts) => return texts.next(),
            Column::Bytes(bytes) => bytes.next()?,
        };
        let start = arena.len();
        let form = match code.tag.kind() {
            Kind::Property => code.form,
            kind => {
                let enough = if kind == Kind::EdgeProperty { EDGE_PROPERTY_HEAD } else { PARALLEL_BYTES } - ID_BYTES;
                if bytes.len() < enough {
                    return None;
                }
                arena.extend_from_slice(&end.to_bytes());
                FORM_ENCODED
            }
        };
        arena.extend_from_slice(bytes);
        Some(in_arena(form, start, arena.len() - start))
    }
}

fn take_texts(reading: &mut Unpacking<'_>, count: usize) -> Option<Vec<Payload>> {
    let text = |reading: &mut Unpacking<'_>| {
        let length = usize::from(reading.byte()?);
        reading.bytes(length).filter(|_| length <= TEXT_INLINE_MAX).map(short_text)
    };
    let Some(different) = reading.count()?.checked_sub(1) else {
        return (0..count).map(|_| text(reading)).collect();
    };
    let different = (0..different).map(|_| text(reading)).collect::<Option<Vec<_>>>()?;
    reading.column(count)?.into_iter().map(|number| different.get(usize::try_from(number).ok()?).copied()).collect()
}
