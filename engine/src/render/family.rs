//! Family: the patterns that share a program, and whose matches a row makes.
//!
//! A program is walked once for all of them. On the way a node is let through if it equals the constants of any member; a complete
//! row belongs to the members that a table of constants gives, which then test what the table could not tell.

use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_model::{Expr, Failure, GraphFree, Text, Value};

use super::Time;
use super::aside::Pace;
use super::constants::{Constants, Key};
use super::intervals::Intervals;
use super::program::Program;
use crate::index::key;

/// What is made of the rows of a program. Queries that differ in constants alone make the same.
#[derive(Debug)]
pub struct Ending {
    /// Endings with the same name are the same.
    pub name: Arc<str>,
    /// Conditions on a complete row.
    pub filters: Vec<Expr>,
    /// What is made of a complete row.
    pub columns: Vec<(Text, Expr)>,
    pub context: GraphFree,
}

/// One pattern of one query.
#[derive(Clone)]
pub struct Member {
    pub query: u32,
    /// The number of the pattern in its query.
    pub source: u32,
    /// Changes of earlier ticks do not concern it.
    pub since: Time,
    pub constants: Arc<Constants>,
    pub ending: Arc<Ending>,
    /// Told of what has no value.
    pub pace: Arc<Pace>,
}

pub struct Family {
    pub program: Arc<Program>,
    /// Where the program has an equality.
    members: FxHashMap<Key, Group>,
    /// Where it has none.
    alike: Group,
    /// How many members have these constants at a node, in the order of `Compared::equal`.
    admitted: Vec<FxHashMap<Key, u32>>,
    /// Those of the members by name, each once, and how many have it: what many share is at hand.
    endings: FxHashMap<Arc<str>, (Arc<Ending>, usize)>,
    /// The ranges of all members.
    ranges: Intervals<(u32, u32)>,
    /// The numbers of the sieves that `dense` may keep, by edge.
    pub sieves: Vec<Option<u32>>,
    count: usize,
    /// How many members it ever had: with more, it may let more through.
    pub joined: u64,
    /// Its queries have ended by themselves, all there are.
    pub ended: Cell<bool>,
}

/// The members with the same equalities.
#[derive(Default)]
struct Group {
    members: Vec<Member>,
    /// By their place in `members`, where the program has a range.
    ranges: Intervals<u32>,
}

impl Group {
    fn remove(&mut self, query: u32, source: u32) -> Option<Member> {
        let place = self.members.iter().position(|member| (member.query, member.source) == (query, source))?;
        let removed = self.members.swap_remove(place);
        self.sort_ranges();
        Some(removed)
    }

    fn sort_ranges(&mut self) {
        let of_member = |(place, member): (usize, &Member)| {
            member.constants.ranges.iter().map(move |range| (*range, place as u32)).collect::<Vec<_>>()
        };
        self.ranges = self.members.iter().enumerate().flat_map(of_member).collect();
    }
}

impl Family {
    pub fn new(program: Arc<Program>, sieves: Vec<Option<u32>>) -> Family {
        let admitted = program.compared.equal.iter().map(|_| FxHashMap::default()).collect();
        let (members, alike) = (FxHashMap::default(), Group::default());
        let (endings, ranges) = (FxHashMap::default(), Intervals::default());
        let ended = Cell::new(false);
        Family { program, members, alike, admitted, endings, ranges, sieves, count: 0, joined: 0, ended }
    }

    /// One that says which nodes may be part of a match of anybody with these constants, and no more.
    pub fn admitting(program: Arc<Program>, constants: &[Arc<Constants>]) -> Family {
        let mut family = Family::new(program, Vec::new());
        for one in constants {
            let parts = family.parts(&one.equal);
            for (part, admitted) in parts.zip(&mut family.admitted) {
                *admitted.entry(part).or_default() += 1;
            }
        }
        let ranges =
            constants.iter().zip(0..).flat_map(|(one, number)| one.ranges.iter().map(move |range| (*range, (number, 0))));
        family.ranges = ranges.collect();
        family
    }

    pub fn insert(&mut self, mut member: Member) {
        let (ending, shared) = self.endings.entry(member.ending.name.clone()).or_insert_with(|| (member.ending.clone(), 0));
        member.ending = ending.clone();
        *shared += 1;
        let constants = &*member.constants;
        for (part, admitted) in self.parts(&constants.equal).zip(&mut self.admitted) {
            *admitted.entry(part).or_default() += 1;
        }
        for range in &constants.ranges {
            self.ranges.insert(*range, (member.query, member.source));
        }
        let group = match constants.equal.is_empty() {
            true => &mut self.alike,
            false => self.members.entry(constants.equal.clone()).or_default(),
        };
        for range in &constants.ranges {
            group.ranges.insert(*range, group.members.len() as u32);
        }
        group.members.push(member);
        self.count += 1;
        self.joined += 1;
        self.ended.set(false);
    }

    pub fn remove(&mut self, query: u32, source: u32, constants: &Constants) {
        let removed = match constants.equal.is_empty() {
            true => self.alike.remove(query, source),
            false => self.members.get_mut(&constants.equal).and_then(|group| group.remove(query, source)),
        };
        let Some(removed) = removed else { return };
        if let Some((_, shared)) = self.endings.get_mut(&removed.ending.name) {
            *shared -= 1;
            if *shared == 0 {
                self.endings.remove(&removed.ending.name);
            }
        }
        if self.members.get(&constants.equal).is_some_and(|group| group.members.is_empty()) {
            self.members.remove(&constants.equal);
        }
        for (part, admitted) in self.parts(&constants.equal).zip(&mut self.admitted) {
            if let Entry::Occupied(mut entry) = admitted.entry(part) {
                *entry.get_mut() -= 1;
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
        }
        self.ranges.remove(|of| *of == (query, source));
        self.count -= 1;
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a condition of the program holds. One that has no value does not, which all members are told.
    pub fn passes(&self, condition: &Expr, row: &[Value]) -> bool {
        condition.look(row, &self.program.context).map_or_else(|failure| self.tell(&failure), |value| value.is_true())
    }

    #[cold]
    fn tell(&self, failure: &Failure) -> bool {
        self.all().for_each(|member| member.pace.leave_out(None, failure));
        false
    }

    /// Whether nobody wants what is found for it. Of other workers one hears by its queries alone.
    pub fn is_over(&self) -> bool {
        self.ended.get() || self.all().all(|member| member.pace.is_over())
    }

    pub fn all(&self) -> impl Iterator<Item = &Member> {
        self.members.values().chain([&self.alike]).flat_map(|group| &group.members)
    }

    /// The constants of each node, one after another.
    fn parts(&self, equal: &Key) -> impl Iterator<Item = Key> + use<> {
        let lengths: Vec<usize> = self.program.compared.equal.iter().map(|(_, slots)| slots.len()).collect();
        let equal = equal.clone();
        let mut at = 0;
        lengths.into_iter().map(move |length| {
            at += length;
            equal[at - length..at].iter().copied().collect()
        })
    }

    /// Whether constants of members are asked of a node.
    pub fn compares(&self, node: usize) -> bool {
        let compared = &self.program.compared;
        compared.equal.iter().any(|(of, _)| *of == node) || compared.range.is_some_and(|(of, _)| of == node)
    }

    /// Whether what was read at a node may be part of a match of any member.
    pub fn admits(&self, node: usize, row: &[Value]) -> bool {
        let compared = &self.program.compared;
        if compared.equal.is_empty() && compared.range.is_none() {
            return true;
        }
        for ((of, slots), admitted) in compared.equal.iter().zip(&self.admitted) {
            if *of == node {
                return key_of(slots.iter().copied(), row).is_some_and(|key| admitted.contains_key(&key));
            }
        }
        match compared.range {
            Some((of, slot)) if of == node => key::places(&row[slot]).iter().any(|place| self.ranges.any(*place)),
            _ => true,
        }
    }

    /// The members for which a complete row is a match, as far as their constants decide.
    pub fn each(&self, time: Time, row: &[Value], mut visit: impl FnMut(&Member)) {
        let compared = &self.program.compared;
        let group = if compared.equal.is_empty() {
            &self.alike
        } else {
            let slots = compared.equal.iter().flat_map(|(_, slots)| slots.iter().copied());
            let Some(group) = key_of(slots, row).and_then(|key| self.members.get(&key)) else { return };
            group
        };
        let mut meet = |member: &Member| {
            let (Constants { values, conditions, .. }, context) = (&*member.constants, &member.ending.context);
            if member.since <= time
                && values.iter().all(|(slot, value)| row[*slot].equals(value) == Some(true))
                && conditions.iter().all(|condition| member.passes(condition, row, context))
            {
                visit(member);
            }
        };
        let Some((_, slot)) = compared.range else { return group.members.iter().for_each(meet) };
        let mut found = Vec::new();
        for place in key::places(&row[slot]) {
            group.ranges.each(place, &mut |member| found.push(*member));
        }
        // Several ranges of one member may meet at a place.
        found.sort_unstable();
        found.dedup();
        found.into_iter().for_each(|place| meet(&group.members[place as usize]));
    }
}

impl Member {
    /// Whether a condition of its own holds. One that has no value does not, which it is told.
    pub fn passes(&self, condition: &Expr, row: &[Value], context: &GraphFree) -> bool {
        condition.look(row, context).map_or_else(
            |failure| {
                self.pace.leave_out(None, &failure);
                false
            },
            |value| value.is_true(),
        )
    }
}

/// Where the values of some slots lie; None if one of them equals nothing.
fn key_of(slots: impl Iterator<Item = usize>, row: &[Value]) -> Option<Key> {
    slots.map(|slot| key::equal(&row[slot])).collect()
}
