//! Steps to Cypher. Whoever walks is at one thing, whose variable is `current`; each step filters it or leads to the next.

mod steps;

use std::collections::HashMap;

use weir_model::{IdScheme, Text, Value};

use super::read::{Argument, Operand, OperandKind, Query, Step};
use super::{Mistake, MistakeKind, Told};
use crate::error::Span;

/// How many nodes `recentV` and `V(recent_nodes)` give that do not say.
const RECENT_COUNT: i64 = 10;

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
    /// The items of a list that was written out, each with its place.
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
