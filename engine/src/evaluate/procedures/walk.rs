//! `random.walk`: along edges in either direction, weighted as in node2vec.
//!
//! Back to where the walk came from weighs 1/return, to a neighbour of that node 1, to any other 1/in-out; a parameter of 0
//! or less rules its steps out, unless nothing else is left. A seed makes the walk repeatable as long as the graph is the same.
//! The walks of the API differ: there an in-out of 0 leaves only steps away, and a walk of which no step is left ends.

use std::hash::{BuildHasher, Hasher, RandomState};

use weir_model::expression::FailureKind;
use weir_model::procedure::Each;
use weir_model::random::{STEP, mix};
use weir_model::{Failure, NodeId, Procedure, Value};

use crate::evaluate::operators::Run;
use crate::view::Direction;

pub fn random_walk(run: &Run, _: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
    let start = run.environment.ids.node_of(&arguments[0]).ok_or_else(|| {
        let shown = weir_model::arithmetic::shortened(&arguments[0]);
        let message = format!("`random.walk` expects a node or node ID as the first argument, but got: {shown}");
        Failure::new(FailureKind::Runtime, message)
    })?;
    let depth = if let Value::Integer(depth) = arguments[1] { depth } else { 1 };
    let weight = |value: &Value| match value {
        Value::Float(x) if *x > 0.0 => 1.0 / x,
        _ => 0.0,
    };
    let (back, away) = (weight(&arguments[2]), weight(&arguments[3]));
    let mut random = Random(match &arguments[4] {
        Value::Text(seed) => {
            seed.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
        }
        _ => RandomState::new().build_hasher().finish(),
    });
    let mut walk = vec![Value::text(&run.environment.ids.text(start))];
    let mut before: Option<(NodeId, Vec<NodeId>)> = None;
    let mut here = start;
    for _ in 0..depth.max(0) {
        let around = neighbours(run, here)?;
        let weights: Vec<f64> = around
            .iter()
            .map(|next| match &before {
                Some((previous, _)) if next == previous => back,
                Some((_, known)) if known.binary_search(next).is_err() => away,
                _ => 1.0,
            })
            .collect();
        let Some(chosen) = random.choose(&weights) else { break };
        let next = around[chosen];
        walk.push(Value::text(&run.environment.ids.text(next)));
        run.budget.hold(&walk[walk.len() - 1..])?;
        before = Some((here, around));
        here = next;
    }
    each(&[Value::list(walk)]).map(drop)
}

/// In the order of their ids, so that a seed means the same walk however the graph was made.
fn neighbours(run: &Run, node: NodeId) -> Result<Vec<NodeId>, Failure> {
    let mut around = Vec::new();
    run.reader.view.edges(node, Direction::Both, &[], &mut |half| around.push(half.other));
    for _ in &around {
        run.budget.step()?;
    }
    around.sort_unstable();
    Ok(around)
}

struct Random(u64);

impl Random {
    /// In [0, 1).
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(STEP);
        (mix(self.0) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An index, as likely as its weight; any of them where all weights are 0.
    fn choose(&mut self, weights: &[f64]) -> Option<usize> {
        let total: f64 = weights.iter().sum();
        if total.is_nan() || total <= 0.0 || total.is_infinite() {
            let count = weights.len();
            return (count > 0).then(|| ((self.fraction() * count as f64) as usize).min(count - 1));
        }
        let mut left = self.fraction() * total;
        let chosen = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        // Rounding may leave a little over: then it is the last that can be.
        chosen.or_else(|| weights.iter().rposition(|weight| *weight > 0.0))
    }
}
