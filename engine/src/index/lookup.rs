//! What an index is asked, and how a snapshot answers.

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::mutation::{Kind, Tag};
use weir_model::{Mutations, NodeId, Symbol, Value, codec};

use super::ShownIndex;
use super::key::{self, Place, Places};
use crate::arrangement::Facts;
use crate::view::View;

/// What a place takes that is noted, about.
const NOTED_BYTES: usize = 64;

/// Which nodes have the label and a value of the property in one of these places. Without a property: which have the label.
#[derive(Clone, Debug)]
pub struct Question {
    pub label: Symbol,
    pub key: Option<Symbol>,
    pub places: Vec<Places>,
}

impl Question {
    pub fn of_label(label: Symbol) -> Question {
        Question { label, key: None, places: vec![Places::only(key::LABEL)] }
    }

    /// Whether these changes may make the answer longer that there was `before`. What they take from it concerns nodes that were
    /// in it. The places are in order and apart, as those of `Questions::asked` are.
    pub fn may_gain(&self, mutations: &Mutations, before: &dyn View) -> bool {
        let added = |kind: Kind, symbol: Symbol| {
            let tag = Tag::new(kind, symbol);
            mutations.rows.iter().filter(move |row| row.tag == tag && !row.removes())
        };
        let mut labelled = added(Kind::Label, self.label).filter(|row| !before.has_label(row.node, self.label));
        let Some(key) = self.key else { return labelled.next().is_some() };
        let is_asked = |value: &Value| key::places(value).iter().any(|place| self.asks(*place));
        added(Kind::Property, key).any(|row| is_asked(&codec::decode_payload(row.payload, &mutations.arena)))
            // A node that gets the label may have had the value before; a value that it gets is one of those above.
            || labelled.any(|row| is_asked(&before.property(row.node, key)))
    }

    fn asks(&self, place: Place) -> bool {
        let begun = self.places.partition_point(|range| range.first <= place);
        self.places[..begun].last().is_some_and(|range| range.contains(place))
    }
}

/// What one transaction has asked indexes, each place once, however often it was asked for: a MERGE asks for every row.
#[derive(Default, Debug)]
pub struct Questions(FxHashMap<(Symbol, Option<Symbol>), FxHashSet<Places>>);

impl Questions {
    pub fn note(&mut self, question: &Question) {
        // One without a place has no answer, whatever happens.
        if !question.places.is_empty() {
            self.0.entry((question.label, question.key)).or_default().extend(&question.places);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What they take, about.
    pub fn bytes(&self) -> usize {
        self.0.values().map(|places| places.len() * NOTED_BYTES).sum()
    }

    /// One question to each index, for all that it was asked.
    pub fn asked(self) -> Vec<Question> {
        let asked = |((label, key), places): ((Symbol, Option<Symbol>), FxHashSet<Places>)| {
            let places = key::apart(places.into_iter().collect());
            Question { label, key, places }
        };
        self.0.into_iter().map(asked).collect()
    }
}

impl ShownIndex {
    /// The nodes of an answer, in no order; one with two values in question may come twice.
    pub fn answer(&self, question: &Question, at: u64, each: &mut dyn FnMut(NodeId)) {
        for range in &question.places {
            let (first, last) = (range.first.first_key(), range.last.last_key());
            let mut places: Vec<usize> = self.batches.iter().map(|batch| batch.lower_bound(first)).collect();
            loop {
                let here = self.batches.iter().zip(&places).filter_map(|(batch, place)| batch.ids.get(*place)).min().copied();
                let Some(here) = here.filter(|id| *id <= last) else { break };
                let hits = self.batches.iter().zip(&mut places).rev().filter_map(|(batch, place)| {
                    (batch.ids.get(*place) == Some(&here)).then(|| {
                        *place += 1;
                        batch.part(*place - 1)
                    })
                });
                let facts = Facts::known(hits);
                facts.each(Tag(0), Tag(u32::MAX), at, |_, fact| each(fact.payload.as_node()));
            }
        }
    }

    /// About how many updates would have to be looked at.
    pub fn size(&self, question: &Question) -> u64 {
        let size = |range: &Places| -> u64 {
            let (first, last) = (range.first.first_key(), range.last.last_key());
            let of_batch = |batch: &crate::arrangement::SharedBatch| {
                batch.about_facts(batch.lower_bound(first)..batch.ids.partition_point(|id| *id <= last)) as u64
            };
            self.batches.iter().map(of_batch).sum()
        };
        question.places.iter().map(size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::reference::ReferenceGraph;

    const LABEL: Symbol = Symbol(1);
    const KEY: Symbol = Symbol(2);

    fn node(random: &mut Random) -> NodeId {
        NodeId::new(0, random.below(6))
    }

    fn value(random: &mut Random) -> Value {
        match random.below(8) {
            0 => Value::Null,
            1 => Value::text("text"),
            2 => Value::Float(random.below(5) as f64),
            _ => Value::Integer(random.integer_below(5)),
        }
    }

    fn mutations(random: &mut Random, count: u64) -> Mutations {
        let mut mutations = Mutations::default();
        for _ in 0..random.below(count) {
            let (node, symbol) = (node(random), if random.below(4) > 0 { KEY } else { Symbol(3) });
            match random.below(8) {
                0 => mutations.clear_properties(node),
                1..4 => mutations.set_label(node, LABEL, random.below(3) > 0),
                _ => mutations.set_property(node, symbol, &value(random)),
            }
        }
        mutations
    }

    /// By looking at every node.
    fn answer(graph: &ReferenceGraph, question: &Question) -> Vec<NodeId> {
        let mut found = Vec::new();
        graph.labelled(question.label, &mut |node| {
            let is_asked = question.key.is_none_or(|key| {
                let places = key::places(&graph.property(node, key));
                places.iter().any(|place| question.places.iter().any(|range| range.contains(*place)))
            });
            if is_asked {
                found.push(node);
            }
            true
        });
        found
    }

    #[test]
    fn what_comes_into_an_answer_is_seen_coming() {
        let (mut gained, mut not_gained) = (0, 0);
        for seed in 0..3000 {
            let mut random = Random(seed);
            let mut before = ReferenceGraph::new();
            before.apply_all(&mutations(&mut random, 20));
            let mut questions = Questions::default();
            for _ in 0..random.below(3) {
                let number = |n: i64| key::equal(&Value::Integer(n)).unwrap_or(key::FAILS);
                let (first, last) = (number(random.integer_below(5)), number(random.integer_below(5)));
                let text = key::equal(&Value::text("text")).unwrap_or(key::FAILS);
                let places = vec![Places { first, last }, Places::only(if random.below(2) == 0 { text } else { first })];
                questions.note(&Question { label: LABEL, key: Some(KEY), places });
            }
            if random.below(3) == 0 {
                questions.note(&Question::of_label(LABEL));
            }
            // Several entries, each of which is looked at by itself.
            let entries: Vec<Mutations> = (0..3).map(|_| mutations(&mut random, 4)).collect();
            let mut after = before.clone();
            entries.iter().for_each(|entry| after.apply_all(entry));
            for question in questions.asked() {
                let old = answer(&before, &question);
                let may_gain = entries.iter().any(|entry| question.may_gain(entry, &before));
                let gains = answer(&after, &question).iter().any(|node| !old.contains(node));
                assert!(may_gain || !gains, "seed {seed}: {question:?}");
                gained += u32::from(gains);
                let are_of_it = entries.iter().any(|entry| !entry.is_empty());
                not_gained += u32::from(are_of_it && !may_gain);
            }
        }
        assert!(gained > 100 && not_gained > 100, "{gained}, {not_gained}");
    }

    #[test]
    fn a_place_is_noted_once() {
        let of = |values: std::ops::Range<i64>| {
            let places = values.filter_map(|n| key::equal(&Value::Integer(n))).map(Places::only).collect();
            Question { label: LABEL, key: Some(KEY), places }
        };
        let mut questions = Questions::default();
        questions.note(&of(0..1000));
        let bytes = questions.bytes();
        assert!(bytes >= 1000 * size_of::<Places>());
        (0..1000).for_each(|n| questions.note(&of(n..n + 1)));
        questions.note(&of(0..0));
        assert_eq!(questions.bytes(), bytes);
        let [all] = &questions.asked()[..] else { panic!("it is one index") };
        assert!(all.places.len() == 1000 && all.places.is_sorted());
    }

    #[test]
    fn places_that_meet_are_one() {
        let place = |n: i64| key::equal(&Value::Integer(n)).unwrap_or(key::FAILS);
        let range = |first: i64, last: i64| Places { first: place(first), last: place(last) };
        let mut questions = Questions::default();
        let places = vec![range(5, 9), range(1, 3), range(2, 2), range(3, 4), range(8, 8), Places::NOWHERE];
        questions.note(&Question { label: LABEL, key: Some(KEY), places });
        let [all] = &questions.asked()[..] else { panic!("it is one index") };
        assert_eq!(all.places, [range(1, 4), range(5, 9)]);
        let asked: Vec<i64> = (0..12).filter(|n| all.asks(place(*n))).collect();
        assert_eq!(asked, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
