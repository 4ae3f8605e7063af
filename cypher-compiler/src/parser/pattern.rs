//! Patterns: nodes, edges, paths.

use super::{CHAIN_LENGTH_MAX, Parsed, Parser};
use crate::ast::{Direction, EdgePattern, Expression, ExpressionKind, Name, NodePattern, PatternPart};
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn pattern_parts(&mut self) -> Parsed<Vec<PatternPart>> {
        let mut parts = vec![self.pattern_part()?];
        while self.symbol(",") {
            parts.push(self.pattern_part()?);
        }
        Ok(parts)
    }

    pub(super) fn pattern_part(&mut self) -> Parsed<PatternPart> {
        let from = self.at;
        let variable = if matches!(self.ahead(1), TokenKind::Symbol("=")) {
            let variable = self.variable()?;
            self.need_symbol("=")?;
            Some(variable)
        } else {
            None
        };
        let is_shortest = ["shortestPath", "allShortestPaths"].iter().any(|word| self.is_word_at(0, word));
        if is_shortest {
            return Err(self.compile_error(
                self.span(),
                "Unsupported",
                "`shortestPath` planning in graph patterns is not supported",
            ));
        }
        if matches!(self.kind(), TokenKind::Word(_) | TokenKind::Quoted(_)) && !self.is_reserved() {
            let name = self.source(self.span());
            let message = format!("Parentheses are required to identify nodes in patterns, i.e. ({name})");
            return Err(self.compile_error(self.span(), "UnexpectedSyntax", message));
        }
        let mut part = self.path()?;
        part.variable = variable;
        part.span = self.span_from(from);
        Ok(part)
    }

    /// A node, and edges with nodes after it.
    pub(super) fn path(&mut self) -> Parsed<PatternPart> {
        let from = self.at;
        let start = self.node_pattern()?;
        let mut steps = Vec::new();
        while self.edge_begins() {
            let edge = self.edge_pattern()?;
            steps.push((edge, self.node_pattern()?));
            if steps.len() > CHAIN_LENGTH_MAX {
                return Err(self.compile_error(self.span(), "TooLong", format!("A path has at most {CHAIN_LENGTH_MAX} edges")));
            }
        }
        Ok(PatternPart { variable: None, start, steps, span: self.span_from(from) })
    }

    fn edge_begins(&mut self) -> bool {
        self.expect_note("a relationship pattern");
        match (self.kind(), self.ahead(1)) {
            (TokenKind::Symbol("-"), TokenKind::Symbol("-" | "[")) => true,
            (TokenKind::Symbol("<"), TokenKind::Symbol("-")) => matches!(self.ahead(2), TokenKind::Symbol("-" | "[")),
            _ => false,
        }
    }

    pub(super) fn node_pattern(&mut self) -> Parsed<NodePattern> {
        let from = self.at;
        self.need_symbol("(")?;
        let variable = self.optional_variable()?;
        let mut labels = Vec::new();
        while self.symbol(":") {
            if self.is_symbol("!") || self.is_symbol("%") {
                return Err(self.not_yet("A label expression"));
            }
            labels.push(self.name("a label")?);
            if self.is_symbol("|") || self.is_symbol("&") {
                return Err(self.not_yet("A label expression"));
            }
        }
        let properties = self.pattern_properties()?;
        let condition = if self.words("WHERE") { Some(self.expression()?) } else { None };
        self.need_symbol(")")?;
        Ok(NodePattern { variable, labels, properties, condition, span: self.span_from(from) })
    }

    fn optional_variable(&mut self) -> Parsed<Option<Name>> {
        match self.kind() {
            TokenKind::Word(_) if self.is_word_at(0, "WHERE") => Ok(None),
            TokenKind::Word(_) | TokenKind::Quoted(_) => self.variable().map(Some),
            _ => {
                self.expect_note("a variable");
                Ok(None)
            }
        }
    }

    /// A map or a parameter.
    fn pattern_properties(&mut self) -> Parsed<Option<Expression>> {
        if self.is_symbol("{") || self.is_symbol("$") {
            let expression = self.atom()?;
            if matches!(*expression.kind, ExpressionKind::Map(_) | ExpressionKind::Parameter(_)) {
                return Ok(Some(expression));
            }
            return Err(self.compile_error(expression.span, "UnexpectedSyntax", "Expected a map or a parameter"));
        }
        self.expect_note("a property map");
        Ok(None)
    }

    pub(super) fn edge_pattern(&mut self) -> Parsed<EdgePattern> {
        let from = self.at;
        let left = self.symbol("<");
        self.need_symbol("-")?;
        let mut edge = EdgePattern {
            variable: None,
            kinds: Vec::new(),
            length: None,
            properties: None,
            direction: Direction::Either,
            span: self.span(),
        };
        if self.symbol("[") {
            edge.variable = self.optional_variable()?;
            if self.symbol(":") {
                edge.kinds.push(self.name("a relationship type")?);
                while self.symbol("|") {
                    self.symbol(":");
                    edge.kinds.push(self.name("a relationship type")?);
                }
            }
            if self.symbol("*") {
                edge.length = Some(self.length()?);
            }
            edge.properties = self.pattern_properties()?;
            self.need_symbol("]")?;
        }
        self.need_symbol("-")?;
        let right = self.symbol(">");
        edge.direction = match (left, right) {
            (true, false) => Direction::Left,
            (false, true) => Direction::Right,
            _ => Direction::Either,
        };
        edge.span = self.span_from(from);
        Ok(edge)
    }

    fn length(&mut self) -> Parsed<(Option<u64>, Option<u64>)> {
        let min = self.bound();
        if !self.symbol("..") {
            return Ok((min, min));
        }
        Ok((min, self.bound()))
    }

    fn bound(&mut self) -> Option<u64> {
        if let TokenKind::Integer(n) = *self.kind() {
            self.advance();
            return Some(n);
        }
        None
    }
}
