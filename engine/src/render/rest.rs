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
use super::probe::{Common, Trace, change_of_edge, home};
use super::results::{Backfill, RowChange};
use super::walk::{Change, Walk, look};
use crate::arrangement::{Facts, SharedBatch, Snapshot};
use crate::view::Direction;

/// How long the graph at rest is looked through before other work of the worker gets its turn: as long as that took the last time, but no
/// less and no more than this.
const AT_ONCE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_micros(250));

/// The clock is looked at once for so many nodes.
const NODES_BY_CLOCK: usize = 16;

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
                    if queries.rested(query) {
                        capability = None;
                    } else {
                        again.activate();
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
            let mut working = capabilities
                .pop()
                .map(|capability| (Rest { snapshot, families, after: None, paused: Instant::now() }, capability));
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
    /// The last node that was looked at for the last of them.
    after: Option<NodeId>,
    /// When other work got its turn.
    paused: Instant,
}

impl Rest {
    /// Looks at some nodes of the shard; true when there are no more.
    fn work(&mut self, common: &Common, backfill: &Backfill, found: &mut Vec<RowChange>) -> bool {
        let batches = self.snapshot.shard(common.shard.index);
        let begin = Instant::now();
        let end = begin + (begin - self.paused).clamp(AT_ONCE.0, AT_ONCE.1);
        while let Some(family) = self.families.last() {
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
                waiting: None,
                dense: None,
            };
            let mut positions: Vec<usize> = match self.after {
                Some(after) => batches.iter().map(|batch| batch.ids.partition_point(|id| *id <= after)).collect(),
                None => vec![0; batches.len()],
            };
            loop {
                for looked_at in 0..NODES_BY_CLOCK {
                    let Some(id) = next(batches, &mut positions) else {
                        backfill.looked_at.fetch_add(looked_at as u64, Ordering::Relaxed);
                        self.after = None;
                        break;
                    };
                    self.after = Some(id);
                    walk_from(&mut walk, id, self.snapshot.tick().0);
                }
                if self.after.is_none() {
                    break;
                }
                backfill.looked_at.fetch_add(NODES_BY_CLOCK as u64, Ordering::Relaxed);
                let now = Instant::now();
                if now >= end {
                    self.paused = now;
                    return false;
                }
            }
            self.families.pop();
        }
        true
    }
}

/// The smallest id that comes next in any batch; moves past it in all.
fn next(batches: &[SharedBatch], positions: &mut [usize]) -> Option<NodeId> {
    let id = batches.iter().zip(&*positions).filter_map(|(batch, at)| batch.ids.get(*at)).min().copied()?;
    for (batch, at) in batches.iter().zip(positions) {
        if batch.ids.get(*at) == Some(&id) {
            *at += 1;
        }
    }
    Some(id)
}

fn walk_from(walk: &mut Walk<'_, '_>, id: NodeId, time: u64) {
    let program = walk.program;
    let path = program.last;
    let facts = Facts::find(walk.batches, id);
    let mut row = vec![Value::Null; program.width];
    let change = Change { path, time, diff: 1 };
    match program.paths[path].atom {
        Atom::Node(node) => {
            let view = &program.nodes[node];
            row[view.slot] = Value::Node(id);
            if facts.is_interesting(time) && look(node, &facts, time, &mut row, walk) {
                walk.run(change, 0, &mut row, Some((id, &facts)));
            }
        }
        Atom::Edge(edge) => {
            let view = &program.edges[edge];
            facts.edges(Direction::Outgoing, &view.kinds, time, &mut |half| {
                for (key, slot) in &view.reads {
                    row[*slot] = facts.edge_property(half.kind, half.other, half.ordinal, *key, time);
                }
                change_of_edge(walk, change, edge, (id, &facts), half, &view.conditions, &mut row);
            });
        }
    }
}
