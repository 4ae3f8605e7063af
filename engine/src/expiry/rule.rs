//! Rule: what a declaration means in symbols: when something ends, what a change may have to do with that, and how it is
//! stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustc_hash::FxHashMap;
use weir_model::mutation::{Kind, Tag};
use weir_model::schema::{Expires, ExpiryRule};
use weir_model::temporal::{DateTime, LocalDateTime};
use weir_model::{Mutations, NodeId, Symbol, Text, Value, codec};

use super::queue::Subject;
use crate::arrangement::Facts;
use crate::symbols::Symbols;
use crate::view::{EdgeRef, View};

pub struct Rule {
    pub name: Text,
    pub stored: ExpiryRule,
    pub of: Of,
    /// The property that holds a time.
    on: Symbol,
    /// What ends, if not the whole.
    pub removes: Option<Symbol>,
    /// How many have ended since the graph was opened.
    pub expired: AtomicU64,
}

#[derive(Clone, Copy)]
pub enum Of {
    Nodes(Symbol),
    Edges(Symbol),
}

impl Rule {
    pub fn new(name: Text, stored: ExpiryRule, symbols: &Symbols) -> Rule {
        let of = match &stored.of {
            Expires::Nodes(label) => Of::Nodes(symbols.intern(label)),
            Expires::Edges(kind) => Of::Edges(symbols.intern(kind)),
        };
        let on = symbols.intern(&stored.on);
        let removes = stored.removes.as_ref().map(|key| symbols.intern(key));
        Rule { name, stored, of, on, removes, expired: AtomicU64::new(0) }
    }

    /// The edge a subject of a rule of edges is.
    pub fn edge(&self, subject: Subject, kind: Symbol) -> EdgeRef {
        EdgeRef { source: subject.node, kind, target: subject.target, ordinal: subject.ordinal }
    }

    /// When it ends, if it does, in milliseconds since 1970.
    pub fn due(&self, view: &dyn View, subject: Subject) -> Option<u64> {
        match self.of {
            Of::Nodes(label) => {
                let due = self.due_of(&view.property(subject.node, self.on))?;
                let there = view.has_label(subject.node, label);
                let ends = there && self.removes.is_none_or(|key| !view.property(subject.node, key).is_null());
                ends.then_some(due)
            }
            Of::Edges(kind) => {
                let edge = self.edge(subject, kind);
                let due = self.due_of(&view.edge_property(edge, self.on))?;
                let ends = view.has_edge(edge) && self.removes.is_none_or(|key| !view.edge_property(edge, key).is_null());
                ends.then_some(due)
            }
        }
    }

    /// Everything of a node that ends some time by this rule, for a look through the whole graph.
    pub fn all_due(&self, number: u32, node: NodeId, facts: &Facts<'_>, at: u64, each: &mut dyn FnMut(Subject, u64)) {
        match self.of {
            Of::Nodes(label) if facts.has_label(label, at) => {
                if let Some(due) = self.due_of(&facts.property(self.on, at)) {
                    each(Subject::node(number, node), due);
                }
            }
            Of::Nodes(_) => {}
            // Whether the edge is there is asked when it is due.
            Of::Edges(kind) => {
                let tag = Tag::new(Kind::EdgeProperty, kind);
                facts.each(tag, tag, at, |segment, fact| {
                    let (target, ordinal, key, value) = codec::decode_edge_property(fact.payload, &segment.arena);
                    if key == self.on
                        && let Some(due) = self.due_of(&value)
                    {
                        each(Subject::edge(number, EdgeRef { source: node, kind, target, ordinal }), due);
                    }
                });
            }
        }
    }

    fn due_of(&self, time: &Value) -> Option<u64> {
        let millis = match time {
            Value::Integer(millis) => *millis,
            Value::DateTime(at) => millis_of(at)?,
            Value::LocalDateTime(at) => millis_of(&at.with_offset(0, None))?,
            Value::Date(date) => millis_of(&LocalDateTime { epoch_day: date.epoch_day, nano_of_day: 0 }.with_offset(0, None))?,
            _ => return None,
        };
        // What ended before 1970 has ended.
        Some(u64::try_from(millis).unwrap_or(0).saturating_add(self.stored.after_millis))
    }
}

/// Rounded up: nothing ends early.
fn millis_of(at: &DateTime) -> Option<i64> {
    at.epoch_second.checked_mul(1000)?.checked_add((i64::from(at.nano) + 999_999) / 1_000_000)
}

/// Which rules a change may concern, by the tag of its row.
#[derive(Default)]
pub struct Interests(FxHashMap<Tag, Vec<(u32, Arc<Rule>)>>);

impl Interests {
    pub fn of(rules: &BTreeMap<u32, Arc<Rule>>) -> Interests {
        let mut interests: FxHashMap<Tag, Vec<(u32, Arc<Rule>)>> = FxHashMap::default();
        for (number, rule) in rules {
            let tags = match rule.of {
                Of::Nodes(label) => {
                    let properties = [Some(rule.on), rule.removes.filter(|key| *key != rule.on)];
                    let properties = properties.into_iter().flatten().map(|key| Tag::new(Kind::Property, key));
                    properties.chain([Tag::new(Kind::Label, label)]).collect()
                }
                // An edge has no properties before it is there itself, or comes in one commit with them.
                Of::Edges(kind) => vec![Tag::new(Kind::EdgeProperty, kind)],
            };
            for tag in tags {
                interests.entry(tag).or_default().push((*number, rule.clone()));
            }
        }
        Interests(interests)
    }

    /// What may end by these changes, and when: at the latest then it is to be looked at. Without a time, at once.
    pub fn each(&self, mutations: &Mutations, each: &mut dyn FnMut(Subject, Option<u64>)) {
        // Of the node whose rows these are. Its time mostly follows, and then it need not be looked at before.
        let (mut node, mut timeless) = (NodeId::default(), Vec::new());
        for row in mutations.rows.iter().filter(|row| !row.removes()) {
            if row.node != node {
                timeless.drain(..).for_each(|subject| each(subject, None));
                node = row.node;
            }
            for (number, rule) in self.0.get(&row.tag).into_iter().flatten() {
                match (row.tag.kind(), rule.of) {
                    (Kind::Property, _) if row.tag.symbol() == rule.on => {
                        let due = rule.due_of(&codec::decode_payload(row.payload, &mutations.arena));
                        if let Some(due) = due {
                            let subject = Subject::node(*number, row.node);
                            timeless.retain(|other| *other != subject);
                            each(subject, Some(due));
                        }
                    }
                    (Kind::EdgeProperty, Of::Edges(kind)) => {
                        let (target, ordinal, key, value) = codec::decode_edge_property(row.payload, &mutations.arena);
                        let subject = Subject::edge(*number, EdgeRef { source: row.node, kind, target, ordinal });
                        if key == rule.on {
                            if let Some(due) = rule.due_of(&value) {
                                each(subject, Some(due));
                            }
                        } else if Some(key) == rule.removes {
                            each(subject, None);
                        }
                    }
                    _ => timeless.push(Subject::node(*number, row.node)),
                }
            }
        }
        timeless.into_iter().for_each(|subject| each(subject, None));
    }
}

/// As the store has it, under its name: a list of values.
pub fn encode(rule: &ExpiryRule) -> Vec<u8> {
    let (is_edge, of) = match &rule.of {
        Expires::Nodes(label) => (false, label),
        Expires::Edges(kind) => (true, kind),
    };
    let text = |text: &Text| Value::Text(text.clone());
    let after = i64::try_from(rule.after_millis).unwrap_or(i64::MAX);
    let removes = rule.removes.as_ref().map_or(Value::Null, text);
    let mut bytes = Vec::new();
    let parts = vec![Value::Boolean(is_edge), text(of), text(&rule.on), Value::Integer(after), removes];
    codec::encode(&Value::list(parts), &mut bytes);
    bytes
}

pub fn decode(mut bytes: &[u8]) -> Option<ExpiryRule> {
    let Value::List(parts) = codec::decode(&mut bytes)? else { return None };
    let [Value::Boolean(is_edge), Value::Text(of), Value::Text(on), Value::Integer(after), removes] = &parts[..] else {
        return None;
    };
    let removes = match removes {
        Value::Null => None,
        Value::Text(key) => Some(key.clone()),
        _ => return None,
    };
    let of = if *is_edge { Expires::Edges(of.clone()) } else { Expires::Nodes(of.clone()) };
    Some(ExpiryRule { of, on: on.clone(), after_millis: u64::try_from(*after).ok()?, removes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_and_the_time_that_follows_it_make_one_look() {
        let symbols = Symbols::default();
        let stored = ExpiryRule { of: Expires::Nodes("T".into()), on: "until".into(), after_millis: 5, removes: None };
        let rules = BTreeMap::from([(7, Arc::new(Rule::new("rule".into(), stored, &symbols)))]);
        let (label, until, other) = (symbols.intern("T"), symbols.intern("until"), symbols.intern("x"));
        let node = |n| NodeId::new(0, n);
        let mut mutations = Mutations::default();
        mutations.set_label(node(1), label, true);
        mutations.set_property(node(1), other, &Value::Integer(1));
        mutations.set_property(node(1), until, &Value::Integer(100));
        // A label alone, a time alone, and a label in the last row.
        mutations.set_label(node(2), label, true);
        mutations.set_property(node(3), until, &Value::Integer(200));
        mutations.set_label(node(4), label, true);
        let mut looks = Vec::new();
        Interests::of(&rules).each(&mutations, &mut |subject, due| looks.push((subject.node.low, due)));
        assert_eq!(looks, [(1, Some(105)), (2, None), (3, Some(205)), (4, None)]);
    }
}
