//! What must hold of every draft: slots lie within the row, names and parameters exist, patterns are connected to their parts.

use weir_model::Expr;
use weir_model::plan::{Name, Operator, Pattern, Slot};

use crate::bind::Draft;
use crate::walk;

pub fn validate(draft: &mut Draft) -> Result<(), String> {
    let limits = Limits { width: draft.slots.len(), names: draft.names.len(), parameters: draft.parameters.len() };
    let mut problem: Option<String> = None;
    for (name, slot) in &draft.columns {
        limits.slot(*slot).unwrap_or_else(|wrong| problem = Some(format!("column {name}: {wrong}")));
    }
    walk::operators_mut(&mut draft.root, &mut |operator| {
        walk::patterns_mut(operator, &mut |pattern| {
            if let Err(wrong) = limits.pattern(pattern) {
                problem = Some(wrong);
            }
        });
        if let Operator::Recurse { first, state, variables, again, .. } = operator {
            let slots = state.iter().chain(again.iter()).try_for_each(|slot| limits.slot(*slot));
            if slots.is_err() || [first.len(), variables.len(), again.len()].iter().any(|length| *length != state.len()) {
                problem = Some("a recursion that does not come round".into());
            }
        }
        if let Operator::Call { procedure, arguments, yields, .. } = operator {
            let fits = (procedure.required_count()..=procedure.inputs.len()).contains(&arguments.len())
                && yields.iter().all(|(at, _)| *at < procedure.outputs.len());
            let slots = yields.iter().try_for_each(|(_, slot)| limits.slot(*slot));
            if let Err(wrong) = slots.and(if fits { Ok(()) } else { Err(format!("a call that {procedure:?} is not for")) }) {
                problem = Some(wrong);
            }
        }
        walk::expressions_mut(operator, &mut |expr| {
            if let Err(wrong) = limits.expression(expr) {
                problem = Some(wrong);
            }
        });
    });
    problem.map_or(Ok(()), Err)
}

struct Limits {
    width: usize,
    names: usize,
    parameters: usize,
}

impl Limits {
    fn slot(&self, slot: Slot) -> Result<(), String> {
        if (slot.0 as usize) < self.width { Ok(()) } else { Err(format!("slot {} of {}", slot.0, self.width)) }
    }

    fn name(&self, name: Name) -> Result<(), String> {
        if (name.0 as usize) < self.names { Ok(()) } else { Err(format!("name {} of {}", name.0, self.names)) }
    }

    fn expression(&self, expr: &Expr) -> Result<(), String> {
        match expr {
            Expr::Slot(slot) | Expr::Comprehension { slot, .. } | Expr::Quantifier { slot, .. } | Expr::Let { slot, .. } => {
                self.slot(*slot)?;
            }
            Expr::Reduce { slot, total, .. } => {
                self.slot(*slot)?;
                self.slot(*total)?;
            }
            Expr::Parameter(at) if *at as usize >= self.parameters => {
                return Err(format!("parameter {at} of {}", self.parameters));
            }
            Expr::Property { key, .. } => self.name(*key)?,
            Expr::HasLabels { labels, .. } => labels.iter().try_for_each(|label| self.name(*label))?,
            _ => {}
        }
        walk::children(expr).into_iter().try_for_each(|child| self.expression(child))
    }

    fn pattern(&self, pattern: &Pattern) -> Result<(), String> {
        let count = pattern.nodes.len();
        for node in &pattern.nodes {
            self.slot(node.slot)?;
            node.labels.iter().try_for_each(|label| self.name(*label))?;
        }
        for edge in &pattern.edges {
            edge.slot.map_or(Ok(()), |slot| self.slot(slot))?;
            edge.kinds.iter().try_for_each(|kind| self.name(*kind))?;
            if edge.source >= count || edge.target >= count {
                return Err("an edge without its node".into());
            }
            if let Some(chain) = &edge.chain {
                let slots = chain.edges.iter().chain(&chain.nodes).map(|(slot, _)| *slot);
                slots.chain(chain.path).try_for_each(|slot| self.slot(slot))?;
            }
        }
        let pairs = &pattern.distinct_edges;
        if !pairs.iter().all(|(a, b)| a < b) || !pairs.is_sorted_by(|(a, b), (c, d)| (b, a) < (d, c)) {
            return Err("edges to be told apart that are out of order".into());
        }
        for (a, b) in pairs {
            let slotted = |edge: usize| pattern.edges.get(edge).is_some_and(|edge| edge.slot.is_some() || edge.chain.is_some());
            if !slotted(*a) || !slotted(*b) {
                return Err("an edge to be told apart that has no slot".into());
            }
        }
        for path in &pattern.paths {
            self.slot(path.slot)?;
            if path.start >= count || path.edges.iter().any(|edge| *edge >= pattern.edges.len()) {
                return Err("a path through nothing".into());
            }
        }
        Ok(())
    }
}
