//! Aggregating functions: found by name, taken out of the expression they stand in, so that `count(n) + 1` becomes a count
//! in a slot and a sum over that slot.

use std::collections::HashMap;

use weir_model::expression::AggregateKind;
use weir_model::plan::Slot;
use weir_model::{Aggregate, Expr, Value};

use super::Binder;
use super::draft::Holds;
use crate::ast::{Expression, ExpressionKind};
use crate::error::{Code, Span};
use crate::walk;

pub const NAMES: &[(&str, AggregateKind)] = &[
    ("count", AggregateKind::Count),
    ("sum", AggregateKind::Sum),
    ("avg", AggregateKind::Average),
    ("min", AggregateKind::Min),
    ("max", AggregateKind::Max),
    ("collect", AggregateKind::Collect),
    ("stDev", AggregateKind::StandardDeviation),
    ("stDevP", AggregateKind::StandardDeviationPopulation),
    ("percentileCont", AggregateKind::PercentileContinuous),
    ("percentileDisc", AggregateKind::PercentileDiscrete),
];

pub fn kind(name: &str) -> Option<AggregateKind> {
    NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
}

pub fn contains(expression: &Expression) -> bool {
    expression.any(&|e| match &*e.kind {
        ExpressionKind::CountRows => true,
        ExpressionKind::Call { name, .. } => kind(&name.text).is_some(),
        _ => false,
    })
}

/// The aggregates of a projection, each once.
#[derive(Default)]
pub struct Found {
    pub all: Vec<(Slot, Aggregate)>,
    by_form: HashMap<String, Slot>,
}

impl Binder<'_> {
    /// Binds with aggregates allowed; gives what was found besides the result.
    pub fn collecting<T>(&mut self, bind: impl FnOnce(&mut Self) -> T) -> (T, Vec<(Slot, Aggregate)>) {
        let outer = self.aggregates.replace(Found::default());
        let result = bind(self);
        let found = std::mem::replace(&mut self.aggregates, outer).unwrap_or_default();
        (result, found.all)
    }

    pub fn count_rows(&mut self, span: Span) -> Expr {
        self.add("count", span, Aggregate { kind: AggregateKind::CountRows, arguments: Vec::new(), distinct: false })
    }

    pub fn aggregate(&mut self, kind: AggregateKind, name: &str, distinct: bool, arguments: &[Expression], span: Span) -> Expr {
        let wanted = if matches!(kind, AggregateKind::PercentileContinuous | AggregateKind::PercentileDiscrete) { 2 } else { 1 };
        if arguments.len() != wanted {
            let wrong = if arguments.len() < wanted { "Insufficient" } else { "Too many" };
            self.error(span, Code::InvalidNumberOfArguments, format!("{wrong} parameters for function '{name}'"));
            return Expr::Literal(Value::Null);
        }
        if let Some(inner) = arguments.iter().find(|argument| contains(argument)) {
            self.error(inner.span, Code::NestedAggregation, "Can't use aggregate functions inside of aggregate functions.");
            return Expr::Literal(Value::Null);
        }
        let places = arguments;
        let arguments: Vec<Expr> = arguments.iter().map(|e| self.expression(e)).collect();
        for (argument, place) in arguments.iter().zip(places) {
            if walk::any(argument, &|e| matches!(e, Expr::Call { function, .. } if function.name == "rand")) {
                let message = format!("{name}(...) over rand() differs from run to run; compute the number before, in a WITH");
                self.error(place.span, Code::NonConstantExpression, message);
            }
        }
        self.add(name, span, Aggregate { kind, arguments, distinct })
    }

    /// The slot of the aggregate; the same aggregate written twice is computed once.
    fn add(&mut self, name: &str, span: Span, aggregate: Aggregate) -> Expr {
        let Some(known) = &mut self.aggregates else {
            self.error(
                span,
                Code::InvalidAggregation,
                format!("Invalid use of aggregating function {name}(...) in this context"),
            );
            return Expr::Literal(Value::Null);
        };
        let form = format!("{aggregate:?}");
        if let Some(slot) = known.by_form.get(&form) {
            return Expr::Slot(*slot);
        }
        let graph = aggregate.arguments.iter().any(|e| self.draft.value_holds(e) != Holds::Plain)
            && matches!(aggregate.kind, AggregateKind::Collect | AggregateKind::Min | AggregateKind::Max);
        let slot = self.draft.new_slot("", if graph { Holds::Anything } else { Holds::Plain });
        if let Some(known) = &mut self.aggregates {
            known.by_form.insert(form, slot);
            known.all.push((slot, aggregate));
        }
        Expr::Slot(slot)
    }
}
