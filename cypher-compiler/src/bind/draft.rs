//! Draft: a plan in the making. The operators are those of the plan; beside them stands what later stages need to know
//! of each slot.

use std::ops::Deref;

use rustc_hash::FxHashMap;
use weir_model::expression::SubqueryKind;
use weir_model::plan::{Name, Operator, Slot};
use weir_model::{Expr, Text};

use super::types;
use crate::{Options, walk};

/// What kind of thing a slot can hold, as far as the text tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    Node,
    Edge,
    Path,
    /// Certainly no node, edge or path, also not inside a list or map.
    Plain,
    Anything,
}

#[derive(Debug)]
pub struct SlotInfo {
    /// The variable, for explain and errors; empty for anonymous ones.
    pub name: Text,
    /// Whether the query has another name for it, too, as behind `WITH a AS b`.
    pub is_renamed: bool,
    pub holds: Holds,
    /// The type of the value where the text tells it.
    pub type_name: Option<&'static str>,
    /// Of a list: the type all its elements have.
    pub element_type: Option<&'static str>,
}

impl SlotInfo {
    /// The name by which people are told of the slot. A slot with two names has none: either may be another variable's by then,
    /// as in `WITH a AS b, b AS a`.
    pub fn told(&self) -> Text {
        if self.is_renamed { Text::default() } else { self.name.clone() }
    }
}

#[derive(Debug)]
pub struct Draft {
    pub root: Operator,
    pub columns: Vec<(Text, Slot)>,
    pub slots: Vec<SlotInfo>,
    pub names: Numbered,
    pub parameters: Numbered,
}

/// Names in the order in which they were met, each with its number. Programs write texts with tens of thousands of them: none is
/// looked for among all the others.
#[derive(Debug, Default)]
pub struct Numbered {
    all: Vec<Text>,
    numbers: FxHashMap<Text, u32>,
}

impl Numbered {
    /// The number of a name, a new one if it was not met before.
    fn of(&mut self, text: &str) -> u32 {
        match self.numbers.get(text) {
            Some(number) => *number,
            None => self.add(Text::new(text)),
        }
    }

    /// A name that was met before keeps the number it has.
    fn add(&mut self, name: Text) -> u32 {
        let number = self.all.len() as u32;
        self.all.push(name.clone());
        *self.numbers.entry(name).or_insert(number)
    }

    pub fn into_all(self) -> Vec<Text> {
        self.all
    }
}

impl Deref for Numbered {
    type Target = [Text];

    fn deref(&self) -> &[Text] {
        &self.all
    }
}

impl Draft {
    pub fn new(options: &Options) -> Draft {
        let mut parameters = Numbered::default();
        for name in &options.parameters {
            parameters.add(name.clone());
        }
        Draft { root: Operator::Unit, columns: Vec::new(), slots: Vec::new(), names: Numbered::default(), parameters }
    }

    pub fn new_slot(&mut self, name: &str, holds: Holds) -> Slot {
        self.slots.push(SlotInfo { name: Text::new(name), is_renamed: false, holds, type_name: None, element_type: None });
        Slot((self.slots.len() - 1) as u32)
    }

    /// A slot for the value of an expression.
    pub fn new_slot_for(&mut self, name: &str, expr: &Expr) -> Slot {
        let (holds, type_name) = (self.value_holds(expr), types::type_of(self, expr));
        let element_type = types::element_type(self, expr);
        self.slots.push(SlotInfo { name: Text::new(name), is_renamed: false, holds, type_name, element_type });
        Slot((self.slots.len() - 1) as u32)
    }

    /// A slot for the elements of a list.
    pub fn new_element_slot(&mut self, name: &str, list: &Expr) -> Slot {
        let (holds, type_name) = (self.element_holds(list), types::element_type(self, list));
        self.slots.push(SlotInfo { name: Text::new(name), is_renamed: false, holds, type_name, element_type: None });
        Slot((self.slots.len() - 1) as u32)
    }

    /// From here on the query calls the slot by this name.
    pub fn call(&mut self, slot: Slot, name: &str) {
        let info = &mut self.slots[slot.0 as usize];
        info.is_renamed |= info.name.as_str() != name;
    }

    pub fn holds(&self, slot: Slot) -> Holds {
        self.slots[slot.0 as usize].holds
    }

    pub fn name(&mut self, text: &str) -> Name {
        Name(self.names.of(text))
    }

    pub fn parameter(&mut self, text: &str) -> u32 {
        self.parameters.of(text)
    }

    /// What the value of an expression can be.
    pub fn value_holds(&self, expr: &Expr) -> Holds {
        let any_part = |parts: Vec<&Expr>| {
            if parts.into_iter().any(|part| self.value_holds(part) != Holds::Plain) { Holds::Anything } else { Holds::Plain }
        };
        match expr {
            Expr::Slot(slot) => self.holds(*slot),
            Expr::Literal(_) | Expr::Parameter(_) => Holds::Plain,
            Expr::HasLabels { .. } | Expr::Not(_) | Expr::And(_) | Expr::Or(_) | Expr::Xor(..) => Holds::Plain,
            Expr::IsNull { .. } | Expr::Negate(_) | Expr::Quantifier { .. } | Expr::Clocked(_) => Holds::Plain,
            // A stored value is never a node; only a map made in the query can hold one.
            Expr::Property { of, .. } | Expr::Index { of, .. } => match self.value_holds(of) {
                Holds::Anything => Holds::Anything,
                _ => Holds::Plain,
            },
            Expr::Binary { operator: weir_model::expression::Binary::Add, left, right } => any_part(vec![left, right]),
            Expr::Binary { .. } => Holds::Plain,
            Expr::Call { function, .. } if is_plain_function(function.name) => Holds::Plain,
            Expr::Call { function, arguments } => match function.name.to_ascii_lowercase().as_str() {
                "startnode" | "endnode" => Holds::Node,
                // What a node or an edge has is stored; a map stays as it is.
                "properties" => match arguments.first().map(|of| self.value_holds(of)) {
                    Some(Holds::Anything) => Holds::Anything,
                    _ => Holds::Plain,
                },
                _ => any_part(arguments.iter().collect()),
            },
            Expr::Let { of, .. } => self.value_holds(of),
            Expr::Subquery(subquery) => match &subquery.kind {
                SubqueryKind::Exists | SubqueryKind::Count => Holds::Plain,
                SubqueryKind::Collect(item) => any_part(vec![item]),
            },
            other => any_part(walk::children(other)),
        }
    }

    /// What the elements of a list-valued expression can be.
    fn element_holds(&self, list: &Expr) -> Holds {
        if self.value_holds(list) == Holds::Plain { Holds::Plain } else { Holds::Anything }
    }
}

/// Functions whose result is never a graph value whatever their arguments are.
fn is_plain_function(name: &str) -> bool {
    [
        "id",
        "strid",
        "idfrom",
        "locidfrom",
        "labels",
        "type",
        "keys",
        "size",
        "length",
        "tostring",
        "tojson",
        "meta.type",
        "degree",
    ]
    .contains(&name.to_ascii_lowercase().as_str())
}
