//! Expressions: variables to slots, names to indices, calls to rows of the table of functions.

use weir_model::expression::Binary;
use weir_model::plan::{Search, Slot};
use weir_model::{Expr, Text, Value};

use super::draft::Holds;
use super::{Binder, aggregate};
use crate::ast::{BinaryOperator, Expression, ExpressionKind, MapItem, Name};
use crate::error::{Code, Span};
use crate::functions;
use crate::rewrite::fold;

impl Binder<'_> {
    /// Errors are noted and the expression is replaced by null, so that binding goes on and finds the next error too.
    pub fn expression(&mut self, expression: &Expression) -> Expr {
        let span = expression.span;
        match &*expression.kind {
            ExpressionKind::Null => Expr::Literal(Value::Null),
            ExpressionKind::Boolean(b) => Expr::Literal(Value::Boolean(*b)),
            ExpressionKind::Integer(n) => Expr::Literal(Value::Integer(*n)),
            ExpressionKind::Float(n) => Expr::Literal(Value::Float(*n)),
            ExpressionKind::Text(text) => Expr::Literal(Value::Text(text.clone())),
            ExpressionKind::Variable(text) if text == "NaN" && self.scope.get(text).is_none() => {
                Expr::Literal(Value::Float(f64::NAN))
            }
            ExpressionKind::Variable(text)
                if self.options.bare_parameters && self.scope.get(text).is_none() && self.options.parameters.contains(text) =>
            {
                Expr::Parameter(self.draft.parameter(text))
            }
            ExpressionKind::Variable(text) => match self.lookup(&Name { text: text.clone(), span }) {
                Some(slot) => Expr::Slot(slot),
                None => Expr::Literal(Value::Null),
            },
            ExpressionKind::Parameter(name) => Expr::Parameter(self.draft.parameter(name)),
            ExpressionKind::Property(of, key) => {
                let inner = self.boxed(of);
                self.expect_properties(&inner, of.span);
                Expr::Property { of: inner, key: self.draft.name(&key.text) }
            }
            ExpressionKind::Labels(of, labels) => {
                let of = self.expression(of);
                match labels.all_of() {
                    Some(_) => self.label_condition(&of, labels),
                    None => self.once(of, |binder, of| binder.label_condition(of, labels)),
                }
            }
            ExpressionKind::Index(of, index) => Expr::Index { of: self.boxed(of), index: self.boxed(index) },
            ExpressionKind::Slice(of, from, to) => Expr::Slice {
                of: self.boxed(of),
                from: from.as_ref().map(|e| self.boxed(e)),
                to: to.as_ref().map(|e| self.boxed(e)),
            },
            ExpressionKind::Not(inner) => Expr::Not(Box::new(self.truth(inner))),
            ExpressionKind::Negate(inner) => Expr::Negate(self.boxed(inner)),
            ExpressionKind::And(all) => Expr::And(all.iter().map(|e| self.truth(e)).collect()),
            ExpressionKind::Or(all) => Expr::Or(all.iter().map(|e| self.truth(e)).collect()),
            ExpressionKind::Binary(operator, left, right) => self.binary(*operator, left, right),
            ExpressionKind::IsNull(of, negated) => Expr::IsNull { of: self.boxed(of), negated: *negated },
            ExpressionKind::List(all) => Expr::List(all.iter().map(|e| self.expression(e)).collect()),
            ExpressionKind::Map(entries) => self.map(entries),
            ExpressionKind::MapProjection(of, items) => self.map_projection(of, items),
            ExpressionKind::Case { subject, branches, otherwise } => self.case(subject.as_ref(), branches, otherwise.as_ref()),
            ExpressionKind::Call { name, distinct, arguments } => self.call(name, *distinct, arguments, span),
            ExpressionKind::CountRows => self.count_rows(span),
            ExpressionKind::Comprehension { variable, list, filter, result } => {
                let list = self.list(list);
                let (slot, (filter, result)) = self.with_local(variable, &list, |binder, _| {
                    (filter.as_ref().map(|e| Box::new(binder.predicate(e))), result.as_ref().map(|e| binder.boxed(e)))
                });
                Expr::Comprehension { slot, list, filter, result }
            }
            ExpressionKind::Quantifier { kind, variable, list, condition } => {
                let list = self.list(list);
                let (slot, condition) = self.with_local(variable, &list, |binder, _| Box::new(binder.predicate(condition)));
                Expr::Quantifier { kind: *kind, slot, list, condition }
            }
            ExpressionKind::Reduce { total, initial, variable, list, step } => {
                let initial = self.boxed(initial);
                let list = self.list(list);
                let total_slot = self.draft.new_slot(&total.text, Holds::Anything);
                let (slot, step) = self.with_local(variable, &list, |binder, _| {
                    binder.scope.insert(&total.text, total_slot);
                    binder.boxed(step)
                });
                Expr::Reduce { total: total_slot, initial, slot, list, step }
            }
            ExpressionKind::Pattern(part) if part.search != Search::All => self.shortest_path(part, span),
            ExpressionKind::Pattern(_) => {
                let message = "A pattern expression only tests whether the pattern is there: it belongs where a truth value is wanted, such as WHERE";
                let hint = "`[p = (a)-->(b) | p]` is the list of its paths, `COUNT { (a)-->(b) }` their number";
                self.error_with_hint(span, Code::UnexpectedSyntax, message, Some(hint.into()));
                Expr::Literal(Value::Null)
            }
            ExpressionKind::PatternComprehension { part, filter, result } => {
                self.pattern_comprehension(part, filter.as_ref(), result)
            }
            ExpressionKind::Subquery { kind, body } => self.subquery(*kind, body, span),
        }
    }

    /// An operand of AND, OR, XOR, NOT.
    fn truth(&mut self, expression: &Expression) -> Expr {
        let expr = self.predicate(expression);
        self.expect_boolean(&expr, expression.span);
        expr
    }

    /// Where a truth value is wanted a pattern stands for whether it is there.
    fn predicate(&mut self, expression: &Expression) -> Expr {
        match &*expression.kind {
            ExpressionKind::Pattern(part) if part.search == Search::All => self.pattern_predicate(part),
            _ => self.expression(expression),
        }
    }

    /// What `IN` of a comprehension, quantifier or reduce runs over.
    fn list(&mut self, expression: &Expression) -> Box<Expr> {
        let expr = self.expression(expression);
        self.expect_list(&expr, expression.span);
        Box::new(expr)
    }

    /// A WHERE.
    pub fn condition(&mut self, expression: &Expression) -> Expr {
        let expr = self.predicate(expression);
        self.expect_condition(&expr, expression.span);
        expr
    }

    pub fn boxed(&mut self, expression: &Expression) -> Box<Expr> {
        Box::new(self.expression(expression))
    }

    /// Binds the inside of a list expression, where its own variable is visible.
    fn with_local<T>(&mut self, variable: &Name, list: &Expr, bind: impl FnOnce(&mut Self, Slot) -> T) -> (Slot, T) {
        let slot = self.draft.new_element_slot(&variable.text, list);
        let before = self.scope.len();
        self.scope.insert(&variable.text, slot);
        // Aggregates run over rows, not over the elements of a list.
        let aggregates = self.aggregates.take();
        let result = bind(self, slot);
        self.aggregates = aggregates;
        self.scope.truncate(before);
        (slot, result)
    }

    fn binary(&mut self, operator: BinaryOperator, left: &Expression, right: &Expression) -> Expr {
        if operator == BinaryOperator::Xor {
            return Expr::Xor(Box::new(self.truth(left)), Box::new(self.truth(right)));
        }
        let (left_span, right_span) = (left.span, right.span);
        let (left, right) = (self.boxed(left), self.boxed(right));
        if operator == BinaryOperator::In {
            self.expect_list(&right, right_span);
        }
        if matches!(
            operator,
            BinaryOperator::Subtract
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
                | BinaryOperator::Modulo
                | BinaryOperator::Power
        ) {
            self.expect_number(&left, left_span);
            self.expect_number(&right, right_span);
        }
        let operator = match operator {
            BinaryOperator::Xor | BinaryOperator::Equal => Binary::Equal,
            BinaryOperator::NotEqual => Binary::NotEqual,
            BinaryOperator::Less => Binary::Less,
            BinaryOperator::LessOrEqual => Binary::LessOrEqual,
            BinaryOperator::Greater => Binary::Greater,
            BinaryOperator::GreaterOrEqual => Binary::GreaterOrEqual,
            BinaryOperator::Add => Binary::Add,
            BinaryOperator::Subtract => Binary::Subtract,
            BinaryOperator::Multiply => Binary::Multiply,
            BinaryOperator::Divide => Binary::Divide,
            BinaryOperator::Modulo => Binary::Modulo,
            BinaryOperator::Power => Binary::Power,
            BinaryOperator::In => Binary::In,
            BinaryOperator::StartsWith => Binary::StartsWith,
            BinaryOperator::EndsWith => Binary::EndsWith,
            BinaryOperator::Contains => Binary::Contains,
            BinaryOperator::Regex => Binary::Regex,
        };
        Expr::Binary { operator, left, right }
    }

    pub fn map(&mut self, entries: &[(Name, Expression)]) -> Expr {
        Expr::Map(entries.iter().map(|(key, value)| (key.text.clone(), self.expression(value))).collect())
    }

    /// `n {.a, .*, b: 1, v}` is a map; where there is a `.*`, maps merged from left to right. Of null it is null.
    fn map_projection(&mut self, of: &Expression, items: &[MapItem]) -> Expr {
        let base = self.expression(of);
        let mut parts: Vec<Expr> = Vec::new();
        let mut entries: Vec<(Text, Expr)> = Vec::new();
        for item in items {
            match item {
                MapItem::Key(key) => {
                    let of = Box::new(base.clone());
                    entries.push((key.text.clone(), Expr::Property { of, key: self.draft.name(&key.text) }));
                }
                MapItem::Entry(key, value) => entries.push((key.text.clone(), self.expression(value))),
                MapItem::Variable(name) => {
                    let slot = self.lookup(name);
                    entries.push((name.text.clone(), slot.map_or(Expr::Literal(Value::Null), Expr::Slot)));
                }
                MapItem::All => {
                    if !entries.is_empty() {
                        parts.push(Expr::Map(std::mem::take(&mut entries)));
                    }
                    parts.push(self.resolve("properties", vec![base.clone()], of.span));
                }
            }
        }
        if !entries.is_empty() || parts.is_empty() {
            parts.push(Expr::Map(entries));
        }
        let mut parts = parts.into_iter();
        let first = parts.next().unwrap_or(Expr::Map(Vec::new()));
        let merged = parts.fold(first, |left, right| self.resolve("map.merge", vec![left, right], of.span));
        Expr::Case {
            branches: vec![(Expr::IsNull { of: Box::new(base), negated: true }, merged)],
            otherwise: Box::new(Expr::Literal(Value::Null)),
        }
    }

    /// `CASE x WHEN y` compares as grouping does: null is null, 2.0 is 2.
    fn case(
        &mut self,
        subject: Option<&Expression>,
        branches: &[(Expression, Expression)],
        otherwise: Option<&Expression>,
    ) -> Expr {
        let Some(subject) = subject else { return self.branches(None, branches, otherwise) };
        let subject = self.expression(subject);
        self.once(subject, |binder, subject| binder.branches(Some(subject), branches, otherwise))
    }

    fn branches(
        &mut self,
        subject: Option<&Expr>,
        branches: &[(Expression, Expression)],
        otherwise: Option<&Expression>,
    ) -> Expr {
        let branches = branches
            .iter()
            .map(|(when, then)| {
                let condition = match subject {
                    None => self.truth(when),
                    Some(subject) => {
                        let value = self.expression(when);
                        self.once(value, |_, value| equivalent(subject, value))
                    }
                };
                (condition, self.expression(then))
            })
            .collect();
        let otherwise = otherwise.map_or(Expr::Literal(Value::Null), |e| self.expression(e));
        Expr::Case { branches, otherwise: Box::new(otherwise) }
    }

    /// `build` with a value that it may ask for as often as it likes: whatever is more than a look at the row is worked out
    /// once, so that neither chance nor a long text is taken twice.
    fn once(&mut self, mut value: Expr, build: impl FnOnce(&mut Self, &Expr) -> Expr) -> Expr {
        fold(&mut value, self.options.ids);
        let is_look = |expr: &Expr| matches!(expr, Expr::Slot(_) | Expr::Literal(_) | Expr::Parameter(_));
        if is_look(&value) || matches!(&value, Expr::Property { of, .. } if is_look(of)) {
            return build(self, &value);
        }
        let slot = self.draft.new_slot_for("", &value);
        let of = Box::new(build(self, &Expr::Slot(slot)));
        Expr::Let { slot, value: Box::new(value), of }
    }

    fn call(&mut self, name: &Name, distinct: bool, arguments: &[Expression], span: Span) -> Expr {
        if let Some(kind) = aggregate::kind(&name.text) {
            return self.aggregate(kind, &name.text, distinct, arguments, span);
        }
        if distinct {
            self.error(
                span,
                Code::InvalidAggregation,
                format!("DISTINCT is only for aggregating functions, not for `{}`", name.text),
            );
        }
        if name.text.eq_ignore_ascii_case("exists") {
            let [of] = arguments else {
                self.error(span, Code::InvalidNumberOfArguments, "exists(...) takes one property or pattern");
                return Expr::Literal(Value::Null);
            };
            if matches!(*of.kind, ExpressionKind::Pattern(_)) {
                return self.predicate(of);
            }
            return Expr::IsNull { of: self.boxed(of), negated: true };
        }
        let places: Vec<Span> = arguments.iter().map(|e| e.span).collect();
        let arguments: Vec<Expr> = arguments.iter().map(|e| self.expression(e)).collect();
        if let (Some(function), Some(first), Some(place)) = (functions::find(&name.text), arguments.first(), places.first()) {
            self.expect_argument(function.name, first, *place);
        }
        self.resolve(&name.text, arguments, span)
    }

    /// A call of a function of the table.
    pub fn resolve(&mut self, name: &str, arguments: Vec<Expr>, span: Span) -> Expr {
        let Some(function) = functions::find(name) else {
            let hint = self.alike(name, functions::all().map(|f| f.name).chain(aggregate::NAMES.iter().map(|(name, _)| *name)));
            self.error_with_hint(span, Code::UnknownFunction, format!("Failed to resolve function `{name}`"), hint);
            return Expr::Literal(Value::Null);
        };
        let wrong = if arguments.len() < function.arguments_min {
            Some("Insufficient")
        } else if arguments.len() > function.arguments_max {
            Some("Too many")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let hint = Some(format!("{} is {}", function.name, function.signature));
            self.error_with_hint(span, Code::InvalidNumberOfArguments, format!("{wrong} parameters for function '{name}'"), hint);
        }
        Expr::Call { function, arguments }
    }
}

fn equivalent(subject: &Expr, value: &Expr) -> Expr {
    let is_null = |of: &Expr| Expr::IsNull { of: Box::new(of.clone()), negated: false };
    let equal = Expr::Binary { operator: Binary::Equal, left: Box::new(subject.clone()), right: Box::new(value.clone()) };
    match value {
        Expr::Literal(Value::Null) => is_null(subject),
        Expr::Literal(_) => equal,
        _ => Expr::Or(vec![Expr::And(vec![is_null(subject), is_null(value)]), equal]),
    }
}
