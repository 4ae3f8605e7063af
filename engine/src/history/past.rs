//! Past: the graph as of a tick, as a View.
//!
//! A question is answered by what the runs say of its node: of each fact the newest version at or before the tick. A scan
//! walks the runs side by side; better still, where not too much has become different since, it asks the present and reads
//! only that in the past (`Since`). Reading the store can fail, which a View cannot say: it answers nothing from then on, and
//! whoever asked takes the failure (`take_failure`) before the answer is believed.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_model::codec::{FactKey, decode_payload, edge_property_key, edge_property_keys, half_key, parallel_keys};
use weir_model::mutation::{Kind, Tag};
use weir_model::{NodeId, Symbol, Tick, Value};

use super::erased::Erased;
use super::run::{Cursor, Piece, Trouble};
use super::since::Since;
use super::{History, PATIENCE};
use crate::arrangement::chunk::Chunk;
use crate::arrangement::segment::symbols;
use crate::arrangement::versions::{Asked, Hit, holding};
use crate::arrangement::{Facts, Part, Segment, Snapshot};
use crate::commit::wall_clock_millis;
use crate::error::EngineError;
use crate::graph::Graph;
use crate::index::Question;
use crate::memory::at_most;
use crate::store::{Part as Shelved, StoreError};
use crate::view::{About, Direction, EdgeRef, HalfEdge, View};

/// How many nodes are remembered where they lie: several questions about a node follow one another.
const NEAR_MAX: usize = 16;

/// A node with at least this many facts is kept with the other ends of its edges, however many others are looked up meanwhile: a
/// query that goes to and fro between such a node and those around it would read it again and again.
const LARGE: usize = 256;

/// What nodes of `LARGE` facts and more take in memory, at most.
const LARGE_BYTES_MAX: usize = 32 << 20;

/// Of at most this many nodes it is remembered that they have changed since a moment: about 20 MB.
const CHANGED_MAX: usize = 500_000;

const BYTES_PER_CHANGED: usize = 40;

/// `CHANGED_MAX` is never cut to less than this, however little memory or however small a graph there is.
const CHANGED_FEW: usize = 1024;

/// This many nodes are read from the pages before it is found out which nodes have not changed since the moment.
const FINDS_MAX: u32 = 64;

/// A millisecond is over by then, unless the clock was set back.
const MILLISECOND_TIME_MAX: Duration = Duration::from_secs(1);

/// The graph at a moment that was asked for.
pub enum Moment {
    /// Nothing has been committed since.
    Present(Box<Snapshot>),
    Past(Box<Past>),
}

impl Moment {
    pub fn view(&self) -> &dyn View {
        match self {
            Moment::Present(snapshot) => &**snapshot,
            Moment::Past(past) => &**past,
        }
    }

    /// Why what was answered is not to be believed, if so. It is told once.
    pub fn take_failure(&self) -> Option<EngineError> {
        match self {
            Moment::Present(_) => None,
            Moment::Past(past) => past.take_failure(),
        }
    }

    pub fn has_failed(&self) -> bool {
        matches!(self, Moment::Past(past) if past.has_failed())
    }
}

impl Graph {
    /// The graph as it was at the end of a tick. Whatever is committed from now on comes after it.
    pub fn at(&self, at: Tick) -> Result<Moment, EngineError> {
        self.at_settled(self.settle(at)?)
    }

    /// As `at`, but read from the pages and the log in any case: they know more than what holds.
    pub fn past(&self, at: Tick) -> Result<Past, EngineError> {
        self.past_settled(self.settle(at)?)
    }

    pub(super) fn at_settled(&self, as_of: AsOf) -> Result<Moment, EngineError> {
        let snapshot = self.snapshot();
        if snapshot.tick() <= as_of.at {
            // The answer is to stay. With the graph locked, too: the log waits for nobody who has that.
            self.wait_durable(as_of.at.next().min(as_of.next))?;
            return Ok(Moment::Present(Box::new(snapshot)));
        }
        Ok(Moment::Past(Box::new(Past::new(self, as_of, snapshot, false)?)))
    }

    pub(super) fn past_settled(&self, as_of: AsOf) -> Result<Past, EngineError> {
        let past = Past::new(self, as_of, self.snapshot(), true)?;
        Ok(Past { since: OnceCell::from(None), ..past })
    }

    /// Sees to it that nothing more is committed at or before a tick.
    pub(super) fn settle(&self, at: Tick) -> Result<AsOf, EngineError> {
        self.readable_at(at)?;
        let committer = self.committer();
        let next = committer.next();
        if at >= next {
            // While the log is replayed, nothing can be sealed but by the clock.
            let last = if self.ahead().is_some() { 0 } else { Tick(next.0.saturating_sub(1)).millis() };
            if at.millis() > wall_clock_millis().max(last) {
                return Err(EngineError::NotYet(at.millis()));
            }
            // Until the millisecond is over, something may still be committed in it. Where the clock was set back, time stands
            // still at the last change: that millisecond is over when it is asked for.
            let is_over = |clock: u64| at.millis() < clock || clock < last && at.millis() <= last;
            let began = Instant::now();
            while !is_over(wall_clock_millis()) {
                // The clock was set back just now.
                if began.elapsed() > MILLISECOND_TIME_MAX {
                    return Err(EngineError::NotYet(at.millis()));
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        self.history().check(at)?;
        let next = match self.ahead() {
            // Nothing is committed before the clock has gone on from here.
            Some(ahead) => ahead.tick().next(),
            None => committer.seal(at)?,
        };
        Ok(AsOf { at, next })
    }

    pub(super) fn readable_at(&self, at: Tick) -> Result<(), EngineError> {
        // What was durable before a write failed is as it was.
        if at >= self.durable() { self.readable() } else { Ok(()) }
    }
}

/// A moment that nothing more is committed in.
#[derive(Clone, Copy)]
pub(super) struct AsOf {
    pub at: Tick,
    /// The tick after the last commit.
    pub next: Tick,
}

pub struct Past {
    graph: Graph,
    as_of: AsOf,
    /// What was before is wanted, too.
    whole: bool,
    pieces: RefCell<Rc<Vec<Piece>>>,
    /// The last one first.
    near: RefCell<Vec<Near>>,
    large: RefCell<Large>,
    failed: RefCell<Option<EngineError>>,
    present: Snapshot,
    /// What has changed between this moment and the present, once that was asked; none where it is too much.
    since: OnceCell<Option<Arc<Since>>>,
    /// How many nodes were looked up in the runs.
    finds: Cell<u32>,
    erased: Arc<Erased>,
}

/// What holds versions up to a tick. Of a run that ends by then, the newest version of each fact decides, and is all there is to
/// be read, unless the whole is wanted.
fn pieces(graph: &Graph, as_of: AsOf, whole: bool) -> Result<Vec<Piece>, EngineError> {
    let mut pieces = graph.history().pieces(graph, as_of)?;
    pieces.retain(|piece| whole || piece.part == Shelved::Newest || piece.run.upper > as_of.at.next());
    Ok(pieces)
}

/// The chunks that know a node, with the number of their run and the place in them, oldest first.
type Found = Rc<SmallVec<[(u32, Arc<Chunk>, usize); 4]>>;

/// A node that was looked up lately.
struct Near {
    node: NodeId,
    found: Found,
    /// What is asked of a node is mostly a label or a property. The other ends of its edges are read when they are asked for.
    ends: Ends,
}

/// Nodes whose facts were copied to put ids in place of the numbers at the other ends of edges.
#[derive(Default)]
struct Large {
    found: FxHashMap<NodeId, Found>,
    bytes: usize,
}

/// Whether the other ends of edges are needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ends {
    Any,
    Known,
}

impl Past {
    fn new(graph: &Graph, as_of: AsOf, present: Snapshot, whole: bool) -> Result<Past, EngineError> {
        // Before the pieces: they may be from before pages were written again without it, and it be forgotten then.
        let erased = graph.history().erasures().known();
        Ok(Past {
            graph: graph.clone(),
            as_of,
            whole,
            pieces: RefCell::new(Rc::new(pieces(graph, as_of, whole)?)),
            near: RefCell::default(),
            large: RefCell::default(),
            failed: RefCell::default(),
            present,
            since: OnceCell::new(),
            finds: Cell::new(0),
            erased,
        })
    }

    pub(super) fn erased(&self) -> &Erased {
        &self.erased
    }

    /// Of a node that was erased later, nothing is known.
    fn hides(&self, node: NodeId) -> bool {
        !self.erased.is_empty() && self.erased.get(&node).is_some_and(|tick| *tick > self.as_of.at)
    }

    pub fn tick(&self) -> Tick {
        self.as_of.at
    }

    /// Why what was answered is not to be believed, if so. It is told once.
    pub fn take_failure(&self) -> Option<EngineError> {
        self.failed.borrow_mut().take()
    }

    fn has_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }

    pub(super) fn history(&self) -> &History {
        self.graph.history()
    }

    fn fail(&self, error: EngineError) {
        self.failed.borrow_mut().get_or_insert(error);
    }

    /// The runs were merged: the pieces there are now. False when they cannot be had.
    fn refresh(&self) -> bool {
        self.near.borrow_mut().clear();
        *self.large.borrow_mut() = Large::default();
        let began = Instant::now();
        let gone = self.pieces.borrow().clone();
        // The store knows of a merge a moment before the list of runs does.
        loop {
            let fresh = self.history().check(self.as_of.at).and_then(|()| pieces(&self.graph, self.as_of, self.whole));
            let fresh = match fresh {
                Ok(fresh) => fresh,
                Err(error) => {
                    self.fail(error);
                    return false;
                }
            };
            let same = |(old, new): (&Piece, &Piece)| Arc::ptr_eq(&old.run, &new.run);
            if fresh.len() != gone.len() || !gone.iter().zip(&fresh).all(same) {
                *self.pieces.borrow_mut() = Rc::new(fresh);
                return true;
            }
            if !self.waits(began) {
                return false;
            }
        }
    }

    /// A moment, for the list of runs to say what the store knows. False when that takes too long.
    fn waits(&self, began: Instant) -> bool {
        if let Err(error) = self.graph.committer().check_there() {
            self.fail(error);
            return false;
        }
        if began.elapsed() > PATIENCE {
            let place = format!("the runs of graph '{}'", self.graph.name());
            self.fail(StoreError::damaged("a chunk is missing", place).into());
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
        true
    }

    /// What has become different since, unless that is too much to make anything easier.
    fn since(&self) -> Option<&Since> {
        let find = || {
            // The present may hold what was refused, and nothing says where it differs.
            self.graph.readable().ok()?;
            let upto = self.present.tick();
            let known = self.history().since(self.as_of.at, upto);
            if known.as_ref().is_some_and(|known| known.upto == upto) {
                return known;
            }
            let most = at_most(CHANGED_MAX * BYTES_PER_CHANGED, 64) / BYTES_PER_CHANGED;
            let most = most.min((self.present.about(About::Nodes) / 2.0) as usize).max(CHANGED_FEW);
            let began = Instant::now();
            loop {
                let pieces = match self.history().pieces(&self.graph, AsOf { at: upto, next: upto.next() }) {
                    Ok(pieces) => pieces,
                    Err(error) => {
                        self.fail(error);
                        return None;
                    }
                };
                // After that of which everything is kept, runs need not say any more what has changed.
                self.history().check(self.as_of.at).ok()?;
                match Since::find(&self.history().shelf, &pieces, (self.as_of.at, upto), known.as_deref(), most) {
                    Ok(since) => return since.map(|since| self.history().remember_since(since)),
                    // These are runs up to the present: those up to this moment may stay what they are.
                    Err(Trouble::Gone) if self.waits(began) => {}
                    Err(Trouble::Gone) => return None,
                    Err(Trouble::Store(error)) => {
                        self.fail(error.into());
                        return None;
                    }
                }
            }
        };
        self.since.get_or_init(find).as_deref()
    }

    /// The present, where it says the same of a node: as far as that is known without much ado.
    fn as_now(&self, node: NodeId) -> Option<&Snapshot> {
        let since = match self.since.get() {
            None if self.finds.get() >= FINDS_MAX => self.since(),
            known => known?.as_deref(),
        };
        since.filter(|since| !since.has(node)).map(|_| &self.present)
    }

    /// What to do about it: true is to try again.
    fn recover(&self, trouble: Trouble) -> bool {
        match trouble {
            Trouble::Gone => self.refresh(),
            Trouble::Store(error) => {
                self.fail(error.into());
                false
            }
        }
    }

    pub(super) fn find(&self, node: NodeId, ends: Ends) -> Found {
        if self.hides(node) {
            return Found::default();
        }
        if let Some(found) = self.remembered(node, ends) {
            return found;
        }
        self.finds.set(self.finds.get().saturating_add(1));
        let (found, copied) = loop {
            if self.has_failed() {
                return Found::default();
            }
            let pieces = self.pieces.borrow().clone();
            let look = || {
                let (mut found, mut copied) = (SmallVec::new(), 0);
                for piece in pieces.iter() {
                    let Some(number) = piece.chunk_of(node) else { continue };
                    let shelf = &self.history().shelf;
                    let chunk = shelf.chunk(piece, number, true)?;
                    let Ok(place) = chunk.ids().binary_search(&node) else { continue };
                    if ends == Ends::Known && !chunk.is_named() {
                        let named = chunk.node_named(place, |number| shelf.name(piece, number))?;
                        copied += named.facts(0).len();
                        found.push((piece.number, Arc::new(named), 0));
                    } else {
                        found.push((piece.number, chunk, place));
                    }
                }
                Ok((found, copied))
            };
            match look() {
                Ok((found, copied)) => break (Rc::new(found), copied),
                Err(trouble) => {
                    if !self.recover(trouble) {
                        return Found::default();
                    }
                }
            }
        };
        if copied >= LARGE {
            self.keep(node, &found);
        }
        self.remember(Near { node, found: found.clone(), ends });
        found
    }

    fn remembered(&self, node: NodeId, ends: Ends) -> Option<Found> {
        let mut near = self.near.borrow_mut();
        match near.iter().position(|near| near.node == node && near.ends >= ends) {
            Some(at) => {
                near[..=at].rotate_right(1);
                Some(near[0].found.clone())
            }
            None => self.large.borrow().found.get(&node).cloned(),
        }
    }

    /// Where there are too many of them it begins anew: those that are asked for are soon back.
    fn keep(&self, node: NodeId, found: &Found) {
        let (bytes, most) = (found.iter().map(|(_, chunk, _)| chunk.bytes()).sum::<usize>(), at_most(LARGE_BYTES_MAX, 64));
        if bytes > most {
            return;
        }
        let mut large = self.large.borrow_mut();
        if large.bytes + bytes > most {
            *large = Large::default();
        }
        large.bytes += bytes;
        large.found.insert(node, found.clone());
    }

    fn remember(&self, fresh: Near) {
        let mut near = self.near.borrow_mut();
        near.retain(|near| near.node != fresh.node);
        near.truncate(NEAR_MAX - 1);
        near.insert(0, fresh);
    }

    /// The facts of a node that hold and have a tag of this range.
    fn held(&self, node: NodeId, (from, to): (Tag, Tag)) -> Segment {
        self.held_as(node, &Asked { from, to, keys: None, at: self.as_of.at.0 })
    }

    /// Those with this tag and a key of this range.
    fn held_between(&self, node: NodeId, tag: Tag, keys: (FactKey, FactKey)) -> Segment {
        self.held_as(node, &Asked { keys: Some(keys), ..Asked::tag(tag, self.as_of.at.0) })
    }

    fn held_as(&self, node: NodeId, asked: &Asked) -> Segment {
        let mut segment = Segment { times: vec![0], ..Segment::default() };
        holding(&hits(&self.find(node, ends_for(asked))), asked, &mut |from, fact| {
            segment.copy(fact, &from.arena, 0);
            true
        });
        segment
    }

    /// Every node that there is or ever was.
    pub fn every(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        self.walk(&mut |node, _| each(node));
    }

    /// Every node that any run knows, with where, in the order of ids.
    fn walk(&self, each: &mut dyn FnMut(NodeId, Found) -> bool) {
        let mut from = NodeId::new(0, 0);
        loop {
            match self.walk_from(&mut from, each) {
                Ok(()) => return,
                Err(trouble) => {
                    if !self.recover(trouble) {
                        return;
                    }
                }
            }
        }
    }

    /// `from` is always the next node that was not handed out.
    fn walk_from(&self, from: &mut NodeId, each: &mut dyn FnMut(NodeId, Found) -> bool) -> Result<(), Trouble> {
        let shelf = &self.history().shelf;
        let pieces = self.pieces.borrow().clone();
        let mut cursors =
            pieces.iter().map(|piece| Cursor::seek(shelf, piece.clone(), *from)).collect::<Result<Vec<_>, Trouble>>()?;
        while let Some(id) = cursors.iter().filter_map(Cursor::id).min() {
            let mut found = SmallVec::new();
            for cursor in cursors.iter().filter(|cursor| cursor.id() == Some(id)) {
                found.extend(cursor.at().map(|(chunk, place)| (cursor.piece.number, chunk.clone(), place)));
            }
            *from = id;
            if self.hides(id) {
                found.clear();
            }
            if !each(id, Rc::new(found)) || self.has_failed() {
                return Ok(());
            }
            let Some(next) = after(id) else { return Ok(()) };
            *from = next;
            for cursor in cursors.iter_mut().filter(|cursor| cursor.id() == Some(id)) {
                cursor.advance(shelf)?;
            }
        }
        Ok(())
    }

    fn has_any(&self, node: NodeId, asked: &[Asked]) -> bool {
        asked.iter().any(|asked| {
            let mut any = false;
            holding(&hits(&self.find(node, ends_for(asked))), asked, &mut |_, _| {
                any = true;
                false
            });
            any
        })
    }

    /// Hands out the nodes that have a fact as asked for, those with a label or all, in the order of ids.
    fn nodes_with(&self, asked: &[Asked], label: Option<Symbol>, each: &mut dyn FnMut(NodeId) -> bool) {
        let Some(since) = self.since() else {
            self.walk(&mut |node, found| {
                self.remember(Near { node, found, ends: Ends::Any });
                !self.has_any(node, asked) || each(node)
            });
            return;
        };
        let mut changed = since.changed().iter().copied().peekable();
        let mut going = true;
        let mut now = |node| {
            while let Some(other) = changed.next_if(|other| going && *other <= node) {
                going = !self.has_any(other, asked) || each(other);
            }
            going = going && (since.has(node) || each(node));
            going
        };
        match label {
            Some(label) => self.present.labelled(label, &mut now),
            None => self.present.nodes(&mut now),
        }
        for other in changed {
            going = going && (!self.has_any(other, asked) || each(other));
        }
    }
}

/// What tells edges apart is their other end.
fn ends_for(asked: &Asked) -> Ends {
    if asked.from.kind() <= Kind::EdgeProperty && asked.to.kind() >= Kind::Out { Ends::Known } else { Ends::Any }
}

pub(super) fn hits(found: &Found) -> SmallVec<[Hit<'_>; 4]> {
    found.iter().map(|(run, chunk, place)| Hit { run: *run, segment: chunk.segment(), facts: chunk.facts(*place) }).collect()
}

/// The types of edges that a node ever had.
fn edge_types(found: &Found) -> BTreeSet<Symbol> {
    hits(found).iter().flat_map(|hit| symbols(hit.facts, Kind::Out, Kind::InParallel)).collect()
}

fn after(id: NodeId) -> Option<NodeId> {
    let next = (u128::from(id.high) << 64 | u128::from(id.low)).checked_add(1)?;
    Some(NodeId::new((next >> 64) as u64, next as u64))
}

/// All tags of these kinds.
fn kinds(first: Kind, last: Kind) -> (Tag, Tag) {
    (Tag::new(first, Symbol(0)), Tag::new(last, Symbol((1 << Tag::SYMBOL_BITS) - 1)))
}

fn facts(segment: &Segment) -> Facts<'_> {
    let last = segment.times.last().copied().unwrap_or(u64::MAX);
    Facts::known([Part { segment, facts: &segment.facts, last, labels: true, properties: true }])
}

impl View for Past {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        if let Some(now) = self.as_now(node) {
            return now.property(node, key);
        }
        let tag = Tag::new(Kind::Property, key);
        let mut value = Value::Null;
        holding(&hits(&self.find(node, Ends::Any)), &Asked::tag(tag, self.as_of.at.0), &mut |segment, fact| {
            value = decode_payload(fact.payload, &segment.arena);
            false
        });
        value
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        if let Some(now) = self.as_now(node) {
            return now.properties(node, each);
        }
        facts(&self.held(node, kinds(Kind::Property, Kind::Property))).properties(0, each);
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        if let Some(now) = self.as_now(node) {
            return now.has_label(node, label);
        }
        let mut found = false;
        holding(&hits(&self.find(node, Ends::Any)), &Asked::tag(Tag::new(Kind::Label, label), self.as_of.at.0), &mut |_, _| {
            found = true;
            false
        });
        found
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        if let Some(now) = self.as_now(node) {
            return now.labels(node, each);
        }
        facts(&self.held(node, kinds(Kind::Label, Kind::Label))).labels(0, each);
    }

    fn edges(&self, node: NodeId, direction: Direction, types: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        if let Some(now) = self.as_now(node) {
            return now.edges(node, direction, types, each);
        }
        let mut each = |half: HalfEdge| {
            if !self.hides(half.other) {
                each(half);
            }
        };
        let each = &mut each;
        if types.is_empty() {
            return facts(&self.held(node, kinds(Kind::Out, Kind::InParallel))).edges(direction, &[], 0, each);
        }
        // Of a type that is named twice, too, each edge comes once.
        let mut types: SmallVec<[Symbol; 4]> = SmallVec::from_slice(types);
        types.sort_unstable();
        types.dedup();
        for kind in types {
            for side in [Kind::Out, Kind::In, Kind::OutParallel, Kind::InParallel] {
                let tag = Tag::new(side, kind);
                facts(&self.held(node, (tag, tag))).edges(direction, &[kind], 0, each);
            }
        }
    }

    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        if let Some(now) = self.as_now(node) {
            return now.edges_to(node, other, direction, kinds, each);
        }
        if self.hides(other) {
            return;
        }
        let there;
        let kinds = if kinds.is_empty() {
            there = Vec::from_iter(edge_types(&self.find(node, Ends::Known)));
            &there[..]
        } else {
            kinds
        };
        let (single, parallel) = ((half_key(other, 0), half_key(other, 0)), parallel_keys(other));
        let sides = [(Kind::Out, single), (Kind::In, single), (Kind::OutParallel, parallel), (Kind::InParallel, parallel)];
        let asked = |(side, _): &(Kind, _)| direction.admits(matches!(side, Kind::Out | Kind::OutParallel));
        for (kind, (side, keys)) in kinds.iter().flat_map(|kind| sides.into_iter().filter(asked).map(|side| (*kind, side))) {
            facts(&self.held_between(node, Tag::new(side, kind), keys)).edges(direction, &[kind], 0, each);
        }
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        if let Some(now) = self.as_now(edge.source) {
            return now.has_edge(edge);
        }
        if self.hides(edge.target) {
            return false;
        }
        let side = if edge.ordinal > 0 { Kind::OutParallel } else { Kind::Out };
        let key = half_key(edge.target, edge.ordinal);
        !self.held_between(edge.source, Tag::new(side, edge.kind), (key, key)).facts.is_empty()
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        if let Some(now) = self.as_now(edge.source) {
            return now.edge_property(edge, key);
        }
        if self.hides(edge.target) {
            return Value::Null;
        }
        let tag = Tag::new(Kind::EdgeProperty, edge.kind);
        let key_of_fact = edge_property_key(edge.target, edge.ordinal, key);
        let found = self.held_between(edge.source, tag, (key_of_fact, key_of_fact));
        facts(&found).edge_property(edge.kind, edge.target, edge.ordinal, key, 0)
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        if let Some(now) = self.as_now(edge.source) {
            return now.edge_properties(edge, each);
        }
        if self.hides(edge.target) {
            return;
        }
        let tag = Tag::new(Kind::EdgeProperty, edge.kind);
        let found = self.held_between(edge.source, tag, edge_property_keys(edge.target, edge.ordinal));
        facts(&found).edge_properties(edge.kind, edge.target, edge.ordinal, 0, each);
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        // The properties of an edge may outlive it.
        let of = |(from, to)| Asked { from, to, keys: None, at: self.as_of.at.0 };
        let [labels, properties, edges] =
            [(Kind::Label, Kind::Label), (Kind::Property, Kind::Property), (Kind::Out, Kind::InParallel)];
        let asked = [labels, properties, edges].map(|(first, last)| of(kinds(first, last)));
        if self.erased.is_empty() {
            return self.nodes_with(&asked, None, each);
        }
        // Of some all that is known may be edges to what was erased.
        self.nodes_with(&asked, None, &mut |node| {
            let mut any = false;
            self.labels(node, &mut |_| any = true);
            self.properties(node, &mut |_, _| any = true);
            self.edges(node, Direction::Both, &[], &mut |_| any = true);
            !any || each(node)
        });
    }

    fn labelled(&self, label: Symbol, each: &mut dyn FnMut(NodeId) -> bool) {
        let asked = [Asked::tag(Tag::new(Kind::Label, label), self.as_of.at.0)];
        self.nodes_with(&asked, Some(label), each);
    }

    fn count_labelled(&self, label: Symbol) -> Option<u64> {
        let since = self.since()?;
        let mut count = self.present.count_labelled(label)?;
        for node in since.changed() {
            count = count + u64::from(self.has_label(*node, label)) - u64::from(self.present.has_label(*node, label));
        }
        Some(count)
    }

    fn about(&self, what: About) -> f64 {
        self.present.about(what)
    }

    fn indexes(&self, each: &mut dyn FnMut(Symbol, Option<Symbol>)) {
        if self.since().is_some() {
            self.present.indexes(each);
        }
    }

    fn index_size(&self, question: &Question) -> u64 {
        self.present.index_size(question) + self.since().map_or(0, |since| since.changed().len() as u64)
    }

    fn index_answer(&self, question: &Question, each: &mut dyn FnMut(NodeId)) {
        self.present.index_answer(question, each);
        self.since().into_iter().flat_map(Since::changed).for_each(|node| each(*node));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use weir_model::Mutations;

    use super::*;
    use crate::checkpoint;
    use crate::history::merge::{Keeps, Merging, lost};
    use crate::history::run::{Indexing, Run, names};
    use crate::store::{InMemory, NewRun};
    use crate::{Engine, Options};

    /// They are none of those that hold the moment itself, which stay what they are.
    #[test]
    fn runs_behind_the_moment_may_be_merged_while_it_is_looked_at_what_has_changed() {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
        let graph = engine.default_graph();
        let label = graph.symbols().intern("l");
        let node = |n| NodeId::new(0, n);
        let uppers: Vec<Tick> = (1..=3)
            .map(|n| {
                let mut mutations = Mutations::default();
                mutations.set_label(node(n), label, true);
                let upper = graph.apply(mutations, 1).unwrap();
                graph.wait_durable(upper).unwrap();
                checkpoint::make(&graph, upper).unwrap();
                upper
            })
            .collect();
        graph.wait_visible().unwrap();
        let Moment::Past(past) = graph.at(Tick(uppers[0].0 - 1)).unwrap() else { panic!("there was more later") };
        let history = graph.history();
        let old = history.lock().runs[1..].to_vec();
        assert_eq!(old.len(), 2);
        // The store knows of a merge a moment before the list of runs does.
        let merged = {
            let (shelf, pieces, never) = (&history.shelf, Piece::of(&old), AtomicBool::new(false));
            let (nodes, names) = names(shelf, &pieces).map_err(lost).unwrap();
            let keeps = Keeps { bottom: false, horizon: 0 };
            let mut merging = Merging::new(shelf, pieces, names, keeps, Arc::default(), &never).unwrap();
            let mut chunks = Indexing::new(&mut merging, nodes);
            let ids: Vec<_> = old.iter().filter_map(|run| run.id()).collect();
            let new = NewRun { first: old[0].first, upper: old[1].upper, chunks: &mut chunks };
            let info = shelf.store.replace_runs(graph.id(), &ids, new).unwrap();
            shelf.cache.forget(graph.id(), &ids);
            Run::stored(&info, chunks.index)
        };
        let began = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                history.lock().runs.splice(1.., [Arc::new(merged)]);
            });
            let changed = past.since().map(|since| since.changed().to_vec());
            assert_eq!(changed, Some(vec![node(2), node(3)]));
        });
        let took = began.elapsed();
        assert!(took < PATIENCE / 2, "{took:?}");
        assert!(past.take_failure().is_none());
        let mut nodes = Vec::new();
        past.nodes(&mut |node| {
            nodes.push(node);
            true
        });
        assert_eq!(nodes, [node(1)]);
        engine.shutdown().unwrap();
    }

    /// However many others are looked up meanwhile. Of those with few edges the last ones are remembered.
    #[test]
    fn a_node_of_many_edges_is_read_once() {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
        let graph = engine.default_graph();
        let (label, kind) = (graph.symbols().intern("l"), graph.symbols().intern("r"));
        let node = |n| NodeId::new(0, n);
        let mut mutations = Mutations::default();
        (1..=LARGE as u64).for_each(|n| mutations.set_edge(node(0), kind, node(n), 0, true));
        let upper = graph.apply(mutations, 1).unwrap();
        graph.wait_durable(upper).unwrap();
        checkpoint::make(&graph, upper).unwrap();
        let mut mutations = Mutations::default();
        mutations.set_label(node(1), label, true);
        graph.apply(mutations, 1).unwrap();
        graph.wait_visible().unwrap();
        let Moment::Past(past) = graph.at(Tick(upper.0 - 1)).unwrap() else { panic!("there was more later") };

        let others = || 2..2 + 2 * NEAR_MAX as u64;
        let (hub, one) = (past.find(node(0), Ends::Known), past.find(node(1), Ends::Known));
        assert_eq!(hits(&hub).iter().map(|hit| hit.facts.len()).sum::<usize>(), LARGE);
        for n in others() {
            past.find(node(n), Ends::Any);
            assert!(Rc::ptr_eq(&one, &past.find(node(1), Ends::Known)), "asked for again and again, while {n} others are");
        }
        others().for_each(|n| drop(past.find(node(n), Ends::Any)));
        assert!(!Rc::ptr_eq(&one, &past.find(node(1), Ends::Known)));
        assert!([Ends::Known, Ends::Any].iter().all(|ends| Rc::ptr_eq(&hub, &past.find(node(0), *ends))));

        let mut edges = Vec::new();
        past.edges(node(1), Direction::Both, &[kind, kind], &mut |half| edges.push(half.other));
        assert_eq!(edges, [node(0)], "a type that is named twice");
        assert!(past.take_failure().is_none());
        engine.shutdown().unwrap();
    }

    /// Its answer was to stay, and was gone when the process was killed.
    #[cfg(feature = "rocks-db")]
    #[test]
    fn a_moment_is_answered_when_what_it_shows_is_durable() {
        use crossbeam_channel::bounded;
        use weir_model::lock::lock;

        use crate::history::Recall;
        use crate::store::conformance::FaultyStore;
        use crate::store::{RocksDb, RocksDbOptions};

        let temporary = tempfile::tempdir().unwrap();
        let inner = RocksDb::open(RocksDbOptions::new(temporary.path())).unwrap();
        let store = Arc::new(FaultyStore::new(Arc::new(inner), usize::MAX));
        let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = &engine.default_graph();
        let (label, node) = (graph.symbols().intern("l"), NodeId::new(0, 1));
        std::thread::scope(|scope| {
            let stuck = lock(&store.stuck);
            let mut mutations = Mutations::default();
            mutations.set_label(node, label, true);
            let upper = graph.apply(mutations, 1).unwrap();
            graph.wait_visible().unwrap();
            let last = Tick(upper.0 - 1);

            let (sender, answers) = bounded(3);
            let (outside, exported, within) = (sender.clone(), sender.clone(), sender);
            scope.spawn(move || outside.send(graph.at(last).unwrap().view().has_label(node, label)).unwrap());
            scope.spawn(move || {
                let mut nodes = 0;
                graph
                    .export(None, &mut |_| {
                        nodes += 1;
                        true
                    })
                    .unwrap();
                exported.send(nodes == 1).unwrap();
            });
            // With the graph locked.
            scope.spawn(move || {
                let evaluated = graph.committer().transact(0, |_, at, locked| {
                    let (moment, _) = Recall::new(graph, at, false).within(locked).at(last.millis() as i64)?;
                    within.send(moment.view().has_label(node, label)).unwrap();
                    Ok(None)
                });
                evaluated.unwrap();
            });

            let early = answers.recv_timeout(Duration::from_millis(300));
            assert!(early.is_err() && graph.durable() < upper, "{early:?}");
            drop(stuck);
            let answered: Vec<_> = (0..3).map(|_| answers.recv_timeout(PATIENCE)).collect();
            assert_eq!(answered, [Ok(true); 3]);
        });
        engine.shutdown().unwrap();
    }

    /// Time stands still for the graph at its last change. That was in the future, for as long as the clock had been set back.
    #[test]
    fn where_the_clock_was_set_back_the_moment_of_the_last_change_can_be_asked_for() {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
        let graph = engine.default_graph();
        let label = graph.symbols().intern("l");
        let ahead = wall_clock_millis() + 3_600_000;
        graph.committer().seal(Tick(Tick::at_millis(ahead).0 - 1)).unwrap();
        let write = |n: u64| {
            let mut mutations = Mutations::default();
            mutations.set_label(NodeId::new(0, n), label, true);
            Tick(graph.apply(mutations, 1).unwrap().0 - 1).millis()
        };
        let count = |millis: u64| -> Result<i32, EngineError> {
            let moment = graph.at(Tick::end_of_millis(millis))?;
            let mut count = 0;
            moment.view().labelled(label, &mut |_| {
                count += 1;
                true
            });
            moment.take_failure().map_or(Ok(count), Err)
        };
        assert_eq!(write(1), ahead);
        assert_eq!(count(ahead).unwrap(), 1);
        assert!(matches!(count(ahead + 1), Err(EngineError::NotYet(_))));
        // The answer stays: what comes now comes after that moment.
        assert_eq!(write(2), ahead + 1);
        assert_eq!([count(ahead).unwrap(), count(ahead + 1).unwrap()], [1, 2]);
        engine.shutdown().unwrap();
    }
}
