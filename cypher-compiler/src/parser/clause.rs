//! Queries and clauses.

use super::{CLAUSE_COUNT_MAX, Parsed, Parser};
use crate::ast::{Clause, ClauseKind, ExpressionKind, Hint, Query, SetItem};
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// A whole text.
    pub(super) fn query(&mut self) -> Parsed<Query> {
        let command = self.schema()?;
        let is_command = command.is_some();
        let query = match command {
            Some(command) => command,
            None => self.regular_query()?,
        };
        let mut ended = false;
        while self.symbol(";") {
            ended = true;
        }
        match self.kind() {
            TokenKind::End => Ok(query),
            _ if ended => Err(Box::new(crate::error::Diagnostic::syntax(
                self.text,
                self.span(),
                "UnexpectedSyntax",
                "Expected exactly one statement per query",
            ))),
            _ => {
                if !is_command {
                    self.expect_note("a clause");
                }
                Err(self.unexpected())
            }
        }
    }

    /// Clauses, and more after each UNION.
    pub(super) fn regular_query(&mut self) -> Parsed<Query> {
        let first = self.clauses()?;
        let mut unions = Vec::new();
        loop {
            let span = self.span();
            if !self.words("UNION") {
                return Ok(Query { first, unions });
            }
            let all = self.words("ALL");
            unions.push((all, span, self.clauses()?));
        }
    }

    /// One or more clauses.
    fn clauses(&mut self) -> Parsed<Vec<Clause>> {
        let mut clauses = Vec::new();
        while let Some(clause) = self.clause()? {
            clauses.push(clause);
            if clauses.len() > CLAUSE_COUNT_MAX {
                return Err(self.compile_error(
                    self.span(),
                    "TooLong",
                    format!("A query has at most {CLAUSE_COUNT_MAX} clauses"),
                ));
            }
        }
        if clauses.is_empty() {
            self.expected.clear();
            self.expect_note("a clause");
            return Err(self.unexpected());
        }
        Ok(clauses)
    }

    fn clause(&mut self) -> Parsed<Option<Clause>> {
        let from = self.at;
        let TokenKind::Word(word) = self.kind().clone() else { return Ok(None) };
        let kind = match word.to_ascii_uppercase().as_str() {
            "OPTIONAL" => {
                self.advance();
                self.need_words("MATCH")?;
                self.match_clause(true)?
            }
            "MATCH" => {
                self.advance();
                self.match_clause(false)?
            }
            "UNWIND" => {
                self.advance();
                let list = self.expression()?;
                self.need_words("AS")?;
                ClauseKind::Unwind { list, variable: self.variable()? }
            }
            "WITH" => {
                self.advance();
                let projection = self.projection()?;
                let condition = if self.words("WHERE") { Some(self.expression()?) } else { None };
                ClauseKind::With { projection, condition }
            }
            "RETURN" => {
                self.advance();
                ClauseKind::Return(self.projection()?)
            }
            "CREATE" | "DROP" if self.is_word_at(1, "INDEX") => {
                return Err(self.compile_error(self.span(), "Unsupported", "A command about indexes stands alone"));
            }
            "CREATE" if self.is_word_at(1, "CONSTRAINT") => return Err(self.no_command()),
            "DROP" => return Err(self.no_command()),
            "CREATE" => {
                self.advance();
                ClauseKind::Create(self.pattern_parts()?)
            }
            "MERGE" => {
                self.advance();
                self.merge()?
            }
            "SET" => {
                self.advance();
                ClauseKind::Set(self.set_items(true)?)
            }
            "REMOVE" => {
                self.advance();
                ClauseKind::Remove(self.set_items(false)?)
            }
            "DETACH" => {
                self.advance();
                self.need_words("DELETE")?;
                self.delete(true)?
            }
            "DELETE" => {
                self.advance();
                self.delete(false)?
            }
            "FOREACH" => {
                self.advance();
                self.for_each()?
            }
            "CALL" => {
                self.advance();
                self.call()?
            }
            "LOAD" => {
                self.advance();
                self.load_csv()?
            }
            "SHOW" => {
                self.advance();
                self.show()?
            }
            "USE" => return Err(self.not_yet("USE")),
            _ => return Ok(None),
        };
        Ok(Some(Clause { kind, span: self.span_from(from) }))
    }

    fn no_command(&self) -> Box<crate::error::Diagnostic> {
        let message = "Cypher commands are not supported (only queries, and indexes)";
        self.compile_error(self.span(), "Unsupported", message)
    }

    pub(super) fn not_yet(&self, what: &str) -> Box<crate::error::Diagnostic> {
        self.compile_error(self.span(), "Unsupported", format!("{what} is not supported in this version"))
    }

    fn match_clause(&mut self, optional: bool) -> Parsed<ClauseKind> {
        let parts = self.pattern_parts()?;
        let mut hints = Vec::new();
        while self.words("USING") {
            if self.words("JOIN") {
                self.need_words("ON")?;
                hints.push(Hint { scan: false, variable: self.variable()? });
                while self.symbol(",") {
                    self.variable()?;
                }
                continue;
            }
            let scan = self.words("SCAN");
            if !scan {
                let _ = self.words("TEXT") || self.words("RANGE") || self.words("POINT");
                self.need_words("INDEX")?;
                self.words("SEEK");
            }
            let variable = self.variable()?;
            self.need_symbol(":")?;
            self.name("a label")?;
            if self.symbol("(") {
                self.name("a property key")?;
                while self.symbol(",") {
                    self.name("a property key")?;
                }
                self.need_symbol(")")?;
            }
            hints.push(Hint { scan, variable });
        }
        let condition = if self.words("WHERE") { Some(self.expression()?) } else { None };
        Ok(ClauseKind::Match { optional, parts, hints, condition })
    }

    fn merge(&mut self) -> Parsed<ClauseKind> {
        let part = self.pattern_part()?;
        let (mut on_create, mut on_match) = (Vec::new(), Vec::new());
        while self.words("ON") {
            let items = if self.words("CREATE") {
                &mut on_create
            } else {
                self.need_words("MATCH")?;
                &mut on_match
            };
            self.need_words("SET")?;
            items.extend(self.set_items(true)?);
        }
        Ok(ClauseKind::Merge { part, on_create, on_match })
    }

    /// The items of SET (`assigning`) or REMOVE.
    fn set_items(&mut self, assigning: bool) -> Parsed<Vec<SetItem>> {
        let mut items = vec![self.set_item(assigning)?];
        while self.symbol(",") {
            items.push(self.set_item(assigning)?);
        }
        Ok(items)
    }

    fn set_item(&mut self, assigning: bool) -> Parsed<SetItem> {
        let target = self.postfix()?;
        let span = target.span;
        match *target.kind {
            ExpressionKind::Property(of, key) => {
                let value = if assigning {
                    self.need_symbol("=")?;
                    Some(self.expression()?)
                } else {
                    None
                };
                Ok(SetItem::Property { of, key, value })
            }
            ExpressionKind::Labels(of, labels) if of.as_variable().is_some() => {
                let ExpressionKind::Variable(text) = *of.kind else { return Err(self.unexpected()) };
                let Some(names) = labels.all_of() else {
                    let message = "Label expressions in patterns are not allowed in SET and REMOVE, only labels";
                    return Err(self.compile_error(span, "InvalidLabelExpression", message));
                };
                let labels = names.into_iter().cloned().collect();
                Ok(SetItem::Labels { variable: crate::ast::Name { text, span: of.span }, labels })
            }
            ExpressionKind::Variable(text) if assigning => {
                let variable = crate::ast::Name { text, span };
                if self.symbol("+=") {
                    return Ok(SetItem::All { variable, value: self.expression()?, replace: false });
                }
                self.need_symbol("=")?;
                Ok(SetItem::All { variable, value: self.expression()?, replace: true })
            }
            _ => {
                self.expect_note("a property or a label");
                Err(self.unexpected())
            }
        }
    }

    fn delete(&mut self, detach: bool) -> Parsed<ClauseKind> {
        let mut targets = vec![self.expression()?];
        while self.symbol(",") {
            targets.push(self.expression()?);
        }
        Ok(ClauseKind::Delete { detach, targets })
    }

    fn for_each(&mut self) -> Parsed<ClauseKind> {
        self.need_symbol("(")?;
        let variable = self.variable()?;
        self.need_words("IN")?;
        let list = self.expression_before_bar()?;
        self.need_symbol("|")?;
        let updates = self.nested(|parser| parser.clauses())?;
        self.need_symbol(")")?;
        Ok(ClauseKind::ForEach { variable, list, updates })
    }
}
