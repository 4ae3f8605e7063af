//! The plan as the text has it: no rule applied, no anchor, each pattern visited in the order in which it is written and all
//! its conditions tested above it. What the other plan is compared with by tests; far slower.

use weir_model::plan::{Operator, Pattern, Step};

use crate::bind::{Draft, is_shortest};
use crate::rewrite::joined;
use crate::walk;

pub fn spell_out(draft: &mut Draft) {
    walk::operators_mut(&mut draft.root, &mut |operator| {
        let conditions = match operator {
            Operator::Match { pattern, .. } => std::mem::take(&mut pattern.conditions),
            _ => Vec::new(),
        };
        walk::patterns_mut(operator, &mut |pattern| pattern.steps = as_written(pattern));
        if !conditions.is_empty() {
            let matched = std::mem::replace(operator, Operator::Unit);
            *operator = Operator::Filter { input: Box::new(matched), condition: joined(conditions) };
        }
    });
}

/// Edges one after another, as soon as one end is there; shortest paths when everything else is. A pattern that keeps its
/// conditions, that of MERGE, tests them last.
fn as_written(pattern: &Pattern) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut visited: Vec<bool> = pattern.nodes.iter().map(|node| node.bound).collect();
    let mut crossed = vec![false; pattern.edges.len()];
    steps.extend((0..visited.len()).filter(|node| visited[*node]).map(|node| Step::Bound { node }));
    loop {
        let all_there = visited.iter().all(|visited| *visited);
        let single_left = (0..crossed.len()).any(|edge| !crossed[edge] && !is_shortest(&pattern.edges[edge]));
        let next = (0..crossed.len()).find(|edge| {
            let found = &pattern.edges[*edge];
            let ready =
                if is_shortest(found) { all_there && !single_left } else { visited[found.source] || visited[found.target] };
            !crossed[*edge] && ready
        });
        if let Some(edge) = next {
            let found = &pattern.edges[edge];
            let from = if visited[found.source] { found.source } else { found.target };
            crossed[edge] = true;
            visited[found.source] = true;
            visited[found.target] = true;
            steps.push(Step::Expand { edge, from });
        } else if let Some(node) = visited.iter().position(|visited| !visited) {
            visited[node] = true;
            steps.push(Step::Scan { node, lookups: Vec::new() });
        } else {
            break;
        }
    }
    steps.extend((0..pattern.conditions.len()).map(|condition| Step::Test { condition }));
    steps
}
