//! What a conjunct of WHERE is: a condition the store can test at one node, or a filter over the finished row.

use std::sync::Arc;

use weir_model::{Expr, IdScheme, NodeId, Text, Value};

use super::Standing;
use crate::ast::{BinaryOperator, Expression, ExpressionKind};
use crate::functions::has_several_offsets;

pub enum Class {
    Property {
        node: usize,
        key: Text,
        local: Local,
    },
    /// `id(v)` or `strId(v)` compared with a constant.
    Id {
        node: usize,
        function: &'static str,
        value: Expression,
    },
    Filter,
}

#[derive(Clone, PartialEq)]
pub enum Local {
    Equal(Value),
    NotEqual(Value),
    IsNull,
    IsNotNull,
    Regex(Text),
}

impl Standing<'_> {
    pub fn classify(&self, conjunct: &Expression) -> Class {
        let property = |e: &Expression| match &*e.kind {
            ExpressionKind::Property(of, key) => Some((self.node_of(of.as_variable()?)?, key.text.clone())),
            _ => None,
        };
        let on = |e: &Expression, local: Local| property(e).map(|(node, key)| Class::Property { node, key, local });
        let class = match &*conjunct.kind {
            ExpressionKind::IsNull(of, true) => on(of, Local::IsNotNull),
            ExpressionKind::IsNull(of, false) => on(of, Local::IsNull),
            ExpressionKind::Call { .. } => exists(conjunct).and_then(|of| on(of, Local::IsNotNull)),
            ExpressionKind::Not(inner) => exists(inner).and_then(|of| on(of, Local::IsNull)),
            ExpressionKind::Binary(BinaryOperator::Equal, left, right) => {
                match literal(right).and_then(|value| on(left, Local::Equal(value))) {
                    Some(class) => Some(class),
                    None => self.id_condition(left, right).or_else(|| self.id_condition(right, left)),
                }
            }
            ExpressionKind::Binary(BinaryOperator::NotEqual, left, right) => {
                literal(right).and_then(|value| on(left, Local::NotEqual(value)))
            }
            ExpressionKind::Binary(BinaryOperator::Regex, left, right) => match &*right.kind {
                ExpressionKind::Text(regex) => on(left, Local::Regex(regex.clone())),
                _ => None,
            },
            _ => None,
        };
        class.unwrap_or(Class::Filter)
    }

    fn id_condition(&self, id: &Expression, value: &Expression) -> Option<Class> {
        let (function, variable) = id_call(id)?;
        let node = self.node_of(variable)?;
        let is_constant = literal(value).is_some()
            || match &*value.kind {
                ExpressionKind::Call { name, arguments, .. } => {
                    let least = if name.text.eq_ignore_ascii_case("locIdFrom") { 2 } else { 1 };
                    let known = ["idFrom", "locIdFrom"].iter().any(|known| name.text.eq_ignore_ascii_case(known));
                    known && arguments.len() >= least && arguments.iter().all(|argument| literal(argument).is_some())
                }
                _ => false,
            };
        is_constant.then(|| Class::Id { node, function, value: value.clone() })
    }
}

/// `id(v)` or `strId(v)`: the function as the table spells it, and the variable.
pub fn id_call(e: &Expression) -> Option<(&'static str, &Text)> {
    let ExpressionKind::Call { name, arguments, .. } = &*e.kind else { return None };
    let function = ["id", "strId"].into_iter().find(|known| name.text.eq_ignore_ascii_case(known))?;
    let [of] = arguments.as_slice() else { return None };
    Some((function, of.as_variable()?))
}

fn exists(e: &Expression) -> Option<&Expression> {
    match &*e.kind {
        ExpressionKind::Call { name, arguments, .. } if name.text.eq_ignore_ascii_case("exists") && arguments.len() == 1 => {
            arguments.first()
        }
        _ => None,
    }
}

/// A constant as it is written; `1 + 2` is none.
pub fn literal(e: &Expression) -> Option<Value> {
    Some(match &*e.kind {
        ExpressionKind::Null => Value::Null,
        ExpressionKind::Boolean(b) => Value::Boolean(*b),
        ExpressionKind::Integer(n) => Value::Integer(*n),
        ExpressionKind::Float(n) => Value::Float(*n),
        ExpressionKind::Text(text) => Value::Text(text.clone()),
        ExpressionKind::List(items) => Value::list(items.iter().map(literal).collect::<Option<Vec<_>>>()?),
        ExpressionKind::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| Some((key.text.clone(), literal(value)?)));
            Value::Map(Arc::new(entries.collect::<Option<weir_model::Map>>()?))
        }
        _ => return None,
    })
}

/// The node a constant names: an id, the integer of the `long` scheme, or its text.
pub fn node_id(value: &Value, ids: IdScheme) -> Option<NodeId> {
    match value {
        Value::Id(id) => Some(*id),
        Value::Integer(n) if matches!(ids, IdScheme::Long { .. }) => Some(NodeId::new(0, *n as u64)),
        Value::Text(text) => ids.parse(text),
        _ => None,
    }
}

/// What `id(n)` gives for the node.
pub fn id_value(id: NodeId, ids: IdScheme) -> Value {
    match ids {
        IdScheme::Long { .. } => Value::Integer(id.low as i64),
        _ => Value::Id(id),
    }
}

/// A call whose value differs from one moment to the next, the graph being the same: it could never be taken back rightly.
pub fn changes_by_itself(expr: &Expr) -> bool {
    let Expr::Call { function, arguments } = expr else { return false };
    let name = function.name.to_ascii_lowercase();
    // `datetime({timezone: n.zone})` is now, there.
    let is_zone = |key: &str| key.eq_ignore_ascii_case("timezone");
    let now_there = |argument: &Expr| match argument {
        Expr::Literal(Value::Map(map)) => map.iter().all(|(key, _)| is_zone(key)),
        Expr::Map(entries) => entries.iter().all(|(key, _)| is_zone(key)),
        _ => false,
    };
    match name.split_once('.').unwrap_or((&name, "")) {
        ("rand" | "randomuuid" | "timestamp", "") => true,
        ("date" | "time" | "localtime" | "datetime" | "localdatetime", of) => match of {
            "" => arguments.first().is_none_or(now_there) || has_offset_of_now(expr),
            "transaction" | "statement" | "realtime" => true,
            // Without a value it is now that is cut.
            "truncate" => arguments.len() == 1,
            _ => false,
        },
        _ => false,
    }
}

/// `time({hour: n.hour, timezone: 'Europe/Paris'})`: in a zone whose clocks are moved a time without a day has the offset of now.
pub fn has_offset_of_now(expr: &Expr) -> bool {
    let Expr::Call { function, arguments } = expr else { return false };
    let is_moved = |zone: &Value| matches!(zone, Value::Text(name) if has_several_offsets(name));
    // A zone alone is now, there. A base may have a day, which only its value tells.
    let decides = |key: &str| matches!(key, "time" | "datetime" | "offsetSeconds");
    function.name == "time"
        && match arguments.first() {
            Some(Expr::Literal(Value::Map(map))) => {
                map.len() > 1 && map.get("timezone").is_some_and(is_moved) && !map.iter().any(|(key, _)| decides(key))
            }
            Some(Expr::Map(entries)) => {
                let in_zone =
                    |(key, value): &(Text, Expr)| key == "timezone" && matches!(value, Expr::Literal(zone) if is_moved(zone));
                entries.len() > 1 && entries.iter().any(in_zone) && !entries.iter().any(|(key, _)| decides(key))
            }
            _ => false,
        }
}
