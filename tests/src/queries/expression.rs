//! Random expressions of a wanted type over the variables in scope. None of them can fail: keys hold what their type says,
//! numbers stay small, and nothing is divided by zero. What `mixed.rs` has of no type is compared only.

use super::graph::{KINDS, LABELS, choose, moment};
use super::text::{Holds, Writer};

impl Writer<'_> {
    /// An expression of the type; `depth` is how much deeper it may go.
    pub fn expression(&mut self, holds: Holds, depth: usize) -> String {
        match holds {
            Holds::Integer => self.integer(depth),
            Holds::Float => self.float(depth),
            Holds::Text => self.text(depth),
            Holds::Boolean => self.boolean(depth),
            Holds::Integers => self.integers(depth),
            Holds::Moment => self.moment(),
            Holds::Node | Holds::Edge | Holds::Path | Holds::Edges => self.variable(holds).unwrap_or_else(|| "null".into()),
            Holds::Mixed => self.mixed_value(),
            Holds::Anything | Holds::Bag | Holds::Collected | Holds::Shortest => self.anything(depth),
        }
    }

    pub fn variable(&mut self, holds: Holds) -> Option<String> {
        let fitting: Vec<String> = self.scope.iter().filter(|v| v.holds == holds).map(|v| v.name.clone()).collect();
        (!fitting.is_empty()).then(|| fitting[self.below(fitting.len())].clone())
    }

    pub fn of_node(&mut self, key: &str) -> Option<String> {
        self.variable(Holds::Node).map(|node| format!("{node}.{key}"))
    }

    pub fn integer(&mut self, depth: usize) -> String {
        let deeper = depth.saturating_sub(1);
        let found = match self.below(if depth == 0 { 6 } else { 27 }) {
            0 => self.variable(Holds::Integer),
            1 | 2 => {
                let key = choose(self.random, &["x", "y", "k"]);
                self.of_node(key)
            }
            3 => self.variable(Holds::Edge).map(|edge| format!("{edge}.w")),
            4 => Some("$p".to_owned()),
            5 | 6 => None,
            7 => Some(format!("({} + {})", self.integer(deeper), self.integer(deeper))),
            8 => Some(format!("({} - {})", self.integer(deeper), self.integer(deeper))),
            9 => Some(format!("({} * {})", self.integer(deeper), self.below(4))),
            10 => Some(format!("({} % {})", self.integer(deeper), 2 + self.below(3))),
            11 => Some(format!("({} / {})", self.integer(deeper), 2 + self.below(2))),
            12 => Some(format!("abs({})", self.integer(deeper))),
            13 => Some(format!("coalesce({}, {})", self.integer(deeper), self.integer(deeper))),
            14 => Some(self.case(Holds::Integer, deeper)),
            15 => Some(format!("size({})", self.integers(deeper))),
            16 => Some(format!("size({})", self.text(deeper))),
            17 => Some(match self.below(3) {
                0 => format!("{}[{}]", self.integers(deeper), self.below(3)),
                1 => format!("head({})", self.integers(deeper)),
                _ => format!("last({})", self.integers(deeper)),
            }),
            18 => self.variable(Holds::Path).map(|path| format!("length({path})")),
            19 => self.variable(Holds::Shortest).map(|path| format!("length({path})")),
            20 => self.variable(Holds::Bag).map(|bag| format!("size({bag})")),
            21 => self.over_pattern(deeper, "COUNT"),
            22 => self.pattern_comprehension(deeper).map(|list| format!("size({list})")),
            23 => Some(format!("{{a: {}, b: {}}}.{}", self.integer(deeper), self.text(deeper), "a")),
            24 => self.variable(Holds::Node).or_else(|| self.variable(Holds::Edge)).map(|of| match self.below(3) {
                0 => format!("size(keys({of}))"),
                1 => format!("properties({of}).x"),
                _ => format!("{of}['w']"),
            }),
            25 => self.variable(Holds::Path).map(|path| match self.below(2) {
                0 => format!("size(nodes({path}))"),
                _ => format!("reduce(t = 0, n IN nodes({path}) | t + coalesce(n.x, 0))"),
            }),
            _ => {
                let (list, total, element) = (self.integers(deeper), self.fresh("t"), self.fresh("v"));
                let step = self.with_variable(&element, Holds::Integer, |writer| writer.integer(0));
                Some(format!("reduce({total} = 0, {element} IN {list} | {total} + coalesce({step}, 1))"))
            }
        };
        found.unwrap_or_else(|| (self.below(6) as i64 - 1).to_string())
    }

    pub fn float(&mut self, depth: usize) -> String {
        let found = match self.below(if depth == 0 { 2 } else { 4 }) {
            0 => self.of_node("f"),
            1 => self.variable(Holds::Float),
            2 => Some(format!("({} + {})", self.float(depth - 1), self.float(depth - 1))),
            _ => Some(format!("coalesce({}, 0.5)", self.float(depth - 1))),
        };
        found.unwrap_or_else(|| choose(self.random, &["0.5", "1.0", "-0.5", "2.5"]).to_owned())
    }

    fn text(&mut self, depth: usize) -> String {
        let deeper = depth.saturating_sub(1);
        let found = match self.below(if depth == 0 { 3 } else { 8 }) {
            0 => self.of_node("s"),
            1 => self.variable(Holds::Text),
            2 => None,
            3 => Some(format!("({} + {})", self.text(deeper), self.text(deeper))),
            4 => Some(format!("toUpper({})", self.text(deeper))),
            5 => Some(format!("coalesce({}, 'a')", self.text(deeper))),
            6 => self.variable(Holds::Edge).map(|edge| format!("type({edge})")),
            _ => Some(self.case(Holds::Text, deeper)),
        };
        found.unwrap_or_else(|| choose(self.random, &["''", "'a'", "'b'", "'ab'", "$s"]).to_owned())
    }

    pub fn integers(&mut self, depth: usize) -> String {
        let deeper = depth.saturating_sub(1);
        let found = match self.below(if depth == 0 { 4 } else { 10 }) {
            0 => self.of_node("l"),
            1 => self.variable(Holds::Integers),
            2 => Some("$q".to_owned()),
            3 => None,
            4 => Some(format!("({} + {})", self.integers(deeper), self.integers(deeper))),
            5 => Some(format!("reverse({})", self.integers(deeper))),
            6 => Some(format!("tail({})", self.integers(deeper))),
            7 => Some(format!("{}[{}..{}]", self.integers(deeper), self.below(2), 1 + self.below(3))),
            8 => Some(format!("range({}, {})", self.below(3), self.below(4))),
            _ => {
                let (list, element) = (self.integers(deeper), self.fresh("v"));
                let (filter, result) = self.with_variable(&element, Holds::Integer, |writer| {
                    let filter =
                        if writer.chance(2) { format!(" WHERE {}", writer.boolean(deeper.min(1))) } else { String::new() };
                    (filter, writer.integer(deeper.min(1)))
                });
                Some(format!("[{element} IN {list}{filter} | {result}]"))
            }
        };
        found.unwrap_or_else(|| {
            let items: Vec<String> = (0..self.below(4)).map(|_| self.integer(0)).collect();
            format!("[{}]", items.join(", "))
        })
    }

    pub fn anything(&mut self, depth: usize) -> String {
        match self.below(12) {
            9 => self
                .variable(Holds::Node)
                .map_or_else(|| "{}".into(), |node| format!("{node} {{.x, .s, y: {}}}", self.integer(0))),
            10 => self
                .variable(Holds::Node)
                .or_else(|| self.variable(Holds::Edge))
                .map_or("{}".into(), |of| format!("properties({of})")),
            11 => format!("{{a: {}, b: [{}]}}", self.integer(depth.min(1)), self.text(0)),
            0 => self.of_node("z").unwrap_or_else(|| "null".into()),
            1 => self.variable(Holds::Anything).unwrap_or_else(|| "null".into()),
            2 => self.float(depth),
            3 => self.text(depth),
            4 => self.boolean(depth),
            5 => self.integers(depth),
            6 => self.variable(Holds::Node).map_or_else(|| "[]".into(), |node| format!("labels({node})")),
            7 => self.variable(Holds::Node).map_or_else(|| "null".into(), |node| format!("id({node})")),
            _ => self.integer(depth),
        }
    }

    /// A number of milliseconds since 1970, of which a few are to come.
    pub fn moment(&mut self) -> String {
        let found = match self.below(6) {
            0..=2 => self.of_node("t"),
            3 => self.variable(Holds::Edge).map(|edge| format!("{edge}.t")),
            4 => self.variable(Holds::Moment),
            _ => None,
        };
        found.unwrap_or_else(|| {
            let written = moment(self.random).to_string();
            match self.of_node("t") {
                Some(of_node) if self.chance(2) => format!("coalesce({of_node}, {written})"),
                _ => written,
            }
        })
    }

    /// Every form in which the current time may be compared; each turns once at most.
    fn on_the_clock(&mut self) -> String {
        let operator = choose(self.random, &["<", "<=", ">", ">="]);
        let (moment, few) = (self.moment(), self.below(8));
        match self.below(13) {
            0 | 1 => format!("timestamp() {operator} {moment}"),
            2 | 3 => format!("timestamp() - {moment} {operator} {few}"),
            4 => format!("{moment} {operator} timestamp() - {few}"),
            5 => format!("{moment} + {few} {operator} timestamp()"),
            6 => format!("{moment} - timestamp() {operator} {}", self.integer(0)),
            7 => format!("datetime().epochMillis {operator} {moment} + {}", self.integer(0)),
            8 => format!("2 * timestamp() {operator} {moment} + {}", self.moment()),
            9 => format!("timestamp() / 5 {operator} {moment} / 5"),
            10 if self.chance(2) => format!("date() {operator} date('2100-01-01')"),
            10 => format!("localdatetime('2100-01-01T00:00:00.00{few}') {operator} localdatetime()"),
            11 => format!("datetime() - duration('PT0.00{few}S') {operator} datetime({{epochMillis: coalesce({moment}, 0)}})"),
            _ => {
                let instant = self.of_node("d").unwrap_or_else(|| "datetime('2100-01-01T00:00:00.001Z')".to_owned());
                format!("{instant} {operator} datetime() + duration('PT0.00{few}S')")
            }
        }
    }

    pub fn boolean(&mut self, depth: usize) -> String {
        if self.clocked && self.chance(4) {
            return self.on_the_clock();
        }
        if self.mixed && self.chance(3) {
            return self.mixed_condition();
        }
        let deeper = depth.saturating_sub(1);
        let found = match self.below(if depth == 0 { 9 } else { 29 }) {
            0 | 1 => {
                let operator = choose(self.random, &["=", "<>", "<", "<=", ">", ">="]);
                Some(format!("{} {operator} {}", self.integer(deeper), self.integer(deeper)))
            }
            2 => self.variable(Holds::Node).map(|node| {
                let label = self.labels();
                format!("{node}{label}")
            }),
            3 => self.of_node("b"),
            4 => {
                let key = choose(self.random, &["x", "y", "z", "s", "l"]);
                let test = choose(self.random, &["IS NULL", "IS NOT NULL"]);
                self.of_node(key).map(|property| format!("{property} {test}"))
            }
            5 => self.of_node("z").map(|z| {
                let operator = choose(self.random, &["=", "<>", "<", ">="]);
                format!("{z} {operator} {}", choose(self.random, &["1", "'a'", "1.5", "true", "$p"]))
            }),
            6 => self.variable(Holds::Node).map(|node| {
                let id = choose(self.random, &["$a", "$b"]);
                format!("id({node}) = {id}")
            }),
            7 => Some(choose(self.random, &["true", "false", "null"]).to_owned()),
            8 => self.variable(Holds::Boolean),
            9 => Some(format!("NOT ({})", self.boolean(deeper))),
            10..=12 => Some(format!("({} AND {})", self.boolean(deeper), self.boolean(deeper))),
            13 | 14 => Some(format!("({} OR {})", self.boolean(deeper), self.boolean(deeper))),
            15 => Some(format!("({} XOR {})", self.boolean(deeper), self.boolean(deeper))),
            16 => Some(format!("{} IN {}", self.integer(deeper), self.integers(deeper))),
            17 => {
                let operator = choose(self.random, &["STARTS WITH", "ENDS WITH", "CONTAINS", "=", "<", "<>"]);
                Some(format!("{} {operator} {}", self.text(deeper), self.text(deeper)))
            }
            18 => Some(format!("{} =~ '{}'", self.text(deeper), choose(self.random, &["a.*", "[ab]+", "", ".*b"]))),
            19 | 20 => self.over_pattern(deeper, "EXISTS"),
            21 | 22 => self.pattern_predicate(),
            23 | 24 => {
                let kind = choose(self.random, &["all", "any", "none", "single"]);
                let (list, element) = (self.integers(deeper), self.fresh("v"));
                let condition = self.with_variable(&element, Holds::Integer, |writer| writer.boolean(deeper.min(1)));
                Some(format!("{kind}({element} IN {list} WHERE {condition})"))
            }
            25 => {
                let operator = choose(self.random, &["=", "<>"]);
                let (x, y) = (self.variable(Holds::Node), self.variable(Holds::Node));
                x.zip(y).map(
                    |(x, y)| if self.chance(2) { format!("{x} {operator} {y}") } else { format!("id({x}) {operator} id({y})") },
                )
            }
            26 => self.variable(Holds::Bag).map(|bag| format!("{} IN {bag}", self.integer(0))),
            27 => {
                let edge = self.variable(Holds::Edge);
                let other = self.variable(Holds::Node).map_or_else(|| "null".into(), |node| format!("{node}.x"));
                edge.map(|edge| format!("{edge}.w {} {other}", choose(self.random, &["=", "<", ">="])))
            }
            _ => {
                let kind = choose(self.random, KINDS);
                self.variable(Holds::Edges).map(|edges| {
                    let element = self.fresh("e");
                    let condition =
                        if self.chance(2) { format!("type({element}) = '{kind}'") } else { format!("{element}.w > 0") };
                    format!("{}({element} IN {edges} WHERE {condition})", choose(self.random, &["all", "any", "none"]))
                })
            }
        };
        found.unwrap_or_else(|| format!("{} < {}", self.integer(0), self.integer(0)))
    }

    /// `:A`, `:A:B`, `:A|B`, `:!A`, ...
    pub fn labels(&mut self) -> String {
        let (one, other) = (choose(self.random, LABELS), choose(self.random, LABELS));
        match self.below(8) {
            0 => format!(":{one}|{other}"),
            1 => format!(":!{one}"),
            2 => format!(":{one}&!{other}"),
            3 => format!(":{one}:{other}"),
            _ => format!(":{one}"),
        }
    }

    fn case(&mut self, holds: Holds, depth: usize) -> String {
        let (then, otherwise) = (self.expression(holds, depth), self.expression(holds, depth));
        let otherwise = if self.chance(3) { String::new() } else { format!(" ELSE {otherwise}") };
        if self.chance(2) {
            format!("CASE WHEN {} THEN {then}{otherwise} END", self.boolean(depth))
        } else {
            format!("CASE {} WHEN {} THEN {then}{otherwise} END", self.integer(depth), self.integer(0))
        }
    }

    /// `EXISTS { … }` or `COUNT { … }`.
    fn over_pattern(&mut self, depth: usize, word: &str) -> Option<String> {
        self.inside(|writer| {
            let pattern = writer.patterns(1, 2);
            let condition = if writer.chance(2) { format!(" WHERE {}", writer.boolean(depth.min(1))) } else { String::new() };
            let written = if writer.chance(3) {
                format!("MATCH {pattern}{condition} RETURN 1 AS one")
            } else {
                format!("{pattern}{condition}")
            };
            Some(format!("{word} {{ {written} }}"))
        })
    }

    fn pattern_predicate(&mut self) -> Option<String> {
        let from = self.variable(Holds::Node)?;
        let to = if self.chance(3) { self.variable(Holds::Node).unwrap_or_default() } else { String::new() };
        let label = if self.chance(3) { format!(":{}", choose(self.random, LABELS)) } else { String::new() };
        let edge = self.edge("", false);
        Some(format!("({from}){edge}({to}{label})"))
    }

    /// `[(n)-->(m) WHERE … | …]`: its order is nobody's.
    fn pattern_comprehension(&mut self, depth: usize) -> Option<String> {
        let from = self.variable(Holds::Node)?;
        self.inside(|writer| {
            let (to, edge) = (writer.fresh("n"), writer.edge("", false));
            writer.declare(&to, Holds::Node);
            let filter = if writer.chance(2) { format!(" WHERE {}", writer.boolean(depth.min(1))) } else { String::new() };
            Some(format!("[({from}){edge}({to}){filter} | {}]", writer.integer(0)))
        })
    }
}
