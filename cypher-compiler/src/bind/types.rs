//! What the text alone tells about types: literals, truth values, nodes, edges, paths. Enough to refuse what cannot work
//! (`1 AND true`, `type(n)`) with a place; parameters, properties and function results pass and are judged when they run.

use weir_model::expression::{Binary, SubqueryKind};
use weir_model::{Expr, Value};

use super::{Binder, Draft, Holds};
use crate::error::{Code, Span};

const BOOLEAN: &str = "Boolean";
const INTEGER: &str = "Integer";
const FLOAT: &str = "Float";
pub const TEXT: &str = "String";
pub const LIST: &str = "List<T>";

/// What some functions take of the types that can be told here.
const ARGUMENTS: &[(&str, &[&str])] = &[
    ("labels", &["Node", "Relationship"]),
    ("type", &["Relationship"]),
    ("id", &["Node", "Relationship"]),
    ("strId", &["Node"]),
    ("length", &["Path", TEXT, LIST]),
    ("nodes", &["Path"]),
    ("relationships", &["Path"]),
    ("size", &[TEXT, LIST]),
    ("keys", &["Map", "Node", "Relationship"]),
    ("properties", &["Map", "Node", "Relationship"]),
];

/// The type of an expression where it is certain. Null has every type.
pub fn type_of(draft: &Draft, expr: &Expr) -> Option<&'static str> {
    Some(match expr {
        Expr::Literal(Value::Boolean(_)) => BOOLEAN,
        Expr::Literal(Value::Integer(_)) => INTEGER,
        Expr::Literal(Value::Float(_)) => FLOAT,
        Expr::Literal(Value::Text(_)) => TEXT,
        Expr::List(_) | Expr::Comprehension { .. } => LIST,
        Expr::Map(_) => "Map",
        Expr::Slot(slot) => match draft.holds(*slot) {
            Holds::Node => "Node",
            Holds::Edge => "Relationship",
            Holds::Path => "Path",
            _ => return draft.slots[slot.0 as usize].type_name,
        },
        Expr::Not(_) | Expr::And(_) | Expr::Or(_) | Expr::Xor(..) | Expr::IsNull { .. } | Expr::Quantifier { .. } => BOOLEAN,
        Expr::HasLabels { .. } | Expr::Clocked(_) => BOOLEAN,
        Expr::Binary { operator, left, right } => match operator {
            Binary::Power => FLOAT,
            Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulo => {
                match (type_of(draft, left)?, type_of(draft, right)?) {
                    (INTEGER, INTEGER) => INTEGER,
                    (INTEGER | FLOAT, INTEGER | FLOAT) => FLOAT,
                    (TEXT, TEXT | INTEGER | FLOAT) | (INTEGER | FLOAT, TEXT) if *operator == Binary::Add => TEXT,
                    (LIST, _) | (_, LIST) if *operator == Binary::Add => LIST,
                    _ => return None,
                }
            }
            _ => BOOLEAN,
        },
        Expr::Let { of, .. } => return type_of(draft, of),
        Expr::Negate(of) => type_of(draft, of).filter(|name| matches!(*name, INTEGER | FLOAT))?,
        Expr::Subquery(subquery) => match subquery.kind {
            SubqueryKind::Exists => BOOLEAN,
            SubqueryKind::Count => "Integer",
            SubqueryKind::Collect(_) => LIST,
        },
        _ => return None,
    })
}

/// The type that all elements of a list have, where that is certain. Null has every type.
pub fn element_type(draft: &Draft, list: &Expr) -> Option<&'static str> {
    let common = |mut types: Vec<Option<&'static str>>| {
        types.dedup();
        match types.as_slice() {
            [one] => *one,
            _ => None,
        }
    };
    match list {
        Expr::List(items) => common(items.iter().filter(|item| !is_null(item)).map(|item| type_of(draft, item)).collect()),
        Expr::Slot(slot) => draft.slots[slot.0 as usize].element_type,
        Expr::Slice { of, .. } | Expr::Comprehension { list: of, result: None, .. } => element_type(draft, of),
        Expr::Comprehension { result: Some(result), .. } => type_of(draft, result),
        Expr::Call { function, .. } if function.name == "range" => Some(INTEGER),
        _ => None,
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(Value::Null))
}

impl Binder<'_> {
    fn check_type(&mut self, expr: &Expr, span: Span, wanted: &[&str], shown: &str) {
        if let Some(found) = type_of(&self.draft, expr)
            && !wanted.contains(&found)
        {
            self.error(span, Code::InvalidArgumentType, format!("Type mismatch: expected {shown} but was {found}"));
        }
    }

    pub fn expect_boolean(&mut self, expr: &Expr, span: Span) {
        self.check_type(expr, span, &[BOOLEAN], BOOLEAN);
    }

    /// WHERE takes a list for whether it has elements.
    pub fn expect_condition(&mut self, expr: &Expr, span: Span) {
        self.check_type(expr, span, &[BOOLEAN, LIST], BOOLEAN);
    }

    pub fn expect_list(&mut self, expr: &Expr, span: Span) {
        self.check_type(expr, span, &[LIST], LIST);
    }

    /// An operand of `- * / % ^`. What is known of times and durations is known when they run.
    pub fn expect_number(&mut self, expr: &Expr, span: Span) {
        self.check_type(expr, span, &[INTEGER, FLOAT], "Integer, Float or Duration");
    }

    pub fn expect_properties(&mut self, expr: &Expr, span: Span) {
        let shown = "Map, Node, Relationship, Point, Duration, Date, Time, LocalTime, LocalDateTime or DateTime";
        self.check_type(expr, span, &["Map", "Node", "Relationship"], shown);
    }

    /// What has properties that can be set.
    pub fn expect_entity(&mut self, expr: &Expr, span: Span) {
        self.check_type(expr, span, &["Node", "Relationship"], "Node or Relationship");
    }

    pub fn expect_node(&mut self, expr: &Expr, span: Span) {
        self.check_type(expr, span, &["Node"], "Node");
    }

    pub fn expect_map(&mut self, expr: &Expr, span: Span) {
        self.check_type(expr, span, &["Map", "Node", "Relationship"], "Map, Node or Relationship");
    }

    pub fn expect_deletable(&mut self, expr: &Expr, span: Span) {
        if !matches!(expr, Expr::HasLabels { .. }) {
            self.check_type(expr, span, &["Node", "Path", "Relationship"], "Node, Path or Relationship");
        }
    }

    pub fn expect_argument(&mut self, function: &str, argument: &Expr, span: Span) {
        if let Some((_, wanted)) = ARGUMENTS.iter().find(|(name, _)| *name == function) {
            let shown = match wanted {
                [one] => (*one).to_owned(),
                [most @ .., last] => format!("{} or {last}", most.join(", ")),
                [] => String::new(),
            };
            self.check_type(argument, span, wanted, &shown);
        }
    }
}
