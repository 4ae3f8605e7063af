//! Indexes: which nodes have a label, or a label and a value of a property. Made when asked for, and kept beside the graph.
//!
//!     CREATE INDEX -> Definition, stored -> every worker keeps the changes from now on -> the base, made from the batches
//!     there were, by the thread that asks -> every worker puts it below the changes -> Snapshot shows it
//!
//! An index changes no answer. It finds all nodes that are meant, as of the tick of the snapshot, and who asks it looks at
//! each of them again. Its content is not stored: it is made anew when the graph is opened.

pub mod key;
pub mod lookup;
pub mod shard;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use weir_model::lock::lock;
use weir_model::schema::Schema;
use weir_model::{Symbol, Text, Value, codec};

use crate::arrangement::SharedBatch;
use crate::command::Command;
use crate::commit::WORKERS_PATIENCE;
use crate::error::{EngineError, caught};
use crate::graph::Graph;

pub use lookup::{Question, Questions};

/// An index that could not be built is tried again after this long.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How soon whoever waits to build it again sees that weir ends.
const CLOSING_LOOK: Duration = Duration::from_millis(20);

/// Nodes between two looks at whether an index is still wanted.
const NODES_BETWEEN_CHECKS: u32 = 4096;

#[derive(Debug)]
pub struct Definition {
    pub name: Text,
    pub label: Symbol,
    /// None for an index of all nodes with the label.
    pub key: Option<Symbol>,
    stored: Stored,
}

/// As the store has it, under its name: a list of two values.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stored {
    label: Text,
    property: Option<Text>,
}

impl Stored {
    fn encode(&self) -> Vec<u8> {
        let property = self.property.clone().map_or(Value::Null, Value::Text);
        let mut bytes = Vec::new();
        codec::encode(&Value::list(vec![Value::Text(self.label.clone()), property]), &mut bytes);
        bytes
    }

    fn decode(mut bytes: &[u8]) -> Option<Stored> {
        let Value::List(parts) = codec::decode(&mut bytes)? else { return None };
        match &parts[..] {
            [Value::Text(label), Value::Null] => Some(Stored { label: label.clone(), property: None }),
            [Value::Text(label), Value::Text(property)] => {
                Some(Stored { label: label.clone(), property: Some(property.clone()) })
            }
            _ => None,
        }
    }
}

/// What a shard shows of an index.
pub struct ShownIndex {
    pub definition: Arc<Definition>,
    /// It answers for this tick and later ones.
    pub from: u64,
    pub batches: Vec<SharedBatch>,
}

/// The indexes of a graph, by name.
#[derive(Default)]
pub struct Catalog {
    definitions: Mutex<BTreeMap<Text, Arc<Definition>>>,
    /// To build one is a panic as long as it is set.
    #[cfg(test)]
    panics: std::sync::atomic::AtomicBool,
}

impl Catalog {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Text, Arc<Definition>>> {
        lock(&self.definitions)
    }
}

/// Builds the indexes of graphs that were opened. Those that cannot be built are tried again: they would be there for nobody
/// until the next start.
pub(crate) fn build_all(mut indexes: Vec<(Graph, Arc<Definition>)>, patience: Duration) {
    loop {
        let graphs: Vec<Graph> = indexes.iter().map(|(graph, _)| graph.clone()).collect();
        indexes.retain(|(graph, definition)| !graph.is_done_with(definition, patience));
        for graph in graphs {
            // It is said of a graph until all of its indexes are there.
            if indexes.iter().all(|(left, _)| left.id() != graph.id()) {
                graph.note_care("indexes", None);
            }
        }
        let Some((graph, _)) = indexes.first() else { return };
        let begun = Instant::now();
        while begun.elapsed() < AGAIN_AFTER && !graph.is_closing() {
            std::thread::sleep(CLOSING_LOOK);
        }
    }
}

/// A worker's shard when it begins to keep an index.
pub struct Began {
    pub shard: usize,
    pub batches: Vec<SharedBatch>,
    /// Everything before this tick is in the batches.
    pub upper: u64,
}

impl Graph {
    /// Runs a command about the graph as a whole; rows are those of `Schema::columns`.
    pub fn run_schema(&self, schema: &Schema, each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>) -> Result<(), EngineError> {
        match schema {
            Schema::CreateIndex { name, label, property, unless_exists } => {
                self.create_index(name.clone(), label, property.as_deref(), *unless_exists)
            }
            Schema::DropIndex { name, if_exists } => match self.drop_index(name)? {
                false if !if_exists => Err(EngineError::NoSuchIndex(name.to_string())),
                _ => Ok(()),
            },
            Schema::ShowIndexes => {
                for row in self.show_indexes() {
                    if each(&row).is_break() {
                        break;
                    }
                }
                Ok(())
            }
            Schema::CreateExpiry { name, rule, unless_exists } => self.create_expiry(name.as_ref(), rule, *unless_exists),
            Schema::DropExpiry { name, if_exists } => match self.drop_expiry(name)? {
                false if !if_exists => Err(EngineError::NoSuchExpiry(name.to_string())),
                _ => Ok(()),
            },
            Schema::ShowExpiries => {
                self.show_expiries(each);
                Ok(())
            }
        }
    }

    /// When this returns, reads use the index.
    fn create_index(
        &self,
        name: Option<Text>,
        label: &str,
        property: Option<&str>,
        unless_exists: bool,
    ) -> Result<(), EngineError> {
        let stored = Stored { label: label.into(), property: property.map(Text::new) };
        let name = name.unwrap_or_else(|| match property {
            Some(property) => format!("index_{label}_{property}").into(),
            None => format!("index_{label}").into(),
        });
        let definition = {
            let mut known = self.indexes().lock();
            let same = known.values().find(|other| other.name == name || other.stored == stored);
            if let Some(other) = same {
                return if unless_exists { Ok(()) } else { Err(EngineError::IndexExists(other.name.to_string())) };
            }
            self.parts().store.put_metadata(&self.index_key(&name), &stored.encode())?;
            let definition = Arc::new(self.definition(name.clone(), stored));
            known.insert(name, definition.clone());
            definition
        };
        self.build_index(&definition, WORKERS_PATIENCE).inspect_err(|_| {
            // Half an index is none; the error is the one that is told.
            let _ = self.drop_index(&definition.name);
        })
    }

    /// What the index of a label, or of a label and a property, is called.
    pub fn index_name(&self, label: &str, property: Option<&str>) -> Option<Text> {
        let known = self.indexes().lock();
        let found = known.values().find(|index| &*index.stored.label == label && index.stored.property.as_deref() == property);
        found.map(|index| index.name.clone())
    }

    /// False when there is none of that name.
    fn drop_index(&self, name: &Text) -> Result<bool, EngineError> {
        let definition = {
            let mut known = self.indexes().lock();
            let Entry::Occupied(index) = known.entry(name.clone()) else { return Ok(false) };
            // Where that fails it is there as before, and can be dropped again.
            self.parts().store.delete_metadata(&self.index_key(name))?;
            index.remove()
        };
        self.let_go(definition);
        Ok(true)
    }

    /// The workers forget what they have of an index.
    fn let_go(&self, definition: Arc<Definition>) {
        let command = Command::DropIndex { graph: self.id(), definition };
        self.committer().between(|_| self.parts().workers.send(&command));
    }

    fn show_indexes(&self) -> Vec<[Value; 6]> {
        let snapshot = self.snapshot();
        let known = self.indexes().lock();
        let text = |text: &str| Value::text(text);
        let row = |definition: &Arc<Definition>| {
            let entries = snapshot.index_entries(definition);
            [
                text(&definition.name),
                text(if entries.is_some() { "ONLINE" } else { "POPULATING" }),
                text(if definition.key.is_some() { "RANGE" } else { "LOOKUP" }),
                text(&definition.stored.label),
                definition.stored.property.as_deref().map_or(Value::Null, text),
                entries.map_or(Value::Null, |entries| Value::Integer(entries as i64)),
            ]
        };
        known.values().map(row).collect()
    }

    /// The indexes that the store knows, to be built.
    pub(crate) fn load_indexes(&self) -> Result<Vec<Arc<Definition>>, EngineError> {
        let prefix = self.index_key("");
        let mut known = self.indexes().lock();
        for (key, bytes) in self.parts().store.list_metadata(&prefix)? {
            let name = Text::new(key.strip_prefix(&prefix).unwrap_or(&key));
            match Stored::decode(&bytes) {
                Some(stored) => drop(known.insert(name.clone(), Arc::new(self.definition(name, stored)))),
                None => tracing::error!(graph = self.name(), index = %name, "its definition cannot be read"),
            }
        }
        Ok(known.values().cloned().collect())
    }

    fn definition(&self, name: Text, stored: Stored) -> Definition {
        let intern = |name: &Text| self.symbols().intern(name);
        Definition { name, label: intern(&stored.label), key: stored.property.as_ref().map(intern), stored }
    }

    fn index_key(&self, name: &str) -> String {
        format!("{}index/{name}", self.id().metadata_prefix())
    }

    /// Builds an index that was there before. False when that is to be tried again.
    fn is_done_with(&self, definition: &Arc<Definition>, patience: Duration) -> bool {
        if self.is_closing() || !self.is_wanted(definition) {
            return true;
        }
        match self.build_index(definition, patience) {
            Ok(()) | Err(EngineError::NoSuchGraph(_)) => true,
            Err(error) => {
                tracing::error!(graph = self.name(), index = %definition.name, "the index is built later: {error}");
                self.note_care("indexes", Some(&error));
                false
            }
        }
    }

    /// Nothing waits for this but the caller: workers go on while the base is made. Where that fails, or nobody wants the index
    /// any more, they forget it: they would keep what changes for ever, and take it for what they are asked to keep the next
    /// time.
    fn build_index(&self, definition: &Arc<Definition>, patience: Duration) -> Result<(), EngineError> {
        let built = caught(|| self.begin_and_fill(definition, patience));
        // Whoever drops it from here on tells the workers after they were told to keep it.
        if built.is_err() || !self.is_wanted(definition) {
            self.let_go(definition.clone());
        }
        built
    }

    fn begin_and_fill(&self, definition: &Arc<Definition>, patience: Duration) -> Result<(), EngineError> {
        let workers = &self.parts().workers;
        let (sender, receiver) = crossbeam_channel::bounded(workers.count());
        let began = Command::BeginIndex { graph: self.id(), definition: definition.clone(), began: sender };
        self.committer().between(|_| workers.send(&began));
        drop(began);
        #[cfg(test)]
        assert!(!self.indexes().panics.load(std::sync::atomic::Ordering::SeqCst), "simulated: a mistake in weir");
        let mut bases: Vec<Option<SharedBatch>> = vec![None; workers.count()];
        for _ in 0..workers.count() {
            let began: Began = receiver.recv_timeout(patience).map_err(|_| self.committer().stuck())?;
            let mut until_check = NODES_BETWEEN_CHECKS;
            let mut go_on = || {
                until_check -= 1;
                if until_check > 0 {
                    return true;
                }
                until_check = NODES_BETWEEN_CHECKS;
                !self.is_closing() && self.is_wanted(definition)
            };
            match shard::base(definition, &began.batches, began.upper, &mut go_on) {
                Some(base) => bases[began.shard] = Some(base),
                None => return Ok(()),
            }
        }
        let (sender, receiver) = crossbeam_channel::bounded(workers.count());
        let fill =
            Command::FillIndex { graph: self.id(), definition: definition.clone(), bases: Arc::new(bases), filled: sender };
        self.committer().between(|_| workers.send(&fill));
        drop(fill);
        for _ in 0..workers.count() {
            receiver.recv_timeout(patience).map_err(|_| self.committer().stuck())?;
        }
        Ok(())
    }

    fn is_wanted(&self, definition: &Arc<Definition>) -> bool {
        self.indexes().lock().get(&definition.name).is_some_and(|known| Arc::ptr_eq(known, definition))
    }
}

/// Has each worker wait until something is taken out of what this gives.
#[cfg(test)]
pub(crate) fn hold_workers(graph: &Graph) -> crossbeam_channel::Receiver<()> {
    let (filled, held) = crossbeam_channel::bounded(0);
    let stored = Stored { label: "nothing".into(), property: None };
    let definition = Arc::new(graph.definition("nothing".into(), stored));
    let fill = Command::FillIndex { graph: graph.id(), definition, bases: Arc::default(), filled };
    graph.committer().between(|_| graph.parts().workers.send(&fill));
    held
}

#[cfg(test)]
mod tests {
    use std::thread;

    use weir_model::{Mutations, NodeId};

    use super::*;
    use crate::store::InMemory;
    use crate::view::View;
    use crate::{Engine, Options};

    const WORKERS: usize = 2;

    fn open() -> (Engine, Graph) {
        let options = Options { workers: WORKERS, ..Options::default() };
        let engine = Engine::open(Arc::new(InMemory::default()), options).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        (engine, graph)
    }

    fn write(graph: &Graph, n: u64) {
        let mut mutations = Mutations::default();
        mutations.set_label(NodeId::spread(n), graph.symbols().intern("A"), true);
        graph.apply(mutations, 1).unwrap();
    }

    fn definition(graph: &Graph) -> Arc<Definition> {
        let stored = Stored { label: "A".into(), property: None };
        Arc::new(graph.definition("a".into(), stored))
    }

    /// How many nodes it finds, once all that was asked of the workers is done.
    fn found(graph: &Graph, definition: &Definition) -> Option<usize> {
        graph.wait_visible().unwrap();
        let snapshot = graph.snapshot();
        snapshot.index_entries(definition)?;
        let mut nodes = 0;
        snapshot.index_answer(&Question::of_label(definition.label), &mut |_| nodes += 1);
        Some(nodes)
    }

    #[test]
    fn an_index_that_could_not_be_built_is_built_later() {
        let (engine, graph) = open();
        let definition = definition(&graph);
        graph.indexes().lock().insert("a".into(), definition.clone());
        write(&graph, 0);
        let held = hold_workers(&graph);
        let failed = graph.build_index(&definition, Duration::from_millis(10));
        assert!(matches!(failed, Err(EngineError::WorkersStuck)), "{failed:?}");
        write(&graph, 1);
        thread::scope(|scope| {
            let index = (graph.clone(), definition.clone());
            let building = scope.spawn(|| build_all(vec![index], Duration::from_millis(200)));
            thread::sleep(Duration::from_millis(500));
            assert!(!building.is_finished(), "it is tried again");
            (0..WORKERS).for_each(|_| held.recv().unwrap());
        });
        assert_eq!(found(&graph, &definition), Some(2));
        write(&graph, 2);
        assert_eq!(found(&graph, &definition), Some(3));
        assert!(graph.drop_index(&definition.name).unwrap() && !graph.drop_index(&definition.name).unwrap());
        write(&graph, 3);
        assert_eq!(found(&graph, &definition), None);
        engine.shutdown().unwrap();
    }

    /// The thread ended with it, and the indexes were there for nobody until the next start.
    #[test]
    fn an_index_is_built_after_a_panic() {
        let (engine, graph) = open();
        let definition = definition(&graph);
        graph.indexes().lock().insert("a".into(), definition.clone());
        write(&graph, 0);
        let panics = |does: bool| graph.indexes().panics.store(does, std::sync::atomic::Ordering::SeqCst);
        panics(true);
        thread::scope(|scope| {
            let index = (graph.clone(), definition.clone());
            scope.spawn(|| build_all(vec![index], WORKERS_PATIENCE));
            let begun = Instant::now();
            while graph.neglected().is_empty() && begun.elapsed() < Duration::from_secs(40) {
                thread::sleep(Duration::from_millis(5));
            }
            let told = graph.neglected();
            // Whoever makes one hears of it at once, and nothing is left of it.
            let failed = graph.create_index(Some("b".into()), "B", None, false);
            panics(false);
            assert!(told["indexes"].contains("simulated: a mistake in weir"));
            assert!(matches!(failed, Err(EngineError::Panicked(_))) && graph.index_name("B", None).is_none(), "{failed:?}");
        });
        assert_eq!(found(&graph, &definition), Some(1));
        assert!(graph.neglected().is_empty());
        write(&graph, 1);
        assert_eq!(found(&graph, &definition), Some(2));
        engine.shutdown().unwrap();
    }

    /// It was dropped before the workers were asked to keep it.
    #[test]
    fn workers_keep_nothing_of_an_index_that_nobody_wants() {
        let (engine, graph) = open();
        let definition = definition(&graph);
        write(&graph, 0);
        graph.build_index(&definition, WORKERS_PATIENCE).unwrap();
        write(&graph, 1);
        assert_eq!(found(&graph, &definition), None);
        engine.shutdown().unwrap();
    }

    #[test]
    fn indexes_that_cannot_be_built_hold_up_no_end() {
        let (engine, graph) = open();
        let definition = definition(&graph);
        graph.indexes().lock().insert("a".into(), definition.clone());
        let held = hold_workers(&graph);
        thread::scope(|scope| {
            let index = (graph.clone(), definition.clone());
            let building = scope.spawn(|| build_all(vec![index], Duration::from_millis(10)));
            thread::sleep(Duration::from_millis(100));
            engine.close_ingest();
            building.join().unwrap();
        });
        (0..WORKERS).for_each(|_| held.recv().unwrap());
        engine.shutdown().unwrap();
    }
}
