//! One key, `v`, that holds what is hard to compare: numbers that are equal and not the same, NaN, texts around the ends of what
//! UTF-16 takes for a character, lists and maps with null or NaN in them, times that are one instant and differ; and queries that
//! compare, join, group and collect by it. None of them can fail: what does not compare is null. Nothing is sorted by it: of 1
//! and 1.0 either may come first.

use std::sync::OnceLock;

use weir_cypher_compiler::{Options, compile_plainly};
use weir_engine::Prepared;
use weir_engine::reference::{Question, ReferenceGraph};
use weir_engine::symbols::Symbols;
use weir_model::{IdScheme, Value};

use super::graph::choose;
use super::text::{Holds, Query, Writer};
use crate::random::Random;

/// The key of a map whose list is in nobody's order: what was collected of any values.
pub const BAG: &str = "bag";

/// The values as queries write them. Half of those that are taken are of the first few, so that some are equal.
const WRITTEN: &[&str] = &[
    "1",
    "1.0",
    "(0.0 / 0.0)",
    "0.0",
    "-0.0",
    "0",
    "'a'",
    "[1]",
    "[1.0]",
    "true",
    // Other numbers.
    "-1",
    "2",
    "2.0",
    "-(0.0 / 0.0)",
    "(1.0 / 0.0)",
    "(-1.0 / 0.0)",
    "9007199254740991",
    "9007199254740991.0",
    "9007199254740992.0",
    "9007199254740993",
    "9223372036854775807",
    "9.223372036854775807e18",
    "9.223372036854774784e18",
    "-9223372036854775808",
    "-9.223372036854775808e18",
    "false",
    // Texts, and how a character beyond the first plane is sorted.
    "''",
    "'ab'",
    "'\u{ffff}'",
    "'a\u{ffff}'",
    "'\u{1f600}'",
    "'\u{10ffff}'",
    "'a\u{10ffff}'",
    "'a text of more than twenty'",
    "'a text of more than twenty-four bytes'",
    // Lists and maps.
    "[]",
    "[null]",
    "[1, null]",
    "[(0.0 / 0.0)]",
    "[[(0.0 / 0.0)]]",
    "[[1]]",
    "['a', 1]",
    "{a: 1}",
    "{a: 1.0}",
    "{a: 1, b: 2}",
    "{b: 2, a: 1}",
    "{a: null}",
    "{a: [(0.0 / 0.0)]}",
    // Times.
    "date('2024-01-01')",
    "date('2023-12-31')",
    "localtime('10:00')",
    "localtime('10:00:00.000000001')",
    "time('10:00Z')",
    "time('11:00+01:00')",
    "localdatetime('2024-01-01T00:00:00')",
    "datetime('2024-01-01T00:00:00Z')",
    "datetime('2024-01-01T01:00:00+01:00')",
    "datetime('2024-01-01T01:00:00[Europe/Berlin]')",
    "duration('P1D')",
    "duration('PT24H')",
    "duration('P30D')",
    "duration('P1M')",
    "duration({seconds: -1})",
];
const COMMON: usize = 10;
const TEXTS: &[&str] = &["''", "'a'", "'\u{ffff}'", "'\u{10ffff}'", "'a\u{10ffff}'", "'a text of more than twenty'"];
const COMPARISONS: &[&str] = &["=", "=", "=", "<>", "<", "<=", ">", ">="];

fn any(random: &mut Random) -> usize {
    let among = if random.once_in(2) { COMMON } else { WRITTEN.len() };
    random.below(among as u64) as usize
}

/// What the key holds somewhere.
pub fn value(random: &mut Random) -> Value {
    values()[any(random)].clone()
}

/// Each of them, in the order in which they are written above.
fn values() -> &'static [Value] {
    static VALUES: OnceLock<Vec<Value>> = OnceLock::new();
    VALUES.get_or_init(|| {
        let items: Vec<String> = WRITTEN.iter().enumerate().map(|(at, text)| format!("{text} AS c{at}")).collect();
        let text = format!("RETURN {}", items.join(", "));
        let plan = compile_plainly(&text, &Options::default()).unwrap_or_else(|problems| panic!("{text}: {}", problems[0]));
        let (symbols, graph) = (Symbols::default(), ReferenceGraph::new());
        let prepared = Prepared::new(plan, &symbols);
        let question = Question {
            prepared: &prepared,
            graph: &graph,
            symbols: &symbols,
            ids: IdScheme::default(),
            parameters: &[],
            now_millis: 0,
            choices_max: 1,
        };
        question.answer().unwrap_or_else(|failure| panic!("{text}: {failure}")).remove(0)
    })
}

impl Writer<'_> {
    /// One of the values, written out.
    pub fn mixed_constant(&mut self) -> &'static str {
        WRITTEN[any(self.random)]
    }

    /// What the key holds of something in scope, mostly.
    pub fn mixed_value(&mut self) -> String {
        let found = match self.below(8) {
            0..=3 => self.of_node("v"),
            4 => self.variable(Holds::Edge).map(|edge| format!("{edge}.v")),
            5 | 6 => self.variable(Holds::Mixed),
            _ => self.of_node("v").map(|of_node| format!("coalesce({of_node}, {})", self.mixed_constant())),
        };
        let found = found.or_else(|| self.of_node("v"));
        found.unwrap_or_else(|| self.mixed_constant().to_owned())
    }

    /// As an item: sometimes in a list, a map or a CASE.
    pub fn mixed_item(&mut self) -> String {
        let one = self.mixed_value();
        match self.below(8) {
            0 => format!("[{one}, {}]", self.mixed_value()),
            1 => format!("{{a: {one}}}"),
            2 => {
                let (when, other) = (self.mixed_constant(), self.mixed_value());
                format!("CASE {one} WHEN {when} THEN {other} WHEN null THEN 'none' ELSE {one} END")
            }
            _ => one,
        }
    }

    pub fn mixed_aggregate(&mut self) -> (String, Holds) {
        let (distinct, of) = (if self.chance(2) { "DISTINCT " } else { "" }, self.mixed_item());
        match self.below(4) {
            0 => (format!("count({distinct}{of})"), Holds::Integer),
            1 => (format!("{{{BAG}: collect({distinct}{of})}}"), Holds::Collected),
            2 => (format!("min({of})"), Holds::Mixed),
            _ => (format!("max({of})"), Holds::Mixed),
        }
    }

    /// What may stand behind a node where the narrow form has conditions.
    pub fn mixed_test(&mut self) -> String {
        match self.below(8) {
            0 => "v IS NULL".to_owned(),
            1 => format!("v STARTS WITH {}", choose(self.random, TEXTS)),
            2 => format!("v IN [{}, {}]", self.mixed_constant(), self.mixed_constant()),
            _ => format!("v {} {}", choose(self.random, COMPARISONS), self.mixed_constant()),
        }
    }

    pub fn mixed_condition(&mut self) -> String {
        let (one, operator) = (self.mixed_value(), choose(self.random, COMPARISONS));
        match self.below(16) {
            0..=3 => format!("{one} {operator} {}", self.mixed_value()),
            4 | 5 => format!("{one} {operator} {}", self.mixed_constant()),
            6 => format!("{} {operator} {one}", self.mixed_constant()),
            7 => format!("({one} >= {} AND {one} < {})", self.mixed_constant(), self.mixed_constant()),
            8 => format!("{} <= {one} < {}", self.mixed_constant(), self.mixed_constant()),
            9 | 10 => {
                let not = if self.chance(3) { "NOT " } else { "" };
                let last = if self.chance(2) { "null".to_owned() } else { self.mixed_value() };
                format!("{not}{one} IN [{}, {}, {last}]", self.mixed_constant(), self.mixed_constant())
            }
            11 => {
                let operator = choose(self.random, &["STARTS WITH", "STARTS WITH", "ENDS WITH", "CONTAINS"]);
                format!("{one} {operator} {}", choose(self.random, TEXTS))
            }
            12 => format!("{one} {}", choose(self.random, &["IS NULL", "IS NOT NULL"])),
            13 => format!("[{one}] {operator} [{}]", self.mixed_value()),
            14 => format!("{{k: {one}}} {operator} {{k: {}}}", self.mixed_value()),
            _ => {
                let when = self.mixed_constant();
                format!("CASE {one} WHEN {when} THEN true WHEN null THEN false ELSE {one} {operator} {} END", self.mixed_value())
            }
        }
    }

    /// Whole queries that random clauses hardly ever come to.
    pub fn mixed_form(&mut self) -> Query {
        let (a, b, kept, count) = (self.fresh("n"), self.fresh("n"), self.fresh("w"), self.fresh("w"));
        let (label, other) = (choose(self.random, &["", ":A", ":B"]), choose(self.random, &["", "", ":A", ":C"]));
        let (operator, edge) = (choose(self.random, COMPARISONS), self.edge("", false));
        let constant = self.mixed_constant();
        let compared = format!("{b}.v {operator} {a}.v");
        let text = match self.below(10) {
            0 => {
                let found = match self.chance(2) {
                    true => format!("({b}{other} {{v: {kept}}})"),
                    false => format!("({b}{other}) WHERE {b}.v = {kept}"),
                };
                let with = format!("WITH {a}.v AS {kept}, count(*) AS {count}");
                format!("MATCH ({a}{label}) {with} MATCH {found} RETURN {kept} AS c0, {count} AS c1, id({b}) AS c2")
            }
            1 => {
                let function = choose(self.random, &["min", "max"]);
                let with = format!("WITH {function}({a}.v) AS {kept}");
                let found = format!("MATCH ({b}{other}) WHERE {b}.v {operator} {kept}");
                format!("MATCH ({a}{label}) {with} {found} RETURN {kept} AS c0, {b}.v AS c1")
            }
            2 => {
                let optional = format!("OPTIONAL MATCH ({b}{other}) WHERE {compared}");
                format!("MATCH ({a}{label}) {optional} RETURN {a}.v AS c0, {b}.v AS c1, count(*) AS c2")
            }
            3 => {
                let not = if self.chance(2) { "NOT " } else { "" };
                let exists = format!("{not}EXISTS {{ MATCH ({b}{other}) WHERE {compared} AND {b} <> {a} }}");
                format!("MATCH ({a}{label}) WHERE {exists} RETURN id({a}) AS c0, {a}.v AS c1")
            }
            4 => {
                let counted = format!("COUNT {{ MATCH ({b}{other}) WHERE {compared} }}");
                format!("MATCH ({a}{label}) RETURN id({a}) AS c0, {counted} AS c1")
            }
            5 => {
                let all = if self.chance(2) { " ALL" } else { "" };
                let second = format!("MATCH ({b}{other}) WHERE {b}.v {operator} {constant} RETURN {b}.v AS c0");
                format!("MATCH ({a}{label}) RETURN {a}.v AS c0 UNION{all} {second}")
            }
            6 => {
                let key = choose(self.random, &["x", "v"]);
                let ends = format!("min({a}.v) AS c1, max({a}.v) AS c2");
                let all = format!("count(DISTINCT {a}.v) AS c3, {{{BAG}: collect({a}.v)}} AS c4");
                format!("MATCH ({a}{label}) RETURN {a}.{key} AS c0, {ends}, {all}")
            }
            7 => {
                let with = format!("WITH DISTINCT {a}.v AS {kept}, {b}.v AS {count}");
                format!("MATCH ({a}{label}){edge}({b}{other}) WHERE {compared} {with} RETURN {kept} AS c0, {count} AS c1")
            }
            8 => {
                let found = format!("MATCH ({b}{other}) WHERE {b}.v = {kept}");
                format!("MATCH ({a}{label}) UNWIND {a}.v AS {kept} {found} RETURN id({a}) AS c0, {kept} AS c1, id({b}) AS c2")
            }
            _ => {
                let condition = format!("{compared} AND {a}.v >= {constant} AND {b}.v <> {}", self.mixed_constant());
                format!("MATCH ({a}{label}), ({b}{other}){edge}() WHERE {condition} RETURN {a}.v AS c0, id({b}) AS c1")
            }
        };
        Query { text, ordered: false, form: None }
    }
}

#[cfg(test)]
mod tests {
    use weir_cypher_compiler::{Options, StandingMode, compile, compile_plainly, compile_standing};
    use weir_model::Value;

    use super::{COMMON, WRITTEN, values};
    use crate::queries::text::{mixed_query_of_form, random_mixed_query};
    use crate::random::Random;

    #[test]
    fn the_values_are_what_they_are_written_for() {
        let values = values();
        assert_eq!(values.len(), WRITTEN.len());
        assert!(values.iter().all(|value| !value.is_null()));
        let of = |text: &str| &values[WRITTEN.iter().position(|written| *written == text).expect("it is written")];
        assert!(WRITTEN.iter().take(COMMON).any(|text| of(text).is_nan()));
        // Equal and not the same, and the other way round.
        for (x, y) in [("1", "1.0"), ("0.0", "-0.0"), ("[1]", "[1.0]"), ("{a: 1}", "{a: 1.0}")] {
            assert!(of(x).equals(of(y)) == Some(true) && !of(x).same(of(y)), "{x}, {y}");
        }
        for (x, y) in [("(0.0 / 0.0)", "-(0.0 / 0.0)"), ("[[(0.0 / 0.0)]]", "[[(0.0 / 0.0)]]")] {
            assert!(of(x).equals(of(y)) == Some(false) && of(x).same(of(y)), "{x}, {y}");
        }
        // One instant, one length.
        let instant = |text: &str| of(&format!("datetime('2024-01-01T{text}')"));
        for other in ["01:00:00+01:00", "01:00:00[Europe/Berlin]"] {
            let (utc, other) = (instant("00:00:00Z"), instant(other));
            assert!(utc.compare(other).is_some_and(|order| order.is_eq()) && utc.equals(other) == Some(false), "{other:?}");
        }
        let (day, hours) = (of("duration('P1D')"), of("duration('PT24H')"));
        assert!(day.order(hours).is_eq() && !day.same(hours));
        let last = Value::Integer(i64::MIN);
        assert!(values.iter().any(|value| value.same(&last)));
        // A character beyond the first plane is sorted before the last one of it.
        assert!(of("'\u{10ffff}'").compare(of("'\u{ffff}'")).is_some_and(|order| order.is_lt()));
    }

    #[test]
    fn queries_about_them_are_taken() {
        let (mut random, options) = (Random::new(1), Options::default());
        for _ in 0..500 {
            let text = mixed_query_of_form(&mut random).text;
            if let Err(problems) = compile(&text, &options).and_then(|_| compile_plainly(&text, &options)) {
                panic!("{text}: {}", problems[0]);
            }
            if let Err(problems) = compile_standing(&text, StandingMode::AnyQuery, &options) {
                panic!("{text}, maintained: {}", problems[0]);
            }
        }
        let texts = (0..500).map(|_| random_mixed_query(&mut random).without_parameters());
        let taken = texts.filter(|text| compile(text, &options).is_ok()).count();
        assert!(taken > 475, "{taken}");
    }
}
