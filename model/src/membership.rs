//! Membership: `x IN list`.
//!
//! A long list that is asked again and again (a parameter, a constant, the list of a row before) is not searched from end to end
//! each time. Where its items are is kept by a hash that is the same for all that can be equal (`Value::equality_hash`), and
//! only those that share the hash of `x` are compared, as ever.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, Weak};

use crate::arithmetic::mismatch;
use crate::evaluation::Compared;
use crate::expression::{Context, Expr, Failure};
use crate::lock::lock;
use crate::value::Value;

/// Shorter lists are searched as soon as they are looked up.
const LONG: usize = 32;

/// A list is searched this often before its items are sorted, which takes as long as some searches: most lists are not asked
/// again.
const SEARCHES: usize = 8;

/// At most this many lists are known at a time: those that were asked last.
const LISTS: usize = 16;

/// The long lists that were asked what is in them. For whoever evaluates expressions over many rows.
#[derive(Debug, Default)]
pub struct Lists {
    /// The one that was asked last comes first. Under a lock, since contexts are shared; nobody waits for it long.
    asked: Mutex<Vec<Asked>>,
}

#[derive(Debug)]
struct Asked {
    /// Kept for the address of the list alone, which no other list has as long as this is here.
    list: Weak<[Value]>,
    searches: usize,
    members: Option<Arc<Members>>,
}

impl Lists {
    /// What is known of a list, once it was searched often enough.
    fn members(&self, list: &Arc<[Value]>) -> Option<Arc<Members>> {
        let mut asked = lock(&self.asked);
        // As long as it is known, a list that is gone keeps the memory its items lay in.
        asked.retain(|known| known.list.strong_count() > 0);
        match asked.iter().position(|known| std::ptr::eq(known.list.as_ptr(), Arc::as_ptr(list))) {
            Some(at) => asked[..=at].rotate_right(1),
            None => {
                asked.truncate(LISTS - 1);
                asked.insert(0, Asked { list: Arc::downgrade(list), searches: 0, members: None });
            }
        }
        let known = &mut asked[0];
        if known.searches < SEARCHES {
            known.searches += 1;
            return None;
        }
        Some(known.members.get_or_insert_with(|| Arc::new(Members::of(list))).clone())
    }
}

/// Where the items of a list are.
#[derive(Debug)]
struct Members {
    /// By hash, ascending, without nulls.
    by_hash: Vec<(u64, usize)>,
    has_null: bool,
}

impl Members {
    fn of(items: &[Value]) -> Members {
        let places = items.iter().enumerate().filter(|(_, item)| !item.is_null());
        let mut by_hash: Vec<(u64, usize)> = places.map(|(at, item)| (item.equality_hash(), at)).collect();
        by_hash.sort_unstable();
        Members { has_null: by_hash.len() < items.len(), by_hash }
    }

    /// Those that a value has to be compared with.
    fn alike(&self, x: &Value) -> &[(u64, usize)] {
        let hash = x.equality_hash();
        let from = &self.by_hash[self.by_hash.partition_point(|(other, _)| *other < hash)..];
        &from[..from.partition_point(|(other, _)| *other == hash)]
    }

    /// Whether a value is among these items, of which there are some.
    fn contain(&self, x: &Value, items: &[Value], context: &dyn Context) -> Result<Option<bool>, Failure> {
        if x.is_null() {
            return Ok(None);
        }
        let found = among(x, self.alike(x).iter().map(|(_, at)| &items[*at]), context)?;
        Ok(if self.has_null && found == Some(false) { None } else { found })
    }
}

/// Whether a value is in a list. None is null.
pub(crate) fn contained(x: &Value, list: Cow<'_, Value>, context: &dyn Context) -> Result<Option<bool>, Failure> {
    let items = match &*list {
        Value::Null => return Ok(None),
        Value::List(items) => items,
        other => return Err(mismatch("List(Anything)", other, "list containment")),
    };
    // As much whether it is searched or not: what a row may take must not depend on the rows before it.
    context.spend(items.len() / 4)?;
    // What was made for this row is not seen again.
    let is_kept = items.len() >= LONG && matches!(list, Cow::Borrowed(_));
    let lists = if is_kept { context.lists() } else { None };
    match lists.and_then(|lists| lists.members(items)) {
        Some(members) => members.contain(x, items, context),
        None => among(x, items.iter(), context),
    }
}

/// Whether a value is among those that are written one by one, `x IN [$a, n.b]`, each looked at where it is: no list is made of
/// them for every row. All are looked at, as one of them may fail.
pub(crate) fn listed(x: &Value, items: &[Expr], row: &[Value], context: &dyn Context) -> Result<Option<bool>, Failure> {
    context.spend(items.len() / 4)?;
    let (mut result, compared) = (Some(false), Compared::new(context));
    for item in items {
        let item = item.look(row, context)?;
        if result != Some(true) {
            result = match compared.equal(x, &item)? {
                Some(false) => result,
                other => other,
            };
        }
    }
    Ok(result)
}

/// True once one is equal; else null where that was the answer for one of them.
fn among<'v>(x: &Value, items: impl Iterator<Item = &'v Value>, context: &dyn Context) -> Result<Option<bool>, Failure> {
    let (mut result, compared) = (Some(false), Compared::new(context));
    for item in items {
        match compared.equal(x, item)? {
            Some(true) => return Ok(Some(true)),
            Some(false) => {}
            None => result = None,
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{Binary, GraphFree};
    use crate::id::{EdgeKey, IdScheme, NodeId};
    use crate::plan::Slot;
    use crate::random::{STEP, mix};
    use crate::value::{self, Map, Text};

    fn id(n: u64) -> NodeId {
        NodeId::new(0, n)
    }

    fn key(ordinal: u32) -> EdgeKey {
        EdgeKey { source: id(1), kind: Text::new("T"), target: id(2), ordinal }
    }

    fn full_node(n: u64) -> Value {
        Value::FullNode(value::FullNode { id: id(n), labels: Vec::new(), properties: Map::default() }.into())
    }

    fn full_edge(ordinal: u32) -> Value {
        Value::FullEdge(value::FullEdge { key: key(ordinal), properties: Map::default() }.into())
    }

    fn list(items: &[Value]) -> Value {
        Value::list(items.to_vec())
    }

    fn map(entries: &[(&str, Value)]) -> Value {
        Value::map(entries.iter().map(|(key, value)| (Text::new(key), value.clone())))
    }

    /// Of every kind, with those that are equal and not the same, and those that are null to one another.
    fn values() -> Vec<Value> {
        use Value::*;
        const EXACT: i64 = 1 << 53;
        const BEYOND: f64 = 9_223_372_036_854_775_808.0;
        const HOUR: i64 = 3_600 * 1_000_000_000;
        let mut values = vec![Null, Boolean(false), Boolean(true)];
        values.extend([0, 1, -1, EXACT, EXACT + 1, i64::MAX, i64::MAX - 1, i64::MIN].map(Integer));
        values.extend([0.0, -0.0, 1.0, -1.0, 0.5, EXACT as f64, BEYOND, -BEYOND, 1e300, f64::NAN, f64::INFINITY].map(Float));
        values.extend(["", "1", "a text that is longer than what lies in a value"].map(Value::text));
        values.extend([Bytes(id(1).to_bytes().to_vec().into()), Bytes(Arc::new([1])), Id(id(1)), Id(id(2))]);
        values.extend([Node(id(1)), Node(id(2)), full_node(1), full_node(3)]);
        values.extend([Edge(key(0).into()), Edge(key(1).into()), full_edge(0), full_edge(2)]);
        values.push(Path(value::Path { start: id(1), steps: vec![(key(0), id(2))] }.into()));
        values.extend([list(&[]), list(&[Null]), list(&[Integer(1)]), list(&[Float(1.0)]), list(&[Float(f64::NAN)])]);
        values.extend([list(&[Integer(1), Null]), list(&[Integer(2), Null]), list(&[Integer(1), Integer(2)])]);
        values.extend([map(&[]), map(&[("a", Null)]), map(&[("a", Integer(1))]), map(&[("a", Float(1.0))])]);
        values.extend([map(&[("a", Integer(1)), ("b", Null)]), map(&[("b", Integer(2)), ("a", Float(1.0))])]);
        values.extend([0, 1].map(|epoch_day| Date(value::Date { epoch_day })));
        values.extend([0, 1].map(|nano_of_day| LocalTime(value::LocalTime { nano_of_day })));
        values.push(Time(value::Time { nano_of_day: 0, offset_seconds: 0 }));
        values.push(Time(value::Time { nano_of_day: HOUR, offset_seconds: 3_600 }));
        values.extend([0, 1].map(|second| LocalDateTime(value::DateTime::utc(second, 0).local())));
        let utc = value::DateTime::utc(0, 0);
        values.extend([DateTime(value::DateTime { offset_seconds: 3_600, ..utc.clone() }.into()), DateTime(utc.into())]);
        let durations = [value::Duration::of(0, 1, 0, 0), value::Duration::of(0, 0, 86_400, 0)];
        values.extend(durations.into_iter().flatten().map(|duration| Duration(duration.into())));
        values
    }

    #[test]
    fn what_can_be_equal_has_one_hash() {
        let values = values();
        for (x, y) in values.iter().flat_map(|x| values.iter().map(move |y| (x, y))) {
            if !x.is_null() && !y.is_null() && x.equals(y) != Some(false) {
                assert_eq!(x.equality_hash(), y.equality_hash(), "{x:?} and {y:?}");
            }
        }
    }

    #[test]
    fn a_list_that_is_looked_up_answers_as_one_that_is_searched() {
        let (values, context) = (values(), GraphFree::rows(IdScheme::Uuid, &[]));
        let mut state = 7u64;
        let mut random = |below: usize| {
            state = state.wrapping_add(STEP);
            (mix(state) % below as u64) as usize
        };
        let mut answers = [0; 3];
        for round in 0..200 {
            // Of few kinds, so that there is an answer other than true and null; some are so short that they are searched.
            let kinds: Vec<usize> = (0..1 + random(6)).map(|_| random(values.len())).collect();
            let list = Value::list((0..LONG - 2 + random(9)).map(|_| values[kinds[random(kinds.len())]].clone()).collect());
            let Value::List(items) = &list else { panic!("a list") };
            let expr =
                Expr::Binary { operator: Binary::In, left: Box::new(Expr::Slot(Slot(0))), right: Box::new(Expr::Slot(Slot(1))) };
            // The first times it is searched in any case.
            for x in values.iter().chain(&values) {
                let expected = among(x, items.iter(), &context).expect("an answer");
                let row = [x.clone(), list.clone()];
                let found = expr.evaluate(&row, &context);
                assert_eq!(found, Ok(expected.map_or(Value::Null, Value::Boolean)), "round {round}: {x:?} in {list:?}");
                answers[expected.map_or(2, usize::from)] += 1;
            }
        }
        assert!(answers.iter().all(|count| *count > 500), "false, true, null: {answers:?}");
    }

    #[test]
    fn values_that_are_written_one_by_one_answer_as_a_list_of_them() {
        let (values, context) = (values(), GraphFree::constants(IdScheme::Uuid));
        let mut answers = [0; 3];
        for (one, other) in values.iter().flat_map(|one| values.iter().step_by(3).map(move |other| (one, other))) {
            let items = [one, other].map(Clone::clone);
            let written = Expr::List((1..3).map(|slot| Expr::Slot(Slot(slot))).collect());
            let expr = Expr::Binary { operator: Binary::In, left: Box::new(Expr::Slot(Slot(0))), right: Box::new(written) };
            for x in &values {
                let expected = among(x, items.iter(), &context).expect("an answer");
                let row = [x.clone(), one.clone(), other.clone()];
                let found = expr.evaluate(&row, &context);
                assert_eq!(found, Ok(expected.map_or(Value::Null, Value::Boolean)), "{x:?} in [{one:?}, {other:?}]");
                answers[expected.map_or(2, usize::from)] += 1;
            }
        }
        assert!(answers.iter().all(|count| *count > 500), "false, true, null: {answers:?}");
        // One that fails does so wherever it stands.
        let fails = Expr::Negate(Box::new(Expr::Literal(Value::text("x"))));
        let list = Expr::List(vec![Expr::Slot(Slot(0)), fails]);
        let expr = Expr::Binary { operator: Binary::In, left: Box::new(Expr::Slot(Slot(0))), right: Box::new(list) };
        assert!(expr.evaluate(&[Value::Integer(1)], &context).is_err());
    }

    /// As often as it takes.
    fn asked(list: &Value, x: i64, context: &dyn Context) -> Option<bool> {
        let mut answer = None;
        for _ in 0..=SEARCHES {
            answer = contained(&Value::Integer(x), Cow::Borrowed(list), context).expect("a list");
        }
        answer
    }

    #[test]
    fn a_list_is_not_taken_for_one_that_was_there_before() {
        let context = GraphFree::rows(IdScheme::Uuid, &[]);
        let list = |n: i64| Value::list(vec![Value::Integer(n); LONG]);
        let kept = list(-1);
        for n in 0..200 {
            assert_eq!((asked(&list(n), n, &context), asked(&list(n + 1), n, &context)), (Some(true), Some(false)));
            assert_eq!(asked(&kept, -1, &context), Some(true));
        }
        assert!(lock(&context.lists().expect("kept").asked).len() <= LISTS);
    }

    #[test]
    fn a_list_that_is_gone_is_let_go_when_one_that_is_known_is_asked() {
        let context = GraphFree::rows(IdScheme::Uuid, &[]);
        let [kept, gone] = [1, 2].map(|n| Value::list(vec![Value::Integer(n); LONG]));
        assert_eq!((asked(&kept, 1, &context), asked(&gone, 2, &context)), (Some(true), Some(true)));
        assert_eq!(lock(&context.lists().expect("kept").asked).len(), 2);
        drop(gone);
        assert_eq!(asked(&kept, 1, &context), Some(true));
        assert_eq!(lock(&context.lists().expect("kept").asked).len(), 1);
    }

    #[test]
    fn a_long_list_is_not_searched_for_every_row() {
        let context = GraphFree::rows(IdScheme::Uuid, &[]);
        let list = Value::list((0..10_000).flat_map(|n| [Value::Integer(n), Value::Float(n as f64 + 0.5)]).collect());
        let Value::List(items) = &list else { panic!("a list") };
        assert_eq!(asked(&list, -1, &context), Some(false));
        let members = context.lists().and_then(|lists| lists.members(items)).expect("it was asked often enough");
        for n in 0..20_000 {
            assert_eq!(members.alike(&Value::Integer(n)).len(), usize::from(n < 10_000), "{n}");
            assert_eq!(members.alike(&Value::Float(n as f64 + 0.5)).len(), usize::from(n < 10_000), "{n}.5");
        }
        // What is asked a few times is not sorted, and of what was made for one row nothing is kept.
        let other = Value::list(vec![Value::Null; LONG]);
        for _ in 0..3 {
            assert_eq!(contained(&Value::Integer(1), Cow::Borrowed(&other), &context), Ok(None));
            assert_eq!(contained(&Value::Integer(1), Cow::Owned(Value::list(vec![Value::Null; LONG])), &context), Ok(None));
        }
        let known: Vec<bool> = lock(&context.lists().expect("kept").asked).iter().map(|asked| asked.members.is_some()).collect();
        assert_eq!(known, [false, true]);
    }
}
