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
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use weir_model::lock::lock;
use weir_model::schema::Schema;
use weir_model::{Symbol, Text, Value, codec};

use crate::arrangement::SharedBatch;
use crate::command::Command;
use crate::error::EngineError;
use crate::handle::Graph;

pub use lookup::Question;

/// How long anyone waits for the workers before it is called a failure.
const WORKERS_PATIENCE: Duration = Duration::from_secs(60);

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
}

impl Catalog {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Text, Arc<Definition>>> {
        lock(&self.definitions)
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
        self.build_index(&definition).inspect_err(|_| {
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
        let Some(definition) = self.indexes().lock().remove(name) else { return Ok(false) };
        self.parts().store.delete_metadata(&self.index_key(name))?;
        let command = Command::DropIndex { graph: self.id(), definition };
        self.committer().between(|_| self.parts().workers.send(&command));
        Ok(true)
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

    /// Nothing waits for this but the caller: workers go on while the base is made.
    pub(crate) fn build_index(&self, definition: &Arc<Definition>) -> Result<(), EngineError> {
        let workers = &self.parts().workers;
        let (sender, receiver) = crossbeam_channel::bounded(workers.count());
        let began = Command::BeginIndex { graph: self.id(), definition: definition.clone(), began: sender };
        self.committer().between(|_| workers.send(&began));
        drop(began);
        let mut bases: Vec<Option<SharedBatch>> = vec![None; workers.count()];
        for _ in 0..workers.count() {
            let began: Began = receiver.recv_timeout(WORKERS_PATIENCE).map_err(|_| self.committer().stuck())?;
            let mut until_check = NODES_BETWEEN_CHECKS;
            let mut go_on = || {
                until_check -= 1;
                if until_check > 0 {
                    return true;
                }
                until_check = NODES_BETWEEN_CHECKS;
                !self.parts().closing.load(Ordering::Relaxed) && self.is_wanted(definition)
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
            receiver.recv_timeout(WORKERS_PATIENCE).map_err(|_| self.committer().stuck())?;
        }
        Ok(())
    }

    fn is_wanted(&self, definition: &Arc<Definition>) -> bool {
        self.indexes().lock().get(&definition.name).is_some_and(|known| Arc::ptr_eq(known, definition))
    }
}
