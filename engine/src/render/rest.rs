//! Rest: finds the matches that are in the graph already when a standing query is installed.
//!
//! Read as of one tick, it is enough to walk the path of the last atom, which reads every other atom as of after the change. The
//! graph at rest is a snapshot, in which every worker sees all shards: it begins at the nodes of its own and goes wherever
//! they lead.
//!
//! Each installation has a dataflow for this of its own, so that no other query waits for it. It works for a moment at a time,
//! and they take turns on each worker, one in each round of it: the graph and the other queries get theirs in between, however
//! many installations there are. Those that wait together look through the graph together first (`survey`), but for those that
//! begin at a node they name.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use differential_dataflow::trace::TraceReader;
use rustc_hash::FxHashMap;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::{Scope, StreamVec};
use timely::progress::frontier::AntichainRef;
use timely::scheduling::Activator;
use weir_model::plan::Atom;
use weir_model::{NodeId, Value};

use super::family::Family;
use super::health::Health;
use super::maintained::{Maintained, Source};
use super::probe::{ASIDE_LOOK, Common, EdgeChange, Trace, change_of_edge, has_needs, home};
use super::results::{Backfill, Rested, RowChange};
use super::survey::{Beginnings, Pattern, Survey, first_of};
use super::walk::{Change, Findings, Ground, Here, Walk};
use super::{FamilyNumber, QueryNumber, Time, before};
use crate::arrangement::locate::{Found, Locator, Through, by_node, parts};
use crate::arrangement::{Facts, SharedBatch, Snapshot};
use crate::store::GraphId;
use crate::symbols::WorkerSymbols;
use crate::view::Direction;

/// How long the graph at rest is looked through before other work of the worker gets its turn: as long as that took the last
/// time, but no less and no more than this.
const AT_ONCE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_micros(250));

/// Nodes that are looked at together, between two looks at the clock. Where rows lead from them is found together, too.
const NODES_BY_CLOCK: usize = 64;

/// What is looked for in the graph at rest.
pub struct Installation {
    pub query: QueryNumber,
    pub graph: GraphId,
    pub patterns: Vec<Pattern>,
    pub snapshot: Snapshot,
    pub backfill: Arc<Backfill>,
    /// Keeps the ticks apart that come meanwhile, for queries that look at the graph again.
    pub held: Trace,
}

/// The installations of a worker, which take turns, and what they look through together.
#[derive(Default)]
pub struct Queue {
    tickets: FxHashMap<u64, Ticket>,
    /// Whose turn it is stands first.
    ring: VecDeque<u64>,
    /// Whether one has had its turn in this round of the worker.
    taken: bool,
    /// Those that look through all of the graph. Only the first of them takes turns: what each finds stays in memory until it is
    /// done.
    whole: VecDeque<u64>,
    survey: Option<Survey>,
    /// How many installations have what a survey has noted. The next survey begins when none has: so no more is noted than by
    /// one.
    noted: usize,
    /// When other work got its turn.
    paused: Option<Instant>,
}

pub type Turns = Rc<RefCell<Queue>>;

/// An installation that waits or works.
struct Ticket {
    activator: Activator,
    graph: GraphId,
    snapshot: Snapshot,
    patterns: Rc<[Pattern]>,
    backfill: Arc<Backfill>,
    stage: Stage,
}

enum Stage {
    Waits,
    /// The survey is for it as well: the numbers of its patterns there, and how many of its nodes are told of as looked at.
    Surveyed {
        numbers: Vec<usize>,
        told: u64,
    },
    /// Where each of its patterns may begin.
    Begins(Vec<Beginnings>),
    /// At what was noted, or everywhere, or at a node that is named.
    Works {
        noted: bool,
    },
}

impl Queue {
    fn join(&mut self, turn: u64, ticket: Ticket) {
        self.tickets.insert(turn, ticket);
        self.ring.push_back(turn);
    }

    fn is_turn(&self, turn: u64) -> bool {
        self.ring.front() == Some(&turn)
    }

    /// The worker has seen what it was sent, and goes on.
    pub fn begin_round(&mut self) {
        self.taken = false;
    }

    /// Whether one may work now. Timely steps the dataflow behind another in the same step, so that turns would follow each other
    /// there.
    fn take(&mut self, turn: u64) -> bool {
        if !self.is_turn(turn) {
            return false;
        }
        if std::mem::replace(&mut self.taken, true) {
            self.call();
            return false;
        }
        true
    }

    /// Whose turn it is works with the next step.
    fn call(&self) {
        if let Some(ticket) = self.ring.front().and_then(|turn| self.tickets.get(turn)) {
            ticket.activator.activate();
        }
    }

    /// How long work may go on.
    fn end(&mut self) -> Instant {
        let now = Instant::now();
        now + self.paused.map_or(AT_ONCE.0, |paused| (now - paused).clamp(AT_ONCE.0, AT_ONCE.1))
    }

    /// Somebody else's turn.
    fn pass_on(&mut self, turn: u64) {
        if self.is_turn(turn) {
            self.ring.rotate_left(1);
        }
        self.paused = Some(Instant::now());
        self.call();
    }

    /// Whoever is not wanted any more leaves, whether it is its turn or not.
    pub fn rouse(&self) {
        self.tickets.values().for_each(|ticket| ticket.activator.activate());
    }

    fn leave(&mut self, turn: u64) {
        let Some(ticket) = self.tickets.remove(&turn) else { return };
        self.step_out(turn);
        match ticket.stage {
            Stage::Begins(_) | Stage::Works { noted: true } => self.noted -= 1,
            Stage::Works { noted: false } => {
                let was_first = self.whole.front() == Some(&turn);
                self.whole.retain(|other| *other != turn);
                if was_first {
                    self.ring.extend(self.whole.front());
                }
            }
            Stage::Surveyed { .. } if !self.tickets.values().any(|ticket| matches!(ticket.stage, Stage::Surveyed { .. })) => {
                self.survey = None;
            }
            Stage::Surveyed { .. } | Stage::Waits => {}
        }
    }

    fn step_out(&mut self, turn: u64) {
        if self.is_turn(turn) {
            self.ring.pop_front();
        } else {
            self.ring.retain(|other| *other != turn);
        }
    }

    /// Where the patterns of the installation may begin whose turn it is; None while that is being found out, which goes on for a
    /// moment.
    fn begin(&mut self, turn: u64, shard: usize, symbols: &Rc<WorkerSymbols>) -> Option<Vec<Beginnings>> {
        let ticket = self.tickets.get_mut(&turn)?;
        if let Stage::Begins(beginnings) = &mut ticket.stage {
            let mut beginnings = std::mem::take(beginnings);
            let noted = beginnings.iter().all(Option::is_some);
            ticket.stage = Stage::Works { noted };
            if !noted {
                // What it does not keep others may note.
                beginnings.fill(None);
                self.noted -= 1;
                self.work_through(turn);
            }
            return Some(beginnings);
        }
        if matches!(ticket.stage, Stage::Waits)
            && let Some(beginnings) = at_ids(&ticket.patterns, &ticket.snapshot, shard)
        {
            ticket.stage = Stage::Works { noted: false };
            let nodes: usize = ticket.snapshot.shard(shard).iter().map(|batch| batch.ids.len()).sum();
            ticket.backfill.look_at((nodes * ticket.patterns.len()) as u64);
            return Some(beginnings);
        }
        if matches!(ticket.stage, Stage::Waits) && self.survey.is_none() && self.noted == 0 {
            let (graph, anywhere) = (ticket.graph, vec![None; ticket.patterns.len()]);
            if !self.begin_survey(graph, shard, symbols) {
                self.tickets.get_mut(&turn)?.stage = Stage::Works { noted: false };
                self.work_through(turn);
                return Some(anywhere);
            }
        }
        let end = self.end();
        if self.survey.as_mut().is_some_and(|survey| survey.work(end)) {
            self.end_survey();
        }
        let ticket = self.tickets.get_mut(&turn)?;
        if let (Stage::Surveyed { told, .. }, Some(survey)) = (&mut ticket.stage, &self.survey) {
            ticket.backfill.look_at((survey.looked_at - *told) * ticket.patterns.len() as u64);
            *told = survey.looked_at;
        }
        None
    }

    /// One is to look through all of the graph, when those before it have.
    fn work_through(&mut self, turn: u64) {
        self.whole.push_back(turn);
        if self.whole.len() > 1 {
            self.step_out(turn);
        }
    }

    /// Those of a graph that wait look through it together. False where there is only one, and nobody whom it would have to wait
    /// for.
    fn begin_survey(&mut self, graph: GraphId, shard: usize, symbols: &Rc<WorkerSymbols>) -> bool {
        let waits =
            |ticket: &Ticket| ticket.graph == graph && matches!(ticket.stage, Stage::Waits) && !are_over(&ticket.patterns);
        let waiting: Vec<u64> = self.ring.iter().copied().filter(|turn| self.tickets.get(turn).is_some_and(waits)).collect();
        if waiting.len() < 2 && (self.whole.is_empty() || waiting.is_empty()) {
            return false;
        }
        let of_ticket = |turn: &u64| self.tickets.get(turn).map(|ticket| (&ticket.snapshot, &*ticket.patterns));
        let Some((survey, numbers)) = Survey::begin(waiting.iter().filter_map(of_ticket), shard, symbols.clone()) else {
            return false;
        };
        self.survey = Some(survey);
        for (turn, numbers) in waiting.iter().zip(numbers) {
            if let Some(ticket) = self.tickets.get_mut(turn) {
                ticket.stage = Stage::Surveyed { numbers, told: 0 };
            }
        }
        true
    }

    fn end_survey(&mut self) {
        let Some(survey) = self.survey.take() else { return };
        let looked_at = survey.looked_at;
        let beginnings = survey.into_beginnings();
        for ticket in self.tickets.values_mut() {
            let Stage::Surveyed { numbers, told } = &ticket.stage else { continue };
            let begins: Vec<Beginnings> = numbers.iter().map(|number| beginnings[*number].clone()).collect();
            ticket.backfill.look_at((looked_at - told) * begins.len() as u64);
            if begins.iter().any(Option::is_none) {
                // All of it is looked at once more.
                ticket.backfill.nodes.fetch_add(looked_at * begins.len() as u64, Ordering::Relaxed);
            }
            ticket.stage = Stage::Begins(begins);
            self.noted += 1;
        }
    }
}

impl Installation {
    /// The patterns of a query, each as the one member of its family.
    pub fn patterns(query: QueryNumber, maintained: &Maintained, health: &Arc<Health>) -> Vec<Pattern> {
        let alone = |(number, source): (u32, &Source)| {
            let mut family = Family::new(FamilyNumber::NONE, source.program.clone(), vec![None; source.program.edges.len()]);
            family.insert(source.member((query, number), 0, health));
            (source.name.clone(), family)
        };
        (0..).zip(&maintained.sources).map(alone).collect()
    }

    /// Builds the dataflow. It ends by itself.
    pub fn render(self, scope: Scope<'_, Time>, common: &Common, turns: Turns, turn: u64) {
        let (query, held) = (self.query, self.held.clone());
        let found = self.look_through(scope, common.clone(), turns, turn);
        let queries = common.queries.clone();
        let to_home = Exchange::new(move |_: &RowChange| home(query));
        let done = found.unary_frontier::<CapacityContainerBuilder<Vec<()>>, _, _, _>(to_home, "rest", |capability, info| {
            let mut capability = Some(capability);
            let again = scope.activator_for(info.address);
            move |(input, frontier), _| {
                let mut queries = queries.borrow_mut();
                input.for_each(|_, changes| queries.at_rest(query, changes));
                if frontier.frontier().is_empty() && capability.is_some() {
                    match queries.rested(query) {
                        Rested::Yes => capability = None,
                        Rested::Soon => again.activate(),
                        Rested::Later(behind) => {
                            // What they have got past is not kept apart for them: they may be at it for as long as there is load.
                            capability
                                .iter_mut()
                                .filter(|capability| *capability.time() < behind)
                                .for_each(|capability| capability.downgrade(&behind));
                            again.activate_after(ASIDE_LOOK);
                        }
                    }
                }
            }
        });
        let mut held = Some(held);
        done.sink(Pipeline, "held", move |(_, frontier)| match frontier.frontier().first().copied() {
            Some(behind) => {
                held.iter_mut().for_each(|held| held.set_logical_compaction(AntichainRef::new(&[before(&[behind])])));
            }
            None => held = None,
        });
    }

    fn look_through<'scope>(
        self,
        scope: Scope<'scope, Time>,
        common: Common,
        turns: Turns,
        turn: u64,
    ) -> StreamVec<'scope, Time, RowChange> {
        let mut builder = OperatorBuilder::new("look through".to_owned(), scope);
        let activator = scope.activator_for(builder.operator_info().address);
        let (output, results) = builder.new_output();
        let mut output = OutputBuilder::<_, CapacityContainerBuilder<Vec<RowChange>>>::from(output);
        let Installation { query, graph, patterns, snapshot, backfill, .. } = self;
        let patterns: Rc<[Pattern]> = patterns.into();
        let nodes: usize = snapshot.shard(common.shard.index).iter().map(|batch| batch.ids.len()).sum();
        backfill.nodes.fetch_add((nodes * patterns.len()) as u64, Ordering::Relaxed);
        let ticket = Ticket {
            activator,
            graph,
            snapshot: snapshot.clone(),
            patterns: patterns.clone(),
            backfill: backfill.clone(),
            stage: Stage::Waits,
        };
        turns.borrow_mut().join(turn, ticket);
        builder.build(move |mut capabilities| {
            let mut working = capabilities.pop().map(|capability| (Rest::new(snapshot, patterns), capability));
            move |_| {
                let Some((rest, capability)) = &mut working else { return };
                let mut turns = turns.borrow_mut();
                let is_over = !common.queries.borrow().is_installed(query) || are_over(&rest.patterns);
                if !is_over && !turns.take(turn) {
                    return;
                }
                let done = if is_over {
                    true
                } else {
                    if rest.beginnings.is_none() {
                        rest.beginnings = turns.begin(turn, common.shard.index, &common.symbols);
                    }
                    // Who is to look through all of the graph may have to wait for others who do.
                    rest.beginnings.is_some() && turns.is_turn(turn) && rest.work(&common, &backfill, turns.end())
                };
                let found = &mut rest.findings.results;
                if !found.is_empty() {
                    output.activate().session(&*capability).give_container(found);
                }
                if done {
                    working = None;
                    turns.leave(turn);
                }
                turns.pass_on(turn);
            }
        });
        results
    }
}

/// How far one installation is.
struct Rest {
    snapshot: Snapshot,
    patterns: Rc<[Pattern]>,
    /// Where the patterns begin that are not done; None before its first turn.
    beginnings: Option<Vec<Beginnings>>,
    /// Where the last of these patterns stands; None where it has not begun.
    nodes: Option<Nodes>,
    findings: Findings,
    row: Vec<Value>,
}

impl Rest {
    fn new(snapshot: Snapshot, patterns: Rc<[Pattern]>) -> Rest {
        let findings = Findings::with_waiting(snapshot.shards());
        Rest { snapshot, patterns, beginnings: None, nodes: None, findings, row: Vec::new() }
    }

    /// Looks at some nodes of the shard until a moment; true when there are no more.
    fn work(&mut self, common: &Common, backfill: &Backfill, end: Instant) -> bool {
        let batches = self.snapshot.shard(common.shard.index);
        let ground = Ground {
            batches,
            newest: None,
            everywhere: Some(&self.snapshot),
            symbols: &common.symbols,
            shard: common.shard,
            dense: None,
            hubs: None,
        };
        let left = self.beginnings.get_or_insert_default();
        while let Some(beginnings) = left.last() {
            let (_, family) = &self.patterns[left.len() - 1];
            if family.is_over() {
                return true;
            }
            let nodes = self.nodes.get_or_insert_with(|| Nodes::begin(beginnings, batches));
            self.row.clear();
            self.row.resize(family.program.width, Value::Null);
            let mut walk = Walk::new(family, ground, &mut self.findings);
            loop {
                let (ids, places) = nodes.go_on(batches);
                for (id, here) in ids.iter().zip(by_node(places, ids.len())) {
                    let facts = Facts::known(parts(batches, here));
                    walk_from(&mut walk, Here { id: *id, facts: &facts }, self.snapshot.tick().0, &mut self.row);
                }
                walk.go_on();
                if walk.steps.stopped {
                    return true;
                }
                let count = ids.len();
                if let Nodes::All(_) = nodes {
                    backfill.look_at(count as u64);
                }
                if count == 0 {
                    break;
                }
                if Instant::now() >= end {
                    return false;
                }
            }
            self.nodes = None;
            left.pop();
        }
        true
    }
}

/// The nodes that a pattern is looked for from.
enum Nodes {
    All(Through),
    /// The nodes of two lists. `at` says in which of them the next node stands, and where there.
    Noted {
        lists: [Rc<Vec<NodeId>>; 2],
        at: (usize, usize),
        locator: Locator,
        found: Vec<Found>,
    },
}

impl Nodes {
    fn begin(beginnings: &Beginnings, batches: &[SharedBatch]) -> Nodes {
        match beginnings {
            Some(lists) => Nodes::Noted { lists: lists.clone(), at: (0, 0), locator: Locator::default(), found: Vec::new() },
            None => Nodes::All(Through::begin(batches)),
        }
    }

    /// The next nodes, and where they lie; none at the end.
    fn go_on(&mut self, batches: &[SharedBatch]) -> (&[NodeId], &[Found]) {
        match self {
            Nodes::All(through) => {
                through.go_on(batches, NODES_BY_CLOCK);
                (&through.nodes, &through.found)
            }
            Nodes::Noted { lists, at: (list, next), locator, found } => {
                if *list == 0 && *next == lists[0].len() {
                    (*list, *next) = (1, 0);
                }
                let nodes = &lists[*list];
                let ids = &nodes[*next..nodes.len().min(*next + NODES_BY_CLOCK)];
                *next += ids.len();
                *found = locator.locate(ids, batches);
                (ids, found)
            }
        }
    }
}

/// Where patterns begin on a shard that ask for the node they begin at by its id: nobody has to look for it. None where any of
/// them does not.
fn at_ids(patterns: &[Pattern], snapshot: &Snapshot, shard: usize) -> Option<Vec<Beginnings>> {
    let at_id = |(_, family): &Pattern| {
        let (first, constants) = (first_of(&family.program)?, &family.all().next()?.constants);
        let (_, id) = constants.ids.iter().find(|(node, _)| *node == first)?;
        let here = if snapshot.shard_of(*id) == shard { vec![*id] } else { Vec::new() };
        Some(Some([Rc::new(here), Rc::default()]))
    };
    patterns.iter().map(at_id).collect()
}

/// Whether their query has ended by itself.
fn are_over(patterns: &[Pattern]) -> bool {
    patterns.iter().any(|(_, family)| family.is_over())
}

fn walk_from<'a>(walk: &mut Walk<'a, '_>, here: Here<'_, 'a>, time: u64, row: &mut [Value]) {
    let Here { id, facts } = here;
    let program = walk.program;
    let path = program.last;
    if !has_needs(&program.paths[path], facts, Some(time)) {
        return;
    }
    let change = Change { path, time, diff: 1 };
    match program.paths[path].atom {
        Atom::Node(node) => {
            let view = &program.nodes[node];
            row[view.slot] = Value::Node(id);
            if facts.is_interesting(time) && walk.node_reader().read(node, facts, time, row) {
                walk.run(change, 0, row, Some(here));
            }
        }
        Atom::Edge(edge) => {
            let view = &program.edges[edge];
            facts.edges(Direction::Outgoing, &view.kinds, time, &mut |half| {
                for (key, slot) in &view.reads {
                    row[*slot] = facts.edge_property(half.kind, half.other, half.ordinal, *key, time);
                }
                change_of_edge(walk, EdgeChange { change, edge, half, conditions: &view.conditions }, here, row);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use weir_cypher_compiler::{Options, StandingMode, compile_standing};
    use weir_model::IdScheme;

    use super::*;
    use crate::arrangement::Published;
    use crate::symbols::Symbols;

    /// A pattern that asks for the node it begins at by its id begins there, on the shard of it alone.
    #[test]
    fn a_node_that_is_named_is_not_looked_for() {
        let (symbols, ids, snapshot) = (Symbols::default(), IdScheme::default(), Published::new(2).snapshot());
        let health = Arc::new(Health::of_nobody(ids));
        let id = NodeId::new(0, 7);
        let begins = |text: &str| -> Option<Vec<NodeId>> {
            let text = text.replace("ID", &format!("'{id}'"));
            let compiled = compile_standing(&text, StandingMode::MultipleValues, &Options::default()).expect("it compiles");
            let maintained = Maintained::new(&compiled.plan, &symbols, ids).expect("it can be maintained");
            let patterns = Installation::patterns(QueryNumber(0), &maintained, &health);
            let shard = snapshot.shard_of(id);
            let [own, other] = [shard, 1 - shard].map(|shard| at_ids(&patterns, &snapshot, shard));
            let nodes = |beginnings: Option<Vec<Beginnings>>| -> Option<Vec<NodeId>> {
                let lists = beginnings?.into_iter().map(|lists| lists.expect("they are known"));
                Some(lists.flatten().flat_map(|list| list.to_vec()).collect())
            };
            assert!(nodes(other).is_none_or(|nodes| nodes.is_empty()), "{text}");
            nodes(own)
        };
        assert_eq!(begins("MATCH (n:A) WHERE id(n) = ID AND n.v = 1 RETURN n.x AS x"), Some(vec![id]));
        assert_eq!(begins("MATCH (n)-[:r]->(m) WHERE strId(n) = ID RETURN m.x AS x"), Some(vec![id]));
        assert_eq!(begins("MATCH (n)-[:r]->(m) WHERE id(m) = ID RETURN n.x AS x"), None);
        assert_eq!(begins("MATCH (n:A) WHERE n.id = ID RETURN n.x AS x"), None);
    }

    const WORKING: u64 = 5;
    const ROUNDS: u64 = 20;

    /// What the installations of a test share.
    #[derive(Clone, Default)]
    struct Shared {
        turns: Turns,
        /// Who had a turn, in order.
        taken: Rc<RefCell<Vec<u64>>>,
        over: Rc<Cell<bool>>,
    }

    /// An installation that does nothing but note its turns, until all is over.
    fn note_turns(scope: Scope<'_, Time>, turn: u64, Shared { turns, taken, over }: Shared) {
        let mut builder = OperatorBuilder::new("work".to_owned(), scope);
        let ticket = Ticket {
            activator: scope.activator_for(builder.operator_info().address),
            graph: GraphId(0),
            snapshot: Published::new(1).snapshot(),
            patterns: Rc::new([]),
            backfill: Arc::default(),
            stage: Stage::Waits,
        };
        turns.borrow_mut().join(turn, ticket);
        let _stream = builder.new_output::<Vec<()>>().1;
        builder.build(move |mut capabilities| {
            move |_| {
                if over.get() {
                    capabilities.clear();
                } else if turns.borrow_mut().take(turn) {
                    taken.borrow_mut().push(turn);
                    turns.borrow_mut().pass_on(turn);
                }
            }
        });
    }

    /// A worker may step several dataflows in one step, so one installation could call the next within it. Without rounds all of
    /// them would work in each step.
    #[test]
    fn one_has_its_turn_in_a_round() {
        timely::execute_directly(|worker| {
            let shared = Shared::default();
            for turn in 0..WORKING {
                worker.dataflow::<Time, _, _>(|scope| note_turns(scope, turn, shared.clone()));
            }
            let Shared { turns, taken, over } = shared;
            for round in 1..=ROUNDS {
                turns.borrow_mut().begin_round();
                // As many steps as the worker makes in a round, and some.
                (0..3).for_each(|_| _ = worker.step());
                assert_eq!(taken.borrow().len() as u64, round);
            }
            let order: Vec<u64> = (0..ROUNDS).map(|n| n % WORKING).collect();
            assert_eq!(*taken.borrow(), order);
            over.set(true);
            turns.borrow().rouse();
        });
    }
}
