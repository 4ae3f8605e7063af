//! Random queries, clause by clause, with the variables each clause leaves in scope and what they hold.

use weir_model::{IdScheme, Plan, Value};

use super::forms::Form;
use super::graph::{choose, node};
use super::mixed::BAG;
use crate::random::Random;

/// A query, and how far its answer is one.
#[derive(Clone, Debug)]
pub struct Query {
    pub text: String,
    /// Its rows come in one order.
    pub ordered: bool,
    /// It is of a form of its own.
    pub form: Option<Form>,
}

/// 2^52.
const DIGITS_END: f64 = (1_u64 << 52) as f64;

impl Query {
    /// The text with the values of its parameters written out, for those that take none.
    pub fn without_parameters(&self) -> String {
        let mut text = self.text.clone();
        for name in ["a", "b", "p", "q", "s"] {
            text = text.replace(&format!("${name}"), &written(name));
        }
        text
    }

    /// Another query, which may take the place of this one.
    pub fn relative(&self, how: Relative) -> Query {
        Query { text: relative(&self.text, how), ordered: self.ordered, form: self.form }
    }

    /// Time alone may change its answer.
    pub fn looks_at_clock(&self) -> bool {
        ["timestamp()", "datetime()", "date()"].iter().any(|clock| self.text.contains(clock))
    }

    /// Of some row something may have no value: it divides by what a node has.
    pub fn may_fail(&self) -> bool {
        [" / n", " / (n"].iter().any(|divided| self.text.contains(divided))
    }

    /// Whether something of it has no value also depends on what a plan looks at first: a condition may be asked of nodes that
    /// come to no row.
    pub fn fails_as_planned(&self) -> bool {
        self.may_fail() && self.text.contains("WHERE")
    }

    /// The text for a plan without anchors. To an anchor the text of an id is that id, to `=` it is only a text: there it must be
    /// asked for as one.
    pub fn without_anchors(&self, text: &str) -> String {
        match self.form {
            Some(Form::IdText) => text.replace("WHERE id(", "WHERE strId(").replace("' = id(", "' = strId("),
            _ => text.to_owned(),
        }
    }

    /// What it collects comes in one order: that of its own values.
    fn collects_in_order(&self) -> bool {
        [".x DESC MATCH", ".y DESC MATCH"].iter().any(|sorted| self.text.contains(sorted))
    }

    /// A row as any answer may give it: what was collected is sorted, unless it has one order, and a float is rounded, since a
    /// sum may have been added up in another order.
    pub fn comparable(&self, row: &[Value]) -> Vec<Value> {
        let collects = self.text.contains("collect(") && !self.collects_in_order();
        let comparable = |value: &Value| match value {
            // Lists of anything else are compared as they are.
            Value::List(items) if collects && items.iter().all(|item| matches!(item, Value::Integer(_))) => {
                let mut items = items.to_vec();
                items.sort();
                Value::list(items)
            }
            Value::Map(map) => match map.get(BAG) {
                Some(Value::List(items)) => {
                    let mut items = items.to_vec();
                    items.sort();
                    Value::list(items)
                }
                _ => value.clone(),
            },
            // From here on a float has nothing behind its point, and its neighbours are to be told apart.
            Value::Float(x) if x.abs() < DIGITS_END => Value::Float((x * 1e9).round() / 1e9),
            other => other.clone(),
        };
        row.iter().map(comparable).collect()
    }
}

fn written(parameter: &str) -> String {
    let id = |n: usize| format!("quineId('{}')", IdScheme::default().text(node(n)));
    match parameter {
        "a" => id(0),
        "b" => id(1),
        "p" => "1".to_owned(),
        "q" => "[0, null, 2]".to_owned(),
        _ => "'ab'".to_owned(),
    }
}

/// The values, in the order in which a plan asks for them.
pub fn parameters(plan: &Plan) -> Vec<Value> {
    let value = |name: &str| match name {
        "a" => Value::Id(node(0)),
        "b" => Value::Id(node(1)),
        "p" => Value::Integer(1),
        "q" => Value::list(vec![Value::Integer(0), Value::Null, Value::Integer(2)]),
        _ => Value::text("ab"),
    };
    plan.parameters.iter().map(|name| value(name)).collect()
}

/// How another query is made of one. Both are as well typed, look at the clock in the same places and leave the same undecided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relative {
    /// Each label and each type of edges is the next one.
    Labels,
    /// `x` of a node is `y`, and the other way round: more or less of the rows stay.
    Properties,
    /// All is the same, but the names of the columns.
    Columns,
}

fn relative(text: &str, how: Relative) -> String {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len()));
        let is_property = out.strip_suffix('.').is_some_and(|before| before.ends_with(is_of_word));
        let number = word.strip_prefix('c').filter(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()));
        match (how, word, number) {
            (Relative::Labels, "A", _) => out += "B",
            (Relative::Labels, "B", _) => out += "C",
            (Relative::Labels, "C", _) => out += "A",
            (Relative::Labels, "R", _) => out += "S",
            (Relative::Labels, "S", _) => out += "T",
            (Relative::Labels, "T", _) => out += "R",
            (Relative::Properties, "x", _) if is_property => out += "y",
            (Relative::Properties, "y", _) if is_property => out += "x",
            // Of a subquery, too: nothing else is called so.
            (Relative::Columns, _, Some(number)) => {
                out.push('d');
                out += number;
            }
            _ => out += word,
        }
        let (sign, after) = after.split_at(after.chars().next().map_or(0, char::len_utf8));
        out += sign;
        rest = after;
    }
    out
}

/// What a variable holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    Node,
    Edge,
    /// The list of a chain.
    Edges,
    Path,
    /// One of several shortest paths.
    Shortest,
    Integer,
    Float,
    Text,
    Boolean,
    Integers,
    Anything,
    /// A number of milliseconds since 1970.
    Moment,
    /// A list of integers in nobody's order.
    Bag,
    /// What is hard to compare.
    Mixed,
    /// A map with a list of anything in nobody's order.
    Collected,
}

impl Holds {
    /// It differs from answer to answer: it is no key of a group, nor what is sorted by.
    fn is_in_no_order(self) -> bool {
        matches!(self, Holds::Bag | Holds::Collected)
    }
}

#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub holds: Holds,
}

pub struct Writer<'r> {
    pub random: &'r mut Random,
    pub scope: Vec<Variable>,
    /// Edges of earlier clauses that this clause names.
    pub bound_edges: Vec<String>,
    /// It may look at the clock.
    pub clocked: bool,
    /// It may ask for what is hard to compare.
    pub mixed: bool,
    names: usize,
}

/// How much a query may ask: a part of them are simple, since what is maintained is mostly simple, and so are users.
#[derive(Clone, Copy)]
struct Size {
    clauses: usize,
    depth: usize,
    edges: usize,
}

pub fn random_query(random: &mut Random) -> Query {
    query(Writer::new(random))
}

/// As `random_query`, with conditions on the current time wherever conditions stand.
pub fn random_clocked_query(random: &mut Random) -> Query {
    query(Writer { clocked: true, ..Writer::new(random) })
}

/// As `random_query`, with what is hard to compare wherever conditions, items and keys of groups stand.
pub fn random_mixed_query(random: &mut Random) -> Query {
    match random.once_in(3) {
        true => mixed_query_of_form(random),
        false => query(Writer { mixed: true, ..Writer::new(random) }),
    }
}

/// A query about what is hard to compare, as the random ones hardly ever are.
pub fn mixed_query_of_form(random: &mut Random) -> Query {
    Writer { mixed: true, ..Writer::new(random) }.mixed_form()
}

/// A query of a form that the random ones hardly ever come to.
pub fn query_of_form(random: &mut Random, form: Form) -> Query {
    Writer::new(random).form(form)
}

fn query(mut writer: Writer) -> Query {
    let size = match writer.below(4) {
        0 => Size { clauses: 1, depth: 1, edges: 2 },
        1 => Size { clauses: 1, depth: 2, edges: 3 },
        _ => Size { clauses: 1 + writer.below(4), depth: 1 + writer.below(3), edges: 2 },
    };
    let (union, watched) = (writer.chance(16), writer.chance(6));
    if watched {
        return writer.watched();
    }
    if !union {
        return writer.single(size, None);
    }
    let columns = 1 + writer.below(2);
    let first = writer.single(size, Some(columns));
    writer.scope.clear();
    let second = writer.single(size, Some(columns));
    let all = if writer.chance(2) { " ALL" } else { "" };
    Query { text: format!("{} UNION{all} {}", first.text, second.text), ordered: false, form: None }
}

impl<'r> Writer<'r> {
    fn new(random: &'r mut Random) -> Writer<'r> {
        Writer { random, scope: Vec::new(), bound_edges: Vec::new(), clocked: false, mixed: false, names: 0 }
    }
}

impl Writer<'_> {
    pub fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// True once in `n`.
    pub fn chance(&mut self, n: u64) -> bool {
        self.random.once_in(n)
    }

    pub fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    pub fn declare(&mut self, name: &str, holds: Holds) {
        self.scope.push(Variable { name: name.to_owned(), holds });
    }

    pub fn with_variable<T>(&mut self, name: &str, holds: Holds, write: impl FnOnce(&mut Self) -> T) -> T {
        self.inside(|writer| {
            writer.declare(name, holds);
            write(writer)
        })
    }

    /// What is declared inside ends there.
    pub fn inside<T>(&mut self, write: impl FnOnce(&mut Self) -> T) -> T {
        let (scope, bound_edges) = (self.scope.clone(), self.bound_edges.clone());
        let result = write(self);
        (self.scope, self.bound_edges) = (scope, bound_edges);
        result
    }

    /// One query without UNION; with `columns`, exactly this many columns, of plain values.
    fn single(&mut self, size: Size, columns: Option<usize>) -> Query {
        let mut clauses = Vec::new();
        for at in 0..size.clauses {
            let clause = match self.below(10) {
                0 if at > 0 || self.chance(2) => self.unwind(size),
                1 | 2 if at > 0 => self.optional(size),
                3 if at == 0 => self.optional(size),
                4 if at > 0 => self.call(size),
                5 | 6 if at > 0 && !self.scope.is_empty() => self.with(size),
                _ => self.matching(size, "MATCH"),
            };
            clauses.push(clause);
        }
        let (returned, ordered) = self.returned(size, columns);
        clauses.push(returned);
        Query { text: clauses.join(" "), ordered, form: None }
    }

    /// The narrow form that every version can maintain: a tree of nodes, conditions on their properties, plain columns.
    fn watched(&mut self) -> Query {
        let mut part = String::new();
        let mut nodes = Vec::new();
        for at in 0..1 + self.below(4) {
            let name = self.fresh("n");
            let arrow = choose(self.random, &["-[:R]->", "<-[:R]-", "-[:S]->", "<-[:T]-"]);
            let label = match self.mixed && self.chance(6) {
                true => format!(" {{v: {}}}", self.mixed_constant()),
                false => choose(self.random, &["", ":A", ":B", "", " {x: 1}"]).to_owned(),
            };
            // From the second on at the end of the chain, or beside it.
            part += &match (at, self.chance(3)) {
                (0, _) => format!("({name}{label})"),
                (_, true) => format!(", ({}){arrow}({name}{label})", nodes[self.below(nodes.len())]),
                (_, false) => format!(", ({}){arrow}({name}{label})", nodes[at - 1]),
            };
            nodes.push(name);
        }
        let mut conditions = Vec::new();
        for _ in 0..self.below(3) {
            let (n, m) = (&nodes[self.below(nodes.len())].clone(), &nodes[self.below(nodes.len())].clone());
            let plain = ["x = 1", "y <> 2", "s IS NULL", "b IS NOT NULL", "x >= 0", "s STARTS WITH 'a'", "l = [1]"];
            let test = match self.mixed && !self.chance(3) {
                true => self.mixed_test(),
                false => choose(self.random, &plain).to_owned(),
            };
            conditions.push(match self.below(3) {
                0 if self.mixed => format!("{n}.v {} {m}.v", choose(self.random, &["=", "=", "<>", "<"])),
                0 => format!("{n}.x < {m}.y"),
                1 => format!("(coalesce({n}.x, 0) + 1 > 0 OR {m}.b)"),
                _ => format!("{n}.{test}"),
            });
        }
        let distinct = self.chance(3);
        if distinct {
            let simple = ["IS", "= 1", "<> 2", ".v = ", ".v <> "];
            conditions.retain(|condition| simple.iter().any(|simple| condition.contains(simple)));
        }
        let condition = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
        let returned = if distinct {
            format!("DISTINCT id({}) AS c0", nodes[0])
        } else {
            let node = &nodes[self.below(nodes.len())];
            let rest = match self.mixed {
                true => choose(self.random, &["v AS c1", "v AS c1", "x AS c1"]),
                false => choose(self.random, &["x AS c1", "z AS c1", "s + 'a' AS c1", "x + 1 AS c1, 2 AS c2"]),
            };
            format!("id({}) AS c0, {node}.{rest}", nodes[0])
        };
        Query { text: format!("MATCH {part}{condition} RETURN {returned}"), ordered: false, form: None }
    }

    fn matching(&mut self, size: Size, word: &str) -> String {
        self.bound_edges.clear();
        if self.chance(20) || self.mixed && self.chance(5) {
            return self.joined_by_value(word);
        }
        let patterns = self.patterns(2, size.edges);
        // The shortest path under a condition is the shortest that meets it; that is a rule's to say, not the text's.
        let holds_shortest = patterns.contains("hortestPath");
        let condition = match self.chance(2) && !holds_shortest {
            true => format!(" WHERE {}", self.boolean(size.depth)),
            false => String::new(),
        };
        format!("{word} {patterns}{condition}")
    }

    /// Parts that no edge connects, and values that do.
    fn joined_by_value(&mut self, word: &str) -> String {
        let (a, b) = (self.fresh("n"), self.fresh("n"));
        let (of_a, of_b) = match self.mixed && !self.chance(5) {
            true => ("v", choose(self.random, &["v", "v", "v", "v", "x", "f", "s", "l"])),
            false => (choose(self.random, &["x", "y", "z", "k"]), choose(self.random, &["x", "y", "z", "x + 1"])),
        };
        let parts = format!("({a}{}), ({b}){}()", choose(self.random, &["", ":A", ":B"]), self.edge("", false));
        self.declare(&a, Holds::Node);
        self.declare(&b, Holds::Node);
        let operator = choose(self.random, &["=", "=", "<", "<>"]);
        format!("{word} {parts} WHERE {a}.{of_a} {operator} {b}.{of_b}")
    }

    fn optional(&mut self, size: Size) -> String {
        self.matching(size, "OPTIONAL MATCH")
    }

    fn unwind(&mut self, size: Size) -> String {
        if self.mixed && self.chance(2) {
            let list = format!("[{}, {}, {}]", self.mixed_constant(), self.mixed_value(), self.mixed_constant());
            let name = self.fresh("u");
            self.declare(&name, Holds::Mixed);
            return format!("UNWIND {list} AS {name}");
        }
        let list = match self.variable(Holds::Bag) {
            Some(bag) if self.chance(2) => bag,
            _ => self.integers(size.depth),
        };
        let name = self.fresh("u");
        self.declare(&name, Holds::Integer);
        format!("UNWIND {list} AS {name}")
    }

    /// A subquery that brings one value more, or only keeps rows.
    fn call(&mut self, size: Size) -> String {
        let Some(node) = self.variable(Holds::Node) else { return self.matching(size, "MATCH") };
        let name = self.fresh("c");
        let mut holds = Holds::Integer;
        let inner = self.inside(|writer| {
            writer.scope = vec![Variable { name: node.clone(), holds: Holds::Node }];
            let word = choose(writer.random, &["OPTIONAL MATCH", "MATCH", "MATCH"]);
            let matched = writer.matching(Size { edges: 1, depth: 1, ..size }, word);
            let value = if writer.mixed && writer.chance(2) {
                holds = Holds::Mixed;
                format!("max({})", writer.mixed_item())
            } else if writer.chance(2) {
                "count(*)".to_owned()
            } else {
                format!("max({})", writer.integer(1))
            };
            format!("{matched} RETURN {value} AS {name}")
        });
        self.declare(&name, holds);
        if self.chance(2) { format!("CALL {{ WITH {node} {inner} }}") } else { format!("CALL ({node}) {{ {inner} }}") }
    }

    fn with(&mut self, size: Size) -> String {
        let aggregates = self.chance(3);
        let distinct = !aggregates && self.chance(4);
        let mut kept: Vec<Variable> = Vec::new();
        let mut items: Vec<String> = Vec::new();
        for variable in self.scope.clone() {
            let goes_on = match variable.holds {
                Holds::Shortest => false,
                Holds::Bag | Holds::Collected => !aggregates && !distinct,
                Holds::Node => !self.chance(4),
                _ => !self.chance(3),
            };
            if goes_on {
                items.push(variable.name.clone());
                kept.push(variable);
            }
        }
        for _ in 0..1 + self.below(2) {
            let name = self.fresh("w");
            let (expression, holds) = if aggregates { self.aggregate(size.depth) } else { self.item(size.depth) };
            items.push(format!("{expression} AS {name}"));
            kept.push(Variable { name, holds });
        }
        self.scope = kept;
        let order = if self.chance(3) { self.order() } else { None };
        // Groups are mostly made to be chosen among.
        let filtered = self.chance(if aggregates { 2 } else { 4 });
        let condition = if filtered { format!(" WHERE {}", self.boolean(size.depth.min(2))) } else { String::new() };
        format!("WITH {}{}{}{condition}", if distinct { "DISTINCT " } else { "" }, items.join(", "), order.unwrap_or_default())
    }

    /// ORDER BY every column, so that all have the same order, and perhaps some rows of it.
    fn order(&mut self) -> Option<String> {
        // Values that sort alike and differ have no order, and the map of all properties may hold such a one.
        let has_ties = |holds: Holds| self.mixed && matches!(holds, Holds::Mixed | Holds::Anything);
        let has_order = |v: &Variable| !(v.holds.is_in_no_order() || v.holds == Holds::Shortest || has_ties(v.holds));
        if self.scope.is_empty() || !self.scope.iter().all(has_order) {
            return None;
        }
        let mut names: Vec<String> = self.scope.iter().map(|v| v.name.clone()).collect();
        for at in (1..names.len()).rev() {
            let other = self.below(at + 1);
            names.swap(at, other);
        }
        let keys: Vec<String> = names.into_iter().map(|name| name + choose(self.random, &["", " DESC", " ASC"])).collect();
        let skip = if self.chance(3) { format!(" SKIP {}", self.below(3)) } else { String::new() };
        let limit = if self.chance(2) { format!(" LIMIT {}", self.below(5)) } else { String::new() };
        Some(format!(" ORDER BY {}{skip}{limit}", keys.join(", ")))
    }

    fn item(&mut self, depth: usize) -> (String, Holds) {
        if self.clocked && self.chance(6) {
            return (self.moment(), Holds::Moment);
        }
        if self.mixed && self.chance(2) {
            return (self.mixed_item(), Holds::Mixed);
        }
        let holds = match self.below(8) {
            0 => Holds::Float,
            1 => Holds::Text,
            2 => Holds::Boolean,
            3 => Holds::Integers,
            4 => Holds::Anything,
            _ => Holds::Integer,
        };
        (self.expression(holds, depth), holds)
    }

    fn aggregate(&mut self, depth: usize) -> (String, Holds) {
        if self.clocked && self.chance(4) {
            let (function, moment) = (choose(self.random, &["min", "max"]), self.moment());
            return (format!("{function}({moment})"), Holds::Moment);
        }
        if self.mixed && self.chance(2) {
            return self.mixed_aggregate();
        }
        let distinct = if self.chance(3) { "DISTINCT " } else { "" };
        let depth = depth.min(1);
        match self.below(11) {
            0 | 1 => ("count(*)".to_owned(), Holds::Integer),
            2 => {
                let of = self.variable(Holds::Node).unwrap_or_else(|| self.anything(depth));
                (format!("count({distinct}{of})"), Holds::Integer)
            }
            3 => (format!("sum({distinct}{})", self.integer(depth)), Holds::Integer),
            4 => {
                let (function, of) = (choose(self.random, &["min", "max"]), self.expression(Holds::Text, depth));
                (format!("{function}({of})"), Holds::Text)
            }
            5 => (format!("collect({distinct}{})", self.integer(depth)), Holds::Bag),
            6 => (format!("avg({distinct}{})", self.integer(depth)), Holds::Anything),
            // The last digits depend on the order of the sum.
            7 => {
                let function = choose(self.random, &["stDev", "stDevP"]);
                (format!("toInteger(round({function}({}) * 1000))", self.integer(depth)), Holds::Integer)
            }
            8 => {
                let function = choose(self.random, &["percentileDisc", "percentileCont"]);
                let part = choose(self.random, &["0.0", "0.25", "0.5", "1.0"]);
                (format!("{function}({}, {part})", self.integer(depth)), Holds::Anything)
            }
            9 => (format!("sum({distinct}{})", self.float(depth)), Holds::Float),
            _ => {
                let (function, of) = (choose(self.random, &["min", "max"]), self.integer(depth));
                (format!("{function}({of})"), Holds::Integer)
            }
        }
    }

    /// RETURN, and whether the rows then have one order.
    fn returned(&mut self, size: Size, columns: Option<usize>) -> (String, bool) {
        let aggregates = self.chance(5);
        let distinct = !aggregates && self.chance(5);
        let mut items: Vec<(String, Holds)> = Vec::new();
        for at in 0..columns.unwrap_or(1 + self.below(3)) {
            // A bag is no key of a group, and a union has none.
            let item = match self.below(5) {
                _ if aggregates && at == 0 => {
                    let mut item = self.aggregate(size.depth);
                    while columns.is_some() && item.1.is_in_no_order() {
                        item = self.aggregate(size.depth);
                    }
                    item
                }
                0 | 1 if columns.is_none() => {
                    let is_plain = |v: &&Variable| v.holds != Holds::Shortest && !v.holds.is_in_no_order();
                    let plain: Vec<Variable> = self.scope.iter().filter(is_plain).cloned().collect();
                    match plain.is_empty() {
                        true => self.item(size.depth),
                        false => {
                            let variable = plain[self.below(plain.len())].clone();
                            (variable.name, variable.holds)
                        }
                    }
                }
                _ => self.item(if aggregates { 0 } else { size.depth }),
            };
            items.push(item);
        }
        let names: Vec<String> = (0..items.len()).map(|at| format!("c{at}")).collect();
        let written: Vec<String> = items.iter().zip(&names).map(|((text, _), name)| format!("{text} AS {name}")).collect();
        self.scope = items.iter().zip(names).map(|((_, holds), name)| Variable { name, holds: *holds }).collect();
        let order = if columns.is_none() && self.chance(3) { self.order() } else { None };
        let ordered = order.is_some();
        let text =
            format!("RETURN {}{}{}", if distinct { "DISTINCT " } else { "" }, written.join(", "), order.unwrap_or_default());
        (text, ordered)
    }
}

#[cfg(test)]
mod tests {
    use weir_model::{Text, Value};

    use super::{BAG, Query, Relative, relative};

    #[test]
    fn only_what_has_no_order_and_no_last_digit_is_made_alike() {
        let query = Query { text: String::new(), ordered: false, form: None };
        let alike = |x: Value, y: Value| query.comparable(&[x]) == query.comparable(&[y]);
        let list = |items: [i64; 2]| Value::list(items.map(Value::Integer).to_vec());
        let map = |key: &str, items| Value::map([(Text::new(key), list(items))]);
        assert!(alike(map(BAG, [1, 2]), map(BAG, [2, 1])) && !alike(map("a", [1, 2]), map("a", [2, 1])));
        assert!(!alike(list([1, 2]), list([2, 1])));
        assert!(alike(Value::Float(0.1 + 0.2), Value::Float(0.3)));
        for (x, y) in [(1.0, 1.1), (0.0, -0.0), (9_000_000_000_000_002.0, 9_000_000_000_000_003.0)] {
            assert!(!alike(Value::Float(x), Value::Float(y)), "{x}, {y}");
        }
        assert!(!alike(Value::Float(1.0), Value::Integer(1)));
    }

    #[test]
    fn a_relative_differs_in_one_respect() {
        let text = "MATCH (n1:A|C {x: 1})-[r:S]->() WHERE n1.x > 0.5 CALL (n1) { RETURN max(n1.y) AS c2 } RETURN c2 AS c0";
        let labels = text.replace(":A|C", ":B|A").replace(":S]", ":T]");
        assert_eq!(relative(text, Relative::Labels), labels);
        assert_eq!(relative(text, Relative::Properties), text.replace("n1.x", "n1.y").replace("max(n1.y)", "max(n1.x)"));
        assert_eq!(relative(text, Relative::Columns), text.replace("c2", "d2").replace("c0", "d0"));
    }
}
