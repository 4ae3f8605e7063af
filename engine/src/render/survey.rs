//! Survey: one pass through a shard for all installations that wait, which finds where matches of each may begin.
//!
//! Each by itself would look at every node, and most nodes are of no use to most of them. Here a node is read once and offered to
//! all patterns of a program as to one. It is read as of the newest of their ticks: what has changed since the oldest may have
//! fitted any of them. What is noted is then looked at by each installation itself, as of its own tick.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;
use weir_model::plan::Atom;
use weir_model::{Expr, NodeId, Symbol, Value};

use super::constants::Constants;
use super::family::Family;
use super::probe::has_needs;
use super::walk::{Here, NodeReader};
use crate::arrangement::locate::{Through, by_node, parts};
use crate::arrangement::{Facts, Part, Snapshot};
use crate::symbols::WorkerSymbols;
use crate::view::Direction;

/// A pattern by the name of its program, as the one member of its family.
pub type Pattern = (Arc<str>, Family);

/// The nodes that a path may begin at: those that fit, and those that have changed. Anywhere, where these would be too many to
/// note.
pub type Beginnings = Option<[Rc<Vec<NodeId>>; 2]>;

/// More nodes than one in this many are not noted: then each is as well looked at where it lies.
const NOTED_PARTS: usize = 4;

/// Offers of a node to a program between two looks at the clock, about.
const OFFERS_BY_CLOCK: usize = 256;
/// Nodes between two looks at the clock, at most.
const NODES_BY_CLOCK: usize = 64;

/// A node of which a batch has more facts than this counts as changed: nobody looks at each fact.
const FACTS_LOOKED_AT: usize = 1024;

pub struct Survey {
    snapshot: Snapshot,
    shard: usize,
    symbols: Rc<WorkerSymbols>,
    /// The oldest tick of those that wait.
    since: u64,
    programs: Vec<Program>,
    routes: Routes,
    through: Through,
    changed: Vec<NodeId>,
    room: Room,
    row: Vec<Value>,
    pub looked_at: u64,
}

/// Which programs a node is offered to: those whose first label it has, and those that ask for none.
#[derive(Default)]
struct Routes {
    by_label: FxHashMap<Symbol, Vec<usize>>,
    others: Vec<usize>,
}

/// All patterns with the same program, and where they may begin.
struct Program {
    family: Family,
    /// Of the pattern, the node that a path begins at, where that is known.
    first: Option<usize>,
    nodes: Option<Vec<NodeId>>,
}

/// How many nodes may be noted: for one program, and for all of them.
struct Room {
    each: usize,
    left: usize,
    /// How many programs have not come to the end of theirs.
    open: usize,
}

impl Survey {
    /// A survey of a shard for installations that each have a snapshot of it and patterns; and the numbers of the programs of
    /// each.
    pub fn begin<'t>(
        waiting: impl Iterator<Item = (&'t Snapshot, &'t [Pattern])>,
        shard: usize,
        symbols: Rc<WorkerSymbols>,
    ) -> Option<(Survey, Vec<Vec<usize>>)> {
        let (mut newest, mut since): (Option<&Snapshot>, u64) = (None, u64::MAX);
        let mut known: FxHashMap<&str, usize> = FxHashMap::default();
        let mut constants = Vec::new();
        let mut numbers = Vec::new();
        for (snapshot, patterns) in waiting {
            since = since.min(snapshot.tick().0);
            newest = Some(newest.filter(|newest| newest.tick() >= snapshot.tick()).unwrap_or(snapshot));
            let of_pattern = |(name, family): &'t Pattern| {
                let number = *known.entry(name).or_insert_with(|| {
                    constants.push((family.program.clone(), Vec::new()));
                    constants.len() - 1
                });
                constants[number].1.extend(family.all().map(|member| member.constants.clone()));
                number
            };
            numbers.push(patterns.iter().map(of_pattern).collect());
        }
        let snapshot = newest?.clone();
        let programs: Vec<Program> =
            constants.into_iter().map(|(program, constants)| Program::new(program, &constants)).collect();
        let mut routes = Routes::default();
        programs.iter().enumerate().for_each(|(number, program)| routes.add(number, program));
        let nodes: usize = snapshot.shard(shard).iter().map(|batch| batch.ids.len()).sum();
        let room = Room { each: nodes / NOTED_PARTS, left: nodes, open: programs.len() };
        let through = Through::begin(snapshot.shard(shard));
        let (changed, row, looked_at) = (Vec::new(), Vec::new(), 0);
        Some((Survey { snapshot, shard, symbols, since, programs, routes, through, changed, room, row, looked_at }, numbers))
    }

    /// Looks at some nodes; true when there are no more, or too many to note any.
    pub fn work(&mut self, end: Instant) -> bool {
        let Survey { snapshot, shard, symbols, since, programs, routes, through, changed, room, row, looked_at } = self;
        let (batches, at) = (snapshot.shard(*shard), snapshot.tick().0);
        let at_once = (OFFERS_BY_CLOCK / programs.len().max(1)).clamp(1, NODES_BY_CLOCK);
        loop {
            through.go_on(batches, at_once);
            let nodes = &through.nodes;
            for (id, here) in nodes.iter().zip(by_node(&through.found, nodes.len())) {
                if parts(batches, here).any(|part| may_have_changed(&part, *since)) {
                    changed.push(*id);
                    continue;
                }
                let facts = Facts::known(parts(batches, here));
                routes.each(&facts, at, &mut |number| {
                    let program = &mut programs[number];
                    if program.nodes.is_some() && program.may_begin(Here { id: *id, facts: &facts }, at, row, symbols) {
                        program.note(*id, room);
                    }
                });
            }
            *looked_at += nodes.len() as u64;
            if nodes.len() < at_once || room.open == 0 || changed.len() > room.each {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
        }
    }

    /// What was found, by the numbers of programs.
    pub fn into_beginnings(self) -> Vec<Beginnings> {
        let Survey { mut changed, room, programs, .. } = self;
        let few = changed.len() <= room.each;
        changed.shrink_to_fit();
        let changed = Rc::new(changed);
        let found = programs.into_iter().map(|program| program.nodes.filter(|_| few));
        let with_changed = |mut nodes: Vec<NodeId>| {
            nodes.shrink_to_fit();
            [Rc::new(nodes), changed.clone()]
        };
        found.map(|nodes| nodes.map(with_changed)).collect()
    }
}

/// The node of a pattern that is looked for first in a graph at rest, where that is known.
pub fn first_of(program: &super::Program) -> Option<usize> {
    match program.paths[program.last].atom {
        Atom::Node(node) => Some(node),
        Atom::Edge(edge) => {
            let view = &program.edges[edge];
            program.nodes.iter().position(|node| view.directed && node.slot == view.source)
        }
    }
}

/// Whether what a batch knows of a node may be newer than a tick.
fn may_have_changed(part: &Part<'_>, since: u64) -> bool {
    part.last > since
        && !part.segment.all_until(since)
        && (part.facts.len() > FACTS_LOOKED_AT || part.facts.iter().any(|fact| part.segment.time(fact) > since))
}

impl Routes {
    fn add(&mut self, number: usize, program: &Program) {
        let label = program.first.and_then(|node| program.family.program.nodes[node].labels.first());
        match label {
            Some(label) => self.by_label.entry(*label).or_default().push(number),
            None => self.others.push(number),
        }
    }

    fn each(&self, facts: &Facts<'_>, at: u64, visit: &mut impl FnMut(usize)) {
        self.others.iter().copied().for_each(&mut *visit);
        if !self.by_label.is_empty() {
            facts.labels(at, |label| self.by_label.get(&label).into_iter().flatten().copied().for_each(&mut *visit));
        }
    }
}

impl Program {
    fn new(program: Arc<super::Program>, constants: &[Arc<Constants>]) -> Program {
        let first = first_of(&program);
        Program { family: Family::admitting(program, constants), first, nodes: Some(Vec::new()) }
    }

    /// False where no match begins at a node. A condition without a value is left to those who are told of it.
    fn may_begin(&self, Here { id, facts }: Here<'_, '_>, at: u64, row: &mut Vec<Value>, symbols: &WorkerSymbols) -> bool {
        let program = &self.family.program;
        let path = &program.paths[program.last];
        if !has_needs(path, facts, Some(at)) {
            return false;
        }
        let may_be = match path.atom {
            Atom::Node(_) => facts.is_interesting(at),
            Atom::Edge(edge) => facts.about_edges(Direction::Outgoing, &program.edges[edge].kinds) > 0,
        };
        let Some(first) = self.first else { return may_be };
        row.clear();
        row.resize(program.width, Value::Null);
        row[program.nodes[first].slot] = Value::Node(id);
        let has_failed = Cell::new(false);
        let passes = |condition: &Expr, row: &[Value]| match condition.look(row, &program.context) {
            Ok(value) => value.holds(),
            Err(_) => {
                has_failed.set(true);
                false
            }
        };
        let reader = NodeReader { family: &self.family, symbols };
        may_be && (reader.read_by(first, facts, at, row, passes) || has_failed.get())
    }

    fn note(&mut self, id: NodeId, room: &mut Room) {
        let Some(nodes) = &mut self.nodes else { return };
        if nodes.last() == Some(&id) {
            return;
        }
        if nodes.len() < room.each && room.left > 0 {
            room.left -= 1;
            nodes.push(id);
        } else {
            room.left += nodes.len();
            room.open -= 1;
            self.nodes = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_cypher_compiler::{Options as CompileOptions, StandingMode, compile_standing};
    use weir_model::{IdScheme, Mutations};

    use super::super::health::Health;
    use super::super::rest::Installation;
    use super::super::{Maintained, QueryNumber};
    use super::*;
    use crate::store::InMemory;
    use crate::{Engine, Graph, Options};

    fn node(n: u64) -> NodeId {
        NodeId::new(0, n)
    }

    fn patterns(text: &str, graph: &Graph) -> Vec<Pattern> {
        let standing = compile_standing(text, StandingMode::AnyQuery, &CompileOptions::default()).expect("it compiles");
        let maintained = Maintained::new(&standing.plan, graph.symbols(), IdScheme::default()).expect("it can be maintained");
        let health = Arc::new(Health::of_nobody(IdScheme::default()));
        Installation::patterns(QueryNumber(0), &maintained, &health)
    }

    fn apply(graph: &Graph, change: impl FnOnce(&mut Mutations)) -> Snapshot {
        let mut record = Mutations::default();
        change(&mut record);
        graph.apply(record, 1).expect("it is applied");
        graph.wait_visible().expect("it is there");
        graph.published().snapshot()
    }

    /// Of a thousand nodes in a row, two of which change after the first query is there.
    #[test]
    fn what_fits_and_what_has_changed_is_noted() {
        let store = Arc::new(InMemory::default());
        let engine = Engine::open(store, Options { workers: 1, ..Options::default() }).expect("it opens");
        engine.start().expect("it starts");
        let graph = engine.default_graph();
        let symbol = |name: &str| graph.symbols().intern(name);
        let older = apply(&graph, |record| {
            for n in 0..1000 {
                record.set_label(node(n), symbol(if n < 20 { "Few" } else { "Many" }), true);
                record.set_property(node(n), symbol("i"), &Value::Integer(n as i64));
            }
            (0..30).for_each(|n| record.set_edge(node(n), symbol("r"), node(n + 1), 0, true));
        });
        let newer = apply(&graph, |record| {
            record.set_label(node(500), symbol("Many"), false);
            record.set_property(node(600), symbol("i"), &Value::Integer(-1));
        });
        let texts = [
            "MATCH (n:Many) WHERE n.i = 77 RETURN id(n) AS n",
            "MATCH (n:Many) WHERE n.i = 99 RETURN id(n) AS n",
            "MATCH (n:Nobody) RETURN id(n) AS n",
            "MATCH (n:Few) RETURN id(n) AS n",
            "MATCH (a:Many)-[:r]->(b) RETURN id(a) AS a",
            "MATCH (a)-[:r]-(b) RETURN id(a) AS a",
            "MATCH (n:Few) WHERE 1 / (n.i - 5) = 0 AND n.i % 2 = 7 RETURN id(n) AS n",
            "MATCH (n:Many) RETURN id(n) AS n",
        ];
        let waiting: Vec<Vec<Pattern>> = texts.iter().map(|text| patterns(text, &graph)).collect();
        let seen = |number: usize| if number == 0 { &older } else { &newer };
        let waiting = waiting.iter().enumerate().map(|(number, patterns)| (seen(number), patterns.as_slice()));
        let symbols = Rc::new(WorkerSymbols::new(graph.parts().symbols.clone()));
        let (mut survey, numbers) = Survey::begin(waiting, 0, symbols).expect("somebody waits");
        while !survey.work(Instant::now() + Duration::from_micros(10)) {}
        assert_eq!(survey.looked_at, 1000);
        assert_eq!(numbers[0], numbers[1], "they differ in a constant alone");
        let beginnings = survey.into_beginnings();
        let noted = |number: usize| {
            beginnings[numbers[number][0]].as_ref().map(|[fit, changed]| {
                assert_eq!(**changed, [node(500), node(600)]);
                fit.to_vec()
            })
        };
        let nodes = |numbers: std::ops::Range<u64>| Some(numbers.map(node).collect::<Vec<_>>());
        assert_eq!(noted(0), Some(vec![node(77), node(99)]));
        assert_eq!(noted(2), nodes(0..0));
        assert_eq!(noted(3), nodes(0..20));
        assert_eq!(noted(4), nodes(20..30));
        assert_eq!(noted(5), nodes(0..30), "either end may be first");
        assert_eq!(noted(6), nodes(5..6), "what has no value there, the query is to be told of");
        assert_eq!(noted(7), None, "too many to note");
        engine.shutdown().expect("it ends");
    }
}
