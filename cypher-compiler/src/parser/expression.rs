//! Expressions, by precedence: OR, XOR, AND, NOT, comparisons, string and list predicates, `+ -`, `* / %`, `^`, unary signs,
//! postfixes, atoms.

use weir_model::Text;
use weir_model::expression::Quantifier;

use super::{CHAIN_LENGTH_MAX, COPIED_MAX, HEIGHT_MAX, Parsed, Parser, Reading};
use crate::ast::{BinaryOperator, Expression, ExpressionKind, MapItem, Name, SubqueryBody, SubqueryKind};
use crate::error::{Code, Diagnostic, Span};
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Expression> {
        self.expression_where(false)
    }

    /// An expression after which a `|` follows that is not part of it: the bar of `n:A|B` has to stand in parentheses there.
    pub(super) fn expression_before_bar(&mut self) -> Parsed<Expression> {
        self.expression_where(true)
    }

    fn expression_where(&mut self, bar_ends: bool) -> Parsed<Expression> {
        let outer = std::mem::replace(&mut self.bar_ends, bar_ends);
        let result = self.nested(|parser| parser.or());
        self.bar_ends = outer;
        match result {
            Ok(expression) if expression.height > HEIGHT_MAX => {
                let message = format!("More than {HEIGHT_MAX} operators lie within each other here");
                Err(self.compile_error(expression.span, Code::TooDeep, message))
            }
            result => result,
        }
    }

    /// A function of its own, so that the frames of those who call each other are small.
    #[inline(never)]
    pub(super) fn make(&mut self, from: usize, kind: ExpressionKind) -> Expression {
        let span = self.span_from(from);
        self.make_at(span, kind)
    }

    #[inline(never)]
    fn make_at(&mut self, span: Span, kind: ExpressionKind) -> Expression {
        use ExpressionKind::*;
        let mut made = Expression { kind: Box::new(kind), span, height: 0 };
        let below = match &*made.kind {
            // It was read since the atom began.
            Pattern(_) | PatternComprehension { .. } | Subquery { .. } => self.tallest,
            _ => made.children().into_iter().map(|child| child.height).max().unwrap_or_default(),
        };
        made.height = 1 + below;
        self.tallest = self.tallest.max(made.height);
        made
    }

    /// `operand (separator operand)*`, flat.
    fn chain(
        &mut self,
        word: &'static str,
        operand: fn(&mut Self) -> Parsed<Expression>,
        build: fn(Vec<Expression>) -> ExpressionKind,
    ) -> Parsed<Expression> {
        let from = self.at;
        let first = operand(self)?;
        if !self.words(word) {
            return Ok(first);
        }
        let mut all = vec![first, operand(self)?];
        while self.words(word) {
            all.push(operand(self)?);
        }
        Ok(self.make(from, build(all)))
    }

    /// Left-associative operators of one level.
    fn left_associative(
        &mut self,
        operators: &[(&'static str, BinaryOperator)],
        operand: fn(&mut Self) -> Parsed<Expression>,
    ) -> Parsed<Expression> {
        let from = self.at;
        let mut left = operand(self)?;
        for _ in 0..=CHAIN_LENGTH_MAX {
            let Some((_, operator)) = operators.iter().find(|(symbol, _)| self.symbol(symbol)) else { return Ok(left) };
            let right = operand(self)?;
            left = self.make(from, ExpressionKind::Binary(*operator, left, right));
        }
        Err(self.chain_too_long())
    }

    fn chain_too_long(&self) -> Box<Diagnostic> {
        self.compile_error(self.span(), Code::TooLong, format!("More than {CHAIN_LENGTH_MAX} operators in one chain"))
    }

    fn or(&mut self) -> Parsed<Expression> {
        self.chain("OR", Self::xor, ExpressionKind::Or)
    }

    fn xor(&mut self) -> Parsed<Expression> {
        let from = self.at;
        let mut left = self.and()?;
        for _ in 0..=CHAIN_LENGTH_MAX {
            if !self.words("XOR") {
                return Ok(left);
            }
            let right = self.and()?;
            left = self.make(from, ExpressionKind::Binary(BinaryOperator::Xor, left, right));
        }
        Err(self.chain_too_long())
    }

    fn and(&mut self) -> Parsed<Expression> {
        self.chain("AND", Self::not, ExpressionKind::And)
    }

    fn not(&mut self) -> Parsed<Expression> {
        let from = self.at;
        if self.words("NOT") {
            let inner = self.nested(|parser| parser.not())?;
            return Ok(self.make(from, ExpressionKind::Not(inner)));
        }
        self.comparison()
    }

    /// `a < b <= c` means `a < b AND b <= c`.
    fn comparison(&mut self) -> Parsed<Expression> {
        let from = self.at;
        let mut left = self.predicate()?;
        let Some(mut operator) = self.comparison_operator()? else { return Ok(left) };
        let mut all = Vec::new();
        loop {
            let (at, copied) = (self.at, self.copied);
            let right = self.predicate()?;
            let tokens = self.at - at + self.copied - copied;
            let next = self.comparison_operator()?;
            let again = if next.is_some() { Some(self.copy(&right, tokens)?) } else { None };
            let span = left.span.to(right.span);
            all.push(self.make_at(span, ExpressionKind::Binary(operator, left, right)));
            match next.zip(again) {
                Some(following) => (operator, left) = following,
                None if all.len() == 1 => return Ok(all.remove(0)),
                None => return Ok(self.make(from, ExpressionKind::And(all))),
            }
        }
    }

    fn comparison_operator(&mut self) -> Parsed<Option<BinaryOperator>> {
        use BinaryOperator::*;
        const OPERATORS: &[(&str, BinaryOperator)] =
            &[("=", Equal), ("<>", NotEqual), ("<=", LessOrEqual), (">=", GreaterOrEqual), ("<", Less), (">", Greater)];
        if self.is_symbol("!=") {
            return Err(self.compile_error(
                self.span(),
                Code::UnexpectedSyntax,
                "Unknown operation '!=' (you probably meant to use '<>', which is the operator for inequality testing)",
            ));
        }
        Ok(OPERATORS.iter().find(|(symbol, _)| self.symbol(symbol)).map(|(_, operator)| *operator))
    }

    /// A copy of an expression that is read once and stands twice. Its tokens count towards `COPIED_MAX`.
    #[inline(never)]
    fn copy(&mut self, expression: &Expression, tokens: usize) -> Parsed<Expression> {
        self.copied += tokens;
        if self.copied > COPIED_MAX {
            let message = "Comparisons or cases of more than two values are nested too deep in each other";
            return Err(self.compile_error(expression.span, Code::TooDeep, message));
        }
        Ok(expression.clone())
    }

    fn predicate(&mut self) -> Parsed<Expression> {
        let from = self.at;
        let mut left = self.additive()?;
        for _ in 0..=CHAIN_LENGTH_MAX {
            let operator = if self.symbol("=~") {
                BinaryOperator::Regex
            } else if self.words("STARTS WITH") {
                BinaryOperator::StartsWith
            } else if self.words("ENDS WITH") {
                BinaryOperator::EndsWith
            } else if self.words("CONTAINS") {
                BinaryOperator::Contains
            } else if self.words("IN") {
                BinaryOperator::In
            } else if self.words("IS NOT NULL") {
                left = self.make(from, ExpressionKind::IsNull(left, true));
                continue;
            } else if self.words("IS NULL") {
                left = self.make(from, ExpressionKind::IsNull(left, false));
                continue;
            } else if self.is_word_at(0, "IS")
                && matches!(self.ahead(1), TokenKind::Word(_) | TokenKind::Quoted(_))
                && !["NOT", "NULL"].iter().any(|word| self.is_word_at(1, word))
            {
                self.advance();
                let alternatives = !self.bar_ends;
                let labels = ExpressionKind::Labels(left, self.label_expression("a label", alternatives)?);
                left = self.make(from, labels);
                continue;
            } else {
                return Ok(left);
            };
            let right = self.additive()?;
            left = self.make(from, ExpressionKind::Binary(operator, left, right));
        }
        Err(self.chain_too_long())
    }

    fn additive(&mut self) -> Parsed<Expression> {
        self.left_associative(&[("+", BinaryOperator::Add), ("-", BinaryOperator::Subtract)], Self::multiplicative)
    }

    fn multiplicative(&mut self) -> Parsed<Expression> {
        use BinaryOperator::*;
        self.left_associative(&[("*", Multiply), ("/", Divide), ("%", Modulo)], Self::power)
    }

    fn power(&mut self) -> Parsed<Expression> {
        self.left_associative(&[("^", BinaryOperator::Power)], Self::unary)
    }

    fn unary(&mut self) -> Parsed<Expression> {
        let from = self.at;
        if self.symbol("-") {
            // The sign belongs to the literal: -9223372036854775808 has no positive counterpart.
            if let TokenKind::Integer(magnitude) = *self.kind()
                && !matches!(self.ahead(1), TokenKind::Symbol("." | "["))
            {
                self.advance();
                return Ok(self.make(from, ExpressionKind::Integer((magnitude as i64).wrapping_neg())));
            }
            if let TokenKind::Float(n) = *self.kind() {
                self.advance();
                return Ok(self.make(from, ExpressionKind::Float(-n)));
            }
            let inner = self.nested(|parser| parser.unary())?;
            return Ok(self.make(from, ExpressionKind::Negate(inner)));
        }
        if self.symbol("+") {
            return self.nested(|parser| parser.unary());
        }
        self.postfix()
    }

    pub(super) fn postfix(&mut self) -> Parsed<Expression> {
        let from = self.at;
        let outside = std::mem::take(&mut self.tallest);
        let atom = self.atom();
        self.tallest = self.tallest.max(outside);
        let mut left = atom?;
        for _ in 0..=CHAIN_LENGTH_MAX {
            let kind = if self.symbol(".") {
                ExpressionKind::Property(left, self.name("a property key")?)
            } else if self.is_symbol(":")
                && matches!(self.ahead(1), TokenKind::Word(_) | TokenKind::Quoted(_) | TokenKind::Symbol("!" | "%" | "("))
            {
                self.advance();
                let alternatives = !self.bar_ends;
                ExpressionKind::Labels(left, self.label_expression("a label", alternatives)?)
            } else if self.symbol("[") {
                self.index_or_slice(left)?
            } else if self.is_symbol("{") && left.as_variable().is_some() {
                self.map_projection(left)?
            } else {
                return Ok(left);
            };
            left = self.make(from, kind);
        }
        Err(self.chain_too_long())
    }

    fn index_or_slice(&mut self, of: Expression) -> Parsed<ExpressionKind> {
        if self.symbol("..") {
            if self.is_symbol("]") {
                return Err(self.compile_error(
                    self.span(),
                    Code::UnexpectedSyntax,
                    "The start or end (or both) is required for a collection slice",
                ));
            }
            let to = self.expression()?;
            self.need_symbol("]")?;
            return Ok(ExpressionKind::Slice(of, None, Some(to)));
        }
        let first = self.expression()?;
        if self.symbol("..") {
            let to = if self.is_symbol("]") { None } else { Some(self.expression()?) };
            self.need_symbol("]")?;
            return Ok(ExpressionKind::Slice(of, Some(first), to));
        }
        self.need_symbol("]")?;
        Ok(ExpressionKind::Index(of, first))
    }

    fn map_projection(&mut self, of: Expression) -> Parsed<ExpressionKind> {
        self.need_symbol("{")?;
        let mut items = Vec::new();
        if !self.symbol("}") {
            loop {
                items.push(if self.symbol(".") {
                    if self.symbol("*") { MapItem::All } else { MapItem::Key(self.name("a property key")?) }
                } else {
                    let name = self.name("a property key")?;
                    if self.symbol(":") { MapItem::Entry(name, self.expression()?) } else { MapItem::Variable(name) }
                });
                if !self.symbol(",") {
                    break;
                }
            }
            self.need_symbol("}")?;
        }
        Ok(ExpressionKind::MapProjection(of, items))
    }

    pub(super) fn atom(&mut self) -> Parsed<Expression> {
        let from = self.at;
        let kind = match self.kind().clone() {
            TokenKind::Integer(n) => {
                let Ok(value) = i64::try_from(n) else {
                    return Err(self.compile_error(
                        self.span(),
                        Code::IntegerOverflow,
                        format!("The integer {n} does not fit into 64 bits"),
                    ));
                };
                self.advance();
                ExpressionKind::Integer(value)
            }
            TokenKind::Float(n) => {
                self.advance();
                ExpressionKind::Float(n)
            }
            TokenKind::Malformed => {
                let message = format!("Invalid number '{}'", self.source(self.span()));
                return Err(Box::new(Diagnostic::syntax(self.text, self.span(), Code::InvalidNumberLiteral, message)));
            }
            TokenKind::Text(text) => {
                self.advance();
                ExpressionKind::Text(text)
            }
            TokenKind::Symbol("$") => {
                self.advance();
                self.parameter()?
            }
            TokenKind::Symbol("[") => self.list_or_comprehension()?,
            TokenKind::Symbol("{") => self.map()?,
            TokenKind::Symbol("(") => return self.parenthesised(),
            TokenKind::Quoted(_) => self.variable_or_call()?,
            TokenKind::Word(word) => self.word_atom(&word)?,
            _ => return Err(self.no_expression()),
        };
        Ok(self.make(from, kind))
    }

    /// Signs and NOT begin expressions too; one word says it all.
    fn no_expression(&mut self) -> Box<Diagnostic> {
        self.expect_note("an expression");
        self.expected.retain(|what| !["NOT", "-", "+"].contains(&what.as_ref()));
        self.unexpected()
    }

    fn parameter(&mut self) -> Parsed<ExpressionKind> {
        let text = match self.kind() {
            TokenKind::Word(text) | TokenKind::Quoted(text) => text.clone(),
            TokenKind::Integer(n) => Text::from(n.to_string()),
            _ => {
                self.expect_note("a parameter name");
                return Err(self.unexpected());
            }
        };
        self.advance();
        Ok(ExpressionKind::Parameter(text))
    }

    fn word_atom(&mut self, word: &str) -> Parsed<ExpressionKind> {
        let calls = matches!(self.ahead(1), TokenKind::Symbol("("));
        // `count {.x}` is a projection of a variable of that name.
        let opens = matches!(self.ahead(1), TokenKind::Symbol("{")) && !matches!(self.ahead(2), TokenKind::Symbol("." | "}"));
        let upper = word.to_ascii_uppercase();
        let kind = match upper.as_str() {
            "TRUE" => ExpressionKind::Boolean(true),
            "FALSE" => ExpressionKind::Boolean(false),
            "NULL" => ExpressionKind::Null,
            "CASE" => {
                self.advance();
                return self.case();
            }
            "COUNT" if calls && matches!(self.ahead(2), TokenKind::Symbol("*")) => {
                self.advance();
                self.advance();
                self.advance();
                self.need_symbol(")")?;
                return Ok(ExpressionKind::CountRows);
            }
            "ALL" | "ANY" | "NONE" | "SINGLE" if calls => return self.quantifier(&upper),
            "REDUCE" if calls => return self.reduce(),
            "EXISTS" if opens => return self.subquery(SubqueryKind::Exists),
            "COUNT" if opens => return self.subquery(SubqueryKind::Count),
            "COLLECT" if opens => return self.subquery(SubqueryKind::Collect),
            "SHORTESTPATH" | "ALLSHORTESTPATHS" if calls => {
                return match self.shortest_path()? {
                    Some(part) => Ok(ExpressionKind::Pattern(part)),
                    None => self.variable_or_call(),
                };
            }
            _ => return self.variable_or_call(),
        };
        self.advance();
        Ok(kind)
    }

    fn variable_or_call(&mut self) -> Parsed<ExpressionKind> {
        // A dotted name is a function only when a parenthesis follows it.
        let mut length = 1;
        while matches!(self.ahead(length), TokenKind::Symbol("."))
            && matches!(self.ahead(length + 1), TokenKind::Word(_) | TokenKind::Quoted(_))
        {
            length += 2;
        }
        if !matches!(self.ahead(length), TokenKind::Symbol("(")) {
            if self.is_reserved() {
                return Err(self.no_expression());
            }
            return Ok(ExpressionKind::Variable(self.name("an expression")?.text));
        }
        if self.is_reserved() {
            return Err(self.no_expression());
        }
        let mut name = self.name("a function")?;
        while self.symbol(".") {
            let next = self.name("a function")?;
            name = Name { text: Text::from(format!("{}.{}", name.text, next.text)), span: name.span.to(next.span) };
        }
        self.need_symbol("(")?;
        if name.text.eq_ignore_ascii_case("trim") && self.has_from() {
            return self.trim_from(name.span);
        }
        let distinct = self.words("DISTINCT");
        let arguments = if self.symbol(")") { Vec::new() } else { self.expressions(")")? };
        Ok(ExpressionKind::Call { name, distinct, arguments })
    }

    /// After `trim(`: `BOTH 'x' FROM text`, where `BOTH` or the characters may be left out.
    fn trim_from(&mut self, span: Span) -> Parsed<ExpressionKind> {
        let function = if self.words("LEADING") {
            "ltrim"
        } else if self.words("TRAILING") {
            "rtrim"
        } else {
            self.words("BOTH");
            "btrim"
        };
        let characters = if self.is_word_at(0, "FROM") { None } else { Some(self.expression()?) };
        self.need_words("FROM")?;
        let mut arguments = vec![self.expression()?];
        arguments.extend(characters);
        self.need_symbol(")")?;
        Ok(ExpressionKind::Call { name: Name { text: function.into(), span }, distinct: false, arguments })
    }

    /// Whether FROM stands between two operands before the parenthesis that closes; a variable may have that name.
    fn has_from(&self) -> bool {
        let mut open = 0;
        let mut after_operand = false;
        for token in &self.tokens[self.at..] {
            match token.kind {
                TokenKind::End => return false,
                TokenKind::Symbol("(" | "[" | "{") => open += 1,
                TokenKind::Symbol(")" | "]" | "}") if open == 0 => return false,
                TokenKind::Symbol(")" | "]" | "}") => open -= 1,
                _ if open == 0 && after_operand && token.kind.is_word("FROM") => return true,
                _ => {}
            }
            after_operand = !matches!(token.kind, TokenKind::Symbol(symbol) if !matches!(symbol, ")" | "]" | "}"));
        }
        false
    }

    /// One or more expressions and the closing symbol.
    fn expressions(&mut self, close: &'static str) -> Parsed<Vec<Expression>> {
        let mut all = vec![self.expression()?];
        while self.symbol(",") {
            all.push(self.expression()?);
        }
        self.need_symbol(close)?;
        Ok(all)
    }

    fn case(&mut self) -> Parsed<ExpressionKind> {
        let subject = if self.words("WHEN") {
            None
        } else {
            let subject = self.expression()?;
            self.need_words("WHEN")?;
            Some(subject)
        };
        let mut branches = Vec::new();
        loop {
            let mut whens = vec![self.expression()?];
            while subject.is_some() && self.symbol(",") {
                whens.push(self.expression()?);
            }
            self.need_words("THEN")?;
            let (at, copied) = (self.at, self.copied);
            let then = self.expression()?;
            let tokens = self.at - at + self.copied - copied;
            let last = whens.pop();
            for when in whens {
                let again = self.copy(&then, tokens)?;
                branches.push((when, again));
            }
            branches.extend(last.map(|when| (when, then)));
            if !self.words("WHEN") {
                break;
            }
        }
        let otherwise = if self.words("ELSE") { Some(self.expression()?) } else { None };
        self.need_words("END")?;
        Ok(ExpressionKind::Case { subject, branches, otherwise })
    }

    fn quantifier(&mut self, word: &str) -> Parsed<ExpressionKind> {
        let span = self.span();
        let kind = match word {
            "ALL" => Quantifier::All,
            "ANY" => Quantifier::Any,
            "NONE" => Quantifier::None,
            _ => Quantifier::Single,
        };
        self.advance();
        self.need_symbol("(")?;
        let variable = self.variable()?;
        self.need_words("IN")?;
        let list = self.expression()?;
        if self.is_symbol(")") {
            return Err(self.compile_error(
                span,
                Code::UnexpectedSyntax,
                format!("{}(...) requires a WHERE predicate", word.to_lowercase()),
            ));
        }
        self.need_words("WHERE")?;
        let condition = self.expression()?;
        self.need_symbol(")")?;
        Ok(ExpressionKind::Quantifier { kind, variable, list, condition })
    }

    fn reduce(&mut self) -> Parsed<ExpressionKind> {
        self.advance();
        self.need_symbol("(")?;
        let total = self.variable()?;
        self.need_symbol("=")?;
        let initial = self.expression()?;
        self.need_symbol(",")?;
        let variable = self.variable()?;
        self.need_words("IN")?;
        let list = self.expression_before_bar()?;
        self.need_symbol("|")?;
        let step = self.expression()?;
        self.need_symbol(")")?;
        Ok(ExpressionKind::Reduce { total, initial, variable, list, step })
    }

    fn list_or_comprehension(&mut self) -> Parsed<ExpressionKind> {
        let named = matches!((self.ahead(2), self.ahead(3)), (TokenKind::Symbol("="), TokenKind::Symbol("(")));
        if (named || matches!(self.ahead(1), TokenKind::Symbol("(")))
            && let Some(kind) = self.pattern_comprehension()?
        {
            return Ok(kind);
        }
        let named = matches!(self.ahead(1), TokenKind::Word(_) | TokenKind::Quoted(_));
        if self.is_word_at(2, "IN") && named && !self.has_failed(Reading::Comprehension) {
            let back = self.at;
            self.speculate()?;
            self.advance();
            let variable = self.variable()?;
            self.need_words("IN")?;
            let list = self.expression_before_bar()?;
            let filter = if self.words("WHERE") { Some(self.expression_before_bar()?) } else { None };
            let result = if self.symbol("|") { Some(self.expression()?) } else { None };
            if filter.is_some() || result.is_some() || self.is_symbol("]") {
                self.need_symbol("]")?;
                return Ok(ExpressionKind::Comprehension { variable, list, filter, result });
            }
            // `[a IN b, c]` is a list of a truth value and another element.
            self.take_back(Reading::Comprehension, back);
        }
        self.need_symbol("[")?;
        if self.symbol("]") {
            return Ok(ExpressionKind::List(Vec::new()));
        }
        Ok(ExpressionKind::List(self.expressions("]")?))
    }

    /// From the token before the pattern; moves nothing when there is no pattern comprehension here.
    #[inline(never)]
    fn pattern_comprehension(&mut self) -> Parsed<Option<ExpressionKind>> {
        if self.has_failed(Reading::PatternComprehension) {
            return Ok(None);
        }
        let back = self.at;
        self.speculate()?;
        self.advance();
        let part = match self.pattern_part() {
            Ok(part) if !part.steps.is_empty() => part,
            _ => {
                self.take_back(Reading::PatternComprehension, back);
                return Ok(None);
            }
        };
        let filter = if self.words("WHERE") { Some(self.expression_before_bar()?) } else { None };
        if filter.is_none() && !self.is_symbol("|") {
            self.take_back(Reading::PatternComprehension, back);
            return Ok(None);
        }
        self.need_symbol("|")?;
        let result = self.expression()?;
        self.need_symbol("]")?;
        Ok(Some(ExpressionKind::PatternComprehension { part, filter, result }))
    }

    /// `EXISTS { … }` and its kin, from the word on: a pattern with a WHERE, or a query.
    #[inline(never)]
    fn subquery(&mut self, kind: SubqueryKind) -> Parsed<ExpressionKind> {
        self.advance();
        self.need_symbol("{")?;
        let named = matches!(self.ahead(1), TokenKind::Symbol("="));
        let shortest = ["shortestPath", "allShortestPaths"].iter().any(|word| self.is_word_at(0, word));
        let body = if self.is_symbol("(") || named || shortest {
            let parts = self.matched_parts()?;
            let condition = if self.words("WHERE") { Some(self.expression()?) } else { None };
            SubqueryBody::Pattern { parts, condition }
        } else {
            // What it goes through is over when the row goes on.
            let matched = self.matched;
            let query = self.nested(|parser| parser.regular_query());
            self.matched = matched;
            SubqueryBody::Query(query?)
        };
        self.need_symbol("}")?;
        Ok(ExpressionKind::Subquery { kind, body })
    }

    fn map(&mut self) -> Parsed<ExpressionKind> {
        let open = self.span();
        self.need_symbol("{")?;
        let mut entries = Vec::new();
        if self.symbol("}") {
            return Ok(ExpressionKind::Map(entries));
        }
        loop {
            let key = self.name("a key")?;
            if self.is_symbol("}") && entries.is_empty() {
                return Err(self.compile_error(
                    open,
                    Code::UnexpectedSyntax,
                    "The old parameter syntax `{param}` is no longer supported. Please use `$param` instead",
                ));
            }
            self.need_symbol(":")?;
            entries.push((key, self.expression()?));
            if !self.symbol(",") {
                break;
            }
        }
        self.need_symbol("}")?;
        Ok(ExpressionKind::Map(entries))
    }

    /// A pattern (`(a)-->()`) or an expression in parentheses.
    fn parenthesised(&mut self) -> Parsed<Expression> {
        let from = self.at;
        if self.edge_follows_parenthesis() && !self.has_failed(Reading::Path) {
            self.speculate()?;
            if let Ok(part) = self.path()
                && !part.steps.is_empty()
            {
                return Ok(self.make(from, ExpressionKind::Pattern(part)));
            }
            self.take_back(Reading::Path, from);
        }
        self.need_symbol("(")?;
        let inner = self.expression()?;
        self.need_symbol(")")?;
        let span: Span = self.span_from(from);
        Ok(Expression { span, ..inner })
    }

    /// Looks past the matching parenthesis, so that nested parentheses are not parsed twice at every level.
    fn edge_follows_parenthesis(&self) -> bool {
        let mut open = 0;
        for (i, token) in self.tokens[self.at..].iter().enumerate() {
            match token.kind {
                TokenKind::Symbol("(") => open += 1,
                TokenKind::Symbol(")") => open -= 1,
                _ => {}
            }
            if open == 0 {
                return match self.ahead(i + 1) {
                    TokenKind::Symbol("-") => matches!(self.ahead(i + 2), TokenKind::Symbol("-" | "[")),
                    TokenKind::Symbol("<") => matches!(self.ahead(i + 2), TokenKind::Symbol("-")),
                    _ => false,
                };
            }
        }
        false
    }
}
