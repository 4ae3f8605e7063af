//! The symbol table of an engine: strings that recur in every fact (property keys, labels, edge types) as numbers.
//!
//! Append-only. Numbers are given in order and stored before the first tick that uses them is durable, so a symbol
//! means the same string for as long as the store lives. Resolving takes a read lock; callers that resolve per record
//! (the evaluator, for keys that come with the data) keep a cache of their own.

use std::sync::RwLock;

use rustc_hash::FxHashMap;
use weir_model::expression::FailureKind;
use weir_model::lock::{read, write};
use weir_model::mutation::Tag;
use weir_model::{Failure, Symbol, Text};

/// Stands for a string that has no number. It is never given, so nothing in any graph has it. The one after it is that of
/// bundles.
pub const UNKNOWN: Symbol = Symbol((1 << Tag::SYMBOL_BITS) - 2);

pub struct Symbols {
    table: RwLock<Table>,
    /// So many numbers can be given: more would run into what a tag says besides.
    most: usize,
}

impl Default for Symbols {
    fn default() -> Symbols {
        Symbols { table: RwLock::default(), most: UNKNOWN.0 as usize }
    }
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
        Symbols { table: RwLock::new(Table { names, numbers }), ..Symbols::default() }
    }

    /// A table of which so many numbers can be given.
    #[cfg(test)]
    pub fn with_most(most: usize) -> Symbols {
        Symbols { most, ..Symbols::default() }
    }

    /// The number of a string, given now if it has none. Where all are given it is `UNKNOWN`, which is right for who only reads:
    /// the string never will name anything. Who writes asks `number`.
    pub fn intern(&self, name: &str) -> Symbol {
        if let Some(symbol) = self.get(name) {
            return symbol;
        }
        let mut table = write(&self.table);
        if let Some(symbol) = table.numbers.get(name) {
            return *symbol;
        }
        if table.names.len() >= self.most {
            return UNKNOWN;
        }
        let symbol = Symbol(table.names.len() as u32);
        table.names.push(name.into());
        table.numbers.insert(name.into(), symbol);
        symbol
    }

    /// As `intern`, for what is to be written.
    pub fn number(&self, name: &str) -> Result<Symbol, Failure> {
        let symbol = self.intern(name);
        if symbol == UNKNOWN { Err(self.full(name)) } else { Ok(symbol) }
    }

    /// Why a string has no number and gets none.
    pub fn full(&self, name: &str) -> Failure {
        let message = format!(
            "`{name}` cannot be a new property key, label or relationship type: this weir has {} of them, as many as it can, \
             those of all namespaces together, also where nothing has them any more. Write what the data gives as values and not \
             as keys; a new store that an export is imported into counts anew",
            self.most
        );
        Failure::new(FailureKind::ConstraintViolation, message)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_numbers_are_given_than_there_are() {
        let symbols = Symbols::with_most(2);
        let known = ["a", "b"].map(|name| symbols.number(name).expect("there is room"));
        assert_eq!(known, [Symbol(0), Symbol(1)]);
        let refused = symbols.number("c").expect_err("it is full").message;
        assert!(refused.contains("`c`") && refused.contains("has 2"), "{refused}");
        assert_eq!((symbols.intern("c"), symbols.get("c"), symbols.len()), (UNKNOWN, None, 2));
        assert_eq!(symbols.number("b").ok(), Some(Symbol(1)));
        // The last that can be given is apart from what stands for none.
        assert_eq!(Tag::new(weir_model::mutation::Kind::Property, UNKNOWN).symbol(), UNKNOWN);
        assert!(Symbols::default().most <= UNKNOWN.0 as usize);
    }
}
