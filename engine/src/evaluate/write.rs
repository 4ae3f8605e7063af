//! Write and Merge: from rows to Mutations.
//!
//! A plan that reads takes in every row of a write clause before it changes anything, so that no match sees half of the
//! clause; what was written is then laid over the view, item by item, and later items and clauses see it.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::expression::FailureKind;
use weir_model::extent::{Holding, STORED_DEPTH_MAX, is_deeper};
use weir_model::plan::{Name, Operator, Pattern, Slot, Write};
use weir_model::{Context, EdgeKey, Expr, Failure, Map, Mutations, NodeId, Symbol, Text, Value, codec};

use super::operators::{Flow, GO_ON, Next, Rows, Run, STOP};
use super::{mismatch, removal};
use crate::symbols::UNKNOWN;
use crate::view::{Direction, EdgeRef};

/// What a write goes to. None is null: the row passes and nothing is written.
#[derive(Clone, Copy)]
enum Entity {
    None,
    Node(NodeId),
    Edge(EdgeRef),
}

/// What the deletes of one clause have come to, with all of its rows.
#[derive(Default)]
struct Deletions {
    /// Nodes that must turn out to have no edges.
    emptied: Vec<NodeId>,
    /// Nodes of which nothing is left, or nothing but edges where it says false: since then nothing was written that is no
    /// delete. One that comes in row after row is not looked through for each.
    gone: FxHashMap<NodeId, bool>,
}

/// Whether an expression asks for something that the pattern finds.
fn is_of(expr: &Expr, pattern: &Pattern) -> bool {
    let is_found = |slot: &Slot| {
        pattern.nodes.iter().any(|node| node.slot == *slot && !node.bound)
            || pattern.edges.iter().any(|edge| edge.slot == Some(*slot))
    };
    expr.slots().iter().any(is_found)
}

/// The two ends of each edge that is to be created.
fn ends(writes: &[Write]) -> impl Iterator<Item = [Slot; 2]> + '_ {
    writes.iter().filter_map(|write| match write {
        Write::CreateEdge { source, target, .. } => Some([*source, *target]),
        _ => None,
    })
}

/// The nodes that are to be created.
fn new_nodes(writes: &[Write]) -> FxHashSet<Slot> {
    let new = writes.iter().filter_map(|write| if let Write::CreateNode { slot, .. } = write { Some(*slot) } else { None });
    new.collect()
}

/// The ends of edges that are null, so that there is no edge to create.
fn null_ends(writes: &[Write], row: &[Value]) -> Vec<Slot> {
    let is_null = |end: &Slot| row[end.0 as usize].is_null();
    if !ends(writes).flatten().any(|end| is_null(&end)) {
        return Vec::new();
    }
    // What is yet to be created is null as well.
    let new = new_nodes(writes);
    ends(writes).flatten().filter(|end| is_null(end) && !new.contains(end)).collect()
}

/// The nodes of a pattern that are not created, as it leads from them to one that is null: nothing half happens.
fn nowhere(writes: &[Write], row: &[Value]) -> FxHashSet<Slot> {
    let mut nowhere = FxHashSet::default();
    let mut open = null_ends(writes, row);
    if open.is_empty() {
        return nowhere;
    }
    let new = new_nodes(writes);
    let mut neighbours: FxHashMap<Slot, Vec<Slot>> = FxHashMap::default();
    for [source, target] in ends(writes) {
        neighbours.entry(source).or_default().push(target);
        neighbours.entry(target).or_default().push(source);
    }
    while let Some(end) = open.pop() {
        let found = neighbours.remove(&end).unwrap_or_default();
        open.extend(found.into_iter().filter(|far| new.contains(far) && nowhere.insert(*far)));
    }
    nowhere
}

impl Run<'_> {
    /// Writes happen for every row, also when `next` has had enough: LIMIT does not undo a CREATE.
    pub(super) fn write(&self, input: &Operator, writes: &[Write], row: &mut [Value], next: Next) -> Flow {
        if self.overlay.is_none() {
            let mut stopped = false;
            self.drain(input, row, &mut |row| {
                self.apply(writes, row, &mut Deletions::default())?;
                stopped = stopped || next(row)?.is_break();
                Ok(())
            })?;
            return if stopped { STOP } else { GO_ON };
        }
        let mut rows = Rows::new(self);
        self.drain(input, row, &mut |row| rows.push(row))?;
        let mut deletions = Deletions::default();
        for row in rows.iter_mut() {
            self.apply(writes, row, &mut deletions)?;
        }
        self.check_emptied(&deletions.emptied)?;
        rows.pass(next)
    }

    /// `writes`: to create the pattern, after it was created, after it was found.
    pub(super) fn merge(
        &self,
        input: &Operator,
        pattern: &Pattern,
        writes: [&[Write]; 3],
        row: &mut [Value],
        next: Next,
    ) -> Flow {
        let mut rows = Rows::new(self);
        self.drain(input, row, &mut |row| rows.push(row))?;
        let mut merged = Rows::new(self);
        let mut deletions = Deletions::default();
        for row in rows.iter_mut() {
            self.merge_one(pattern, writes, row, &mut deletions, &mut merged)?;
        }
        self.check_emptied(&deletions.emptied)?;
        merged.pass(next)
    }

    /// A property that is null is not stored, so MERGE would not find what it made and make it again and again. `skipped`
    /// are the values that cannot be told yet.
    fn check_merged(&self, create: &[Write], row: &[Value], skipped: &dyn Fn(&Expr) -> bool) -> Result<(), Failure> {
        for write in create {
            let properties = match write {
                Write::CreateNode { properties, .. } | Write::CreateEdge { properties, .. } => properties.as_ref(),
                Write::SetProperties { value, .. } => Some(value),
                _ => None,
            };
            let null = match properties {
                Some(Expr::Map(entries)) => {
                    let mut null = None;
                    for (key, value) in entries {
                        if null.is_none() && !skipped(value) && value.look(row, self)?.is_null() {
                            null = Some(key.clone());
                        }
                    }
                    null
                }
                Some(other) => match &*other.look(row, self)? {
                    Value::Map(map) => map.iter().find(|(_, value)| value.is_null()).map(|(key, _)| key.clone()),
                    _ => None,
                },
                None => None,
            };
            if let Some(key) = null {
                let message = format!("Cannot merge a node or relationship by the property `{key}`, which is null here");
                return Err(Failure::new(FailureKind::MergeWithNull, message));
            }
        }
        Ok(())
    }

    /// MERGE for one row: those it gives go to `merged`.
    fn merge_one(
        &self,
        pattern: &Pattern,
        [create, on_create, on_match]: [&[Write]; 3],
        row: &mut [Value],
        deletions: &mut Deletions,
        merged: &mut Rows,
    ) -> Result<(), Failure> {
        // What is between two parts of the pattern may be asked of a part that is not there yet.
        let between = !pattern.conditions.is_empty();
        self.check_merged(create, row, &|value| between && is_of(value, pattern))?;
        let mut found = Rows::new(self);
        let _ = self.matches(pattern, row, &mut |row| found.push(row).and(GO_ON))?;
        if found.is_empty() {
            // What an earlier row, or an earlier element of FOREACH, left there is not of this one.
            pattern.paths.iter().for_each(|path| row[path.slot.0 as usize] = Value::Null);
            if null_ends(create, row).is_empty() {
                self.apply_but(&FxHashSet::default(), create, row, deletions)?;
                if between {
                    self.check_merged(create, row, &|value| !is_of(value, pattern))?;
                }
                self.apply(on_create, row, deletions)?;
            } else {
                // Nothing is created, so nothing is said of the nodes that are there, and ON CREATE does not come to it.
                for write in create {
                    if let Write::CreateNode { slot, .. } | Write::CreateEdge { slot: Some(slot), .. } = write {
                        row[slot.0 as usize] = Value::Null;
                    }
                }
            }
            merged.push(row)?;
        }
        for row in found.iter_mut() {
            self.apply(on_match, row, deletions)?;
            merged.push(row)?;
        }
        Ok(())
    }

    /// The writes of one row in order.
    fn apply(&self, writes: &[Write], row: &mut [Value], deletions: &mut Deletions) -> Result<(), Failure> {
        self.apply_but(&nowhere(writes, row), writes, row, deletions)
    }

    /// As `apply`, where it is known which nodes are not to be created.
    fn apply_but(
        &self,
        nowhere: &FxHashSet<Slot>,
        writes: &[Write],
        row: &mut [Value],
        deletions: &mut Deletions,
    ) -> Result<(), Failure> {
        for write in writes {
            if let Write::CreateNode { slot, .. } = write
                && nowhere.contains(slot)
            {
                row[slot.0 as usize] = Value::Null;
                continue;
            }
            let before = self.mutations.borrow().bytes();
            self.apply_one(write, row, deletions)?;
            // Until the query is through, what it writes is kept; and once more where it is read.
            let copies = if self.overlay.is_some() { 3 } else { 1 };
            self.budget.hold_bytes(copies * self.mutations.borrow().bytes().saturating_sub(before))?;
            self.settle();
        }
        Ok(())
    }

    /// What was written from here on is seen by who reads.
    pub(super) fn settle(&self) {
        if let Some(overlay) = self.overlay {
            let mutations = self.mutations.borrow();
            let end = mutations.rows.len();
            overlay.apply(&mutations, self.applied.replace(end)..end);
        }
    }

    /// Sets a property of a node, whatever its key; null removes it.
    pub(super) fn set_node_property(&self, node: NodeId, key: &Text, value: &Value) -> Result<(), Failure> {
        let value = self.storable(Entity::Node(node), key, value)?;
        self.set(Entity::Node(node), self.reader.names.intern(key)?, &value);
        self.settle();
        Ok(())
    }

    fn apply_one(&self, write: &Write, row: &mut [Value], deletions: &mut Deletions) -> Result<(), Failure> {
        // Those within others come here themselves.
        if !matches!(write, Write::Delete { .. } | Write::ForEach { .. } | Write::Merge { .. }) {
            deletions.gone.clear();
        }
        match write {
            Write::CreateNode { slot, labels, properties } => {
                let id = (self.environment.fresh_id)();
                if self.environment.open_cypher {
                    self.mutations.borrow_mut().set_label(id, self.prepared.existence, true);
                }
                self.set_labels(id, labels, true)?;
                if let Some(properties) = properties {
                    self.create_properties(Entity::Node(id), properties, row)?;
                }
                row[slot.0 as usize] = Value::Node(id);
            }
            Write::CreateEdge { slot, source, kind, target, properties } => {
                self.create_edge(*slot, [*source, *target], *kind, properties.as_ref(), row)?;
            }
            Write::SetProperty { target, key, value } => {
                let entity = self.changed(&*target.look(row, self)?)?;
                let value = value.look(row, self)?;
                let name = &self.prepared.plan.names[key.0 as usize];
                self.set_named(entity, *key, self.storable(entity, name, &value)?.as_ref())?;
            }
            Write::SetProperties { target, value, replace } => {
                let entity = self.changed(&row[target.0 as usize])?;
                self.set_properties(entity, &*value.look(row, self)?, *replace)?;
            }
            Write::RemoveProperty { target, key } => {
                let entity = self.changed(&*target.look(row, self)?)?;
                self.set_named(entity, *key, &Value::Null)?;
            }
            Write::AddLabels { target, labels } => self.change_labels(*target, labels, true, row)?,
            Write::RemoveLabels { target, labels } => self.change_labels(*target, labels, false, row)?,
            Write::Delete { target, detach } => self.delete(&*target.look(row, self)?, *detach, deletions)?,
            Write::ForEach { slot, list, writes } => {
                let list = list.evaluate(row, self)?;
                let mut held = Holding::new(self);
                held.add(&list)?;
                let elements = match list {
                    Value::Null => return Ok(()),
                    Value::List(elements) => elements,
                    other => return Err(mismatch("List", &other, "FOREACH")),
                };
                let slot = slot.0 as usize;
                let before = std::mem::take(&mut row[slot]);
                let mut copy = Holding::new(self);
                for element in elements.iter().cloned() {
                    copy.clear();
                    copy.add(&element)?;
                    row[slot] = element;
                    self.apply(writes, row, deletions)?;
                }
                row[slot] = before;
            }
            Write::Merge { pattern, create, on_create, on_match, then } => {
                let mut merged = Rows::new(self);
                self.merge_one(pattern, [create, on_create, on_match], row, deletions, &mut merged)?;
                for row in merged.iter_mut() {
                    self.apply(then, row, deletions)?;
                }
            }
        }
        Ok(())
    }

    /// The node or edge a value refers to. An edge that was deleted takes no more properties.
    fn entity(&self, value: &Value) -> Result<Entity, Failure> {
        let key: &EdgeKey = match value {
            Value::Null => return Ok(Entity::None),
            Value::Node(id) => return Ok(Entity::Node(*id)),
            Value::FullNode(node) => return Ok(Entity::Node(node.id)),
            Value::Edge(key) => key,
            Value::FullEdge(edge) => &edge.key,
            other => return Err(mismatch("Node, Relationship", other, "a write")),
        };
        let edge = self.reader.edge_ref(key);
        let gone = edge.kind == UNKNOWN || (self.overlay.is_some() && !self.reader.view.has_edge(edge));
        Ok(if gone { Entity::None } else { Entity::Edge(edge) })
    }

    /// As `entity`, of what is to be changed: it must not have been deleted.
    fn changed(&self, value: &Value) -> Result<Entity, Failure> {
        match value {
            Value::Node(node) => self.reader.ask_node(*node),
            Value::Edge(key) => self.reader.ask_edge(self.reader.edge_ref(key)),
            _ => {}
        }
        self.entity(value)
    }

    /// Null removes. The value is storable.
    fn set(&self, entity: Entity, key: Symbol, value: &Value) {
        set(&mut self.mutations.borrow_mut(), entity, key, value);
    }

    fn set_named(&self, entity: Entity, key: Name, value: &Value) -> Result<(), Failure> {
        if matches!(entity, Entity::None) {
            return Ok(());
        }
        let key = if value.is_null() { self.prepared.symbol(key) } else { self.number(key)? };
        if key != UNKNOWN {
            self.set(entity, key, value);
        }
        Ok(())
    }

    fn set_properties(&self, entity: Entity, value: &Value, replace: bool) -> Result<(), Failure> {
        if matches!(entity, Entity::None) {
            return Ok(());
        }
        let looked_up;
        let map: &Map = match value {
            Value::Map(map) => map,
            Value::FullNode(node) => &node.properties,
            Value::FullEdge(edge) => &edge.properties,
            Value::Node(id) => {
                looked_up = self.reader.properties(*id);
                &looked_up
            }
            Value::Edge(key) => {
                looked_up = self.reader.edge_properties(self.reader.edge_ref(key));
                &looked_up
            }
            other => return Err(mismatch("Map, Node, Relationship", other, "SET of all properties")),
        };
        if replace {
            match entity {
                Entity::None => {}
                Entity::Node(node) => self.mutations.borrow_mut().clear_properties(node),
                Entity::Edge(edge) => removal::edge_properties(self.reader.view, edge, &mut self.mutations.borrow_mut()),
            }
        }
        // After a replacement there is nothing left to remove.
        self.set_entries(entity, map, !replace)
    }

    fn set_entries(&self, entity: Entity, map: &Map, nulls_remove: bool) -> Result<(), Failure> {
        let mut mutations = self.mutations.borrow_mut();
        for (i, (key, value)) in map.iter().enumerate() {
            if !value.is_null() {
                let value = self.storable(entity, key, value)?;
                set(&mut mutations, entity, self.reader.names.intern_at(i, key)?, &value);
            } else if nulls_remove && let Some(key) = self.reader.names.find(key) {
                set(&mut mutations, entity, key, value);
            }
        }
        Ok(())
    }

    fn create_properties(&self, entity: Entity, properties: &Expr, row: &mut [Value]) -> Result<(), Failure> {
        match &*properties.look(row, self)? {
            Value::Null => Ok(()),
            Value::Map(map) => self.set_entries(entity, map, false),
            other => self.set_properties(entity, other, false),
        }
    }

    fn create_edge(
        &self,
        slot: Option<Slot>,
        ends: [Slot; 2],
        kind: Name,
        properties: Option<&Expr>,
        row: &mut [Value],
    ) -> Result<(), Failure> {
        let mut ids = [NodeId::default(); 2];
        for (id, end) in ids.iter_mut().zip(ends) {
            match &row[end.0 as usize] {
                Value::Node(node) => *id = *node,
                Value::FullNode(node) => *id = node.id,
                Value::Null => {
                    slot.into_iter().for_each(|slot| row[slot.0 as usize] = Value::Null);
                    return Ok(());
                }
                other => return Err(mismatch("Node", other, "CREATE of a relationship")),
            }
        }
        let edge = self.new_edge(ids, self.number(kind)?)?;
        if let Some(properties) = properties {
            self.create_properties(Entity::Edge(edge), properties, row)?;
        }
        if let Some(slot) = slot {
            row[slot.0 as usize] = Value::Edge(self.reader.edge_key(edge).into());
        }
        Ok(())
    }

    fn new_edge(&self, [source, target]: [NodeId; 2], kind: Symbol) -> Result<EdgeRef, Failure> {
        [source, target].into_iter().for_each(|end| self.reader.ask_node(end));
        let ordinal = if self.environment.open_cypher { self.free_ordinal(source, kind, target)? } else { 0 };
        self.mutations.borrow_mut().set_edge(source, kind, target, ordinal, true);
        Ok(EdgeRef { source, kind, target, ordinal })
    }

    /// An edge whose type is known only now.
    pub(super) fn create_edge_of(&self, ends: [NodeId; 2], kind: &Text, properties: &Map) -> Result<EdgeKey, Failure> {
        let edge = self.new_edge(ends, self.reader.names.intern(kind)?)?;
        self.set_entries(Entity::Edge(edge), properties, false)?;
        self.settle();
        Ok(self.reader.edge_key(edge))
    }

    /// The labels of a node become these.
    pub(super) fn replace_labels(&self, node: NodeId, labels: &[Text]) -> Result<(), Failure> {
        let mut before = Vec::new();
        self.reader.view.labels(node, &mut |label| before.push(label));
        let after: Vec<Symbol> = labels.iter().map(|label| self.reader.names.intern(label)).collect::<Result<_, _>>()?;
        {
            let mut mutations = self.mutations.borrow_mut();
            before
                .iter()
                .filter(|label| **label != self.prepared.existence && !after.contains(label))
                .for_each(|label| mutations.set_label(node, *label, false));
            after.iter().for_each(|label| mutations.set_label(node, *label, true));
        }
        self.settle();
        Ok(())
    }

    /// Takes away everything a node has, with its edges, and its past.
    pub(super) fn purge(&self, node: NodeId) {
        self.delete_node(node, true, &mut Deletions::default());
        self.mutations.borrow_mut().erase(node);
        self.settle();
    }

    /// One more than the greatest in use, so that a new edge never takes the name of one that is there, or was before this
    /// very query.
    fn free_ordinal(&self, source: NodeId, kind: Symbol, target: NodeId) -> Result<u32, Failure> {
        let mut last = self.reader.last_deleted(source, kind, target);
        let view = self.reader.view;
        view.edges_to(source, target, Direction::Outgoing, &[kind], &mut |half| last = last.max(Some(half.ordinal)));
        last.map_or(Some(0), |last| last.checked_add(1)).ok_or_else(|| {
            let message = "The ordinals of the relationships between two nodes are used up; delete the newest of them";
            Failure::new(FailureKind::ConstraintViolation, message)
        })
    }

    fn change_labels(&self, target: Slot, labels: &[Name], present: bool, row: &[Value]) -> Result<(), Failure> {
        match &row[target.0 as usize] {
            Value::Null => {}
            Value::Node(id) => self.set_labels(*id, labels, present)?,
            Value::FullNode(node) => self.set_labels(node.id, labels, present)?,
            other => return Err(mismatch("Node", other, "a change of labels")),
        }
        Ok(())
    }

    fn set_labels(&self, node: NodeId, labels: &[Name], present: bool) -> Result<(), Failure> {
        self.reader.ask_node(node);
        let mut mutations = self.mutations.borrow_mut();
        for label in labels {
            let label = if present { self.number(*label)? } else { self.prepared.symbol(*label) };
            if label != UNKNOWN {
                mutations.set_label(node, label, present);
            }
        }
        Ok(())
    }

    /// The number of a name that is written, which needs one. What has none is nowhere, so to remove it is to do nothing.
    fn number(&self, name: Name) -> Result<Symbol, Failure> {
        match self.prepared.symbol(name) {
            UNKNOWN => Err(self.reader.names.symbols().full(&self.prepared.plan.names[name.0 as usize])),
            known => Ok(known),
        }
    }

    fn delete(&self, value: &Value, detach: bool, deletions: &mut Deletions) -> Result<(), Failure> {
        match value {
            Value::Path(path) => {
                for (edge, _) in &path.steps {
                    self.delete_edge(self.reader.edge_ref(edge));
                }
                for node in std::iter::once(path.start).chain(path.steps.iter().map(|(_, node)| *node)) {
                    self.delete_node(node, detach, deletions);
                }
            }
            other => match self.entity(other)? {
                Entity::None => {}
                Entity::Node(node) => self.delete_node(node, detach, deletions),
                Entity::Edge(edge) => self.delete_edge(edge),
            },
        }
        Ok(())
    }

    /// Whether a node that is not detached has edges is looked at when the clause is done: `DELETE n, r` takes both.
    fn delete_node(&self, node: NodeId, detach: bool, deletions: &mut Deletions) {
        self.reader.note_deleted_node(node);
        if deletions.gone.get(&node).is_some_and(|with_edges| *with_edges || !detach) {
            return;
        }
        deletions.gone.insert(node, detach);
        if detach {
            removal::edges_of(self.reader.view, node).into_iter().for_each(|edge| self.delete_edge(edge));
        } else {
            deletions.emptied.push(node);
        }
        removal::node(self.reader.view, node, &mut self.mutations.borrow_mut());
    }

    fn delete_edge(&self, edge: EdgeRef) {
        self.reader.note_deleted_edge(edge);
        removal::edge(self.reader.view, edge, &mut self.mutations.borrow_mut());
    }

    fn check_emptied(&self, nodes: &[NodeId]) -> Result<(), Failure> {
        let mut looked_at = FxHashSet::default();
        for node in nodes.iter().filter(|node| looked_at.insert(**node)) {
            let count = self.reader.degree(*node);
            if count > 0 {
                let id = self.environment.ids.text(*node);
                let message = format!("Node {id} cannot be deleted: it still has {count} edges. DETACH DELETE takes them along");
                return Err(Failure::new(FailureKind::StillConnected, message));
            }
        }
        Ok(())
    }

    /// What is stored of a value as a property. It must be nested no deeper than the node can still be read with it.
    fn storable<'v>(&self, entity: Entity, key: &str, value: &'v Value) -> Result<Cow<'v, Value>, Failure> {
        if let Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) = value {
            return Ok(Cow::Borrowed(value));
        }
        let stored = self.stored_form(value)?;
        if !is_deeper(&stored, STORED_DEPTH_MAX) {
            return Ok(stored);
        }
        let id = |node| self.environment.ids.text(node);
        let of = match entity {
            Entity::None => "null".to_owned(),
            Entity::Node(node) => format!("node {}", id(node)),
            Entity::Edge(edge) => {
                let kind = self.reader.names.text(edge.kind);
                format!("relationship {kind} from {} to {}", id(edge.source), id(edge.target))
            }
        };
        let message =
            format!("Property `{key}` of {of} cannot be set: its value is nested more than {STORED_DEPTH_MAX} levels deep");
        Err(Failure::new(FailureKind::Runtime, message))
    }

    /// A value as it is, except that a node or an edge becomes a map of its properties.
    fn stored_form<'v>(&self, value: &'v Value) -> Result<Cow<'v, Value>, Failure> {
        if self.environment.open_cypher && is_composed(value) {
            let failure = mismatch("a value that is no map, node, relationship or path, or a list of such,", value, "a property");
            return Err(Failure { kind: FailureKind::NotStorable, ..failure });
        }
        if codec::storable(value) {
            return Ok(Cow::Borrowed(value));
        }
        let id_value = |id: NodeId| match self.environment.ids {
            weir_model::IdScheme::Long { .. } => Value::Integer(id.low as i64),
            _ => Value::Id(id),
        };
        let stored = match value {
            Value::Node(id) => {
                return Ok(Cow::Owned(self.stored_form(&Value::FullNode(self.reader.full_node(*id).into()))?.into_owned()));
            }
            Value::Edge(key) => {
                return Ok(Cow::Owned(self.stored_form(&Value::FullEdge(self.reader.full_edge(key).into()))?.into_owned()));
            }
            Value::FullNode(node) => {
                let mut map = node.properties.clone();
                map.insert("_id".into(), id_value(node.id));
                map.insert("_labels".into(), Value::list(node.labels.iter().cloned().map(Value::Text).collect()));
                Value::Map(map.into())
            }
            Value::FullEdge(edge) => {
                let mut map = edge.properties.clone();
                map.insert("_start".into(), id_value(edge.key.source));
                map.insert("_end".into(), id_value(edge.key.target));
                map.insert("_label".into(), Value::Text(edge.key.kind.clone()));
                Value::Map(map.into())
            }
            Value::List(items) => {
                let items = items.iter().map(|item| self.stored_form(item).map(Cow::into_owned));
                Value::list(items.collect::<Result<_, _>>()?)
            }
            Value::Map(map) => {
                let entries = map.iter().map(|(key, value)| Ok((key.clone(), self.stored_form(value)?.into_owned())));
                Value::Map(entries.collect::<Result<Map, Failure>>()?.into())
            }
            other => return Err(Failure { kind: FailureKind::NotStorable, ..mismatch("a property value", other, "a property") }),
        };
        Ok(Cow::Owned(stored))
    }
}

/// What openCypher has no property hold. Streams bring nested records, which other graphs store as they come.
fn is_composed(value: &Value) -> bool {
    match value {
        Value::Map(_) | Value::Node(_) | Value::FullNode(_) | Value::Edge(_) | Value::FullEdge(_) | Value::Path(_) => true,
        Value::List(items) => items.iter().any(is_composed),
        _ => false,
    }
}

fn set(mutations: &mut Mutations, entity: Entity, key: Symbol, value: &Value) {
    match entity {
        Entity::None => {}
        Entity::Node(node) => mutations.set_property(node, key, value),
        Entity::Edge(e) => mutations.set_edge_property(e.source, e.kind, e.target, e.ordinal, key, value),
    }
}
