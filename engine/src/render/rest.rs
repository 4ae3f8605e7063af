//! Rest: the matches of the graph as it is when a standing query is installed.
//!
//! Read as of one tick, it is enough to walk the path of the last atom, which reads every other atom as of after the change. The
//! graph at rest is a snapshot, in which every worker sees all shards: it begins at the nodes of its own and goes wherever
//! they lead.
//!
//! Each installation has a dataflow for this of its own, so that no other query waits for it. It works for a moment at a time, and
//! one of them after another on each worker: the graph and the other queries get their turn in between.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::{Scope, StreamVec};
use timely::scheduling::Activator;
use weir_model::plan::Atom;
use weir_model::{NodeId, Value};

use super::Time;
use super::family::{Family, Member};
use super::probe::{ASIDE_LOOK, Common, Trace, change_of_edge, has_needs, home};
use super::results::{Backfill, Rested, RowChange};
use super::walk::{Change, Steps, Waiting, Walk, look};
use crate::arrangement::locate::{Through, by_node, parts};
use crate::arrangement::{Facts, Snapshot};
use crate::view::Direction;

/// How long the graph at rest is looked through before other work of the worker gets its turn: as long as that took the last time, but no
/// less and no more than this.
const AT_ONCE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_micros(250));

/// So many nodes are looked at together, and then the clock. Where rows lead from them is found together, too.
const NODES_BY_CLOCK: usize = 64;

/// What is looked for in the graph at rest.
pub struct Installation {
    pub query: u32,
    /// The patterns of the query, each as the one member of its family.
    pub families: Vec<Family>,
    pub snapshot: Snapshot,
    pub backfill: Arc<Backfill>,
    /// Keeps the ticks apart that come meanwhile, for queries that look at the graph again.
    pub held: Trace,
}

/// Whose turn it is on a worker: the oldest installation works, the others wait to be woken.
pub type Turns = Rc<RefCell<BTreeMap<u64, Activator>>>;

impl Installation {
    pub fn families(members: impl Iterator<Item = (Arc<super::Program>, Member)>) -> Vec<Family> {
        let alone = |(program, member): (Arc<super::Program>, Member)| {
            let sieves = vec![None; program.edges.len()];
            let mut family = Family::new(program, sieves);
            family.insert(member);
            family
        };
        members.map(alone).collect()
    }

    /// Builds the dataflow. It ends by itself.
    pub fn render(self, scope: Scope<'_, Time>, common: &Common, (turns, turn): (Turns, u64)) {
        let (query, held) = (self.query, self.held.clone());
        let found = self.look_through(scope, common.clone(), (turns, turn));
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
                        Rested::Later => again.activate_after(ASIDE_LOOK),
                    }
                }
            }
        });
        let mut held = Some(held);
        done.sink(Pipeline, "held", move |(_, frontier)| {
            if frontier.frontier().is_empty() {
                drop(held.take());
            }
        });
    }

    fn look_through<'scope>(
        self,
        scope: Scope<'scope, Time>,
        common: Common,
        (turns, turn): (Turns, u64),
    ) -> StreamVec<'scope, Time, RowChange> {
        let mut builder = OperatorBuilder::new("look through".to_owned(), scope);
        let activator = scope.activator_for(builder.operator_info().address);
        turns.borrow_mut().insert(turn, activator);
        let (output, results) = builder.new_output();
        let mut output = OutputBuilder::<_, CapacityContainerBuilder<Vec<RowChange>>>::from(output);
        let Installation { query, families, snapshot, backfill, .. } = self;
        let nodes: usize = snapshot.shard(common.shard.index).iter().map(|batch| batch.ids.len()).sum();
        backfill.nodes.fetch_add((nodes * families.len()) as u64, Ordering::Relaxed);
        builder.build(move |mut capabilities| {
            let mut working = capabilities.pop().map(|capability| (Rest::new(snapshot, families), capability));
            let mut found: Vec<RowChange> = Vec::new();
            move |_| {
                let Some((rest, capability)) = &mut working else { return };
                let is_first = turns.borrow().first_key_value().is_some_and(|(first, _)| *first == turn);
                let installed = common.queries.borrow().is_installed(query);
                if installed && !is_first {
                    return;
                }
                let done = !installed || rest.work(&common, &backfill, &mut found);
                if !found.is_empty() {
                    output.activate().session(&*capability).give_container(&mut found);
                }
                if done {
                    working = None;
                    turns.borrow_mut().remove(&turn);
                }
                if let Some((_, next)) = turns.borrow().first_key_value() {
                    next.activate();
                }
            }
        });
        results
    }
}

/// How far it is.
struct Rest {
    snapshot: Snapshot,
    /// Those that are not done.
    families: Vec<Family>,
    /// Where the last of them stands; none where it has not begun.
    through: Option<Through>,
    /// By shard.
    waiting: Vec<Waiting>,
    row: Vec<Value>,
    /// When other work got its turn.
    paused: Instant,
}

impl Rest {
    fn new(snapshot: Snapshot, families: Vec<Family>) -> Rest {
        let waiting = (0..snapshot.shards()).map(|_| Waiting::default()).collect();
        Rest { snapshot, families, through: None, waiting, row: Vec::new(), paused: Instant::now() }
    }

    /// Looks at some nodes of the shard; true when there are no more.
    fn work(&mut self, common: &Common, backfill: &Backfill, found: &mut Vec<RowChange>) -> bool {
        let batches = self.snapshot.shard(common.shard.index);
        let begin = Instant::now();
        let end = begin + (begin - self.paused).clamp(AT_ONCE.0, AT_ONCE.1);
        while let Some(family) = self.families.last() {
            if family.is_over() {
                return true;
            }
            let through = self.through.get_or_insert_with(|| Through::begin(batches));
            self.row.clear();
            self.row.resize(family.program.width, Value::Null);
            let mut walk = Walk {
                program: &family.program,
                family,
                number: 0,
                batches,
                newest: None,
                everywhere: Some(&self.snapshot),
                symbols: &common.symbols,
                shard: common.shard,
                results: found,
                parcels: &mut Vec::new(),
                waiting: &mut self.waiting,
                dense: None,
                hubs: None,
                steps: Steps::of(family),
            };
            loop {
                through.go_on(batches, NODES_BY_CLOCK);
                let nodes = &through.nodes;
                for (id, here) in nodes.iter().zip(by_node(&through.found, nodes.len())) {
                    walk_from(&mut walk, *id, &Facts::known(parts(batches, here)), self.snapshot.tick().0, &mut self.row);
                }
                walk.go_on();
                if walk.steps.stopped {
                    return true;
                }
                backfill.looked_at.fetch_add(nodes.len() as u64, Ordering::Relaxed);
                if nodes.len() < NODES_BY_CLOCK {
                    break;
                }
                let now = Instant::now();
                if now >= end {
                    self.paused = now;
                    return false;
                }
            }
            self.through = None;
            self.families.pop();
        }
        true
    }
}

fn walk_from<'a>(walk: &mut Walk<'a, '_>, id: NodeId, facts: &Facts<'a>, time: u64, row: &mut [Value]) {
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
            if facts.is_interesting(time) && look(node, facts, time, row, walk.family, walk.symbols) {
                walk.run(change, 0, row, Some((id, facts)));
            }
        }
        Atom::Edge(edge) => {
            let view = &program.edges[edge];
            facts.edges(Direction::Outgoing, &view.kinds, time, &mut |half| {
                for (key, slot) in &view.reads {
                    row[*slot] = facts.edge_property(half.kind, half.other, half.ordinal, *key, time);
                }
                change_of_edge(walk, change, edge, (id, facts), half, &view.conditions, row);
            });
        }
    }
}
