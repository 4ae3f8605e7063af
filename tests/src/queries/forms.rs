//! Forms that random clauses hardly ever come to, each once the place of a fault: one in several random queries is of one of
//! them. They are written to have an answer in most graphs, so that a run can be asked for each of them.

use weir_model::IdScheme;

use super::graph::{KINDS, LABELS, LASTING, choose, node};
use super::text::{Query, Writer};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A node by the text of its id.
    IdText,
    /// A list where a condition stands.
    ListCondition,
    /// A map that holds nodes, and what is made of it.
    NodesInMap,
    /// Some rows have no value where others have one.
    Fails,
    /// An equality with what a clause has summed up.
    EqualToSummed,
    /// A list in the order of an earlier clause.
    CollectedInOrder,
    /// Some of the rows in the order of an earlier clause.
    CutInOrder,
    /// A variable of a list that is called like a node.
    Shadow,
}

/// In the order in which they are declared: each stands at its number.
pub const FORMS: [Form; 8] = [
    Form::IdText,
    Form::ListCondition,
    Form::NodesInMap,
    Form::Fails,
    Form::EqualToSummed,
    Form::CollectedInOrder,
    Form::CutInOrder,
    Form::Shadow,
];

impl Writer<'_> {
    pub fn form(&mut self, form: Form) -> Query {
        let text = match form {
            Form::IdText => self.id_text(),
            Form::ListCondition => self.list_condition(),
            Form::NodesInMap => self.nodes_in_map(),
            Form::Fails => self.fails(),
            Form::EqualToSummed => self.equal_to_summed(),
            Form::CollectedInOrder => self.collected_in_order(),
            Form::CutInOrder => self.cut_in_order(),
            Form::Shadow => self.shadow(),
        };
        Query { text, ordered: false, form: Some(form) }
    }

    /// With an edge: to seek a node finds it even where nothing is known of it, to scan does not.
    fn id_text(&mut self) -> String {
        let (n, m, edge) = (self.fresh("n"), self.fresh("n"), self.edge("", false));
        let text = IdScheme::default().text(node(self.below(LASTING)));
        let condition = match self.below(5) {
            0 => format!("id({n}) = '{text}'"),
            1 => format!("strId({n}) = '{text}'"),
            2 => format!("'{text}' = id({n})"),
            3 => format!("id({n}) = {m}.ref"),
            _ => format!("strId({n}) = {m}.ref"),
        };
        let before = if self.chance(4) { format!("MATCH ({m}:{}) ", choose(self.random, LABELS)) } else { String::new() };
        let rest = if self.chance(4) { format!(" AND {m}.x >= 0") } else { String::new() };
        format!("{before}MATCH ({n}){edge}({m}) WHERE {condition}{rest} RETURN id({n}) AS c0, id({m}) AS c1, {m}.x AS c2")
    }

    fn list_condition(&mut self) -> String {
        let (n, m, element, kept) = (self.fresh("n"), self.fresh("n"), self.fresh("t"), self.fresh("w"));
        let (kind, edge) = (choose(self.random, KINDS), self.edge("", false));
        let list = match self.below(5) {
            0 => format!("{n}.l"),
            1 => format!("[{element} IN {n}.l WHERE {element} > {}]", self.below(3)),
            2 => format!("labels({n})"),
            3 => format!("[({n})-[:{kind}]->({m}) | {m}]"),
            _ => format!("tail({n}.l)"),
        };
        match self.below(4) {
            0 => format!("MATCH ({n}) WITH {n}, {n}.x AS {kept} WHERE {list} RETURN id({n}) AS c0, {kept} AS c1"),
            1 => {
                let other = self.fresh("n");
                format!("MATCH ({n}){edge}({other}) WHERE {list} RETURN id({n}) AS c0, id({other}) AS c1")
            }
            _ => format!("MATCH ({n}) WHERE {list} RETURN id({n}) AS c0, {n}.x AS c1"),
        }
    }

    fn nodes_in_map(&mut self) -> String {
        let (a, b, edge) = (self.fresh("n"), self.fresh("n"), self.edge("", false));
        let (map, made) = (self.fresh("m"), self.fresh("m"));
        let projected = match self.below(4) {
            0 | 1 => format!("{map} {{.*, n: 1}}"),
            2 => format!("properties({map})"),
            _ => format!("{map} {{.who, .to}}"),
        };
        let returned = match self.below(3) {
            0 => format!("{made}.who.x AS c0, {made}.to.y AS c1"),
            1 => format!("id({made}.who) AS c0, labels({made}.to) AS c1"),
            _ => format!("{made} AS c0"),
        };
        format!("MATCH ({a}){edge}({b}) WITH {{who: {a}, to: {b}}} AS {map} WITH {projected} AS {made} RETURN {returned}")
    }

    /// Plain values alone: it is compared with an answer in which nodes are not in full.
    fn fails(&mut self) -> String {
        let (a, b, quotient) = (self.fresh("n"), self.fresh("n"), self.fresh("w"));
        let kinds = choose(self.random, &["R|S", "S|T", "R|T"]);
        let divisor = if self.chance(2) { format!("{b}.x") } else { format!("({b}.x % 2)") };
        let projected = format!("WITH {a}, {b}, 10 / {divisor} AS {quotient} RETURN {a}.y AS c0, {b}.y AS c1, {quotient} AS c2");
        match self.below(4) {
            0 => format!("OPTIONAL MATCH ({a})-[:{kinds}]->({b}) {projected}"),
            1 => format!("MATCH ({a}) OPTIONAL MATCH ({a})-[:{kinds}]->({b}) {projected}"),
            2 => format!("MATCH ({a})-[:{kinds}*1..3]->({b}) WHERE 10 / {divisor} > 1 RETURN {a}.y AS c0, {b}.x AS c1"),
            _ => format!("MATCH ({a})-[:{kinds}]->({b}) WHERE 10 / {divisor} > 1 RETURN {a}.y AS c0, {b}.x AS c1"),
        }
    }

    fn equal_to_summed(&mut self) -> String {
        let (a, b, kept, key) = (self.fresh("n"), self.fresh("n"), self.fresh("w"), choose(self.random, &["x", "y", "s"]));
        let (label, other, edge) = (choose(self.random, LABELS), choose(self.random, LABELS), self.edge("", false));
        let (with, returned, wanted) = match self.below(4) {
            0 => (format!("{a}, count(*) AS {kept}"), format!("id({a}) AS c0, {kept} AS c1"), format!("{a}.{key}")),
            1 => (format!("DISTINCT {a}"), format!("id({a}) AS c0, {a}.y AS c1"), format!("{a}.{key}")),
            2 => {
                let limit = 1 + self.below(4);
                (format!("{a} ORDER BY {a} LIMIT {limit}"), format!("id({a}) AS c0, {a}.y AS c1"), format!("{a}.{key}"))
            }
            _ => {
                let count = self.fresh("w");
                let with = format!("{a}.{key} AS {kept}, count(*) AS {count}");
                (with, format!("{kept} AS c0, {count} AS c1"), kept.clone())
            }
        };
        let found = match self.chance(2) {
            true => format!("({b}:{other} {{{key}: {wanted}}})"),
            false => format!("({b}:{other}) WHERE {b}.{key} = {wanted}"),
        };
        format!("MATCH ({a}:{label}){edge}() WITH {with} MATCH {found} RETURN {returned}, id({b}) AS c2")
    }

    /// Rows that are alike in what they are sorted by are alike in what is collected of them, so the list is one.
    fn collected_in_order(&mut self) -> String {
        let (a, b, key) = (self.fresh("n"), self.fresh("n"), choose(self.random, &["x", "y"]));
        let (label, other) = (choose(self.random, LABELS), choose(self.random, LABELS));
        let joined = match self.chance(2) {
            true => format!("({b}:{other})"),
            false => format!("({a}){}({b})", self.edge("", false)),
        };
        let returned = if self.chance(4) { String::new() } else { format!("{b}.y AS c0, ") };
        format!("MATCH ({a}:{label}) WITH {a} ORDER BY {a}.{key} DESC MATCH {joined} RETURN {returned}collect({a}.{key}) AS c1")
    }

    /// The order is that of all rows; what is made of one of them is alike in what is returned, or has an order of its own.
    fn cut_in_order(&mut self) -> String {
        let (a, b, key) = (self.fresh("n"), self.fresh("n"), choose(self.random, &["x", "y"]));
        let (label, edge) = (choose(self.random, LABELS), self.edge("", false));
        let direction = choose(self.random, &[" DESC", " DESC", ""]);
        let (ordered, order) = (format!("MATCH ({a}:{label})"), format!("ORDER BY {a}.{key}{direction}, id({a})"));
        let (skipped, shown) = (self.below(3), 1 + self.below(4));
        let cut = match self.below(4) {
            0 => format!("SKIP {skipped}"),
            1 => format!("SKIP {skipped} LIMIT {shown}"),
            _ => format!("LIMIT {shown}"),
        };
        let columns = format!("id({a}) AS c0, {a}.y AS c1");
        match self.below(8) {
            0 => format!("{ordered} WITH {a} {order} RETURN {columns} {cut}"),
            1 => format!("{ordered} WITH {a} {order} {cut} RETURN {columns} SKIP {}", self.below(2)),
            2 => {
                let kept = self.fresh("w");
                let with = format!("WITH {a}, {a}.{key} AS {kept} {cut}");
                format!("{ordered} WITH {a} {order} {with} MATCH ({a}){edge}({b}) RETURN {kept} AS c0, id({b}) AS c1")
            }
            3 => format!("CALL {{ {ordered} RETURN {a} {order} }} RETURN {columns} {cut}"),
            4 => {
                let word = choose(self.random, &["MATCH", "OPTIONAL MATCH"]);
                format!("{ordered} WITH {a} {order} {word} ({a}){edge}({b}) RETURN {columns} {cut}")
            }
            5 => {
                let count = self.fresh("w");
                let with = format!("WITH {a}, count(*) AS {count} ORDER BY {count}{direction}, id({a}) WHERE {count} < 4");
                format!("{ordered}{edge}() {with} RETURN {columns}, {count} AS c2 {cut}")
            }
            6 => {
                let found = format!("CALL {{ WITH {b} MATCH ({b}){edge}({a}) RETURN {a} {order} }}");
                format!("MATCH ({b}:{label}) WITH {b} ORDER BY id({b}) {found} RETURN {columns}, id({b}) AS c2 {cut}")
            }
            _ => {
                let element = self.fresh("t");
                format!("{ordered} WITH {a} {order} UNWIND [1, 1] AS {element} RETURN {columns}, {element} AS c2 {cut}")
            }
        }
    }

    fn shadow(&mut self) -> String {
        let (n, m, total, edge) = (self.fresh("n"), self.fresh("n"), self.fresh("t"), self.edge("", false));
        let part = if self.chance(2) { format!("({n})") } else { format!("({n}){edge}({m})") };
        let of = match self.below(4) {
            0 => format!("[{n} IN {n}.l | {n} * 2]"),
            1 => format!("[{n} IN {n}.l WHERE {n} > 0 | {n} + 1]"),
            2 => format!("reduce({total} = 0, {n} IN {n}.l | {total} + {n})"),
            _ => format!("any({n} IN {n}.l WHERE {n} > 1)"),
        };
        format!("MATCH {part} WHERE {n}.l IS NOT NULL RETURN {of} AS c0, id({n}) AS c1")
    }
}

#[cfg(test)]
mod tests {
    use weir_cypher_compiler::{Options, StandingMode, compile, compile_plainly, compile_standing};

    use super::FORMS;
    use crate::queries::text::{Relative, query_of_form};
    use crate::random::Random;

    #[test]
    fn each_form_is_taken() {
        let (mut random, options) = (Random::new(1), Options::default());
        for form in FORMS.into_iter().cycle().take(FORMS.len() * 50) {
            let query = query_of_form(&mut random, form);
            let relatives = [Relative::Labels, Relative::Properties, Relative::Columns].map(|how| query.relative(how));
            for text in relatives.iter().chain([&query]).map(|query| &query.text) {
                if let Err(problems) = compile(text, &options).and_then(|_| compile_plainly(text, &options)) {
                    panic!("{text}: {}", problems[0]);
                }
                if let Err(problems) = compile_standing(text, StandingMode::AnyQuery, &options) {
                    panic!("{text}, maintained: {}", problems[0]);
                }
            }
            assert!(relatives.iter().all(|relative| relative.may_fail() == query.may_fail()), "{}", query.text);
        }
    }

    #[test]
    fn a_form_stands_at_its_number() {
        assert!(FORMS.iter().enumerate().all(|(at, form)| *form as usize == at));
    }
}
