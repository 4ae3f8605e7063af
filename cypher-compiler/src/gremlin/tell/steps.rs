//! What each step adds to the Cypher.

use weir_model::{Text, Value};

use super::super::MistakeKind;
use super::super::read::{Argument, Operand, OperandKind, Step};
use super::{Done, Kind, Teller, Walker};
use crate::error::nearest;
use crate::lexer::quoted_name;

/// All steps, for who mistypes one.
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

impl Teller<'_> {
    pub(super) fn step(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        match step.name.as_str() {
            "has" => self.has(walker, step),
            "hasNot" => self.has_not(walker, step),
            "hasLabel" => self.has_label(walker, step),
            "hasId" => self.has_id(walker, step),
            "eqToVar" => self.equal_to_kept(walker, step),
            "is" => self.is(walker, step),
            "dedup" => self.dedup(walker, step),
            "limit" => self.limit(step),
            "out" | "in" | "both" | "outE" | "inE" | "bothE" | "outLimit" | "inLimit" | "bothLimit" | "outELimit"
            | "inELimit" | "bothELimit" => self.along(walker, step),
            "outV" | "inV" | "bothV" => self.ends(walker, step),
            "values" => self.values(walker, step),
            "valueMap" => self.value_map(walker, step),
            "id" | "strId" => self.text_of_id(walker, step),
            "unrollPath" => self.unroll_path(walker, step),
            "count" => self.count_all(walker, step),
            "groupCount" => self.group_count(walker, step),
            "as" => self.keep(walker, step),
            "select" => self.select(walker, step),
            "not" | "where" | "and" | "or" => self.where_found(walker, step),
            "union" => self.union(walker, step),
            "V" | "v" | "recentV" => {
                let message = format!("`{}` stands at the beginning of a traversal only", step.name);
                Err(self.mistake(step.span, MistakeKind::Parse, message))
            }
            other => {
                let hint = nearest(other, STEPS.iter().copied()).map(|hint| format!("; {hint}")).unwrap_or_default();
                Err(self.mistake(step.span, MistakeKind::Parse, format!("there is no step `{other}`{hint}")))
            }
        }
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

    fn has_not(&mut self, walker: &Walker, step: &Step) -> Done<()> {
        let current = &walker.current;
        self.at(walker, Kind::Vertex, step)?;
        let key = self.one(step)?;
        let key = quoted_name(&self.word(key)?);
        self.filter(&format!("{current}.{key} IS NULL"));
        Ok(())
    }

    fn has_label(&mut self, walker: &Walker, step: &Step) -> Done<()> {
        let current = &walker.current;
        let operands = self.operands(step)?;
        let labels: Vec<String> = operands.into_iter().map(|operand| Ok(self.known(operand)?.text)).collect::<Done<_>>()?;
        let [label] = labels.as_slice() else { return Err(self.takes(step, "one value")) };
        match walker.kind {
            Kind::Vertex => self.filter(&format!("{label} IN labels({current})")),
            Kind::Edge => self.filter(&format!("type({current}) = {label}")),
            Kind::Value => self.at(walker, Kind::Vertex, step)?,
        }
        Ok(())
    }

    fn has_id(&mut self, walker: &Walker, step: &Step) -> Done<()> {
        let current = &walker.current;
        self.at(walker, Kind::Vertex, step)?;
        let operands = self.operands(step)?;
        let ids = self.ids(&operands)?;
        self.filter(&format!("id({current}) IN [{}]", ids.join(", ")));
        Ok(())
    }

    fn equal_to_kept(&mut self, walker: &Walker, step: &Step) -> Done<()> {
        let current = &walker.current;
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
        Ok(())
    }

    fn is(&mut self, walker: &Walker, step: &Step) -> Done<()> {
        let [argument] = step.arguments.as_slice() else { return Err(self.takes(step, "one value or predicate")) };
        self.at(walker, Kind::Value, step)?;
        let condition = self.condition(&walker.current, argument, step)?;
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
    fn dedup(&mut self, walker: &Walker, step: &Step) -> Done<()> {
        self.none(step)?;
        let others: Vec<String> = walker.carried_all()[1..].to_vec();
        if others.is_empty() {
            self.clause(&format!("WITH DISTINCT {}", walker.current));
            return Ok(());
        }
        let firsts: Vec<String> = others.iter().map(|name| format!("head(collect({name})) AS {name}")).collect();
        self.clause(&format!("WITH {}, {}", walker.current, firsts.join(", ")));
        Ok(())
    }

    fn limit(&mut self, step: &Step) -> Done<()> {
        let count = self.one(step)?;
        let count = self.count(count)?;
        self.clause(&format!("WITH * LIMIT {count}"));
        Ok(())
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

    fn ends(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        let current = walker.current.clone();
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
        Ok(())
    }

    fn values(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        let current = &walker.current;
        let keys = self.keys(walker, step)?;
        let name = self.name();
        let values: Vec<String> = keys.iter().map(|key| format!("{current}.{}", quoted_name(key))).collect();
        self.clause(&match values.is_empty() {
            true => format!("UNWIND [x IN keys({current}) | {current}[x]] AS {name}"),
            false => format!("UNWIND [x IN [{}] WHERE x IS NOT NULL] AS {name}", values.join(", ")),
        });
        (walker.current, walker.kind) = (name, Kind::Value);
        Ok(())
    }

    fn value_map(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        let current = &walker.current;
        let keys = self.keys(walker, step)?;
        let map = match keys.is_empty() {
            true => format!("properties({current})"),
            false => {
                let keys = self.literal(Value::list(keys.into_iter().map(Value::Text).collect())).text;
                format!("map.fromPairs([x IN {keys} WHERE {current}[x] IS NOT NULL | [x, {current}[x]]])")
            }
        };
        self.computed(walker, &map);
        Ok(())
    }

    /// The keys of a vertex that a step is about; without any it is about all.
    fn keys(&mut self, walker: &Walker, step: &Step) -> Done<Vec<Text>> {
        self.at(walker, Kind::Vertex, step)?;
        let operands = self.operands(step)?;
        self.words(&operands)
    }

    fn text_of_id(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        self.none(step)?;
        self.at(walker, Kind::Vertex, step)?;
        // Whatever ids are, what is told of one is a text.
        let text = format!("strId({})", walker.current);
        self.computed(walker, &text);
        Ok(())
    }

    fn unroll_path(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        self.none(step)?;
        let name = self.name();
        if let Some((path, kind)) = walker.path.clone() {
            match kind {
                Kind::Vertex => self.clause(&format!("UNWIND {path} AS {name}i MATCH ({name}) WHERE id({name}) = id({name}i)")),
                _ => self.clause(&format!("UNWIND {path} AS {name}")),
            }
            (walker.current, walker.kind) = (name, kind);
        }
        Ok(())
    }

    fn count_all(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        self.none(step)?;
        let name = self.name();
        self.clause(&format!("WITH count(*) AS {name}"));
        self.alone(walker, name);
        Ok(())
    }

    fn group_count(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        let current = &walker.current;
        self.none(step)?;
        let key = match walker.kind {
            Kind::Vertex => format!("strId({current})"),
            Kind::Value => format!("toString({current})"),
            Kind::Edge => return self.at(walker, Kind::Vertex, step),
        };
        let name = self.name();
        self.clause(&format!("WITH {key} AS k, count(*) AS n WITH map.fromPairs(collect([k, n])) AS {name}"));
        self.alone(walker, name);
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

    fn keep(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        let name = self.one(step)?;
        let name = self.word(name)?;
        walker.kept.retain(|(kept, ..)| *kept != name);
        walker.kept.push((name, walker.current.clone(), walker.kind));
        Ok(())
    }

    fn select(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        match self.operands(step)?.as_slice() {
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
        }
        Ok(())
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

    /// Whether traversals from here lead anywhere: none, or one, or all, or any.
    fn where_found(&mut self, walker: &Walker, step: &Step) -> Done<()> {
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
        let (_, inside) = self.apart(walker, steps)?;
        Ok(format!("EXISTS {{ WITH {} {inside} RETURN 1 AS one }}", walker.carried()))
    }

    /// Where a traversal leads from here, and what it adds, which stands by itself.
    fn apart(&mut self, walker: &Walker, steps: &[Step]) -> Done<(Walker, String)> {
        let before = std::mem::take(&mut self.out);
        let walked = self.walk(walker.clone(), steps);
        let added = std::mem::replace(&mut self.out, before);
        Ok((walked?, added))
    }

    fn union(&mut self, walker: &mut Walker, step: &Step) -> Done<()> {
        let traversals = self.traversals(step)?;
        let (to, path) = (self.name(), self.name());
        let (mut sides, mut kinds, mut path_kinds) = (Vec::new(), Vec::new(), Vec::new());
        for steps in traversals {
            let (walked, inside) = self.apart(walker, steps)?;
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
