//! CALL of procedures, LOAD CSV, and CALL of subqueries.

use std::sync::Arc;

use weir_model::plan::{Operator, Slot};
use weir_model::procedure::{Body, Field, Kind};
use weir_model::{Expr, Procedure, Text, Value};

use super::scope::Scope;
use super::{Binder, Holds, types};
use crate::ast::{Clause, ClauseKind, Expression, Imports, Name, Projection, Query, Yield};
use crate::error::{Code, Span};
use crate::procedures;

/// What the first clause of a query sees.
#[derive(Clone, Default)]
pub enum First {
    /// What every clause of the query sees.
    #[default]
    Outer,
    /// As `Outer`, in a subquery that is an expression: it need not return anything.
    Expression,
    /// As `Outer`; but an importing WITH sees this scope, and chooses from it.
    Importable(Scope),
    /// This scope; later clauses see it as far as WITH lets it pass.
    Given(Scope),
}

/// Columns of a query with their slots.
type Columns = Vec<(Text, Slot)>;

impl Binder<'_> {
    /// A query that is nothing but one call gives all columns, and may leave the arguments to parameters.
    pub fn standalone_call(&mut self, query: &Query) -> Option<(Operator, Columns)> {
        let [Clause { kind: ClauseKind::Call { procedure, arguments, yields }, span }] = query.first.as_slice() else {
            return None;
        };
        if !query.unions.is_empty() {
            return None;
        }
        let Some(found) = self.procedure(procedure) else { return Some((Operator::Unit, Vec::new())) };
        let arguments = match arguments {
            Some(arguments) => self.call_arguments(&found, procedure.span, arguments),
            None => self.implicit_arguments(&found),
        };
        let all = Yield::All;
        let yields = yields.as_ref().unwrap_or(&all);
        Some(self.yielding(Operator::Unit, found, arguments, Some(yields), *span))
    }

    /// A call among other clauses. `span` is that of the clause.
    pub fn call_clause(
        &mut self,
        input: Operator,
        name: &Name,
        arguments: Option<&[Expression]>,
        yields: Option<&Yield>,
        span: Span,
    ) -> Operator {
        let Some(procedure) = self.procedure(name) else {
            // What it would have yielded exists all the same, so that one mistake is reported once.
            if let Some(Yield::Columns { columns, .. }) = yields {
                for (column, alias) in columns {
                    let slot = self.draft.new_slot("", Holds::Anything);
                    self.scope.insert(&alias.as_ref().unwrap_or(column).text, slot);
                }
            }
            return input;
        };
        let arguments = match arguments {
            Some(arguments) => self.call_arguments(&procedure, name.span, arguments),
            None => {
                let message = format!("Inside a query the arguments of `{}` are written out, in parentheses", procedure.name);
                let hint = Some(format!("it is declared as {}", procedure.signature()));
                self.error_with_hint(name.span, Code::InvalidArgumentPassingMode, message, hint);
                Vec::new()
            }
        };
        match yields {
            Some(Yield::All) => {
                let message = "YIELD * is only for a call that stands alone; inside a query the columns are named";
                self.error(name.span, Code::UnexpectedSyntax, message);
            }
            None if !procedure.outputs.is_empty() => {
                let columns: Vec<&str> = procedure.outputs.iter().map(|output| output.name.as_str()).collect();
                let message = "Procedure call inside a query does not support naming results implicitly (name explicitly \
                               using `YIELD` instead)";
                let hint = Some(format!("CALL {}(...) YIELD {}", procedure.name, columns.join(", ")));
                self.error_with_hint(span, Code::UndefinedVariable, message, hint);
            }
            _ => {}
        }
        self.yielding(input, procedure, arguments, yields, span).0
    }

    fn procedure(&mut self, name: &Name) -> Option<Arc<Procedure>> {
        match procedures::find(&name.text, self.options) {
            Some(Ok(procedure)) => {
                self.has_writes |= procedure.writes;
                if procedure.listens {
                    self.listens.get_or_insert_with(|| (procedure.name.clone(), name.span));
                }
                Some(procedure)
            }
            Some(Err(message)) => {
                self.error(name.span, Code::ProcedureNotFound, message);
                None
            }
            None => {
                let known = procedures::names(self.options);
                let hint = self.alike(&name.text, known.iter().map(String::as_str));
                let message = format!("Failed to resolve procedure `{}`", name.text);
                self.error_with_hint(name.span, Code::ProcedureNotFound, message, hint);
                None
            }
        }
    }

    fn call_arguments(&mut self, procedure: &Procedure, span: Span, written: &[Expression]) -> Vec<Expr> {
        let wrong = match written.len() {
            count if count < procedure.required_count() => Some("Insufficient"),
            count if count > procedure.inputs.len() => Some("Too many"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            let hint = Some(format!("it is declared as {}", procedure.signature()));
            let message = format!("{wrong} arguments for procedure `{}`", procedure.name);
            self.error_with_hint(span, Code::InvalidNumberOfArguments, message, hint);
            return Vec::new();
        }
        let inputs = procedure.inputs.iter().zip(written);
        let bound = inputs.map(|(input, expression)| {
            let argument = self.expression(expression);
            self.expect_input(input, &argument, expression.span);
            argument
        });
        bound.collect()
    }

    fn expect_input(&mut self, input: &Field, argument: &Expr, span: Span) {
        let admitted: &[&str] = match input.kind {
            Kind::Boolean => &["Boolean"],
            Kind::Integer => &["Integer"],
            Kind::Float | Kind::Number => &["Integer", "Float"],
            Kind::Text => &["String"],
            Kind::List => &["List<T>"],
            Kind::Map => &["Map"],
            Kind::Node => &["Node"],
            Kind::Relationship => &["Relationship"],
            Kind::Path => &["Path"],
            Kind::Any | Kind::NodeOrId | Kind::Bytes | Kind::DateTime => return,
        };
        if let Some(found) = types::type_of(&self.draft, argument)
            && !admitted.contains(&found)
        {
            let message = format!("Type mismatch: expected {} for `{}` but was {found}", admitted.join(" or "), input.name);
            self.error(span, Code::InvalidArgumentType, message);
        }
    }

    /// The parameters of the same names; an optional one that was not given is its default, and left out where it has none.
    fn implicit_arguments(&mut self, procedure: &Procedure) -> Vec<Expr> {
        let of = |input: &Field| match input.optional && !self.options.parameters.contains(&input.name) {
            true => input.default.clone().map(Expr::Literal),
            false => Some(Expr::Parameter(self.draft.parameter(&input.name))),
        };
        procedure.inputs.iter().filter_map(of).collect()
    }

    /// The call itself, and its columns as they are seen from here on.
    fn yielding(
        &mut self,
        input: Operator,
        procedure: Arc<Procedure>,
        arguments: Vec<Expr>,
        yields: Option<&Yield>,
        span: Span,
    ) -> (Operator, Columns) {
        let mut wanted: Vec<(usize, Name)> = Vec::new();
        let mut condition = None;
        match yields {
            None => {}
            Some(Yield::All) => {
                let all = procedure.outputs.iter().enumerate();
                wanted.extend(all.map(|(at, output)| (at, Name { text: output.name.clone(), span })));
            }
            Some(Yield::Columns { columns, condition: filter }) => {
                condition = filter.as_ref();
                for (column, alias) in columns {
                    let at = procedure.outputs.iter().position(|output| output.name == column.text);
                    let Some(at) = at else {
                        let known: Vec<&str> = procedure.outputs.iter().map(|output| output.name.as_str()).collect();
                        let message = format!("Procedure does not have output(s): {}", column.text);
                        let hint = Some(format!("{} has {}", procedure.name, known.join(", ")));
                        self.error_with_hint(span, Code::UndefinedVariable, message, hint);
                        continue;
                    };
                    wanted.push((at, alias.as_ref().unwrap_or(column).clone()));
                }
            }
        }
        let mut columns = Columns::new();
        let mut slots = Vec::new();
        for (at, name) in &wanted {
            self.check_new(name);
            let slot = self.draft.new_slot(&name.text, holds(&procedure, *at));
            self.scope.insert(&name.text, slot);
            slots.push((*at, slot));
            columns.push((name.text.clone(), slot));
        }
        let mut root = Operator::Call { input: Box::new(input), procedure, arguments, yields: slots };
        if let Some(condition) = condition {
            let condition = self.condition(condition);
            root = Operator::Filter { input: Box::new(root), condition };
        }
        (root, columns)
    }

    /// A row of a file is what a procedure of the service yields.
    pub fn load_csv(
        &mut self,
        input: Operator,
        headers: bool,
        from: &Expression,
        variable: &Name,
        separator: Option<&Expression>,
    ) -> Operator {
        let name = Name { text: procedures::LOAD_CSV.into(), span: from.span };
        let mut arguments = vec![self.expression(from), Expr::Literal(Value::Boolean(headers))];
        arguments.push(separator.map_or(Expr::Literal(Value::text(",")), |separator| self.expression(separator)));
        let Some(procedure) = self.procedure(&name) else {
            let slot = self.draft.new_slot(&variable.text, Holds::Plain);
            self.scope.insert(&variable.text, slot);
            return input;
        };
        let columns = vec![(Name { text: "row".into(), span: variable.span }, Some(variable.clone()))];
        let yields = Yield::Columns { columns, condition: None };
        self.yielding(input, procedure, arguments, Some(&yields), from.span).0
    }

    pub fn call_subquery(&mut self, input: Operator, imports: Option<&Imports>, query: &Query, span: Span) -> Operator {
        let mut outer = Scope::default();
        let first = if imports.is_none() { First::Importable(self.scope.clone()) } else { First::Outer };
        match imports {
            None => {}
            Some(Imports::All) => outer = self.scope.clone(),
            Some(Imports::These(names)) => {
                for name in names {
                    if let Some(slot) = self.lookup(name) {
                        outer.insert(&name.text, slot);
                    }
                }
            }
        }
        let (inner, columns) = self.inner_query(query, outer, first);
        self.add_columns(&columns, span);
        let unit = !ends_in_return(query);
        Operator::Subquery { input: Box::new(input), inner: Box::new(inner), unit }
    }

    fn inner_query(&mut self, query: &Query, outer: Scope, first: First) -> (Operator, Columns) {
        let around = std::mem::take(&mut self.scope);
        let outer = std::mem::replace(&mut self.outer, outer);
        let first = std::mem::replace(&mut self.first, first);
        let bound = self.query(query, Operator::Argument);
        self.first = first;
        self.outer = outer;
        self.scope = around;
        bound
    }

    /// What a subquery returns is seen beside what was there.
    fn add_columns(&mut self, columns: &Columns, span: Span) {
        for (name, slot) in columns {
            if self.scope.get(name).is_some() {
                let message = format!("Variable `{name}` already declared in outer scope");
                self.error(span, Code::VariableAlreadyBound, message);
            }
            self.draft.call(*slot, name);
            self.scope.insert(name, *slot);
        }
    }

    /// The body sees the variables of the recursion and nothing else; the condition what the body returns.
    pub fn recursion(
        &mut self,
        input: Operator,
        first: &[(Expression, Name)],
        until: &Expression,
        query: &Query,
        span: Span,
    ) -> Operator {
        let mut state = Vec::new();
        let mut given = Scope::default();
        let mut values = Vec::new();
        for (value, name) in first {
            let value = self.expression(value);
            let slot = self.draft.new_slot(&name.text, Holds::Anything);
            if given.get(&name.text).is_some() {
                self.error(name.span, Code::VariableAlreadyBound, format!("Variable `{}` already declared", name.text));
            }
            given.insert(&name.text, slot);
            state.push(slot);
            values.push(value);
        }
        let all = std::iter::once(&query.first).chain(query.unions.iter().map(|(_, _, clauses)| clauses));
        for clauses in all {
            if let Some(Clause { kind: ClauseKind::With { projection, .. }, span }) = clauses.first()
                && is_import(projection)
            {
                let message =
                    "The body of CALL RECURSIVELY begins with the variables of the recursion; nothing is brought in by WITH";
                self.error(*span, Code::InvalidClauseComposition, message);
            }
        }
        let (inner, columns) = self.inner_query(query, Scope::default(), First::Given(given));
        let returned = |name: &Name| columns.iter().find(|(column, _)| *column == name.text).map(|(_, slot)| *slot);
        let missing: Vec<&str> =
            first.iter().filter(|(_, name)| returned(name).is_none()).map(|(_, name)| name.text.as_str()).collect();
        if !missing.is_empty() {
            let message = format!(
                "The body of CALL RECURSIVELY must return every variable of the recursion; missing: {}",
                missing.join(", ")
            );
            self.error(span, Code::UndefinedVariable, message);
        }
        let again = first.iter().map(|(_, name)| returned(name).unwrap_or(Slot(0))).collect();
        let mut results = Scope::default();
        columns.iter().for_each(|(name, slot)| results.insert(name, *slot));
        let around = std::mem::replace(&mut self.scope, results);
        let until = self.condition(until);
        self.scope = around;
        self.add_columns(&columns, span);
        let variables = first.iter().map(|(_, name)| name.text.clone()).collect();
        Operator::Recurse { input: Box::new(input), first: values, state, variables, inner: Box::new(inner), again, until }
    }

    /// What the first clause of a query, or of one side of its UNION, sees.
    pub fn first_scope(&mut self, clauses: &[Clause]) -> Scope {
        if let First::Given(given) = &self.first {
            return given.clone();
        }
        if let (First::Importable(all), Some(Clause { kind: ClauseKind::With { projection, condition }, span })) =
            (&self.first, clauses.first())
        {
            let all = all.clone();
            if is_import(projection) && condition.is_none() {
                return all;
            }
            let outer = |e: &Expression| e.as_variable().is_some_and(|name| all.get(name).is_some());
            if projection.star || projection.items.iter().any(|item| item.expression.any(&outer)) {
                let message = "The WITH that brings variables into a subquery is a list of them and nothing more: no aliases, \
                               expressions, WHERE, DISTINCT, ORDER BY, SKIP or LIMIT";
                let hint = Some("bring them in by CALL (...) { ... } instead".to_owned());
                self.error_with_hint(*span, Code::InvalidClauseComposition, message, hint);
                return all;
            }
        }
        self.outer.clone()
    }
}

/// `WITH a, b` or `WITH *`, and nothing more.
fn is_import(projection: &Projection) -> bool {
    let plain = !projection.distinct && projection.order.is_empty() && projection.skip.is_none() && projection.limit.is_none();
    let bare = projection.items.iter().all(|item| item.alias.is_none() && item.expression.as_variable().is_some());
    plain && bare
}

pub fn ends_in_return(query: &Query) -> bool {
    matches!(query.first.last(), Some(Clause { kind: ClauseKind::Return(_), .. }))
}

/// What a column can be. Rows that follow from arguments alone hold no nodes or edges; a query may give anything.
fn holds(procedure: &Procedure, column: usize) -> Holds {
    match (&procedure.body, procedure.outputs[column].kind) {
        (Body::Rows(_), _) => Holds::Plain,
        (_, Kind::Node | Kind::NodeOrId) => Holds::Node,
        (_, Kind::Relationship) => Holds::Edge,
        (_, Kind::Path) => Holds::Path,
        (_, Kind::Any | Kind::List | Kind::Map) => Holds::Anything,
        _ => Holds::Plain,
    }
}
