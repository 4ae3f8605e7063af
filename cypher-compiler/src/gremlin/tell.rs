//! Steps to Cypher. Whoever walks is at one thing, whose variable is `current`; each step filters it or leads to the next.

use std::collections::HashMap;

use weir_model::{IdScheme, Text, Value};

use super::read::{Argument, Operand, OperandKind, Query, Step};
use super::{Mistake, MistakeKind, Told};
use crate::error::{Span, nearest};
use crate::lexer::quoted_name;

/// How many nodes `recentV` and `V(recent_nodes)` give that do not say.
const RECENT_COUNT: i64 = 10;

const STEPS: &[&str] = &[
    "V",
    "v",
    "recentV",
    "has",
    "hasNot",
    "hasLabel",
    "hasId",
    "eqToVar",
    "is",
    "dedup",
    "limit",
    "out",
    "in",
    "both",
    "outE",
    "inE",
    "bothE",
    "outLimit",
    "inLimit",
    "bothLimit",
    "outELimit",
    "inELimit",
    "bothELimit",
    "outV",
    "inV",
    "bothV",
    "values",
    "valueMap",
    "id",
    "strId",
    "unrollPath",
    "count",
    "groupCount",
    "as",
    "select",
    "not",
    "where",
    "and",
    "or",
    "union",
];

type Done<T> = Result<T, Box<Mistake>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Vertex,
    Edge,
    Value,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Kind::Vertex => "a vertex",
            Kind::Edge => "an edge",
            Kind::Value => "a value",
        }
    }
}

/// A value of the query: as Cypher, and by itself where it is known beforehand.
#[derive(Clone)]
struct Known {
    text: String,
    value: Option<Value>,
    /// Of a list that was written out, each with its place.
    items: Vec<(Known, Span)>,
}

#[derive(Clone)]
struct Walker {
    current: String,
    kind: Kind,
    /// What `as` has kept: the name, the variable, what it is.
    kept: Vec<(Text, String, Kind)>,
    /// The list of what was visited, where somebody asks for it, and what its elements are.
    path: Option<(String, Kind)>,
}

struct Teller<'a> {
    text: &'a str,
    ids: IdScheme,
    variables: HashMap<Text, Known>,
    parameters: Vec<(Text, Value)>,
    names: usize,
    tracks_path: bool,
    out: String,
}

pub fn tell(text: &str, query: &Query, bindings: &[(Text, Value)], ids: IdScheme) -> Done<Told> {
    let tracks_path = asks_for_path(&query.steps);
    let mut teller =
        Teller { text, ids, variables: HashMap::new(), parameters: Vec::new(), names: 0, tracks_path, out: String::new() };
    for (name, value) in bindings {
        let known = teller.literal(value.clone());
        teller.variables.insert(name.clone(), known);
    }
    for (name, operand) in &query.assigned {
        let known = teller.known(operand)?;
        teller.variables.insert(name.clone(), known);
    }
    let [first, rest @ ..] = query.steps.as_slice() else { return Ok(Told { text: String::new(), parameters: Vec::new() }) };
    let walker = teller.start(first)?;
    let walker = teller.walk(walker, rest)?;
    teller.clause(&format!("RETURN {} AS result", walker.current));
    // Bindings that nothing mentions are no parameters of the query.
    let Teller { out, mut parameters, .. } = teller;
    parameters.retain(|(name, _)| mentions(&out, name));
    Ok(Told { text: out, parameters })
}

fn mentions(text: &str, parameter: &str) -> bool {
    let mark = format!("${parameter}");
    text.match_indices(&mark).any(|(at, _)| !text[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

fn asks_for_path(steps: &[Step]) -> bool {
    steps.iter().any(|step| {
        let inside = |argument: &Argument| matches!(argument, Argument::Traversal(steps) if asks_for_path(steps));
        step.name == "unrollPath" || step.arguments.iter().any(inside)
    })
}

impl Teller<'_> {
    fn mistake(&self, span: Span, kind: MistakeKind, message: impl Into<String>) -> Box<Mistake> {
        Mistake::new(self.text, span, kind, message)
    }

    fn clause(&mut self, clause: &str) {
        if !self.out.is_empty() && !self.out.ends_with(' ') {
            self.out.push(' ');
        }
        self.out.push_str(clause);
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("c{}", self.names - 1)
    }

    fn literal(&mut self, value: Value) -> Known {
        let name = format!("p{}", self.parameters.len());
        self.parameters.push((Text::new(&name), value.clone()));
        Known { text: format!("${name}"), value: Some(value), items: Vec::new() }
    }

    fn known(&mut self, operand: &Operand) -> Done<Known> {
        match &operand.kind {
            OperandKind::Literal(value) => Ok(self.literal(value.clone())),
            OperandKind::Variable(name) => self.variables.get(name).cloned().ok_or_else(|| {
                self.mistake(operand.span, MistakeKind::UnboundVariable, format!("the variable `{name}` has no value"))
            }),
            OperandKind::List(operands) => {
                let known = operands.iter().map(|operand| self.known(operand)).collect::<Done<Vec<_>>>()?;
                let text: Vec<&str> = known.iter().map(|known| known.text.as_str()).collect();
                let value = known.iter().map(|known| known.value.clone()).collect::<Option<Vec<_>>>().map(Value::list);
                Ok(Known {
                    text: format!("[{}]", text.join(", ")),
                    value,
                    items: known.into_iter().zip(operands.iter().map(|operand| operand.span)).collect(),
                })
            }
            OperandKind::IdFrom(operands) => {
                let known = operands.iter().map(|operand| self.known(operand)).collect::<Done<Vec<_>>>()?;
                let text: Vec<String> = known.into_iter().map(|known| known.text).collect();
                Ok(Known { text: format!("idFrom({})", text.join(", ")), value: None, items: Vec::new() })
            }
        }
    }

    /// A text that is known beforehand: a key, a label, a name.
    fn word(&mut self, operand: &Operand) -> Done<Text> {
        match self.known(operand)?.value {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(self.mistake(operand.span, MistakeKind::TypeMismatch, "expected a text")),
        }
    }

    /// Texts one by one, or in a list.
    fn words(&mut self, operands: &[&Operand]) -> Done<Vec<Text>> {
        let mut words = Vec::new();
        for operand in operands {
            match self.known(operand)?.value {
                Some(Value::Text(text)) => words.push(text),
                Some(Value::List(items)) if items.iter().all(|item| matches!(item, Value::Text(_))) => {
                    words.extend(
                        items.iter().filter_map(|item| if let Value::Text(text) = item { Some(text.clone()) } else { None }),
                    );
                }
                _ => return Err(self.mistake(operand.span, MistakeKind::TypeMismatch, "expected a text")),
            }
        }
        Ok(words)
    }

    fn count(&mut self, operand: &Operand) -> Done<i64> {
        match self.known(operand)?.value {
            Some(Value::Integer(count)) if count >= 0 => Ok(count),
            _ => Err(self.mistake(operand.span, MistakeKind::TypeMismatch, "expected a whole number")),
        }
    }

    /// Ids as Cypher compares them.
    fn ids(&mut self, operands: &[&Operand]) -> Done<Vec<String>> {
        let mut ids = Vec::new();
        for operand in operands {
            let known = self.known(operand)?;
            self.ids_of(known, operand.span, &mut ids)?;
        }
        Ok(ids)
    }

    fn ids_of(&mut self, known: Known, span: Span, ids: &mut Vec<String>) -> Done<()> {
        match known.value {
            _ if !known.items.is_empty() => {
                return known.items.into_iter().try_for_each(|(item, place)| self.ids_of(item, place, ids));
            }
            // What is computed, or an id already.
            None | Some(Value::Id(_)) => ids.push(known.text),
            Some(Value::List(items)) => {
                for item in items.iter() {
                    ids.push(self.id(item, span)?);
                }
            }
            Some(value) => ids.push(self.id(&value, span)?),
        }
        Ok(())
    }

    fn id(&mut self, value: &Value, span: Span) -> Done<String> {
        let long = matches!(self.ids, IdScheme::Long { .. });
        let id = match value {
            Value::Integer(n) if long => Some(Value::Integer(*n)),
            Value::Text(text) => self.ids.parse(text).map(|id| if long { Value::Integer(id.low as i64) } else { Value::Id(id) }),
            _ => None,
        };
        match id {
            Some(id) => Ok(self.literal(id).text),
            None => {
                let shown = value.shown();
                let shown = shown.trim_matches('"');
                Err(self.mistake(span, MistakeKind::FailedDeserialization, format!("'{shown}' is no id")))
            }
        }
    }

    fn start(&mut self, step: &Step) -> Done<Walker> {
        let operands = self.operands(step)?;
        let recent = matches!(operands.as_slice(), [Operand { kind: OperandKind::Variable(name), .. }] if name == "recent_nodes");
        let current = self.name();
        if step.name == "recentV" || recent {
            let count = match operands.as_slice() {
                [] => RECENT_COUNT,
                _ if recent => RECENT_COUNT,
                [count] => self.count(count)?,
                _ => return Err(self.takes(step, "a number or nothing")),
            };
            self.clause(&format!("CALL recentNodes({count}) YIELD node AS {current}"));
        } else {
            match self.ids(&operands)?.as_slice() {
                [] if operands.is_empty() => self.clause(&format!("MATCH ({current})")),
                [id] => self.clause(&format!("MATCH ({current}) WHERE id({current}) = {id}")),
                ids => self.clause(&format!("UNWIND [{}] AS i MATCH ({current}) WHERE id({current}) = i", ids.join(", "))),
            }
        }
        let mut walker = Walker { current: current.clone(), kind: Kind::Vertex, kept: Vec::new(), path: None };
        if self.tracks_path {
            let path = self.name();
            self.clause(&format!("WITH {}, [{current}] AS {path}", walker.carried()));
            walker.path = Some((path, Kind::Vertex));
        }
        Ok(walker)
    }

    fn walk(&mut self, mut walker: Walker, steps: &[Step]) -> Done<Walker> {
        for step in steps {
            self.step(&mut walker, step)?;
        }
        Ok(walker)
    }

    fn takes(&self, step: &Step, what: &str) -> Box<Mistake> {
        self.mistake(step.span, MistakeKind::Parse, format!("`{}` takes {what}", step.name))
    }

    fn operands<'s>(&self, step: &'s Step) -> Done<Vec<&'s Operand>> {
        let operand = |argument: &'s Argument| match argument {
            Argument::Value(operand) => Ok(operand),
            Argument::Traversal(_) => Err(self.takes(step, "values")),
            Argument::Predicate(name, span, _) => {
                Err(self.mistake(*span, MistakeKind::Parse, format!("`{name}` has no place in `{}`", step.name)))
            }
        };
        step.arguments.iter().map(operand).collect()
    }

    fn one<'s>(&self, step: &'s Step) -> Done<&'s Operand> {
        match self.operands(step)?.as_slice() {
            [one] => Ok(*one),
            _ => Err(self.takes(step, "one value")),
        }
    }

    fn none(&self, step: &Step) -> Done<()> {
        if step.arguments.is_empty() { Ok(()) } else { Err(self.takes(step, "nothing")) }
    }

    fn at(&self, walker: &Walker, kind: Kind, step: &Step) -> Done<()> {
        if walker.kind == kind {
            return Ok(());
        }
        let message = format!("`{}` begins at {}, but this is {}", step.name, kind.words(), walker.kind.words());
        Err(self.mistake(step.span, MistakeKind::TypeMismatch, message))
    }

    fn filter(&mut self, condition: &str) {
        self.clause(&format!("WITH * WHERE {condition}"));
    }

    /// The walker goes on to a variable that a clause has just declared.
    fn moved(&mut self, walker: &mut Walker, current: String, kind: Kind) {
        (walker.current, walker.kind) = (current, kind);
        if let Some((path, of)) = walker.path.take() {
            let longer = self.name();
            self.clause(&format!("WITH {}, {path} + [{}] AS {longer}", walker.carried(), walker.current));
            walker.path = Some((longer, if of == kind { kind } else { Kind::Value }));
        }
    }

    /// A value that is computed from where the walker is. No part of the path.
    fn computed(&mut self, walker: &mut Walker, expression: &str) {
        let name = self.name();
        self.clause(&format!("WITH *, {expression} AS {name}"));
        (walker.current, walker.kind) = (name, Kind::Value);
    }

    fn step(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        let current = walker.current.clone();
        match step.name.as_str() {
            "has" => self.has(walker, step)?,
            "hasNot" => {
                self.at(walker, Kind::Vertex, step)?;
                let key = self.one(step)?;
                let key = quoted_name(&self.word(key)?);
                self.filter(&format!("{current}.{key} IS NULL"));
            }
            "hasLabel" => {
                let operands = self.operands(step)?;
                let labels: Vec<String> =
                    operands.into_iter().map(|operand| Ok(self.known(operand)?.text)).collect::<Done<_>>()?;
                let [label] = labels.as_slice() else { return Err(self.takes(step, "one value")) };
                match walker.kind {
                    Kind::Vertex => self.filter(&format!("{label} IN labels({current})")),
                    Kind::Edge => self.filter(&format!("type({current}) = {label}")),
                    Kind::Value => self.at(walker, Kind::Vertex, step)?,
                }
            }
            "hasId" => {
                self.at(walker, Kind::Vertex, step)?;
                let operands = self.operands(step)?;
                let ids = self.ids(&operands)?;
                self.filter(&format!("id({current}) IN [{}]", ids.join(", ")));
            }
            "eqToVar" => {
                self.at(walker, Kind::Vertex, step)?;
                let operand = self.one(step)?;
                let (_, other, kind) = self.kept(walker, operand)?;
                match kind {
                    Kind::Vertex => self.filter(&format!("id({current}) = id({other})")),
                    _ => {
                        let message = format!("expected a vertex, but this is {}", kind.words());
                        return Err(self.mistake(operand.span, MistakeKind::TypeMismatch, message));
                    }
                }
            }
            "is" => {
                let [argument] = step.arguments.as_slice() else { return Err(self.takes(step, "one value or predicate")) };
                self.at(walker, Kind::Value, step)?;
                let condition = self.condition(&current, argument, step)?;
                self.filter(&condition);
            }
            "dedup" => {
                self.none(step)?;
                self.dedup(walker);
            }
            "limit" => {
                let count = self.one(step)?;
                let count = self.count(count)?;
                self.clause(&format!("WITH * LIMIT {count}"));
            }
            "out" | "in" | "both" | "outE" | "inE" | "bothE" | "outLimit" | "inLimit" | "bothLimit" | "outELimit"
            | "inELimit" | "bothELimit" => self.along(walker, step)?,
            "outV" | "inV" | "bothV" => {
                self.none(step)?;
                self.at(walker, Kind::Edge, step)?;
                let name = self.name();
                let end = match step.name.as_str() {
                    "outV" => format!("= id(startNode({current}))"),
                    "inV" => format!("= id(endNode({current}))"),
                    _ => format!("IN [id(startNode({current})), id(endNode({current}))]"),
                };
                self.clause(&format!("MATCH ({name}) WHERE id({name}) {end}"));
                self.moved(walker, name, Kind::Vertex);
            }
            "values" => {
                self.at(walker, Kind::Vertex, step)?;
                let operands = self.operands(step)?;
                let keys = self.words(&operands)?;
                let name = self.name();
                let values: Vec<String> = keys.iter().map(|key| format!("{current}.{}", quoted_name(key))).collect();
                self.clause(&match values.is_empty() {
                    true => format!("UNWIND [x IN keys({current}) | {current}[x]] AS {name}"),
                    false => format!("UNWIND [x IN [{}] WHERE x IS NOT NULL] AS {name}", values.join(", ")),
                });
                (walker.current, walker.kind) = (name, Kind::Value);
            }
            "valueMap" => {
                self.at(walker, Kind::Vertex, step)?;
                let operands = self.operands(step)?;
                let keys = self.words(&operands)?;
                let map = match keys.is_empty() {
                    true => format!("properties({current})"),
                    false => {
                        let keys = self.literal(Value::list(keys.into_iter().map(Value::Text).collect())).text;
                        format!("map.fromPairs([x IN {keys} WHERE {current}[x] IS NOT NULL | [x, {current}[x]]])")
                    }
                };
                self.computed(walker, &map);
            }
            "id" | "strId" => {
                self.none(step)?;
                self.at(walker, Kind::Vertex, step)?;
                // Whatever ids are, what is told of one is a text.
                self.computed(walker, &format!("strId({current})"));
            }
            "unrollPath" => {
                self.none(step)?;
                let name = self.name();
                if let Some((path, kind)) = walker.path.clone() {
                    match kind {
                        Kind::Vertex => {
                            self.clause(&format!("UNWIND {path} AS {name}i MATCH ({name}) WHERE id({name}) = id({name}i)"))
                        }
                        _ => self.clause(&format!("UNWIND {path} AS {name}")),
                    }
                    (walker.current, walker.kind) = (name, kind);
                }
            }
            "count" => {
                self.none(step)?;
                let name = self.name();
                self.clause(&format!("WITH count(*) AS {name}"));
                self.alone(walker, name);
            }
            "groupCount" => {
                self.none(step)?;
                let key = match walker.kind {
                    Kind::Vertex => format!("strId({current})"),
                    Kind::Value => format!("toString({current})"),
                    Kind::Edge => return self.at(walker, Kind::Vertex, step),
                };
                let name = self.name();
                self.clause(&format!("WITH {key} AS k, count(*) AS n WITH map.fromPairs(collect([k, n])) AS {name}"));
                self.alone(walker, name);
            }
            "as" => {
                let name = self.one(step)?;
                let name = self.word(name)?;
                walker.kept.retain(|(kept, ..)| *kept != name);
                walker.kept.push((name, current, walker.kind));
            }
            "select" => match self.operands(step)?.as_slice() {
                [] => return Err(self.takes(step, "at least one name")),
                [one] => (_, walker.current, walker.kind) = self.kept(walker, one)?,
                several => {
                    let mut entries = Vec::new();
                    for operand in several {
                        let (name, variable, _) = self.kept(walker, operand)?;
                        entries.push(format!("{}: {variable}", quoted_name(&name)));
                    }
                    self.computed(walker, &format!("{{{}}}", entries.join(", ")));
                }
            },
            "not" | "where" | "and" | "or" => {
                let traversals = self.traversals(step)?;
                if matches!(step.name.as_str(), "not" | "where") && traversals.len() != 1 {
                    return Err(self.takes(step, "one traversal"));
                }
                let found = traversals.into_iter().map(|steps| self.found(walker, steps)).collect::<Done<Vec<_>>>()?;
                self.filter(&match step.name.as_str() {
                    "not" => format!("NOT {}", found.join("")),
                    "or" => found.join(" OR "),
                    _ => found.join(" AND "),
                });
            }
            "union" => self.union(walker, step)?,
            "V" | "v" | "recentV" => {
                let message = format!("`{}` stands at the beginning of a traversal only", step.name);
                return Err(self.mistake(step.span, MistakeKind::Parse, message));
            }
            other => {
                let hint = nearest(other, STEPS.iter().copied()).map(|hint| format!("; {hint}")).unwrap_or_default();
                return Err(self.mistake(step.span, MistakeKind::Parse, format!("there is no step `{other}`{hint}")));
            }
        }
        Ok(())
    }

    /// All that came before is gone: there is one value.
    fn alone(&mut self, walker: &mut Walker, current: String) {
        *walker = Walker { current, kind: Kind::Value, kept: Vec::new(), path: None };
        if self.tracks_path {
            let path = self.name();
            self.clause(&format!("WITH *, [{}] AS {path}", walker.current));
            walker.path = Some((path, Kind::Value));
        }
    }

    fn kept(&mut self, walker: &Walker, operand: &Operand) -> Done<(Text, String, Kind)> {
        // A bare word is the name itself, where it is no variable with a text.
        let name = match &operand.kind {
            OperandKind::Variable(name) if !self.variables.contains_key(name) => name.clone(),
            _ => self.word(operand)?,
        };
        walker
            .kept
            .iter()
            .find(|(kept, ..)| *kept == name)
            .cloned()
            .ok_or_else(|| self.mistake(operand.span, MistakeKind::UnboundVariable, format!("nothing was kept as `{name}`")))
    }

    fn has(&mut self, walker: &Walker, step: &Step) -> Done<()> {
        self.at(walker, Kind::Vertex, step)?;
        let current = &walker.current;
        let (key, wanted) = match step.arguments.as_slice() {
            [Argument::Value(key)] => (key, None),
            [Argument::Value(key), wanted] => (key, Some(wanted)),
            _ => return Err(self.takes(step, "a key, and a value or predicate")),
        };
        let of_label = matches!(&key.kind, OperandKind::Variable(name) if name == "label" && !self.variables.contains_key(name));
        let condition = match (of_label, wanted) {
            (true, Some(wanted)) => {
                let condition = self.condition("x", wanted, step)?;
                format!("any(x IN labels({current}) WHERE {condition})")
            }
            (true, None) => format!("size(labels({current})) > 0"),
            (false, None) => format!("{current}.{} IS NOT NULL", quoted_name(&self.word(key)?)),
            (false, Some(wanted)) => {
                let property = format!("{current}.{}", quoted_name(&self.word(key)?));
                self.condition(&property, wanted, step)?
            }
        };
        self.filter(&condition);
        Ok(())
    }

    fn condition(&mut self, left: &str, wanted: &Argument, step: &Step) -> Done<String> {
        match wanted {
            Argument::Value(operand) => Ok(format!("{left} = {}", self.known(operand)?.text)),
            Argument::Traversal(_) => Err(self.takes(step, "values and predicates")),
            Argument::Predicate(name, span, operands) => {
                let known = operands.iter().map(|operand| self.known(operand)).collect::<Done<Vec<_>>>()?;
                match (name.as_str(), known.as_slice()) {
                    ("eq", [one]) => Ok(format!("{left} = {}", one.text)),
                    ("neq", [one]) => Ok(format!("{left} <> {}", one.text)),
                    ("regex", [one]) => Ok(format!("{left} =~ {}", one.text)),
                    ("within", [one]) if one.text.starts_with('[') || matches!(one.value, Some(Value::List(_))) => {
                        Ok(format!("{left} IN {}", one.text))
                    }
                    ("within", several) => {
                        let texts: Vec<&str> = several.iter().map(|known| known.text.as_str()).collect();
                        Ok(format!("{left} IN [{}]", texts.join(", ")))
                    }
                    _ => Err(self.mistake(*span, MistakeKind::Parse, format!("`{name}` takes one value"))),
                }
            }
        }
    }

    /// One of those that come to the same thing, with what was kept on its way.
    fn dedup(&mut self, walker: &mut Walker) {
        let others: Vec<String> = walker.carried_all()[1..].to_vec();
        if others.is_empty() {
            return self.clause(&format!("WITH DISTINCT {}", walker.current));
        }
        let firsts: Vec<String> = others.iter().map(|name| format!("head(collect({name})) AS {name}")).collect();
        self.clause(&format!("WITH {}, {}", walker.current, firsts.join(", ")));
    }

    fn along(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        self.at(walker, Kind::Vertex, step)?;
        let mut operands = self.operands(step)?;
        let name = step.name.as_str();
        let limit = match name.strip_suffix("Limit") {
            None => None,
            Some(_) => match operands.pop() {
                Some(count) => Some(self.count(count)?),
                None => return Err(self.takes(step, "labels, and a number")),
            },
        };
        let way = name.strip_suffix("Limit").unwrap_or(name);
        let labels: Vec<String> = self.words(&operands)?.iter().map(|label| quoted_name(label)).collect();
        let types = if labels.is_empty() { String::new() } else { format!(":{}", labels.join("|")) };
        let (from, to) = (walker.current.clone(), self.name());
        let (edge, node, kind) = match way.ends_with('E') {
            true => (to.as_str(), "", Kind::Edge),
            false => ("", to.as_str(), Kind::Vertex),
        };
        let pattern = match way.trim_end_matches('E') {
            "out" => format!("({from})-[{edge}{types}]->({node})"),
            "in" => format!("({from})<-[{edge}{types}]-({node})"),
            _ => format!("({from})-[{edge}{types}]-({node})"),
        };
        self.clause(&match limit {
            None => format!("MATCH {pattern}"),
            Some(limit) => format!("CALL {{ WITH {from} MATCH {pattern} RETURN {to} LIMIT {limit} }}"),
        });
        self.moved(walker, to, kind);
        Ok(())
    }

    fn traversals<'s>(&self, step: &'s Step) -> Done<Vec<&'s [Step]>> {
        let traversal = |argument: &'s Argument| match argument {
            Argument::Traversal(steps) => Ok(steps.as_slice()),
            Argument::Value(Operand { span, .. }) | Argument::Predicate(_, span, _) => {
                let message = format!("`{}` takes a traversal, as in `_.out()`", step.name);
                Err(self.mistake(*span, MistakeKind::Parse, message))
            }
        };
        let all: Vec<&[Step]> = step.arguments.iter().map(traversal).collect::<Done<_>>()?;
        if all.is_empty() { Err(self.takes(step, "at least one traversal")) } else { Ok(all) }
    }

    /// Whether a traversal from where the walker is leads anywhere.
    fn found(&mut self, walker: &Walker, steps: &[Step]) -> Done<String> {
        let before = std::mem::take(&mut self.out);
        let walked = self.walk(walker.clone(), steps);
        let inside = std::mem::replace(&mut self.out, before);
        walked?;
        Ok(format!("EXISTS {{ WITH {} {inside} RETURN 1 AS one }}", walker.carried()))
    }

    fn union(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        let traversals = self.traversals(step)?;
        let (to, path) = (self.name(), self.name());
        let (mut sides, mut kinds, mut path_kinds) = (Vec::new(), Vec::new(), Vec::new());
        for steps in traversals {
            let before = std::mem::take(&mut self.out);
            let walked = self.walk(walker.clone(), steps);
            let inside = std::mem::replace(&mut self.out, before);
            let walked = walked?;
            let visited = walked.path.as_ref().map(|(of, _)| format!(", {of} AS {path}")).unwrap_or_default();
            sides.push(format!("WITH {} {inside} RETURN {} AS {to}{visited}", walker.carried(), walked.current));
            kinds.push(walked.kind);
            path_kinds.extend(walked.path.map(|(_, kind)| kind));
        }
        let common = |kinds: &[Kind]| match kinds {
            [first, rest @ ..] if rest.iter().all(|kind| kind == first) => *first,
            _ => Kind::Value,
        };
        self.clause(&format!("CALL {{ {} }}", sides.join(" UNION ALL ")));
        (walker.current, walker.kind) = (to, common(&kinds));
        walker.path = self.tracks_path.then(|| (path, common(&path_kinds)));
        Ok(())
    }
}

impl Walker {
    /// The variables that are still needed: where the walker is first, each once.
    fn carried_all(&self) -> Vec<String> {
        let mut all = vec![self.current.clone()];
        let others = self.kept.iter().map(|(_, name, _)| name).chain(self.path.iter().map(|(name, _)| name));
        for name in others {
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        all
    }

    fn carried(&self) -> String {
        self.carried_all().join(", ")
    }
}
