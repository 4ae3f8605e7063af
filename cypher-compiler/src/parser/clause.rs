//! Queries and clauses.

use super::{CLAUSE_COUNT_MAX, MATCHED_IN_ALL_MAX, Parsed, Parser};
use crate::ast::{Clause, ClauseKind, ExpressionKind, Hint, PatternPart, Query, SetItem};
use crate::error::{Code, Diagnostic, ERROR_COUNT_MAX};
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// A whole text.
    pub(super) fn query(&mut self) -> Query {
        let nothing = || Query { first: Vec::new(), unions: Vec::new() };
        let (query, is_command) = match self.schema() {
            Ok(Some(command)) => (command, true),
            Ok(None) => {
                let query = self.regular_query().unwrap_or_else(|error| {
                    // At this depth `clauses` keeps its errors; what ends here is a query beyond all bounds.
                    self.keep_error(*error, 0);
                    nothing()
                });
                (query, false)
            }
            Err(error) => {
                self.keep_error(*error, 0);
                return nothing();
            }
        };
        let mut ended = false;
        while self.symbol(";") {
            ended = true;
        }
        if ended && *self.kind() != TokenKind::End {
            let message = "Expected exactly one statement per query";
            let error = Diagnostic::syntax(self.text, self.span(), Code::UnexpectedSyntax, message);
            self.keep_error(error, self.at);
        } else if is_command && *self.kind() != TokenKind::End {
            let error = self.unexpected();
            self.keep_error(*error, self.at);
        }
        query
    }

    /// Clauses, and more after each UNION.
    pub(super) fn regular_query(&mut self) -> Parsed<Query> {
        let before = self.matched;
        let first = self.clauses()?;
        let (mut unions, mut matched) = (Vec::new(), self.matched);
        loop {
            let span = self.span();
            if !self.words("UNION") {
                // What comes after it comes after the longest of them.
                self.matched = matched;
                return Ok(Query { first, unions });
            }
            let all = self.words("ALL");
            self.matched = before;
            unions.push((all, span, self.clauses()?));
            matched = matched.max(self.matched);
        }
    }

    /// One or more clauses. Of the query itself, not of one inside it, those that cannot be read are left out.
    fn clauses(&mut self) -> Parsed<Vec<Clause>> {
        let recovers = self.depth == 0;
        let mut clauses = Vec::new();
        let mut lost = false;
        loop {
            let from = self.at;
            let error = match self.clause() {
                Ok(Some(clause)) => {
                    self.count_clause(from)?;
                    clauses.push(clause);
                    continue;
                }
                Ok(None) if clauses.is_empty() && !lost => {
                    self.expected.clear();
                    self.expect_note("a clause");
                    self.unexpected()
                }
                Ok(None) if recovers && !self.at_end_of_clauses() => {
                    ["UNION", ";", "a clause"].iter().for_each(|what| self.expect_note(*what));
                    self.unexpected()
                }
                Ok(None) => return Ok(clauses),
                Err(error) => error,
            };
            if !recovers {
                return Err(error);
            }
            self.keep_error(*error, from);
            lost = true;
            if !self.skip_to_clause(from) {
                return Ok(clauses);
            }
        }
    }

    /// Counts the clause that began at a token.
    fn count_clause(&mut self, from: usize) -> Parsed<()> {
        if self.clauses.insert(from) && self.clauses.len() > CLAUSE_COUNT_MAX {
            let message = format!("A query has at most {CLAUSE_COUNT_MAX} clauses");
            return Err(self.compile_error(self.tokens[from].span, Code::TooLong, message));
        }
        Ok(())
    }

    /// Counts the pattern of a clause, which begins at a token. The first that is too much is told, and no other.
    fn count_matched(&mut self, parts: &[PatternPart], from: usize) -> Parsed<()> {
        let before = self.matched;
        self.matched += parts.iter().map(|part| part.steps.len() + 1).sum::<usize>();
        if self.matched > MATCHED_IN_ALL_MAX && before <= MATCHED_IN_ALL_MAX {
            let message = format!("The patterns of all clauses together have at most {MATCHED_IN_ALL_MAX} nodes");
            return Err(self.compile_error(self.span_from(from), Code::TooLong, message));
        }
        Ok(())
    }

    fn at_end_of_clauses(&self) -> bool {
        matches!(self.kind(), TokenKind::End | TokenKind::Symbol(";")) || self.is_word_at(0, "UNION")
    }

    /// Notes an error of the clause that begins at token `from`.
    fn keep_error(&mut self, error: Diagnostic, from: usize) {
        self.lost_from = self.lost_from.or(Some(self.tokens[from].span.start));
        self.errors.push(error);
    }

    /// Skips to the next word that can only begin a clause of the same query, from the clause that begins at token `from` and
    /// could not be read. False when nothing more is to be read.
    fn skip_to_clause(&mut self, from: usize) -> bool {
        let next = self.at.max(from + 1).min(self.tokens.len() - 1);
        // The updates of FOREACH stand in parentheses. Elsewhere one that is not closed must not swallow what follows.
        let parentheses = self.tokens[from].kind.is_word("FOREACH");
        let mut depth = 0_i64;
        for at in from..self.tokens.len() {
            match self.tokens[at].kind {
                TokenKind::Symbol("{") => depth += 1,
                TokenKind::Symbol("}") => depth -= 1,
                TokenKind::Symbol("(") if parentheses => depth += 1,
                TokenKind::Symbol(")") if parentheses => depth -= 1,
                TokenKind::End | TokenKind::Symbol(";") if at >= next => {
                    self.at = at;
                    return false;
                }
                _ => {}
            }
            if at >= next && depth <= 0 && self.begins_clause(at) {
                self.at = at;
                return self.errors.len() < ERROR_COUNT_MAX;
            }
        }
        self.at = self.tokens.len() - 1;
        false
    }

    /// Whether the word at a token begins a clause or the next side of a UNION, whatever stands before it.
    fn begins_clause(&self, at: usize) -> bool {
        let TokenKind::Word(word) = &self.tokens[at].kind else { return false };
        let before = at.checked_sub(1).map(|before| &self.tokens[before].kind);
        let after_word = |words: &[&str]| words.iter().any(|word| before.is_some_and(|kind| kind.is_word(word)));
        if matches!(before, Some(TokenKind::Symbol("." | ":" | "$" | "|" | "&"))) || after_word(&["AS"]) {
            return false;
        }
        let followed = |by: fn(&TokenKind) -> bool| self.tokens.get(at + 1).is_some_and(|token| by(&token.kind));
        let by_name: fn(&TokenKind) -> bool = |kind| matches!(kind, TokenKind::Word(_) | TokenKind::Quoted(_));
        match word.to_ascii_uppercase().as_str() {
            "OPTIONAL" | "UNWIND" | "RETURN" | "MERGE" | "REMOVE" | "DETACH" | "UNION" => true,
            "MATCH" => !after_word(&["ON", "OPTIONAL"]),
            "CREATE" => !after_word(&["ON"]),
            "DELETE" => !after_word(&["DETACH"]),
            "WITH" => !after_word(&["STARTS", "ENDS"]),
            "SET" => !after_word(&["MATCH", "CREATE"]) && followed(by_name),
            "CALL" if after_word(&["OPTIONAL"]) => false,
            "CALL" => followed(by_name) || followed(|kind| matches!(kind, TokenKind::Symbol("{" | "("))),
            "FOREACH" => followed(|kind| matches!(kind, TokenKind::Symbol("("))),
            _ => false,
        }
    }

    fn clause(&mut self) -> Parsed<Option<Clause>> {
        let from = self.at;
        let TokenKind::Word(word) = self.kind().clone() else { return Ok(None) };
        let kind = match word.to_ascii_uppercase().as_str() {
            "OPTIONAL" => {
                self.advance();
                let from = self.at;
                if self.words("CALL") {
                    let kind = self.call()?;
                    ClauseKind::OptionalCall(Box::new(Clause { kind, span: self.span_from(from) }))
                } else {
                    self.need_words("MATCH")?;
                    self.match_clause(true)?
                }
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
            "CREATE" | "DROP" if self.is_word_at(1, "INDEX") || self.is_word_at(1, "EXPIRY") => {
                return Err(self.compile_error(
                    self.span(),
                    Code::Unsupported,
                    "A command about the graph as a whole stands alone",
                ));
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
            "TERMINATE" => {
                self.advance();
                self.terminate()?
            }
            "USE" => return Err(self.not_yet("USE")),
            _ => return Ok(None),
        };
        Ok(Some(Clause { kind, span: self.span_from(from) }))
    }

    fn no_command(&self) -> Box<Diagnostic> {
        let message = "Cypher commands are not supported (only queries, indexes and expiry)";
        self.compile_error(self.span(), Code::Unsupported, message)
    }

    pub(super) fn not_yet(&self, what: &str) -> Box<Diagnostic> {
        self.compile_error(self.span(), Code::Unsupported, format!("{what} is not supported in this version"))
    }

    fn match_clause(&mut self, optional: bool) -> Parsed<ClauseKind> {
        let from = self.at;
        let parts = self.matched_parts()?;
        self.count_matched(&parts, from)?;
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
                    return Err(self.compile_error(span, Code::InvalidLabelExpression, message));
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
