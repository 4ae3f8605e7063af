//! What an index is asked, and how a snapshot answers.

use rustc_hash::FxHashSet;
use weir_model::mutation::{Kind, Tag};
use weir_model::{Mutations, NodeId, Symbol, codec};

use super::ShownIndex;
use super::key::{self, Places};
use crate::arrangement::Facts;

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

    /// Whether these changes may make the answer longer. What they take from it concerns nodes that were in it.
    pub fn may_gain(&self, mutations: &Mutations) -> bool {
        let added = |kind: Kind, symbol: Symbol| {
            let tag = Tag::new(kind, symbol);
            mutations.rows.iter().filter(move |row| row.tag == tag && !row.removes())
        };
        let Some(key) = self.key else { return added(Kind::Label, self.label).next().is_some() };
        let mut set: FxHashSet<NodeId> = FxHashSet::default();
        for row in added(Kind::Property, key) {
            let value = codec::decode_payload(row.payload, &mutations.arena);
            if key::places(&value).iter().any(|place| self.places.iter().any(|range| range.contains(*place))) {
                return true;
            }
            set.insert(row.node);
        }
        // A node that gets the label may have had the value before.
        added(Kind::Label, self.label).any(|row| !set.contains(&row.node))
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
