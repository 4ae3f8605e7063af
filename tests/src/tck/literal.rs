//! The values that the tables of the TCK are written in, and how they are compared with what a query gave.
//!
//! A date or a duration is written as a string in quotes; so a temporal value is compared by its text.

use weir_model::{FullEdge, FullNode, Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Literal>),
    Map(Vec<(String, Literal)>),
    Node(Node),
    Edge(Edge),
    Path { start: Node, steps: Vec<PathStep> },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub labels: Vec<String>,
    pub properties: Vec<(String, Literal)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub kind: String,
    pub properties: Vec<(String, Literal)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PathStep {
    pub edge: Edge,
    /// The edge points along the path.
    pub forward: bool,
    pub node: Node,
}

impl Literal {
    pub fn parse(text: &str) -> Result<Literal, String> {
        let mut parser = Parser { text, at: 0 };
        let literal = parser.value()?;
        parser.blanks();
        if parser.at < text.len() { Err(parser.unexpected("the end")) } else { Ok(literal) }
    }

    /// The value of a parameter; None for what only results can be.
    pub fn to_value(&self) -> Option<Value> {
        Some(match self {
            Literal::Null => Value::Null,
            Literal::Boolean(x) => Value::Boolean(*x),
            Literal::Integer(x) => Value::Integer(*x),
            Literal::Float(x) => Value::Float(*x),
            Literal::Text(x) => Value::text(x),
            Literal::List(items) => Value::list(items.iter().map(Literal::to_value).collect::<Option<_>>()?),
            Literal::Map(entries) => {
                let entry = |(key, value): &(String, Literal)| Some((key.into(), value.to_value()?));
                Value::map(entries.iter().map(entry).collect::<Option<Vec<_>>>()?)
            }
            Literal::Node(_) | Literal::Edge(_) | Literal::Path { .. } => return None,
        })
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn accept(&mut self, token: &str) -> bool {
        self.blanks();
        let there = self.rest().starts_with(token);
        if there {
            self.at += token.len();
        }
        there
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.accept(token) { Ok(()) } else { Err(self.unexpected(token)) }
    }

    fn unexpected(&self, wanted: &str) -> String {
        format!("{:?}: {wanted} is expected at {:?}", self.text, self.rest())
    }

    fn value(&mut self) -> Result<Literal, String> {
        self.blanks();
        Ok(match self.rest().chars().next() {
            Some('\'') => Literal::Text(self.quoted()?),
            Some('[') if self.rest()[1..].trim_start().starts_with(':') => Literal::Edge(self.edge()?),
            Some('[') => {
                self.expect("[")?;
                Literal::List(self.separated("]", Parser::value)?)
            }
            Some('{') => Literal::Map(self.map()?),
            Some('(') => Literal::Node(self.node()?),
            Some('<') => self.path()?,
            _ => self.word()?,
        })
    }

    /// Values up to the closing token, which may come at once.
    fn separated<T>(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        if self.accept(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.accept(close) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    fn quoted(&mut self) -> Result<String, String> {
        self.expect("'")?;
        let mut text = String::new();
        let mut characters = self.rest().char_indices();
        while let Some((i, character)) = characters.next() {
            match character {
                '\'' => {
                    self.at += i + 1;
                    return Ok(text);
                }
                '\\' => match characters.next() {
                    Some((_, escaped @ ('\'' | '\\'))) => text.push(escaped),
                    Some((_, other)) => text.extend(['\\', other]),
                    None => break,
                },
                _ => text.push(character),
            }
        }
        Err(self.unexpected("a closing quote after this"))
    }

    fn map(&mut self) -> Result<Vec<(String, Literal)>, String> {
        self.expect("{")?;
        self.separated("}", |parser| {
            let key = parser.name()?;
            parser.expect(":")?;
            Ok((key, parser.value()?))
        })
    }

    fn name(&mut self) -> Result<String, String> {
        self.blanks();
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let name = rest[..length].to_owned();
        if name.is_empty() {
            return Err(self.unexpected("a name"));
        }
        self.at += length;
        Ok(name)
    }

    fn labels(&mut self) -> Result<Vec<String>, String> {
        let mut labels = Vec::new();
        while self.accept(":") {
            labels.push(self.name()?);
        }
        Ok(labels)
    }

    fn properties(&mut self) -> Result<Vec<(String, Literal)>, String> {
        self.blanks();
        if self.rest().starts_with('{') { self.map() } else { Ok(Vec::new()) }
    }

    fn node(&mut self) -> Result<Node, String> {
        self.expect("(")?;
        let node = Node { labels: self.labels()?, properties: self.properties()? };
        self.expect(")")?;
        Ok(node)
    }

    fn edge(&mut self) -> Result<Edge, String> {
        self.expect("[")?;
        self.expect(":")?;
        let edge = Edge { kind: self.name()?, properties: self.properties()? };
        self.expect("]")?;
        Ok(edge)
    }

    fn path(&mut self) -> Result<Literal, String> {
        self.expect("<")?;
        let start = self.node()?;
        let mut steps = Vec::new();
        while !self.accept(">") {
            let backward = self.accept("<-");
            if !backward {
                self.expect("-")?;
            }
            let edge = self.edge()?;
            self.expect(if backward { "-" } else { "->" })?;
            steps.push(PathStep { edge, forward: !backward, node: self.node()? });
        }
        Ok(Literal::Path { start, steps })
    }

    fn word(&mut self) -> Result<Literal, String> {
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(rest.len());
        let literal = match &rest[..length] {
            "null" => Literal::Null,
            "true" => Literal::Boolean(true),
            "false" => Literal::Boolean(false),
            "Inf" => Literal::Float(f64::INFINITY),
            "-Inf" => Literal::Float(f64::NEG_INFINITY),
            word => match (word.parse::<i64>(), word.parse::<f64>()) {
                (Ok(n), _) => Literal::Integer(n),
                (_, Ok(n)) => Literal::Float(n),
                _ => return Err(self.unexpected("a value")),
            },
        };
        self.at += length;
        Ok(literal)
    }
}

/// How values are compared. Nodes and edges are those of a result: in full. A path is the list of its nodes and edges.
#[derive(Clone, Copy)]
pub struct Comparison {
    pub lists_unordered: bool,
}

impl Comparison {
    pub fn same(&self, wanted: &Literal, found: &Value) -> bool {
        match (wanted, found) {
            (Literal::Null, Value::Null) => true,
            (Literal::Boolean(a), Value::Boolean(b)) => a == b,
            (Literal::Integer(a), Value::Integer(b)) => a == b,
            (Literal::Float(a), Value::Float(b)) => a == b || a.is_nan() && b.is_nan(),
            (Literal::Text(a), Value::Text(b)) => a.as_str() == b.as_str(),
            (Literal::Text(a), Value::Date(_) | Value::LocalTime(_) | Value::Time(_)) => found.to_text() == *a,
            (Literal::Text(a), Value::LocalDateTime(_) | Value::DateTime(_) | Value::Duration(_)) => found.to_text() == *a,
            (Literal::List(a), Value::List(b)) if self.lists_unordered => pairs_off(a, b, |a, b| self.same(a, b)),
            (Literal::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| self.same(a, b)),
            (Literal::Map(a), Value::Map(b)) => self.same_map(a, b),
            (Literal::Node(a), Value::FullNode(b)) => self.same_node(a, b),
            (Literal::Edge(a), Value::FullEdge(b)) => self.same_edge(a, b),
            (Literal::Path { start, steps }, Value::List(elements)) => self.same_path(start, steps, elements),
            _ => false,
        }
    }

    fn same_path(&self, start: &Node, steps: &[PathStep], elements: &[Value]) -> bool {
        let Some((Value::FullNode(first), rest)) = elements.split_first() else { return false };
        let mut at = first.id;
        let mut same_step = |(wanted, pair): (&PathStep, &[Value])| {
            let [Value::FullEdge(edge), Value::FullNode(node)] = pair else { return false };
            let (from, to) = (std::mem::replace(&mut at, node.id), node.id);
            let ends = if wanted.forward { (from, to) } else { (to, from) };
            (edge.key.source, edge.key.target) == ends && self.same_edge(&wanted.edge, edge) && self.same_node(&wanted.node, node)
        };
        self.same_node(start, first) && rest.len() == 2 * steps.len() && steps.iter().zip(rest.chunks(2)).all(&mut same_step)
    }

    fn same_map(&self, wanted: &[(String, Literal)], found: &Map) -> bool {
        wanted.len() == found.len()
            && wanted.iter().all(|(key, value)| found.get(key).is_some_and(|found| self.same(value, found)))
    }

    fn same_node(&self, wanted: &Node, found: &FullNode) -> bool {
        pairs_off(&wanted.labels, &found.labels, |a, b| a.as_str() == b.as_str())
            && self.same_map(&wanted.properties, &found.properties)
    }

    fn same_edge(&self, wanted: &Edge, found: &FullEdge) -> bool {
        wanted.kind.as_str() == found.key.kind.as_str() && self.same_map(&wanted.properties, &found.properties)
    }

    /// Rows in any order: each one wanted is found once.
    pub fn same_rows(&self, ordered: bool, wanted: &[Vec<Literal>], found: &[Vec<Value>]) -> bool {
        let same = |a: &Vec<Literal>, b: &Vec<Value>| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.same(a, b));
        if ordered {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(a, b)| same(a, b))
        } else {
            pairs_off(wanted, found, same)
        }
    }
}

/// Whether each of `a` has its own equal in `b` and none is left over. `same` is an equivalence, so the first fit will do.
fn pairs_off<A, B>(a: &[A], b: &[B], same: impl Fn(&A, &B) -> bool) -> bool {
    let mut left: Vec<&B> = b.iter().collect();
    a.len() == b.len()
        && a.iter().all(|a| match left.iter().position(|b| same(a, b)) {
            Some(at) => {
                left.swap_remove(at);
                true
            }
            None => false,
        })
}

#[cfg(test)]
mod tests {
    use weir_model::{EdgeKey, NodeId};

    use super::*;

    fn parse(text: &str) -> Literal {
        Literal::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn values_are_read() {
        assert_eq!(parse(" -7 "), Literal::Integer(-7));
        assert_eq!(parse("1e9"), Literal::Float(1e9));
        assert_eq!(parse("-Inf"), Literal::Float(f64::NEG_INFINITY));
        assert_eq!(parse(r"'it\'s \\ \d'"), Literal::Text(r"it's \ \d".into()));
        assert_eq!(parse("[]"), Literal::List(vec![]));
        let Literal::Path { start, steps } = parse("<(:A {n: 1})-[:T]->()<-[:S {w: 'x'}]-(:B:C)>") else { panic!("a path") };
        assert_eq!(start.labels, ["A"]);
        assert_eq!(steps.iter().map(|s| (s.forward, s.edge.kind.as_str())).collect::<Vec<_>>(), [(true, "T"), (false, "S")]);
        assert_eq!(steps[1].node.labels, ["B", "C"]);
        assert_eq!(
            parse("[[:T], {a: [null, true]}]"),
            Literal::List(vec![
                Literal::Edge(Edge { kind: "T".into(), properties: vec![] }),
                Literal::Map(vec![("a".into(), Literal::List(vec![Literal::Null, Literal::Boolean(true)]))]),
            ])
        );
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for text in ["", "[1", "'a", "1 2", "{a}", "(:)", "<()-[:T]-()>", "word"] {
            assert!(Literal::parse(text).is_err(), "{text:?}");
        }
    }

    fn same(wanted: &str, found: &Value) -> bool {
        Comparison { lists_unordered: false }.same(&parse(wanted), found)
    }

    #[test]
    fn values_are_compared_by_type_and_content() {
        assert!(same("1", &Value::Integer(1)) && !same("1", &Value::Float(1.0)) && same("NaN", &Value::Float(f64::NAN)));
        let (one, two) = (NodeId::new(0, 1), NodeId::new(0, 2));
        let properties = Map::from_iter([("n".into(), Value::Integer(1))]);
        let a = Value::FullNode(FullNode { id: one, labels: vec!["A".into()], properties }.into());
        let b = Value::FullNode(FullNode { id: two, labels: vec![], properties: Map::default() }.into());
        assert!(same("(:A {n: 1})", &a) && !same("(:A)", &a));
        let key = EdgeKey { source: two, kind: "T".into(), target: one, ordinal: 0 };
        let edge = Value::FullEdge(FullEdge { key, properties: Map::default() }.into());
        let path = Value::list(vec![a.clone(), edge.clone(), b]);
        assert!(same("<(:A {n: 1})<-[:T]-()>", &path) && !same("<(:A {n: 1})-[:T]->()>", &path));
        assert!(!same("<(:A {n: 1})>", &path) && !same("<(:A {n: 1})<-[:T]-()>", &Value::list(vec![a, edge])));
        let list = Value::list(vec![Value::Integer(2), Value::Integer(1)]);
        assert!(same("[2, 1]", &list) && !same("[1, 2]", &list));
        let unordered = Comparison { lists_unordered: true };
        assert!(unordered.same(&parse("[1, 2]"), &list) && !unordered.same(&parse("[1, 1]"), &list));
    }

    #[test]
    fn rows_are_a_multiset_unless_ordered() {
        let comparison = Comparison { lists_unordered: false };
        let wanted: Vec<Vec<Literal>> = [1, 2, 2].map(|n| vec![Literal::Integer(n)]).into();
        let found = |all: [i64; 3]| all.map(|n| vec![Value::Integer(n)]).to_vec();
        assert!(comparison.same_rows(false, &wanted, &found([2, 1, 2])));
        assert!(!comparison.same_rows(true, &wanted, &found([2, 1, 2])));
        assert!(!comparison.same_rows(false, &wanted, &found([2, 1, 1])));
    }
}
