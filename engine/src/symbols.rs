//! The symbol table of an engine: strings that recur in every fact (property keys, labels, edge types) as numbers.
//!
//! Append-only. Numbers are given in order and stored before the first tick that uses them is durable, so a symbol
//! means the same string for as long as the store lives. Resolving takes a read lock; who resolves by record or by row
//! (evaluators, for keys that come with the data, and workers) keeps a `SymbolCache`.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::{Arc, RwLock};

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
    /// How many numbers can be given: more would run into what a tag says besides.
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

    /// A table of which at most `most` numbers can be given.
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

/// Symbols below this are found by their place. Above it lie names that records make up, and a run meets few of them.
const FEW: usize = 1024;

/// When more of those are known they are forgotten: a worker meets them for as long as there are standing queries.
const OTHERS_MAX: usize = 1 << 16;

/// The symbols that one thread has met. The shared table is asked, and locked, once a string.
pub struct SymbolCache<S> {
    symbols: S,
    /// By position in the last map: records of a stream mostly have the same keys in the same order.
    by_position: RefCell<Vec<(Text, Symbol)>>,
    by_text: RefCell<FxHashMap<Text, Symbol>>,
    /// Those of the first numbers, as far as they were asked for, and the others: one run must not cost as much as all names
    /// there ever were.
    by_symbol: RefCell<BySymbol>,
}

type BySymbol = (Vec<Option<Text>>, FxHashMap<Symbol, Text>);

/// Those that a worker has met in a graph.
pub type WorkerSymbols = SymbolCache<Arc<Symbols>>;

impl<S: Deref<Target = Symbols>> SymbolCache<S> {
    pub fn new(symbols: S) -> SymbolCache<S> {
        SymbolCache { symbols, by_position: RefCell::default(), by_text: RefCell::default(), by_symbol: RefCell::default() }
    }

    /// The symbol of a string that is written, given now if it has none.
    pub fn intern(&self, text: &Text) -> Result<Symbol, Failure> {
        if let Some(symbol) = self.by_text.borrow().get(text) {
            return Ok(*symbol);
        }
        let symbol = self.symbols.number(text)?;
        self.by_text.borrow_mut().insert(text.clone(), symbol);
        Ok(symbol)
    }

    /// As `intern`, for the entry of a map with this position.
    pub fn intern_at(&self, position: usize, text: &Text) -> Result<Symbol, Failure> {
        let mut known = self.by_position.borrow_mut();
        Ok(match known.get_mut(position) {
            Some((last, symbol)) if last == text => *symbol,
            Some(slot) => {
                *slot = (text.clone(), self.intern(text)?);
                slot.1
            }
            None => {
                let symbol = self.intern(text)?;
                // Out of turn only after a skipped entry: then there is nothing to gain.
                if known.len() == position {
                    known.push((text.clone(), symbol));
                }
                symbol
            }
        })
    }

    /// The symbol of a string that may name nothing in this engine.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        if let Some(symbol) = self.by_text.borrow().get(text) {
            return Some(*symbol);
        }
        let symbol = self.symbols.get(text)?;
        self.by_text.borrow_mut().insert(text.into(), symbol);
        Some(symbol)
    }

    /// The table all of them come from.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    pub fn text(&self, symbol: Symbol) -> Text {
        self.read(symbol, Text::clone)
    }

    /// Whether a symbol stands for a string.
    pub fn is(&self, symbol: Symbol, text: &str) -> bool {
        self.read(symbol, |own| own.as_str() == text)
    }

    fn read<T>(&self, symbol: Symbol, read: impl FnOnce(&Text) -> T) -> T {
        let at = symbol.0 as usize;
        let (few, others) = &mut *self.by_symbol.borrow_mut();
        if at >= FEW {
            if others.len() >= OTHERS_MAX && !others.contains_key(&symbol) {
                others.clear();
            }
            return read(others.entry(symbol).or_insert_with(|| self.symbols.name(symbol)));
        }
        if few.len() <= at {
            few.resize(at + 1, None);
        }
        read(few[at].get_or_insert_with(|| self.symbols.name(symbol)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_costs_does_not_grow_with_its_number() {
        let symbols = Symbols::default();
        for n in 0..5000 {
            symbols.intern(&format!("name {n}"));
        }
        let (names, last) = (SymbolCache::new(&symbols), Symbol(4999));
        for symbol in [last, Symbol(3), Symbol(FEW as u32 - 1), Symbol(FEW as u32), last] {
            let text = format!("name {}", symbol.0);
            assert_eq!(names.text(symbol).as_str(), text);
            assert!(names.is(symbol, &text) && !names.is(symbol, "name") && names.find(&text) == Some(symbol));
        }
        let (few, others) = &*names.by_symbol.borrow();
        assert_eq!((few.len(), others.len()), (FEW, 2));
    }

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
