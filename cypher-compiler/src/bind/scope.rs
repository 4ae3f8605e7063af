//! Which variables are visible, and the slots they stand for.

use weir_model::Text;
use weir_model::plan::Slot;

use super::Binder;
use crate::ast::Name;
use crate::error::{Code, nearest};

/// Later entries hide earlier ones of the same name.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    variables: Vec<(Text, Slot)>,
}

impl Scope {
    pub fn get(&self, name: &str) -> Option<Slot> {
        self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, slot)| *slot)
    }

    pub fn insert(&mut self, name: &str, slot: Slot) {
        self.variables.push((Text::new(name), slot));
    }

    pub fn len(&self) -> usize {
        self.variables.len()
    }

    pub fn truncate(&mut self, length: usize) {
        self.variables.truncate(length);
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| name.as_str())
    }

    /// All visible variables in alphabetical order: what `*` stands for.
    pub fn all(&self) -> Vec<(Text, Slot)> {
        let mut all: Vec<(Text, Slot)> = Vec::new();
        for (name, slot) in self.variables.iter().rev() {
            if !all.iter().any(|(known, _)| known == name) {
                all.push((name.clone(), *slot));
            }
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

impl Binder<'_> {
    /// The slot of a variable; an error where there is none.
    pub fn lookup(&mut self, name: &Name) -> Option<Slot> {
        let found = self.scope.get(&name.text);
        if found.is_none() {
            let hint = nearest(&name.text, self.scope.names());
            self.error_with_hint(name.span, Code::UndefinedVariable, format!("Variable `{}` not defined", name.text), hint);
        }
        found
    }
}
