//! Which variables are visible, and the slots they stand for.

use rustc_hash::FxHashMap;
use weir_model::Text;
use weir_model::plan::Slot;

use super::Binder;
use crate::ast::Name;
use crate::error::Code;

/// Later entries hide earlier ones of the same name.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    variables: Vec<Variable>,
    /// Where the entry of a name stands that hides the others of it. Of tens of thousands none is looked for one by one.
    visible: FxHashMap<Text, usize>,
}

#[derive(Clone, Debug)]
struct Variable {
    name: Text,
    slot: Slot,
    /// Where the entry stands that this one hides.
    hides: Option<usize>,
}

impl Scope {
    pub fn get(&self, name: &str) -> Option<Slot> {
        self.visible.get(name).map(|at| self.variables[*at].slot)
    }

    pub fn insert(&mut self, name: &str, slot: Slot) {
        let name = Text::new(name);
        let hides = self.visible.insert(name.clone(), self.variables.len());
        self.variables.push(Variable { name, slot, hides });
    }

    pub fn len(&self) -> usize {
        self.variables.len()
    }

    pub fn truncate(&mut self, length: usize) {
        while self.variables.len() > length {
            let Some(Variable { name, hides, .. }) = self.variables.pop() else { return };
            match hides {
                Some(hidden) => self.visible.insert(name, hidden),
                None => self.visible.remove(&name),
            };
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|variable| variable.name.as_str())
    }

    /// All visible variables in alphabetical order: what `*` stands for.
    pub fn all(&self) -> Vec<(Text, Slot)> {
        let mut all: Vec<(Text, Slot)> = self.visible.iter().map(|(name, at)| (name.clone(), self.variables[*at].slot)).collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

impl Binder<'_> {
    /// The slot of a variable; an error where there is none.
    pub fn lookup(&mut self, name: &Name) -> Option<Slot> {
        let found = self.scope.get(&name.text);
        if found.is_none() {
            let hint = self.alike(&name.text, self.scope.names());
            self.error_with_hint(name.span, Code::UndefinedVariable, format!("Variable `{}` not defined", name.text), hint);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_variables_hide_earlier_ones_until_they_go() {
        let mut scope = Scope::default();
        for (slot, name) in ["b", "a", "b", "c", "b"].into_iter().enumerate() {
            scope.insert(name, Slot(slot as u32));
        }
        let all = |scope: &Scope| scope.all().into_iter().map(|(name, slot)| (name.to_string(), slot.0)).collect::<Vec<_>>();
        assert_eq!(all(&scope), [("a".to_owned(), 1), ("b".to_owned(), 4), ("c".to_owned(), 3)]);
        let copy = scope.clone();
        scope.truncate(4);
        assert_eq!((scope.get("b"), scope.get("c")), (Some(Slot(2)), Some(Slot(3))));
        scope.truncate(2);
        assert_eq!((scope.get("b"), scope.get("c")), (Some(Slot(0)), None));
        assert_eq!(all(&scope), [("a".to_owned(), 1), ("b".to_owned(), 0)]);
        scope.insert("c", Slot(9));
        assert_eq!(scope.get("c"), Some(Slot(9)));
        scope.truncate(0);
        assert_eq!((scope.get("a"), scope.len(), all(&scope).len()), (None, 0, 0));
        assert_eq!((copy.get("b"), copy.len()), (Some(Slot(4)), 5));
    }
}
