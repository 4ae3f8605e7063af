//! MATCH, UNWIND, and the way from one clause to the next.

use weir_model::plan::Operator;

use super::Binder;
use crate::ast::{Clause, ClauseKind, Expression, Name, PatternPart};
use crate::error::Code;

impl Binder<'_> {
    /// Every clause but RETURN.
    pub fn clause(&mut self, input: Operator, clause: &Clause) -> Operator {
        match &clause.kind {
            ClauseKind::Match { optional, parts, hints, condition } => {
                let matched = self.match_clause(input, *optional, parts, condition.as_ref());
                // They have no effect here, and name what there is all the same.
                for hint in hints {
                    let _ = self.lookup(&hint.variable);
                }
                matched
            }
            ClauseKind::Unwind { list, variable } => self.unwind(input, list, variable),
            ClauseKind::With { projection, condition } => self.with_clause(input, projection, condition.as_ref()),
            ClauseKind::Call { procedure, arguments, yields } => {
                self.call_clause(input, procedure, arguments.as_deref(), yields.as_ref(), clause.span)
            }
            ClauseKind::Subquery { imports, query } => self.call_subquery(input, imports.as_ref(), query, clause.span),
            ClauseKind::OptionalCall(call) => {
                let before = self.scope.clone();
                let inner = self.clause(Operator::Argument, call);
                let all = self.scope.all().into_iter();
                let nulls = all.filter(|(name, slot)| before.get(name) != Some(*slot)).map(|(_, slot)| slot).collect();
                Operator::Optional { input: Box::new(input), inner: Box::new(inner), nulls }
            }
            ClauseKind::Recurse { first, until, query } => self.recursion(input, first, until, query, clause.span),
            ClauseKind::LoadCsv { headers, from, variable, separator } => {
                self.load_csv(input, *headers, from, variable, separator.as_ref())
            }
            _ => self.update(input, clause),
        }
    }

    fn match_clause(
        &mut self,
        input: Operator,
        optional: bool,
        parts: &[PatternPart],
        condition: Option<&Expression>,
    ) -> Operator {
        let mut graph = self.query_graph(parts);
        if let Some(condition) = condition {
            let condition = self.condition(condition);
            graph.pattern.conditions.push(condition);
        }
        if optional {
            let inner = Operator::Match { input: Box::new(Operator::Argument), pattern: graph.pattern };
            Operator::Optional { input: Box::new(input), inner: Box::new(inner), nulls: graph.declared }
        } else {
            Operator::Match { input: Box::new(input), pattern: graph.pattern }
        }
    }

    fn unwind(&mut self, input: Operator, list: &Expression, variable: &Name) -> Operator {
        let list = self.expression(list);
        self.check_new(variable);
        let into = self.draft.new_element_slot(&variable.text, &list);
        self.scope.insert(&variable.text, into);
        Operator::Unwind { input: Box::new(input), list, into }
    }

    /// A variable that a clause declares must not be visible already.
    pub fn check_new(&mut self, variable: &Name) -> bool {
        let is_new = self.scope.get(&variable.text).is_none();
        if !is_new {
            self.error(variable.span, Code::VariableAlreadyBound, format!("Variable `{}` already declared", variable.text));
        }
        is_new
    }
}
