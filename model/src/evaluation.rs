//! The value of an expression over a row.
//!
//! Inside, values are passed as `Cow`: a slot, a parameter, a literal, and what is reached from them by key or index is
//! borrowed, so that `$that.process_id = 7` copies nothing. A row is only read; expressions that bind a variable of their
//! own (comprehensions, quantifiers, reduce) work on a copy of it, made once for the whole list.
//!
//! Logic is three-valued. Whatever has no value is a `Failure`; nothing panics, whatever the plan or the row holds.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

use crate::arithmetic::{self, mismatch};
use crate::clock;
use crate::expression::{Binary, Context, Expr, Failure, FailureKind, Quantifier};
use crate::extent::{self, Holding, Parts};
use crate::id::NodeId;
use crate::java_regex;
use crate::membership;
use crate::plan::Slot;
use crate::temporal;
use crate::value::{Text, Value};

type Outcome<'a> = Result<Cow<'a, Value>, Failure>;

impl Expr {
    pub fn evaluate(&self, row: &[Value], context: &dyn Context) -> Result<Value, Failure> {
        self.look(row, context).map(Cow::into_owned)
    }

    /// As `evaluate`, without a copy of what can be borrowed.
    pub fn look<'a>(&'a self, row: &'a [Value], context: &'a dyn Context) -> Outcome<'a> {
        let owned = match self {
            Expr::Literal(value) => return Ok(Cow::Borrowed(value)),
            Expr::Slot(slot) => return Ok(Cow::Borrowed(row.get(slot.0 as usize).unwrap_or(&Value::Null))),
            Expr::Parameter(index) => return Ok(Cow::Borrowed(context.parameter(*index))),
            Expr::Property { of, key } if let Some(node) = node_in(of, row) => context.property(node, *key),
            Expr::Property { of, key } => return property(of.look(row, context)?, context.name(*key), Some(*key), context),
            Expr::HasLabels { of, labels } => match &*of.look(row, context)? {
                Value::Null => Value::Null,
                Value::Node(node) => Value::Boolean(labels.iter().all(|label| context.has_label(*node, *label))),
                Value::FullNode(node) => {
                    Value::Boolean(labels.iter().all(|label| node.labels.iter().any(|have| have == context.name(*label))))
                }
                Value::Edge(edge) => Value::Boolean(labels.iter().all(|label| edge.kind == context.name(*label))),
                Value::FullEdge(edge) => Value::Boolean(labels.iter().all(|label| edge.key.kind == context.name(*label))),
                other => return Err(mismatch("Node, Relationship", other, "label test")),
            },
            Expr::Index { of, index } => {
                let (of, _held) = of.hold(row, context)?;
                let index = index.look(row, context)?;
                return at_index(of, &index, context);
            }
            Expr::Slice { of, from, to } => slice(of, from.as_deref(), to.as_deref(), row, context)?,
            Expr::Not(of) => match truth(of, row, context)? {
                None => Value::Null,
                Some(x) => Value::Boolean(!x),
            },
            Expr::And(terms) => decide(terms, false, row, context)?,
            Expr::Or(terms) => decide(terms, true, row, context)?,
            Expr::Xor(left, right) => match (truth(left, row, context)?, truth(right, row, context)?) {
                (Some(x), Some(y)) => Value::Boolean(x != y),
                _ => Value::Null,
            },
            Expr::IsNull { of, negated } => Value::Boolean(of.look(row, context)?.is_null() != *negated),
            Expr::Negate(of) => arithmetic::negate(&*of.look(row, context)?)?,
            Expr::Binary { operator: Binary::In, left, right } if let Expr::List(items) = &**right => {
                let (x, _held) = left.hold(row, context)?;
                membership::listed(&x, items, row, context)?.map_or(Value::Null, Value::Boolean)
            }
            Expr::Binary { operator, left, right } => {
                let (left, held) = left.hold(row, context)?;
                let right = right.look(row, context)?;
                drop(held);
                if *operator == Binary::Add {
                    extent::check_sum(&left, &right, context)?;
                }
                binary(*operator, &left, right, context)?
            }
            Expr::List(items) => {
                let (mut list, mut parts) = (Vec::with_capacity(items.len()), Parts::new(context));
                for item in items {
                    let item = item.evaluate(row, context)?;
                    parts.add(&item)?;
                    list.push(item);
                }
                Value::list(list)
            }
            Expr::Map(entries) => {
                let (mut map, mut parts) = (crate::value::Map::with_capacity(entries.len()), Parts::new(context));
                for (key, value) in entries {
                    let value = value.evaluate(row, context)?;
                    parts.add_entry(key, &value)?;
                    map.insert(key.clone(), value);
                }
                Value::Map(map.into())
            }
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    if condition.look(row, context)?.is_true() {
                        return result.look(row, context);
                    }
                }
                return otherwise.look(row, context);
            }
            Expr::Call { function, arguments } => call(function, arguments, row, context)?,
            Expr::Comprehension { slot, list, filter, result } => {
                comprehension(*slot, list, filter.as_deref(), result.as_deref(), row, context)?
            }
            Expr::Quantifier { kind, slot, list, condition } => quantifier(*kind, *slot, list, condition, row, context)?,
            Expr::Reduce { total, initial, slot, list, step } => {
                let (list, _list) = list.hold(row, context)?;
                let Some(items) = elements(&list, "reduce list")? else { return Ok(Cow::Owned(Value::Null)) };
                let (mut inner, _row) = copy(row, context)?;
                let mut held = Holding::new(context);
                let first = initial.evaluate(row, context)?;
                held.add(&first)?;
                let grown = match first {
                    Value::List(_) => only_added(step, *total, End::Back).or_else(|| only_added(step, *total, End::Front)),
                    Value::Text(_) => only_added(step, *total, End::Back),
                    _ => None,
                };
                if let Some(added) = grown
                    && !items.is_empty()
                {
                    // It counts as part of what is made.
                    held.clear();
                    return gathered(&first, &added, *slot, items, &mut inner, context).map(Cow::Owned);
                }
                put(&mut inner, *total, first);
                for item in items {
                    context.spend(1)?;
                    put(&mut inner, *slot, item.clone());
                    let next = step.evaluate(&inner, context)?;
                    held.clear();
                    // What grows with every round is looked at in every round.
                    let bytes = extent::measured(&next, context.room())?;
                    put(&mut inner, *total, next);
                    held.add_measured(&inner[total.0 as usize], bytes)?;
                }
                std::mem::take(&mut inner[total.0 as usize])
            }
            Expr::Let { slot, value, of } => {
                let (mut inner, mut held) = copy(row, context)?;
                let value = value.evaluate(row, context)?;
                held.add(&value)?;
                put(&mut inner, *slot, value);
                of.evaluate(&inner, context)?
            }
            Expr::Subquery(subquery) => context.subquery(subquery, row)?,
            Expr::Clocked(condition) => clock::clocked(condition, row, context)?,
        };
        Ok(Cow::Owned(owned))
    }

    /// As `look`, for a value beside which more is made: what is not borrowed counts until then.
    #[inline]
    fn hold<'a>(&'a self, row: &'a [Value], context: &'a dyn Context) -> Result<(Cow<'a, Value>, Holding<'a>), Failure> {
        let value = self.look(row, context)?;
        let mut held = Holding::new(context);
        if let Cow::Owned(value) = &value {
            held.add(value)?;
        }
        Ok((value, held))
    }
}

/// True, false or null of a condition; anything else is a mismatch.
fn truth(expr: &Expr, row: &[Value], context: &dyn Context) -> Result<Option<bool>, Failure> {
    match &*expr.look(row, context)? {
        Value::Boolean(x) => Ok(Some(*x)),
        Value::Null => Ok(None),
        other => Err(mismatch("Bool", other, "logical operator")),
    }
}

/// AND (`decisive` false) and OR (`decisive` true): the first decisive term ends it; nulls leave it open.
fn decide(terms: &[Expr], decisive: bool, row: &[Value], context: &dyn Context) -> Result<Value, Failure> {
    let mut result = Value::Boolean(!decisive);
    for term in terms {
        match truth(term, row, context)? {
            Some(x) if x == decisive => return Ok(Value::Boolean(decisive)),
            Some(_) => {}
            None => result = Value::Null,
        }
    }
    Ok(result)
}

fn binary(operator: Binary, x: &Value, right: Cow<'_, Value>, context: &dyn Context) -> Result<Value, Failure> {
    let y = &*right;
    let boolean = |answer: Option<bool>| answer.map_or(Value::Null, Value::Boolean);
    let compared = |holds: fn(Ordering) -> bool| match x.compare(y) {
        Some(order) => Value::Boolean(holds(order)),
        // A NaN is not less than any number, and not greater either; with other types there is no answer.
        None if is_number(x) && is_number(y) => Value::Boolean(false),
        None => Value::Null,
    };
    Ok(match operator {
        Binary::Equal => boolean(x.equals_in(y, context)?),
        Binary::NotEqual => boolean(x.equals_in(y, context)?.map(|equal| !equal)),
        Binary::Less => compared(Ordering::is_lt),
        Binary::LessOrEqual => compared(Ordering::is_le),
        Binary::Greater => compared(Ordering::is_gt),
        Binary::GreaterOrEqual => compared(Ordering::is_ge),
        Binary::Add => arithmetic::add(x, y)?,
        Binary::Subtract => arithmetic::subtract(x, y)?,
        Binary::Multiply => arithmetic::multiply(x, y)?,
        Binary::Divide => arithmetic::divide(x, y)?,
        Binary::Modulo => arithmetic::modulo(x, y)?,
        Binary::Power => arithmetic::power(x, y)?,
        Binary::In => boolean(membership::contained(x, right, context)?),
        Binary::StartsWith => of_texts(x, y, |x, y| x.starts_with(y)),
        Binary::EndsWith => of_texts(x, y, |x, y| x.ends_with(y)),
        Binary::Contains => of_texts(x, y, |x, y| x.contains(y)),
        Binary::Regex => match (x, y) {
            (Value::Text(text), Value::Text(pattern)) => {
                Value::Boolean(java_regex::matches(pattern, text, &|steps| context.spend(steps))?)
            }
            _ => Value::Null,
        },
        Binary::Same => Value::Boolean(x.same(y)),
    })
}

impl Value {
    /// As `equals`, and the context is told of what is compared.
    #[inline]
    pub fn equals_in(&self, other: &Value, context: &dyn Context) -> Result<Option<bool>, Failure> {
        Compared::new(context).equal(self, other)
    }
}

/// The elements of lists and maps that were compared, of which the context is told as it goes on: a list may have millions.
pub(crate) struct Compared<'c> {
    context: &'c dyn Context,
    elements: Cell<usize>,
}

impl<'c> Compared<'c> {
    pub(crate) fn new(context: &'c dyn Context) -> Compared<'c> {
        Compared { context, elements: Cell::new(0) }
    }

    /// As `Value::equals`.
    #[inline]
    pub(crate) fn equal(&self, x: &Value, y: &Value) -> Result<Option<bool>, Failure> {
        match (x, y) {
            (Value::List(_), Value::List(_)) | (Value::Map(_), Value::Map(_)) => x.equals_told(y, &|| self.one()),
            _ => Ok(x.equals(y)),
        }
    }

    fn one(&self) -> Result<(), Failure> {
        const TOLD_AT_A_TIME: usize = 64;
        let elements = self.elements.get() + 1;
        self.elements.set(elements % TOLD_AT_A_TIME);
        if elements == TOLD_AT_A_TIME { self.context.spend(TOLD_AT_A_TIME / 8) } else { Ok(()) }
    }
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Integer(_) | Value::Float(_))
}

/// Anything but two strings gives null.
fn of_texts(x: &Value, y: &Value, holds: fn(&str, &str) -> bool) -> Value {
    match (x, y) {
        (Value::Text(x), Value::Text(y)) => Value::Boolean(holds(x, y)),
        _ => Value::Null,
    }
}

/// The node in a slot, which is what is asked for properties most.
fn node_in(of: &Expr, row: &[Value]) -> Option<NodeId> {
    let Expr::Slot(slot) = of else { return None };
    if let Some(Value::Node(node)) = row.get(slot.0 as usize) { Some(*node) } else { None }
}

/// `of.key` and `of['key']`. `name` is given when the key is one of the plan's names, which the graph finds faster.
fn property<'a>(of: Cow<'a, Value>, key: &str, name: Option<crate::plan::Name>, context: &dyn Context) -> Outcome<'a> {
    let value = match &of {
        // Whatever lives longer than this expression is borrowed from.
        Cow::Borrowed(Value::Map(map)) => return Ok(borrowed(map.get(key))),
        Cow::Borrowed(Value::FullNode(node)) => return Ok(borrowed(node.properties.get(key))),
        Cow::Borrowed(Value::FullEdge(edge)) => return Ok(borrowed(edge.properties.get(key))),
        Cow::Owned(Value::Map(map)) => map.get(key).cloned().unwrap_or_default(),
        Cow::Owned(Value::FullNode(node)) => node.properties.get(key).cloned().unwrap_or_default(),
        Cow::Owned(Value::FullEdge(edge)) => edge.properties.get(key).cloned().unwrap_or_default(),
        other => match &**other {
            Value::Null => Value::Null,
            Value::Node(node) => match name {
                Some(name) => context.property(*node, name),
                None => context.property_by_text(*node, key),
            },
            Value::Edge(edge) => context.edge_property(edge, key),
            other => temporal::component(other, key).ok_or_else(|| {
                mismatch("Map, Node, Relationship, LocalDateTime, DateTime, Duration", other, "property access")
            })??,
        },
    };
    Ok(Cow::Owned(value))
}

fn borrowed(value: Option<&Value>) -> Cow<'_, Value> {
    Cow::Borrowed(value.unwrap_or(&Value::Null))
}

fn at_index<'a>(of: Cow<'a, Value>, index: &Value, context: &dyn Context) -> Outcome<'a> {
    if of.is_null() || index.is_null() {
        return Ok(Cow::Owned(Value::Null));
    }
    match (&of, index) {
        (Cow::Borrowed(Value::List(items)), Value::Integer(i)) => Ok(borrowed(position(*i, items.len()).map(|i| &items[i]))),
        (Cow::Owned(Value::List(items)), Value::Integer(i)) => {
            Ok(Cow::Owned(position(*i, items.len()).map(|i| items[i].clone()).unwrap_or_default()))
        }
        (of, index) if matches!(**of, Value::List(_)) => Err(mismatch("Integer", index, "index into list")),
        (_, Value::Text(key)) => property(of, key, None, context),
        (other, index) if is_keyed(other) => {
            let failure = mismatch("Str", index, "dynamic property access");
            Err(Failure { kind: FailureKind::KeyIsNoText, ..failure })
        }
        (other, _) => Err(mismatch("Map, Node, Relationship, List(Anything)", other, "dynamic property access")),
    }
}

fn is_keyed(value: &Value) -> bool {
    matches!(value, Value::Map(_) | Value::Node(_) | Value::Edge(_) | Value::FullNode(_) | Value::FullEdge(_))
}

/// The place an index means: negative counts from the end.
fn position(index: i64, length: usize) -> Option<usize> {
    let at = if index < 0 { index + length as i64 } else { index };
    usize::try_from(at).ok().filter(|at| *at < length)
}

fn slice(of: &Expr, from: Option<&Expr>, to: Option<&Expr>, row: &[Value], context: &dyn Context) -> Result<Value, Failure> {
    let (list, _held) = of.hold(row, context)?;
    let items = match &*list {
        Value::Null => return Ok(Value::Null),
        Value::List(items) => items,
        other => return Err(mismatch("List(Anything)", other, "list slice")),
    };
    let bound = |expr: Option<&Expr>, default: usize| -> Result<Option<usize>, Failure> {
        let Some(expr) = expr else { return Ok(Some(default)) };
        match &*expr.look(row, context)? {
            Value::Null => Ok(None),
            Value::Integer(i) => {
                let at = if *i < 0 { i + items.len() as i64 } else { *i };
                Ok(Some(at.clamp(0, items.len() as i64) as usize))
            }
            other => Err(mismatch("Integer", other, "list slice")),
        }
    };
    Ok(match (bound(from, 0)?, bound(to, items.len())?) {
        (Some(from), Some(to)) => {
            context.spend(to.saturating_sub(from) / 8)?;
            Value::List(items[from.min(to)..to].into())
        }
        _ => Value::Null,
    })
}

fn call(
    function: &'static crate::expression::Function,
    arguments: &[Expr],
    row: &[Value],
    context: &dyn Context,
) -> Result<Value, Failure> {
    let run = |values: &[Value]| {
        if function.null_in_null_out && values.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        let taken = extent_of(values);
        let glances = || matches!(values, [Value::List(_), ..]) && GLANCES.contains(&function.name);
        if taken > 0 && !glances() {
            context.spend(taken)?;
        }
        let result = (function.run)(context, values)?;
        match extent_of(std::slice::from_ref(&result)) {
            0 => {}
            made => context.spend(made)?,
        }
        Ok(result)
    };
    let mut held = Holding::new(context);
    let mut value = |argument: &Expr| -> Result<Value, Failure> {
        let value = argument.evaluate(row, context)?;
        held.add(&value)?;
        Ok(value)
    };
    // Most calls have few arguments: those stay off the heap.
    match arguments {
        [] => run(&[]),
        [a] => run(&[value(a)?]),
        [a, b] => run(&[value(a)?, value(b)?]),
        [a, b, c] => run(&[value(a)?, value(b)?, value(c)?]),
        many => run(&many.iter().map(value).collect::<Result<Vec<_>, _>>()?),
    }
}

/// Functions that take a large list as it is, without going through it.
const GLANCES: [&str; 5] = ["size", "head", "last", "isEmpty", "coalesce"];

/// How large values are, in steps for `Context::spend`; none for what is small.
fn extent_of(values: &[Value]) -> usize {
    let steps = |value: &Value| match value {
        Value::Text(text) => text.len() / 256,
        Value::Bytes(bytes) => bytes.len() / 256,
        Value::List(items) => items.len() / 8,
        Value::Map(map) => map.len() / 8,
        _ => 0,
    };
    values.iter().map(steps).sum()
}

fn elements<'v>(list: &'v Value, place: &str) -> Result<Option<&'v [Value]>, Failure> {
    match list {
        Value::Null => Ok(None),
        Value::List(items) => Ok(Some(items)),
        other => Err(mismatch("List(Anything)", other, place)),
    }
}

/// Slots of a well-formed plan lie in the row; a row that is too short grows rather than panics.
fn put(row: &mut Vec<Value>, slot: Slot, value: Value) {
    let at = slot.0 as usize;
    if at >= row.len() {
        row.resize(at + 1, Value::Null);
    }
    row[at] = value;
}

/// A copy of the row for what binds a variable of its own. It has the texts of the row once more.
fn copy<'c>(row: &[Value], context: &'c dyn Context) -> Result<(Vec<Value>, Holding<'c>), Failure> {
    let held = Holding::of_copy(row, context)?;
    Ok((row.to_vec(), held))
}

fn comprehension(
    slot: Slot,
    list: &Expr,
    filter: Option<&Expr>,
    result: Option<&Expr>,
    row: &[Value],
    context: &dyn Context,
) -> Result<Value, Failure> {
    let (list, _list) = list.hold(row, context)?;
    let Some(items) = elements(&list, "filter comprehension")? else { return Ok(Value::Null) };
    let (mut inner, _row) = copy(row, context)?;
    let (mut values, mut parts) = (Vec::new(), Parts::new(context));
    for item in items {
        context.spend(1)?;
        put(&mut inner, slot, item.clone());
        if let Some(filter) = filter
            && !filter.look(&inner, context)?.is_true()
        {
            continue;
        }
        let value = match result {
            Some(result) => result.evaluate(&inner, context)?,
            None => item.clone(),
        };
        parts.add(&value)?;
        values.push(value);
    }
    Ok(Value::list(values))
}

/// Where something is added to a sum.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Back,
    Front,
}

struct Added<'e> {
    parts: Vec<&'e Expr>,
    at: End,
}

/// What `reduce(total = …, … | total + a + b)` adds, in order, or `b + (a + total)`, if all of it is made without the total. A
/// subquery sees the whole row.
fn only_added(step: &Expr, total: Slot, at: End) -> Option<Added<'_>> {
    fn mentions(expr: &Expr, slot: Slot) -> bool {
        match expr {
            Expr::Slot(other) => *other == slot,
            Expr::Subquery(_) => true,
            _ => expr.children().into_iter().any(|child| mentions(child, slot)),
        }
    }
    let (mut sum, mut parts) = (step, Vec::new());
    while let Expr::Binary { operator: Binary::Add, left, right } = sum {
        let (rest, part) = if at == End::Back { (left, right) } else { (right, left) };
        parts.push(&**part);
        sum = rest;
    }
    parts.reverse();
    let begins_with_it = matches!(sum, Expr::Slot(slot) if *slot == total);
    (begins_with_it && !parts.is_empty() && !parts.iter().any(|part| mentions(part, total))).then_some(Added { parts, at })
}

/// `reduce` of a text or a list to which something is added for each item. A list that grows at its front is gathered from its
/// end, everything in it backwards.
fn gathered(
    first: &Value,
    added: &Added<'_>,
    slot: Slot,
    items: &[Value],
    inner: &mut Vec<Value>,
    context: &dyn Context,
) -> Result<Value, Failure> {
    let parts = Parts::new(context);
    let mut grown = if let Value::Text(_) = first { Grown::Text(Text::default(), parts) } else { Grown::List(Vec::new(), parts) };
    let backwards = |value: &Value| match value {
        Value::List(items) if added.at == End::Front => Some(Value::list(items.iter().rev().cloned().collect())),
        _ => None,
    };
    grown.add(backwards(first).as_ref().unwrap_or(first), context)?;
    for item in items {
        context.spend(1)?;
        put(inner, slot, item.clone());
        for part in &added.parts {
            let looked_at = part.look(inner, context)?;
            let part: &Value = &looked_at;
            grown.add(backwards(part).as_ref().unwrap_or(part), context)?;
        }
    }
    Ok(match grown {
        Grown::Text(text, _) => Value::Text(text),
        Grown::List(mut values, _) => {
            if added.at == End::Front {
                values.reverse();
            }
            Value::list(values)
        }
        Grown::Null => Value::Null,
    })
}

/// A sum that grows in place, where `+` would copy it each time.
enum Grown<'c> {
    Text(Text, Parts<'c>),
    List(Vec<Value>, Parts<'c>),
    /// With null it is null and stays so; what would be added after it can still fail.
    Null,
}

impl<'c> Grown<'c> {
    /// As `arithmetic::add`.
    fn add(&mut self, more: &Value, context: &'c dyn Context) -> Result<(), Failure> {
        match (&mut *self, more) {
            (Grown::Null, _) => {}
            (grown, Value::Null) => *grown = Grown::Null,
            (Grown::Text(text, parts), Value::Text(more)) => append(text, parts, more, context)?,
            (Grown::Text(text, parts), Value::Integer(_) | Value::Float(_)) => append(text, parts, &more.to_text(), context)?,
            (Grown::Text(text, _), Value::List(_)) => {
                // It is the first element from here on. As a text it is not held any more.
                let first = Value::Text(std::mem::take(text));
                *self = Grown::Null;
                *self = Grown::List(Vec::new(), Parts::new(context));
                self.add(&first, context)?;
                self.add(more, context)?;
            }
            // Nothing else goes with a text: that is told as it always is.
            (Grown::Text(text, _), other) => arithmetic::add(&Value::Text(std::mem::take(text)), other).map(drop)?,
            (Grown::List(values, parts), Value::List(more)) => extend(values, parts, more, context)?,
            (Grown::List(values, parts), one) => extend(values, parts, std::slice::from_ref(one), context)?,
        }
        Ok(())
    }
}

fn append(text: &mut Text, parts: &mut Parts<'_>, more: &str, context: &dyn Context) -> Result<(), Failure> {
    context.spend(more.len() / 256)?;
    parts.add_bytes(more.len())?;
    text.push_str(more);
    Ok(())
}

fn extend(values: &mut Vec<Value>, parts: &mut Parts<'_>, more: &[Value], context: &dyn Context) -> Result<(), Failure> {
    context.spend(more.len() / 8)?;
    for value in more {
        parts.add(value)?;
        values.push(value.clone());
    }
    Ok(())
}

fn quantifier(
    kind: Quantifier,
    slot: Slot,
    list: &Expr,
    condition: &Expr,
    row: &[Value],
    context: &dyn Context,
) -> Result<Value, Failure> {
    let (list, _list) = list.hold(row, context)?;
    let place = match kind {
        Quantifier::All => "predicate in `all`",
        Quantifier::Any => "predicate in `any`",
        Quantifier::None => "predicate in `none`",
        Quantifier::Single => "predicate in `single`",
    };
    let Some(items) = elements(&list, place)? else { return Ok(Value::Null) };
    let (mut inner, _row) = copy(row, context)?;
    let (mut has_null, mut is_found) = (false, false);
    for item in items {
        context.spend(1)?;
        put(&mut inner, slot, item.clone());
        let holds = match &*condition.look(&inner, context)? {
            Value::Boolean(holds) => *holds,
            Value::Null => {
                has_null = true;
                continue;
            }
            other => return Err(mismatch("Bool", other, place)),
        };
        // What decides it ends it, as with AND and OR.
        match kind {
            Quantifier::All if !holds => return Ok(Value::Boolean(false)),
            Quantifier::Any if holds => return Ok(Value::Boolean(true)),
            Quantifier::None if holds => return Ok(Value::Boolean(false)),
            Quantifier::Single if holds && is_found => return Ok(Value::Boolean(false)),
            _ => is_found |= holds,
        }
    }
    Ok(match kind {
        _ if has_null => Value::Null,
        Quantifier::All | Quantifier::None => Value::Boolean(true),
        Quantifier::Any => Value::Boolean(false),
        Quantifier::Single => Value::Boolean(is_found),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{Function, GraphFree};
    use crate::extent::tests::{Counting, function};
    use crate::id::IdScheme;

    fn literal(value: Value) -> Box<Expr> {
        Box::new(Expr::Literal(value))
    }

    fn integers(items: &[i64]) -> Box<Expr> {
        literal(Value::list(items.iter().map(|n| Value::Integer(*n)).collect()))
    }

    fn run(expr: Expr) -> Result<Value, Failure> {
        expr.evaluate(&[Value::Null, Value::Null, Value::Null], &GraphFree::constants(IdScheme::Uuid))
    }

    fn check(expr: Expr, expected: Value) {
        let shown = format!("{expr:?}");
        assert_eq!(run(expr), Ok(expected), "{shown}");
    }

    fn binary(operator: Binary, x: Value, y: Value) -> Expr {
        Expr::Binary { operator, left: literal(x), right: literal(y) }
    }

    fn slot(n: u32) -> Box<Expr> {
        Box::new(Expr::Slot(Slot(n)))
    }

    #[test]
    fn logic_is_three_valued_and_stops_early() {
        use Value::{Boolean, Null};
        let term = |value: Value| Expr::Literal(value);
        let bad = || term(Value::Integer(1));
        check(Expr::And(vec![term(Null), term(Boolean(false)), bad()]), Boolean(false));
        check(Expr::And(vec![term(Null), term(Boolean(true))]), Null);
        check(Expr::Or(vec![term(Null), term(Boolean(true)), bad()]), Boolean(true));
        check(Expr::Or(vec![term(Boolean(false)), term(Null)]), Null);
        check(Expr::Xor(literal(Boolean(true)), literal(Null)), Null);
        check(Expr::Not(literal(Null)), Null);
        assert_eq!(run(Expr::And(vec![bad()])).map_err(|f| f.kind), Err(FailureKind::TypeMismatch));
    }

    #[test]
    fn comparisons_with_nan_are_false_and_across_types_null() {
        use Value::*;
        check(binary(Binary::Less, Float(f64::NAN), Integer(1)), Boolean(false));
        check(binary(Binary::GreaterOrEqual, Float(f64::NAN), Float(f64::NAN)), Boolean(false));
        check(binary(Binary::Less, Float(f64::NAN), Value::text("a")), Null);
        check(binary(Binary::Less, Integer(1), Value::text("a")), Null);
        check(binary(Binary::NotEqual, Float(f64::NAN), Float(f64::NAN)), Boolean(true));
        check(binary(Binary::Same, Integer(1), Float(1.0)), Boolean(false));
    }

    #[test]
    fn membership_is_open_when_a_null_could_be_it() {
        use Value::*;
        let list = |items: &[Value]| Value::list(items.to_vec());
        check(binary(Binary::In, Null, list(&[])), Boolean(false));
        check(binary(Binary::In, Integer(1), list(&[Null, Float(1.0)])), Boolean(true));
        check(binary(Binary::In, Integer(1), list(&[Null])), Null);
        check(binary(Binary::In, Integer(1), Null), Null);
    }

    #[test]
    fn text_operators_are_null_on_anything_else() {
        use Value::*;
        check(binary(Binary::StartsWith, Value::text("abc"), Value::text("ab")), Boolean(true));
        check(binary(Binary::Contains, Value::text("abc"), Integer(1)), Null);
        check(binary(Binary::Regex, Value::text("abc"), Value::text("ab")), Boolean(false));
        check(binary(Binary::Regex, Value::text("abc"), Value::text("a.c|x")), Boolean(true));
        check(binary(Binary::Regex, Null, Value::text("a")), Null);
    }

    #[test]
    fn a_regular_expression_counts_by_the_text_it_looks_at() {
        let context = Counting::new(1 << 20);
        let look = |bytes: usize| {
            let expr = binary(Binary::Regex, Value::text(&"a".repeat(bytes)), Value::text("a*[xy]b"));
            assert_eq!(expr.evaluate(&[], &context), Ok(Value::Boolean(false)));
            context.spent.take()
        };
        assert!(look(1) > 1, "it is compiled");
        assert_eq!(look(1), 1);
        assert!(look(64 << 10) > 16);
    }

    /// Whatever the function is, and on its way in as on its way out: of ten thousand rows each took its time, and nobody looked
    /// at the clock.
    #[test]
    fn calls_count_by_what_they_take_and_make() {
        static LENGTH: Function = function(|_, values| Ok(Value::Boolean(values.is_empty())));
        static LAST: Function = function(|_, values| Ok(values.last().cloned().unwrap_or_default()));
        let call = |function: &'static Function, arguments: &[Value]| {
            let context = Counting::new(64 << 20);
            let arguments = arguments.iter().cloned().map(Expr::Literal).collect();
            Expr::Call { function, arguments }.evaluate(&[], &context).expect("an answer");
            context.spent.get()
        };
        let text = Value::text(&"x".repeat(256 << 10));
        let list = Value::list(vec![Value::Null; 8 << 10]);
        assert_eq!(call(&LENGTH, &[]), 0);
        assert_eq!(call(&LENGTH, &[Value::text("short"), Value::Integer(1)]), 0);
        assert_eq!(call(&LENGTH, &[Value::text("short"), text.clone()]), 1 << 10);
        assert_eq!(call(&LENGTH, &[list.clone(), text.clone()]), 2 << 10);
        assert_eq!(call(&LAST, &[list, text.clone()]), 3 << 10);
        assert_eq!(call(&LAST, &[text, Value::Null]), 1 << 10);
    }

    #[test]
    fn equality_counts_by_what_it_compares() {
        let spent = |operator: Binary, x: &Value, y: &Value| {
            let context = Counting::new(1 << 30);
            binary(operator, x.clone(), y.clone()).evaluate(&[], &context).expect("an answer");
            context.spent.get()
        };
        let list = |item: &Value, count: usize| Value::list(vec![item.clone(); count]);
        let map = Value::map((0..10).map(|n| (Text::from(format!("k{n}")), Value::Integer(n))));
        let (short, long, of_maps) = (list(&Value::Null, 9), list(&Value::Null, 6_400), list(&map, 640));
        for operator in [Binary::Equal, Binary::NotEqual] {
            assert_eq!(spent(operator, &Value::Integer(1), &Value::Integer(1)), 0);
            assert_eq!(spent(operator, &short, &short), 0);
            assert_eq!(spent(operator, &long, &long), 800);
            assert_eq!(spent(operator, &of_maps, &of_maps), 880, "with what is in the maps");
            // What decides it ends it.
            assert_eq!(spent(operator, &long, &short), 0);
            assert_eq!(spent(operator, &of_maps, &list(&Value::Integer(1), 640)), 0);
        }
        let one_of = |item: &Value| Value::list(vec![item.clone()]);
        assert_eq!(spent(Binary::In, &long, &one_of(&long)), 800);
        let written = Expr::Binary {
            operator: Binary::In,
            left: literal(long.clone()),
            right: Box::new(Expr::List(vec![Expr::Literal(long.clone())])),
        };
        let context = Counting::new(1 << 30);
        assert_eq!(written.evaluate(&[], &context), Ok(Value::Null));
        assert_eq!(context.spent.get(), 800);
    }

    #[test]
    fn indices_and_slices_count_from_either_end() {
        let at = |i: i64| Expr::Index { of: integers(&[1, 2, 3]), index: literal(Value::Integer(i)) };
        check(at(0), Value::Integer(1));
        check(at(-1), Value::Integer(3));
        check(at(3), Value::Null);
        check(at(i64::MIN), Value::Null);
        let slice = |from: i64, to: i64| Expr::Slice {
            of: integers(&[1, 2, 3]),
            from: Some(literal(Value::Integer(from))),
            to: Some(literal(Value::Integer(to))),
        };
        check(slice(1, 9), Value::list(vec![Value::Integer(2), Value::Integer(3)]));
        check(slice(-2, -1), Value::list(vec![Value::Integer(2)]));
        check(slice(2, 1), Value::list(vec![]));
        check(slice(i64::MIN, i64::MAX), Value::list(vec![Value::Integer(1), Value::Integer(2), Value::Integer(3)]));
    }

    #[test]
    fn lists_bind_their_variable_in_a_copy_of_the_row() {
        let doubled = Expr::Binary { operator: Binary::Multiply, left: slot(1), right: literal(Value::Integer(2)) };
        let large = Expr::Binary { operator: Binary::Greater, left: slot(1), right: literal(Value::Integer(1)) };
        check(
            Expr::Comprehension {
                slot: Slot(1),
                list: integers(&[1, 2, 3]),
                filter: Some(Box::new(large.clone())),
                result: Some(Box::new(doubled)),
            },
            Value::list(vec![Value::Integer(4), Value::Integer(6)]),
        );
        let sum = Expr::Binary { operator: Binary::Add, left: slot(2), right: slot(1) };
        let reduce = Expr::Reduce {
            total: Slot(2),
            initial: literal(Value::Integer(10)),
            slot: Slot(1),
            list: integers(&[1, 2, 3]),
            step: Box::new(sum),
        };
        check(reduce, Value::Integer(16));
        let quantify =
            |kind| Expr::Quantifier { kind, slot: Slot(1), list: integers(&[1, 2]), condition: Box::new(large.clone()) };
        check(quantify(Quantifier::All), Value::Boolean(false));
        check(quantify(Quantifier::Any), Value::Boolean(true));
        check(quantify(Quantifier::None), Value::Boolean(false));
        check(quantify(Quantifier::Single), Value::Boolean(true));
        // What follows the one that decides is not looked at.
        let inverse = Expr::Binary { operator: Binary::Divide, left: literal(Value::Integer(1)), right: slot(1) };
        let is_one = Expr::Binary { operator: Binary::Equal, left: Box::new(inverse), right: literal(Value::Integer(1)) };
        let decided =
            |kind, items| Expr::Quantifier { kind, slot: Slot(1), list: integers(items), condition: Box::new(is_one.clone()) };
        check(decided(Quantifier::Any, &[1, 0]), Value::Boolean(true));
        check(decided(Quantifier::None, &[1, 0]), Value::Boolean(false));
        check(decided(Quantifier::All, &[2, 0]), Value::Boolean(false));
        check(decided(Quantifier::Single, &[1, 1, 0]), Value::Boolean(false));
    }

    #[test]
    fn a_text_or_a_list_that_is_added_to_grows_in_place() {
        use Value::{Integer, Null};
        let list = |items: &[Value]| Value::list(items.to_vec());
        let reduce = |initial: &Value, items: &Value, step: Expr| Expr::Reduce {
            total: Slot(2),
            initial: literal(initial.clone()),
            slot: Slot(1),
            list: literal(items.clone()),
            step: Box::new(step),
        };
        let and = |left: Expr, right: Expr| Expr::Binary { operator: Binary::Add, left: Box::new(left), right: Box::new(right) };
        let add = |right: Expr| and(*slot(2), right);
        let itself = || *slot(1);
        // Gives the answer by a sum that is copied each time.
        let plainly = |step: Expr| Expr::Case { branches: Vec::new(), otherwise: Box::new(step) };
        let inverse = Expr::Binary { operator: Binary::Divide, left: literal(Integer(1)), right: slot(1) };
        let doubled = Expr::List(vec![itself(), itself()]);
        let initials = [list(&[]), list(&[Integer(7), Value::text("x")]), Null, Integer(1), Value::text("t")];
        let items = [
            list(&[]),
            list(&[Integer(1), Value::text("x"), list(&[Integer(2), Null]), list(&[])]),
            list(&[Integer(1), Null, Integer(2)]),
            list(&[Null, Integer(0)]),
            list(&[Value::text("a text"), Value::Float(1.5), list(&[Value::text("y")]), Value::text("z")]),
            list(&[Value::text("x"), Value::Boolean(false)]),
            Value::list(vec![Integer(1); 3_000]),
            Null,
        ];
        let mut seen = [0; 4];
        for (initial, items) in initials.iter().flat_map(|initial| items.iter().map(move |items| (initial, items))) {
            let single = [itself(), inverse.clone(), doubled.clone(), Expr::Literal(Null), *slot(2)].map(add);
            let comma = || Expr::Literal(Value::text(","));
            let several = [
                and(add(comma()), itself()),
                and(and(add(itself()), comma()), inverse.clone()),
                and(add(Expr::Literal(Value::Boolean(true))), itself()),
                and(add(itself()), Expr::IsNull { of: slot(2), negated: false }),
                and(itself(), *slot(2)),
                and(Expr::List(vec![itself()]), *slot(2)),
                and(doubled.clone(), and(comma(), *slot(2))),
                and(and(inverse.clone(), comma()), *slot(2)),
                and(itself(), add(comma())),
            ];
            for step in single.into_iter().chain(several) {
                let grown = run(reduce(initial, items, step.clone()));
                assert_eq!(grown, run(reduce(initial, items, plainly(step.clone()))), "{initial:?} {items:?} {step:?}");
                match grown {
                    Ok(Value::List(_)) => seen[0] += 1,
                    Ok(Value::Text(_)) => seen[1] += 1,
                    Ok(_) => seen[2] += 1,
                    Err(_) => seen[3] += 1,
                }
            }
        }
        assert!(seen.iter().all(|count| *count > 5), "lists, texts, others, failures: {seen:?}");

        let context = Counting::new(64 << 20);
        let many = Value::list((0..4_000).map(Integer).collect());
        assert_eq!(reduce(&list(&[]), &many, add(itself())).evaluate(&[], &context), Ok(many.clone()));
        // Copied each time it takes a million.
        assert_eq!(context.spent.take(), 4_000);
        let in_front = reduce(&list(&[Null]), &many, and(Expr::List(vec![itself()]), *slot(2)));
        let turned = Value::list((0..4_000).rev().map(Integer).chain([Null]).collect());
        assert_eq!(in_front.evaluate(&[], &context), Ok(turned));
        assert_eq!(context.spent.take(), 4_000);

        let joined = reduce(&Value::text(""), &many, and(add(itself()), Expr::Literal(Value::text(", a text between them"))));
        let Ok(Value::Text(joined)) = joined.evaluate(&[], &context) else { panic!("no text") };
        assert!(joined.len() > 90_000 && joined.ends_with("3999, a text between them"), "{}", joined.len());
        // Copied each time it takes more than a million.
        assert_eq!(context.spent.get(), 4_000);
        let narrow = Counting::new(64 << 10);
        let too_long = reduce(&Value::text(""), &many, and(add(itself()), Expr::Literal(Value::text(", a text between them"))));
        assert_eq!(too_long.evaluate(&[], &narrow).map_err(|failure| failure.kind), Err(FailureKind::MemoryLimit));
    }

    #[test]
    fn properties_of_maps_are_found_by_key() {
        let map = Value::map([(Text::new("a"), Value::Integer(1))]);
        let at = |key: &str| Expr::Index { of: literal(map.clone()), index: literal(Value::text(key)) };
        check(at("a"), Value::Integer(1));
        check(at("b"), Value::Null);
        let bad = Expr::Index { of: literal(map.clone()), index: literal(Value::Integer(0)) };
        assert_eq!(run(bad).map_err(|f| f.kind), Err(FailureKind::KeyIsNoText));
    }
}
