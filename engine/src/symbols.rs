//! The symbol table of an engine: strings that recur in every fact (property keys, labels, edge types) as numbers.
//!
//! Append-only. Numbers are given in order and stored before the first tick that uses them is durable, so a symbol
//! means the same string for as long as the store lives. Resolving takes a read lock; callers that resolve per record
//! (the evaluator, for keys that come with the data) keep a cache of their own.

use std::sync::RwLock;

use rustc_hash::FxHashMap;
use weir_model::lock::{read, write};
use weir_model::{Symbol, Text};

#[derive(Default)]
pub struct Symbols {
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    names: Vec<Text>,
    numbers: FxHashMap<Text, Symbol>,
}

impl Symbols {
    /// The table as read from a store; `names[i]` is the string of symbol i.
    pub fn load(names: Vec<Text>) -> Symbols {
        let numbers = names.iter().enumerate().map(|(i, name)| (name.clone(), Symbol(i as u32))).collect();
        Symbols { table: RwLock::new(Table { names, numbers }) }
    }

    /// The number of a string, given now if it has none.
    pub fn intern(&self, name: &str) -> Symbol {
        if let Some(symbol) = self.get(name) {
            return symbol;
        }
        let mut table = write(&self.table);
        if let Some(symbol) = table.numbers.get(name) {
            return *symbol;
        }
        let symbol = Symbol(table.names.len() as u32);
        table.names.push(name.into());
        table.numbers.insert(name.into(), symbol);
        symbol
    }

    pub fn get(&self, name: &str) -> Option<Symbol> {
        read(&self.table).numbers.get(name).copied()
    }

    pub fn name(&self, symbol: Symbol) -> Text {
        read(&self.table).names.get(symbol.0 as usize).cloned().unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        read(&self.table).names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The strings from a number on: what a store has not seen yet.
    pub fn since(&self, from: usize) -> Vec<Text> {
        read(&self.table).names.get(from..).unwrap_or_default().to_vec()
    }
}
