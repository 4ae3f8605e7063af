//! Keys: what rows are grouped by, or told apart by.
//!
//! Among them may be a list that many rows in turn share (`WITH collect(m) AS ms UNWIND ms AS m …`): a row would be as much work
//! as the list is long. So a list or a map that is the same memory as the one of the row before is neither gone through nor
//! counted again. That two of them are one is seen by their memory first, too, as ever (`Value::same`).

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHasher;
use weir_model::Value;
use weir_model::extent::weight;

/// The values of a row, with a hash of them.
#[derive(Clone, Default)]
pub(super) struct Key {
    pub values: Vec<Value>,
    /// By `Keys::hash`.
    hash: u64,
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.hash == other.hash && self.values == other.values
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// What is known of the keys so far.
#[derive(Default)]
pub(super) struct Keys {
    /// By place, the list or the map that was there last.
    last: Vec<Option<Shared>>,
}

struct Shared {
    value: Value,
    hash: u64,
    /// With a key that is kept.
    is_counted: bool,
}

impl Keys {
    /// Gives the key the hash of its values.
    pub fn hash(&mut self, key: &mut Key) {
        let mut hasher = FxHasher::default();
        for (place, value) in key.values.iter().enumerate() {
            match value {
                Value::List(_) | Value::Map(_) => hasher.write_u64(self.hash_of(place, value)),
                other => other.hash(&mut hasher),
            }
        }
        key.hash = hasher.finish();
    }

    fn hash_of(&mut self, place: usize, value: &Value) -> u64 {
        if let Some(Some(last)) = self.last.get(place)
            && is_same_memory(&last.value, value)
        {
            return last.hash;
        }
        let mut hasher = FxHasher::default();
        value.hash(&mut hasher);
        let hash = hasher.finish();
        if self.last.len() <= place {
            self.last.resize_with(place + 1, || None);
        }
        self.last[place] = Some(Shared { value: value.clone(), hash, is_counted: false });
        hash
    }

    /// The bytes of a key that is kept from now on, whose hash was made last.
    pub fn weight(&mut self, key: &Key) -> usize {
        let mut bytes = 0;
        for (place, value) in key.values.iter().enumerate() {
            let shared = match value {
                Value::List(_) | Value::Map(_) => self.last.get_mut(place).and_then(Option::as_mut),
                _ => None,
            };
            let is_counted = shared.is_some_and(|shared| std::mem::replace(&mut shared.is_counted, true));
            bytes += if is_counted { size_of::<Value>() } else { weight(value) };
        }
        bytes
    }
}

fn is_same_memory(x: &Value, y: &Value) -> bool {
    match (x, y) {
        (Value::List(x), Value::List(y)) => Arc::ptr_eq(x, y),
        (Value::Map(x), Value::Map(y)) => Arc::ptr_eq(x, y),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keys: &mut Keys, values: &[Value]) -> Key {
        let mut key = Key { values: values.to_vec(), hash: 0 };
        keys.hash(&mut key);
        key
    }

    #[test]
    fn keys_are_alike_where_their_values_are_the_same() {
        let mut keys = Keys::default();
        let list = |n: i64| Value::list(vec![Value::Integer(n), Value::text("x")]);
        let (one, again) = (list(1), list(1));
        for rest in [Value::Integer(7), Value::Null, list(3)] {
            let first = key(&mut keys, &[one.clone(), rest.clone()]);
            assert!(first == key(&mut keys, &[one.clone(), rest.clone()]));
            assert!(first == key(&mut keys, &[again.clone(), rest.clone()]));
            assert!(first == key(&mut keys, &[one.clone(), rest.clone()]));
            assert!(first != key(&mut keys, &[list(2), rest.clone()]));
            assert!(first != key(&mut keys, &[rest.clone(), one.clone()]));
            assert!(first != key(&mut keys, &[one.clone(), Value::Integer(8)]));
        }
    }

    #[test]
    fn what_keys_share_is_counted_once() {
        let mut keys = Keys::default();
        let list = Value::list(vec![Value::Integer(1); 1_000]);
        let mut weight_of = |values: &[Value]| {
            let key = key(&mut keys, values);
            keys.weight(&key)
        };
        let whole = weight_of(&[list.clone(), Value::Integer(1)]);
        assert!(whole > 1_000 * size_of::<Value>());
        assert_eq!(weight_of(&[list.clone(), Value::Integer(2)]), 2 * size_of::<Value>());
        // The same values in another place of memory are there once more.
        let other = Value::list(vec![Value::Integer(1); 1_000]);
        assert_eq!(weight_of(&[other, Value::Integer(3)]), whole);
    }
}
