//! What the text alone tells about types: literals, truth values, nodes, edges, paths. Enough to refuse what cannot work
//! (`1 AND true`, `type(n)`) with a place; parameters, properties and function results pass and are judged when they run.

use weir_model::expression::Binary;
use weir_model::{Expr, Value};

use super::{Binder, Draft, Holds};
use crate::error::Span;

const BOOLEAN: &str = "Boolean";
const LIST: &str = "List<T>";

/// What some functions take of the types that can be told here.
const ARGUMENTS: &[(&str, &[&str])] = &[
    ("labels", &["Node", "Relationship"]),
    ("type", &["Relationship"]),
    ("id", &["Node", "Relationship"]),
    ("strId", &["Node"]),
    ("length", &["Path", "String", LIST]),
    ("nodes", &["Path"]),
    ("relationships", &["Path"]),
    ("size", &["String", LIST]),
    ("keys", &["Map", "Node", "Relationship"]),
    ("properties", &["Map", "Node", "Relationship"]),
];

/// The type of an expression where it is certain. Null has every type.
pub fn type_of(draft: &Draft, expr: &Expr) -> Option<&'static str> {
    Some(match expr {
        Expr::Literal(Value::Boolean(_)) => BOOLEAN,
        Expr::Literal(Value::Integer(_)) => "Integer",
        Expr::Literal(Value::Float(_)) => "Float",
        Expr::Literal(Value::Text(_)) => "String",
        Expr::List(_) | Expr::Comprehension { .. } => LIST,
        Expr::Map(_) => "Map",
        Expr::Slot(slot) => match draft.holds(*slot) {
            Holds::Node => "Node",
            Holds::Edge => "Relationship",
            Holds::Path => "Path",
            _ => return draft.slots[slot.0 as usize].type_name,
        },
        Expr::Not(_) | Expr::And(_) | Expr::Or(_) | Expr::Xor(..) | Expr::IsNull { .. } | Expr::Quantifier { .. } => BOOLEAN,
        Expr::HasLabels { .. } => BOOLEAN,
        Expr::Binary { operator, .. } => match operator {
            Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulo | Binary::Power => return None,
            _ => BOOLEAN,
        },
        _ => return None,
    })
}

impl Binder<'_> {
    fn expect(&mut self, expr: &Expr, span: Span, wanted: &[&str], shown: &str) {
        if let Some(found) = type_of(&self.draft, expr)
            && !wanted.contains(&found)
        {
            self.error(span, "InvalidArgumentType", format!("Type mismatch: expected {shown} but was {found}"));
        }
    }

    pub fn expect_boolean(&mut self, expr: &Expr, span: Span) {
        self.expect(expr, span, &[BOOLEAN], BOOLEAN);
    }

    /// WHERE takes a list for whether it has elements.
    pub fn expect_condition(&mut self, expr: &Expr, span: Span) {
        self.expect(expr, span, &[BOOLEAN, LIST], BOOLEAN);
    }

    pub fn expect_list(&mut self, expr: &Expr, span: Span) {
        self.expect(expr, span, &[LIST], LIST);
    }

    pub fn expect_properties(&mut self, expr: &Expr, span: Span) {
        let shown = "Map, Node, Relationship, Point, Duration, Date, Time, LocalTime, LocalDateTime or DateTime";
        self.expect(expr, span, &["Map", "Node", "Relationship"], shown);
    }

    pub fn expect_argument(&mut self, function: &str, argument: &Expr, span: Span) {
        if let Some((_, wanted)) = ARGUMENTS.iter().find(|(name, _)| *name == function) {
            let shown = match wanted {
                [one] => (*one).to_owned(),
                [most @ .., last] => format!("{} or {last}", most.join(", ")),
                [] => String::new(),
            };
            self.expect(argument, span, wanted, &shown);
        }
    }
}
