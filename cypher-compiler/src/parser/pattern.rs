//! Patterns: nodes, edges, paths.

use super::{CHAIN_LENGTH_MAX, MATCHED_NODES_MAX, Parsed, Parser};
use weir_model::plan::Search;

use crate::ast::{Direction, EdgePattern, Expression, ExpressionKind, LabelExpression, Name, NodePattern, PatternPart};
use crate::error::Code;
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn pattern_parts(&mut self) -> Parsed<Vec<PatternPart>> {
        let mut parts = vec![self.pattern_part()?];
        while self.symbol(",") {
            parts.push(self.pattern_part()?);
        }
        Ok(parts)
    }

    /// Parts of a pattern that is looked for.
    pub(super) fn matched_parts(&mut self) -> Parsed<Vec<PatternPart>> {
        let from = self.at;
        let parts = self.pattern_parts()?;
        if parts.iter().map(|part| part.steps.len() + 1).sum::<usize>() > MATCHED_NODES_MAX {
            let message = format!("A pattern has at most {MATCHED_NODES_MAX} nodes");
            return Err(self.compile_error(self.span_from(from), Code::TooLong, message));
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
        if let Some(mut part) = self.shortest_path()? {
            part.variable = variable;
            part.span = self.span_from(from);
            return Ok(part);
        }
        if matches!(self.kind(), TokenKind::Word(_) | TokenKind::Quoted(_)) && !self.is_reserved() {
            let name = self.source(self.span());
            let message = format!("Parentheses are required to identify nodes in patterns, i.e. ({name})");
            return Err(self.compile_error(self.span(), Code::UnexpectedSyntax, message));
        }
        let mut part = self.path()?;
        part.variable = variable;
        part.span = self.span_from(from);
        Ok(part)
    }

    /// `shortestPath(…)` and `allShortestPaths(…)`: one edge, which may stand for many.
    pub(super) fn shortest_path(&mut self) -> Parsed<Option<PatternPart>> {
        let search = match () {
            _ if !matches!(self.ahead(1), TokenKind::Symbol("(")) => return Ok(None),
            _ if self.is_word_at(0, "shortestPath") => Search::Shortest,
            _ if self.is_word_at(0, "allShortestPaths") => Search::AllShortest,
            _ => return Ok(None),
        };
        let (from, word) = (self.at, self.source(self.span()));
        self.advance();
        self.need_symbol("(")?;
        let part = self.path()?;
        self.need_symbol(")")?;
        if part.steps.len() != 1 {
            let message = format!("{word}(...) requires a pattern containing a single relationship");
            return Err(self.compile_error(part.span, Code::UnexpectedSyntax, message));
        }
        Ok(Some(PatternPart { search, span: self.span_from(from), ..part }))
    }

    /// A node, and edges with nodes after it. A level of its own: on the way down a pattern takes more of the stack than
    /// most expressions.
    pub(super) fn path(&mut self) -> Parsed<PatternPart> {
        self.nested(|parser| parser.nodes_and_edges())
    }

    fn nodes_and_edges(&mut self) -> Parsed<PatternPart> {
        let from = self.at;
        let start = self.node_pattern()?;
        let mut steps = Vec::new();
        while self.edge_begins() {
            let edge = self.edge_pattern()?;
            steps.push((edge, self.node_pattern()?));
            if steps.len() > CHAIN_LENGTH_MAX {
                return Err(self.compile_error(
                    self.span(),
                    Code::TooLong,
                    format!("A path has at most {CHAIN_LENGTH_MAX} edges"),
                ));
            }
        }
        Ok(PatternPart { variable: None, search: Search::All, start, steps, span: self.span_from(from) })
    }

    fn edge_begins(&mut self) -> bool {
        self.expect_note("a relationship pattern");
        match (self.kind(), self.ahead(1)) {
            (TokenKind::Symbol("-"), TokenKind::Symbol("-" | "[")) => true,
            (TokenKind::Symbol("<"), TokenKind::Symbol("-")) => matches!(self.ahead(2), TokenKind::Symbol("-" | "[")),
            _ => false,
        }
    }

    fn node_pattern(&mut self) -> Parsed<NodePattern> {
        let from = self.at;
        self.need_symbol("(")?;
        let variable = self.optional_variable()?;
        let labelled = self.symbol(":") || (variable.is_some() && self.is_word_at(0, "IS") && self.words("IS"));
        let expression = if labelled { Some(self.label_expression("a label", true)?) } else { None };
        let labels = expression.as_ref().and_then(LabelExpression::all_of);
        let (labels, label_expression) = match labels {
            Some(names) => (names.into_iter().cloned().collect(), None),
            None => (Vec::new(), expression),
        };
        let properties = self.pattern_properties()?;
        let condition = if self.words("WHERE") { Some(self.expression()?) } else { None };
        self.need_symbol(")")?;
        Ok(NodePattern { variable, labels, label_expression, properties, condition, span: self.span_from(from) })
    }

    /// What follows the colon: `|` binds least, then `&` and the old `:`, then `!`. Where `alternatives` is false a bar is
    /// left alone, because it means something else there.
    pub(super) fn label_expression(&mut self, what: &'static str, alternatives: bool) -> Parsed<LabelExpression> {
        let mut parts = vec![self.label_conjunction(what)?];
        while alternatives && self.symbol("|") {
            // `[:A|:B]` is the old way to write `[:A|B]`.
            self.symbol(":");
            parts.push(self.label_conjunction(what)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { LabelExpression::Or(parts) })
    }

    fn label_conjunction(&mut self, what: &'static str) -> Parsed<LabelExpression> {
        let mut parts = vec![self.label_term(what)?];
        while self.symbol("&") || self.symbol(":") {
            parts.push(self.label_term(what)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { LabelExpression::And(parts) })
    }

    fn label_term(&mut self, what: &'static str) -> Parsed<LabelExpression> {
        if self.symbol("!") {
            return Ok(LabelExpression::Not(Box::new(self.nested(|parser| parser.label_term(what))?)));
        }
        if self.symbol("%") {
            return Ok(LabelExpression::Any);
        }
        if self.symbol("(") {
            let inner = self.nested(|parser| parser.label_expression(what, true))?;
            self.need_symbol(")")?;
            return Ok(inner);
        }
        Ok(LabelExpression::Name(self.name(what)?))
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
            return Err(self.compile_error(expression.span, Code::UnexpectedSyntax, "Expected a map or a parameter"));
        }
        self.expect_note("a property map");
        Ok(None)
    }

    fn edge_pattern(&mut self) -> Parsed<EdgePattern> {
        let from = self.at;
        let left = self.symbol("<");
        self.need_symbol("-")?;
        let mut edge = EdgePattern {
            variable: None,
            kinds: Vec::new(),
            kind_expression: None,
            length: None,
            properties: None,
            condition: None,
            direction: Direction::Either,
            span: self.span(),
        };
        if self.symbol("[") {
            edge.variable = self.optional_variable()?;
            if self.symbol(":") {
                let kinds = self.label_expression("a relationship type", true)?;
                match kinds.one_of() {
                    Some(names) => edge.kinds = names.into_iter().cloned().collect(),
                    None => edge.kind_expression = Some(kinds),
                }
            }
            if self.is_symbol("..") {
                let message = "A relationship of variable length is written with an asterisk before the bounds, as in `*1..3`";
                return Err(self.compile_error(self.span(), Code::InvalidRelationshipPattern, message));
            }
            if self.symbol("*") {
                edge.length = Some(self.length()?);
            }
            edge.properties = self.pattern_properties()?;
            edge.condition = if self.words("WHERE") { Some(self.expression()?) } else { None };
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
        let min = self.bound()?;
        if !self.symbol("..") {
            return Ok((min, min));
        }
        Ok((min, self.bound()?))
    }

    fn bound(&mut self) -> Parsed<Option<u64>> {
        match *self.kind() {
            TokenKind::Integer(n) if i64::try_from(n).is_err() => {
                let message = format!("The integer {} does not fit into 64 bits", self.source(self.span()));
                Err(self.compile_error(self.span(), Code::IntegerOverflow, message))
            }
            TokenKind::Integer(n) => {
                self.advance();
                Ok(Some(n))
            }
            // What stands here could be nothing but a property map, and a parameter is refused as one too.
            TokenKind::Symbol("$") => {
                let message = "The bounds of a length are written out, as in `*1..3`: a parameter cannot stand for them";
                Err(self.compile_error(self.span(), Code::InvalidParameterUse, message))
            }
            TokenKind::Symbol("-") => {
                let message = "The length of a relationship pattern cannot be negative";
                Err(self.compile_error(self.span(), Code::InvalidRelationshipPattern, message))
            }
            _ => Ok(None),
        }
    }
}
