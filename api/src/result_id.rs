//! The id of a result: the same for a match and its cancellation, also in another life of the process.
//!
//! For DistinctId it is a function of the root's id alone, the one clients of the reference service see: murmur3 (128 bits,
//! x64, seed 0) of the bytes of the id. Otherwise it is made of the query and the whole row, whose maps are written by key.

use weir_model::{IdScheme, Map, NodeId, QueryId, Text, Value, codec};

use crate::wire::standing::Mode;

pub fn result_id(mode: Mode, query: QueryId, data: &Map, ids: IdScheme) -> NodeId {
    id_of(mode, query, data.iter(), ids)
}

/// A number for a result that comes of its data alone: not of the query's id, which is another in each run, nor of the order in
/// which its text has the columns.
pub fn result_hash(mode: Mode, data: &Map, ids: IdScheme) -> u64 {
    let id = id_of(mode, QueryId(NodeId::default()), data.in_order().into_iter(), ids);
    id.high ^ id.low
}

fn id_of<'a>(mode: Mode, query: QueryId, data: impl Iterator<Item = &'a (Text, Value)>, ids: IdScheme) -> NodeId {
    let mut data = data.peekable();
    let root = match (mode, data.peek()) {
        (Mode::DistinctId, Some((_, value))) => root_bytes(value, ids),
        _ => None,
    };
    murmur3(&root.unwrap_or_else(|| {
        let mut bytes = query.0.to_bytes().to_vec();
        data.for_each(|(_, value)| codec::encode(value, &mut bytes));
        bytes
    }))
}

fn root_bytes(value: &Value, ids: IdScheme) -> Option<Vec<u8>> {
    match value {
        Value::Id(id) => Some(id.to_bytes().to_vec()),
        Value::Integer(n) => Some(n.to_be_bytes().to_vec()),
        Value::Text(text) => match (ids, ids.parse(text)?) {
            (IdScheme::Long { .. }, id) => Some(id.low.to_be_bytes().to_vec()),
            (_, id) => Some(id.to_bytes().to_vec()),
        },
        _ => None,
    }
}

/// Both halves little endian, one after the other.
fn murmur3(bytes: &[u8]) -> NodeId {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let first = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let second = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let halves = |block: &[u8]| {
        let mut padded = [0; 16];
        padded[..block.len()].copy_from_slice(block);
        let n = u128::from_le_bytes(padded);
        (n as u64, (n >> 64) as u64)
    };
    let avalanche = |mut k: u64| {
        k = (k ^ k >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        k = (k ^ k >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        k ^ k >> 33
    };
    let (mut h1, mut h2) = (0u64, 0u64);
    let blocks = bytes.chunks_exact(16);
    let rest = blocks.remainder();
    for block in blocks {
        let (k1, k2) = halves(block);
        h1 = (h1 ^ first(k1)).rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ second(k2)).rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (k1, k2) = halves(rest);
    h1 ^= first(k1) ^ bytes.len() as u64;
    h2 ^= second(k2) ^ bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2) = (avalanche(h1), avalanche(h2));
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    NodeId::new(h1.swap_bytes(), h2.swap_bytes())
}

#[cfg(test)]
mod tests {
    use weir_model::FullNode;

    use super::*;

    /// Pairs of a root's id and the result id a running reference service gave it.
    #[test]
    fn distinct_results_have_the_recorded_ids() {
        let query = QueryId(NodeId::new(1, 2));
        for (root, expected) in [("74870099-1d9f-3eb0-a343-e723e4b2b100", "a141cc4b-6257-6e65-4caa-5b7eaafdf343")] {
            let id = IdScheme::Uuid.parse(root).expect("a UUID");
            for value in [Value::Id(id), Value::text(root)] {
                let data = Map::from_iter([(Text::new("id"), value)]);
                assert_eq!(result_id(Mode::DistinctId, query, &data, IdScheme::Uuid).to_string(), expected);
            }
        }
    }

    /// A map comes back in another order when its node was read from pages, or was written anew.
    #[test]
    fn equal_maps_have_one_id() {
        let query = QueryId(NodeId::new(1, 2));
        let map = |keys: [&str; 2]| Value::map(keys.map(|key| (Text::new(key), Value::text(key))));
        let id = |value: Value| {
            let row = Map::from_iter([(Text::new("m"), value)]);
            result_id(Mode::MultipleValues, query, &row, IdScheme::Uuid)
        };
        assert_eq!(id(map(["a", "b"])), id(map(["b", "a"])));
        let nested = |keys| Value::list(vec![Value::Integer(1), Value::map([(Text::new("in"), map(keys))])]);
        assert_eq!(id(nested(["a", "b"])), id(nested(["b", "a"])));
        assert_ne!(id(map(["a", "b"])), id(map(["a", "c"])));
        let whole = |keys| {
            let properties = Map::from_iter([(Text::new("p"), map(keys))]);
            Value::FullNode(FullNode { id: NodeId::new(1, 2), labels: Vec::new(), properties }.into())
        };
        assert_eq!(id(whole(["a", "b"])), id(whole(["b", "a"])));
        assert_ne!(id(whole(["a", "b"])), id(whole(["a", "c"])));
    }

    /// Of two values that change places the id is another one, and the hash goes by their names.
    #[test]
    fn the_hash_of_a_result_goes_by_the_names_of_its_columns() {
        let row = |columns: [(&str, i64); 2]| Map::from_iter(columns.map(|(name, n)| (Text::new(name), Value::Integer(n))));
        let hash = |columns| result_hash(Mode::AnyQuery, &row(columns), IdScheme::Uuid);
        assert_eq!(hash([("a", 1), ("b", 2)]), hash([("b", 2), ("a", 1)]));
        assert_ne!(hash([("a", 1), ("b", 2)]), hash([("a", 2), ("b", 1)]));
        let id = |columns| result_id(Mode::AnyQuery, QueryId(NodeId::new(1, 2)), &row(columns), IdScheme::Uuid);
        assert_ne!(id([("a", 1), ("b", 2)]), id([("b", 2), ("a", 1)]), "ids that were given stay");
    }

    #[test]
    fn rows_of_several_values_have_ids_of_their_own() {
        let (query, other) = (QueryId(NodeId::new(1, 2)), QueryId(NodeId::new(1, 3)));
        let row = |n: i64| Map::from_iter([(Text::new("a"), Value::Integer(n)), (Text::new("b"), Value::Null)]);
        let id = |query, n| result_id(Mode::MultipleValues, query, &row(n), IdScheme::Uuid);
        assert_eq!(id(query, 1), id(query, 1));
        assert_ne!(id(query, 1), id(query, 2));
        assert_ne!(id(query, 1), id(other, 1));
    }
}
