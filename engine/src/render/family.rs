//! Family: patterns that differ in constants alone, and so share a program; and whose match a row is.
//!
//! A program is walked once for all of them. On the way a node is let through if it equals the constants of any member; a
//! complete row belongs to the members that a table of constants gives, which then test what the table could not tell.

use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_model::{Context, Expr, Failure, GraphFree, Text, Value};

use super::constants::{Constants, Key, place_of, places_of};
use super::health::Health;
use super::intervals::Intervals;
use super::program::Program;
use super::{FamilyNumber, QueryNumber, SieveNumber, Time};
use crate::index::key::Place;

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
    pub query: QueryNumber,
    /// The number of the pattern in its query.
    pub source: u32,
    /// Changes of earlier ticks do not concern it.
    pub since: Time,
    pub constants: Arc<Constants>,
    pub ending: Arc<Ending>,
    /// Told of what has no value.
    pub health: Arc<Health>,
}

pub struct Family {
    /// The number by which rows that travel name it.
    pub number: FamilyNumber,
    pub program: Arc<Program>,
    /// Members by their equalities, where the program has any.
    members: FxHashMap<Key, Group>,
    /// All members, where the program has no equality.
    alike: Group,
    /// How many members have these constants at a node, in the order of `Compared::equal`.
    admitted: Vec<FxHashMap<Key, u32>>,
    /// The endings of the members by name, each once, and how many have it: what many share is at hand.
    endings: FxHashMap<Arc<str>, (Arc<Ending>, usize)>,
    /// The ranges of all members.
    ranges: Intervals<(QueryNumber, u32)>,
    /// The numbers of the sieves that `dense` may keep, by edge.
    pub sieves: Vec<Option<SieveNumber>>,
    count: usize,
    /// How many members it ever had: with more, it may let more through.
    pub joined: u64,
    /// Whether all its queries have ended by themselves.
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
    fn insert(&mut self, member: Member) {
        self.ranges.insert(&member.constants.ranges, self.members.len() as u32);
        self.members.push(member);
    }

    fn remove(&mut self, query: QueryNumber, source: u32) -> Option<Member> {
        let place = self.members.iter().position(|member| (member.query, member.source) == (query, source))?;
        let removed = self.members.swap_remove(place);
        self.ranges.remove(&removed.constants.ranges, place as u32);
        // Where it stood the last one stands now.
        if let Some(moved) = self.members.get(place) {
            self.ranges.rename(&moved.constants.ranges, self.members.len() as u32, place as u32);
        }
        Some(removed)
    }
}

impl Family {
    pub fn new(number: FamilyNumber, program: Arc<Program>, sieves: Vec<Option<SieveNumber>>) -> Family {
        let admitted = program.compared.equal.iter().map(|_| FxHashMap::default()).collect();
        let (members, alike) = (FxHashMap::default(), Group::default());
        let (endings, ranges) = (FxHashMap::default(), Intervals::default());
        let ended = Cell::new(false);
        Family { number, program, members, alike, admitted, endings, ranges, sieves, count: 0, joined: 0, ended }
    }

    /// A family that says which nodes may be part of a match of anybody with these constants, and no more.
    pub fn admitting(program: Arc<Program>, constants: &[Arc<Constants>]) -> Family {
        let mut family = Family::new(FamilyNumber::NONE, program, Vec::new());
        for one in constants {
            let parts = family.parts(&one.equal);
            for (part, admitted) in parts.zip(&mut family.admitted) {
                *admitted.entry(part).or_default() += 1;
            }
        }
        let ranges = constants.iter().zip(0..).flat_map(|(one, number)| {
            let of = (QueryNumber(number), 0);
            one.ranges.iter().map(move |range| (*range, of))
        });
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
        self.ranges.insert(&constants.ranges, (member.query, member.source));
        let group = match constants.equal.is_empty() {
            true => &mut self.alike,
            false => self.members.entry(constants.equal.clone()).or_default(),
        };
        group.insert(member);
        self.count += 1;
        self.joined += 1;
        self.ended.set(false);
    }

    pub fn remove(&mut self, query: QueryNumber, source: u32, constants: &Constants) {
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
        self.ranges.remove(&removed.constants.ranges, (query, source));
        self.count -= 1;
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a condition of the program holds. One that has no value does not, which all members are told.
    pub fn passes(&self, condition: &Expr, row: &[Value]) -> bool {
        condition.look(row, &self.program.context).map_or_else(
            |failure| {
                self.tell(condition, row, &failure);
                false
            },
            |value| value.holds(),
        )
    }

    /// Tells all members of a row for which a condition of the program has no value.
    #[cold]
    pub fn tell(&self, condition: &Expr, row: &[Value], failure: &Failure) {
        let told = || self.program.told(condition, row, false);
        self.all().for_each(|member| member.health.leave_out(told, failure, Some(condition)));
    }

    /// Whether nobody wants what is found for it. Of other workers one hears by its queries alone.
    pub fn is_over(&self) -> bool {
        self.ended.get() || self.all().all(|member| member.health.is_over())
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

    /// Where the values of some slots lie; None if one of them equals nothing.
    fn key_of(&self, slots: impl Iterator<Item = usize>, row: &[Value]) -> Option<Key> {
        let ids = self.program.context.ids();
        slots.map(|slot| place_of(&row[slot], ids)).collect()
    }

    /// Where the value of a slot lies that is compared with ranges.
    fn places_in(&self, slot: usize, row: &[Value]) -> SmallVec<[Place; 2]> {
        places_of(&row[slot], self.program.context.ids())
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
        let mut equal = compared.equal.iter().zip(&self.admitted).filter(|((of, _), _)| *of == node);
        equal.all(|((_, slots), admitted)| self.key_of(slots.iter().copied(), row).is_some_and(|key| admitted.contains_key(&key)))
            && match compared.range {
                Some((of, slot)) if of == node => self.places_in(slot, row).iter().any(|place| self.ranges.any(*place)),
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
            let Some(group) = self.key_of(slots, row).and_then(|key| self.members.get(&key)) else { return };
            group
        };
        let mut meet = |member: &Member| {
            let Constants { values, conditions, .. } = &*member.constants;
            if member.since <= time
                && values.iter().all(|(slot, value)| row[*slot].equals(value) == Some(true))
                && conditions.iter().all(|condition| member.passes(condition, row, &self.program))
            {
                visit(member);
            }
        };
        let Some((_, slot)) = compared.range else { return group.members.iter().for_each(meet) };
        let mut found = Vec::new();
        for place in self.places_in(slot, row) {
            group.ranges.each(place, &mut |member| found.push(*member));
        }
        // Several ranges of one member may meet at a place.
        found.sort_unstable();
        found.dedup();
        found.into_iter().for_each(|place| meet(&group.members[place as usize]));
    }
}

impl Member {
    /// Whether a condition of its own on a complete row holds. One that has no value does not, which it is told.
    pub fn passes(&self, condition: &Expr, row: &[Value], program: &Program) -> bool {
        condition.look(row, &self.ending.context).map_or_else(
            |failure| {
                self.tell(condition, row, program, &failure);
                false
            },
            |value| value.holds(),
        )
    }

    /// Tells it of a complete row for which an expression of its own has no value.
    #[cold]
    pub fn tell(&self, expr: &Expr, row: &[Value], program: &Program, failure: &Failure) {
        self.health.leave_out(|| program.told(expr, row, true), failure, Some(expr));
    }
}

#[cfg(test)]
mod tests {
    use weir_cypher_compiler::{Options, StandingMode, compile_standing};
    use weir_model::{IdScheme, NodeId};

    use super::*;
    use crate::random::Random;
    use crate::render::maintained::{Maintained, Source};
    use crate::symbols::Symbols;

    const WRITTEN: [&str; 10] = [
        "1",
        "2.5",
        "-3",
        "9007199254740993",
        "9007199254740992.0",
        "'a'",
        "'a long text'",
        "'a long text with more'",
        "true",
        "null",
    ];

    fn stored() -> Vec<Value> {
        let mut stored: Vec<Value> =
            [1, 2, -3, 9_007_199_254_740_992, 9_007_199_254_740_993].into_iter().map(Value::Integer).collect();
        stored.extend([1.0, 2.5, 9_007_199_254_740_992.0, f64::NAN, f64::NEG_INFINITY].map(Value::Float));
        stored.extend(["a", "b", "a long text", "a long text with more"].map(Value::text));
        stored.extend([Value::Boolean(true), Value::Boolean(false), Value::list(vec![Value::Integer(1)]), Value::Null]);
        stored
    }

    fn condition(keys: usize, random: &mut Random) -> String {
        let (one, other) = (random.one_of(&WRITTEN), random.one_of(&WRITTEN));
        let range = match random.below(5) {
            0 => format!("n.x > {one}"),
            1 => format!("{one} >= n.x"),
            2 => format!("n.x >= {one} AND n.x < {other}"),
            3 => format!("n.x IN [{one}, {other}]"),
            _ => "n.x STARTS WITH 'a long'".to_owned(),
        };
        if keys == 0 { range } else { format!("n.k = {} AND {range}", random.index_below(keys)) }
    }

    fn source(condition: &str, symbols: &Symbols) -> Source {
        let text = format!("MATCH (n:A) WHERE {condition} RETURN n.x AS x");
        let plan = compile_standing(&text, StandingMode::AnyQuery, &Options::default()).expect("it is read").plan;
        Maintained::new(&plan, symbols, IdScheme::default()).expect("it can be maintained").sources.remove(0)
    }

    /// What the tables of constants say, against what each member says of the row.
    fn check(family: &Family, kept: &[Member], row: &[Value]) {
        let mut found = Vec::new();
        family.each(1, row, |member| found.push(member.query));
        found.sort_unstable();
        let holds = |member: &&Member| {
            let constants = &member.constants;
            constants.values.iter().all(|(slot, value)| row[*slot].equals(value) == Some(true))
                && constants.conditions.iter().all(|condition| member.passes(condition, row, &family.program))
        };
        let mut wanted: Vec<QueryNumber> = kept.iter().filter(holds).map(|member| member.query).collect();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{row:?}");
        assert!(wanted.is_empty() || family.admits(0, row), "{row:?}");
    }

    #[test]
    fn a_row_belongs_to_those_whose_constants_hold_whoever_has_come_and_gone() {
        let symbols = Symbols::default();
        let health = Arc::new(Health::of_nobody(IdScheme::default()));
        let mut random = Random(7);
        for keys in [0, 2] {
            let first = source(&condition(keys, &mut random), &symbols);
            let mut family = Family::new(FamilyNumber::NONE, first.program.clone(), Vec::new());
            let mut kept: Vec<Member> = Vec::new();
            for query in 0..200 {
                if query % 3 == 2 {
                    let gone = kept.swap_remove(random.index_below(kept.len()));
                    family.remove(gone.query, gone.source, &gone.constants);
                }
                let other = source(&condition(keys, &mut random), &symbols);
                assert_eq!(other.name, first.name, "those with a range of one slot are one family");
                let member = other.member((QueryNumber(query), 0), 0, &health);
                family.insert(member.clone());
                kept.push(member);
                let (_, ranged) = first.program.compared.range.expect("it has a range");
                for (value, key) in stored().into_iter().flat_map(|value| [(value.clone(), 0), (value, 1)]) {
                    let mut row = vec![Value::Null; first.program.width];
                    row[ranged] = value;
                    if let Some((_, slots)) = first.program.compared.equal.first() {
                        row[slots[0]] = Value::Integer(key);
                    }
                    check(&family, &kept, &row);
                }
            }
            kept.into_iter().for_each(|gone| family.remove(gone.query, gone.source, &gone.constants));
            assert!(family.is_empty() && family.all().next().is_none() && family.endings.is_empty());
        }
    }

    /// Queries that differ in an id alone are one family, however they ask for it, and a row belongs to those whose id it has.
    #[test]
    fn ids_are_constants_in_every_mode() {
        use StandingMode::{AnyQuery, DistinctId, MultipleValues};
        let (symbols, health) = (Symbols::default(), Arc::new(Health::of_nobody(IdScheme::default())));
        let long = IdScheme::Long { consecutive: false };
        type Written = fn(u32) -> String;
        let uuid: Written = |n: u32| format!("'00000000-0000-0000-0000-00000000000{n}'");
        let number: Written = |n: u32| n.to_string();
        let text: Written = |n: u32| format!("'{n}'");
        // Whether the condition holds for two nodes that differ in what a long id does not show.
        let cases = [
            (IdScheme::Uuid, MultipleValues, "MATCH (n:A) WHERE id(n) = ID AND n.v = 1 RETURN n.x AS x", uuid, false),
            (IdScheme::Uuid, MultipleValues, "MATCH (n) WHERE ID = strId(n) RETURN n.x AS x", uuid, false),
            (IdScheme::Uuid, DistinctId, "MATCH (n:A) WHERE id(n) = ID RETURN DISTINCT id(n) AS id", uuid, false),
            (IdScheme::Uuid, AnyQuery, "MATCH (a:A)-[:r]->(n) WHERE id(n) = ID RETURN id(a) AS a", uuid, false),
            (IdScheme::Uuid, AnyQuery, "MATCH (a:A)-[:r]->(n) WHERE ID = strId(n) RETURN a.x AS x", uuid, false),
            (IdScheme::Uuid, AnyQuery, "MATCH (a:A)-[:r]->(n) WHERE id(n) = quineId(ID) RETURN a.x AS x", uuid, false),
            (long, MultipleValues, "MATCH (n:A) WHERE id(n) = ID RETURN n.x AS x", number, true),
            (long, AnyQuery, "MATCH (a:A)-[:r]->(n) WHERE id(n) = ID RETURN a.x AS x", number, false),
            (long, AnyQuery, "MATCH (a:A)-[:r]->(n) WHERE strId(n) = ID RETURN a.x AS x", text, false),
        ];
        for (ids, mode, query, written, shows_alike) in cases {
            let source = |n: u32| {
                let (text, options) = (query.replace("ID", &written(n)), Options { ids, ..Options::default() });
                let compiled = compile_standing(&text, mode, &options);
                let plan = compiled.unwrap_or_else(|problems| panic!("{text}: {}", problems[0])).plan;
                Maintained::new(&plan, &symbols, ids).expect("it can be maintained").sources.remove(0)
            };
            let first = source(0);
            let mut family = Family::new(FamilyNumber::NONE, first.program.clone(), Vec::new());
            for n in 0..4 {
                let source = source(n);
                assert_eq!(source.name, first.name, "{query}");
                family.insert(source.member((QueryNumber(n), 0), 0, &health));
            }
            let [(node, slots)] = &family.program.compared.equal[..] else { panic!("{query}: {:?}", family.program.compared) };
            let view = &family.program.nodes[*node];
            assert!(slots.contains(&view.slot) && view.conditions.is_empty(), "{query}");
            let members = |id: NodeId| {
                let mut row = vec![Value::Null; family.program.width];
                slots.iter().for_each(|slot| row[*slot] = Value::Integer(1));
                row[view.slot] = Value::Node(id);
                let mut found = Vec::new();
                family.each(1, &row, |member| found.push(member.query.0));
                (found, family.admits(*node, &row))
            };
            for n in 0..4u32 {
                assert_eq!(members(NodeId::new(0, u64::from(n))), (vec![n], true), "{query}");
                let far = if shows_alike { vec![n] } else { Vec::new() };
                assert_eq!(members(NodeId::new(7, u64::from(n))).0, far, "{query}");
            }
            assert_eq!(members(NodeId::new(0, 9)), (Vec::new(), false), "{query}");
        }
        // What names no node is asked for as any other condition, and what names two of them for one of these.
        let program = |condition: &str| source(condition, &symbols).program;
        assert_eq!(program("n.x = 1 AND id(n) IN [idFrom(1), idFrom(2)]").compared.equal[0].1.len(), 1);
        assert!(program("n = 5").compared.equal.is_empty());
    }

    /// Queries that differ in a list of ids alone are one family, however long each list is.
    #[test]
    fn lists_of_ids_are_constants() {
        let (symbols, health) = (Symbols::default(), Arc::new(Health::of_nobody(IdScheme::default())));
        let id = |n: u32| format!("'00000000-0000-0000-0000-00000000000{n}'");
        for before in ["", "n.k = 1 AND "] {
            let conditions = [
                format!("{before}strId(n) IN [{}, {}]", id(1), id(2)),
                format!("{before}strId(n) IN [{}, null, 'no id', 5, {}, {}]", id(3), id(2), id(4)),
                format!("{before}(strId(n) = {} OR strId(n) IN [{}, {}])", id(5), id(1), id(6)),
            ];
            let first = source(&conditions[0], &symbols);
            let view = &first.program.nodes[0];
            assert!(view.conditions.is_empty() && first.program.compared.range == Some((0, view.slot)), "{before}");
            let mut family = Family::new(FamilyNumber::NONE, first.program.clone(), Vec::new());
            let mut kept: Vec<Member> = Vec::new();
            for (query, condition) in (0..).zip(&conditions) {
                let source = source(condition, &symbols);
                assert_eq!(source.name, first.name, "{condition}");
                let member = source.member((QueryNumber(query), 0), 0, &health);
                family.insert(member.clone());
                kept.push(member);
            }
            let row_of = |n: u32, key: i64| {
                let mut row = vec![Value::Null; family.program.width];
                view.reads.iter().for_each(|(_, read)| row[*read] = Value::Integer(key));
                row[view.slot] = Value::Node(NodeId::new(0, u64::from(n)));
                row
            };
            let expected: [&[u32]; 8] = [&[], &[0, 2], &[0, 1], &[1], &[1], &[2], &[2], &[]];
            for (n, expected) in (0..).zip(expected) {
                let row = row_of(n, 1);
                check(&family, &kept, &row);
                let mut found = Vec::new();
                family.each(1, &row, |member| found.push(member.query.0));
                assert_eq!((&found[..], family.admits(0, &row)), (expected, !expected.is_empty()), "{before}{n}");
            }
            assert_eq!(family.admits(0, &row_of(1, 2)), before.is_empty());
        }
    }
}
