//! The kinds of the words of a text, for colours: a walk over the tokens that knows in which clause and which bracket it is.
//!
//! Guesses where a token alone does not tell, and is never wrong for long: the next clause begins anew. Linear in the text.

use std::collections::HashMap;

use weir_model::Text;

use super::keywords;
use crate::error::Span;
use crate::lexer::{Token, TokenKind, lex};

/// In the order of the legend that clients are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    MatchKeyword,
    ReturnKeyword,
    AsKeyword,
    WhereKeyword,
    /// Also of the other clauses that change the graph.
    CreateKeyword,
    /// Also of the other words between conditions.
    AndKeyword,
    PatternVariable,
    AssignmentOperator,
    AdditionOperator,
    NodeLabel,
    NodeVariable,
    Variable,
    Edge,
    FunctionApplication,
    Parameter,
    StringLiteral,
    NullLiteral,
    BooleanLiteral,
    IntLiteral,
    DoubleLiteral,
    Property,
    EdgeLabel,
}

pub const LEGEND: [&str; 22] = [
    "MatchKeyword",
    "ReturnKeyword",
    "AsKeyword",
    "WhereKeyword",
    "CreateKeyword",
    "AndKeyword",
    "PatternVariable",
    "AssignmentOperator",
    "AdditionOperator",
    "NodeLabel",
    "NodeVariable",
    "Variable",
    "Edge",
    "FunctionApplication",
    "Parameter",
    "StringLiteral",
    "NullLiteral",
    "BooleanLiteral",
    "IntLiteral",
    "DoubleLiteral",
    "Property",
    "EdgeLabel",
];

/// The words that have a class, in order.
pub fn marks(text: &str) -> Vec<(Span, Class)> {
    let tokens = lex(text).tokens;
    let marked = mark(&tokens);
    tokens.iter().zip(marked).filter_map(|(token, marked)| Some((token.span, marked.class?))).collect()
}

/// What is known of a token.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marked {
    pub class: Option<Class>,
    /// A brace around clauses.
    pub block: Option<Block>,
    /// How many brackets are open around it in its block.
    pub depth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Of a CALL: what it returns can be seen after it.
    OfCall,
    OfExpression,
    End,
}

#[derive(Clone, Copy, PartialEq)]
enum Bracket {
    Node,
    Edge,
    Map,
    /// A brace around clauses, with what was open before it.
    Block {
        in_pattern: bool,
        depth: usize,
    },
    Other,
}

/// How far a bracket is looked for that closes another: a node of a pattern is short.
const NODE_TOKENS_MAX: usize = 64;

pub(super) fn mark(tokens: &[Token]) -> Vec<Marked> {
    let mut walk = Walk {
        tokens,
        at: 0,
        brackets: Vec::new(),
        depth: 0,
        in_pattern: false,
        sets: false,
        known: HashMap::new(),
        marked: Vec::new(),
    };
    while walk.at < tokens.len() {
        let marked = walk.token();
        walk.marked.push(marked);
        walk.at += 1;
    }
    walk.marked
}

struct Walk<'a> {
    tokens: &'a [Token],
    at: usize,
    brackets: Vec<Bracket>,
    /// How many brackets are open in the innermost block.
    depth: usize,
    /// After MATCH, CREATE or MERGE, before what ends the pattern.
    in_pattern: bool,
    /// After SET.
    sets: bool,
    /// What variables were declared as.
    known: HashMap<Text, Class>,
    marked: Vec<Marked>,
}

impl Walk<'_> {
    fn kind(&self, ahead: usize) -> Option<&TokenKind> {
        self.tokens.get(self.at + ahead).map(|token| &token.kind)
    }

    fn before(&self, back: usize) -> Option<&TokenKind> {
        self.at.checked_sub(back).map(|at| &self.tokens[at].kind)
    }

    fn is_symbol(&self, ahead: usize, symbol: &str) -> bool {
        matches!(self.kind(ahead), Some(TokenKind::Symbol(s)) if *s == symbol)
    }

    fn was_symbol(&self, back: usize, symbols: &[&str]) -> bool {
        matches!(self.before(back), Some(TokenKind::Symbol(s)) if symbols.contains(s))
    }

    fn was_word(&self, words: &[&str]) -> bool {
        self.before(1).is_some_and(|before| words.iter().any(|word| before.is_word(word)))
    }

    fn inside(&self) -> Option<Bracket> {
        self.brackets.last().copied()
    }

    fn token(&mut self) -> Marked {
        let depth = self.depth;
        let class = |class| Marked { class: Some(class), depth, ..Marked::default() };
        let tokens = self.tokens;
        match &tokens[self.at].kind {
            TokenKind::Text(_) => class(Class::StringLiteral),
            TokenKind::Integer(_) if self.was_symbol(1, &["$"]) => class(Class::Parameter),
            TokenKind::Integer(_) => class(Class::IntLiteral),
            TokenKind::Float(_) => class(Class::DoubleLiteral),
            TokenKind::Word(word) => Marked { class: self.word(word, true), depth, ..Marked::default() },
            TokenKind::Quoted(word) => Marked { class: self.word(word, false), depth, ..Marked::default() },
            TokenKind::Symbol(symbol) => self.symbol(symbol),
            TokenKind::Malformed | TokenKind::End => Marked { depth, ..Marked::default() },
        }
    }

    fn symbol(&mut self, symbol: &str) -> Marked {
        let mut marked = Marked { depth: self.depth, ..Marked::default() };
        match symbol {
            "(" => {
                let bracket = if self.opens_node() { Bracket::Node } else { Bracket::Other };
                self.open(bracket);
            }
            "[" => {
                let edge = self.was_symbol(1, &["-"]) && (self.in_pattern || self.was_symbol(2, &[")", "<"]));
                self.open(if edge { Bracket::Edge } else { Bracket::Other });
            }
            "{" if self.opens_map() => self.open(Bracket::Map),
            "{" => {
                let of_call = self.was_word(&["CALL"]) || self.was_symbol(1, &[")"]);
                marked.block = Some(if of_call { Block::OfCall } else { Block::OfExpression });
                self.brackets.push(Bracket::Block { in_pattern: self.in_pattern, depth: self.depth });
                // The pattern of EXISTS { … } needs no MATCH.
                (self.in_pattern, self.depth, self.sets) = (!of_call, 0, false);
            }
            ")" | "]" | "}" => match self.brackets.pop() {
                Some(Bracket::Block { in_pattern, depth }) => {
                    marked.block = Some(Block::End);
                    (self.in_pattern, self.depth) = (in_pattern, depth);
                }
                Some(_) => {
                    self.depth -= 1;
                    marked.depth = self.depth;
                }
                None => {}
            },
            "+" => marked.class = Some(Class::AdditionOperator),
            "+=" => marked.class = Some(Class::AssignmentOperator),
            "=" if self.depth == 0 && (self.in_pattern || self.sets) => marked.class = Some(Class::AssignmentOperator),
            "$" => marked.class = Some(Class::Parameter),
            _ => {}
        }
        marked
    }

    fn open(&mut self, bracket: Bracket) {
        self.brackets.push(bracket);
        self.depth += 1;
    }

    /// Whether a parenthesis is that of a node.
    fn opens_node(&self) -> bool {
        // `-[…]->(`, `--(`, `]-(`.
        if self.was_symbol(1, &["-", ">"]) && self.was_symbol(2, &["-", "]"]) {
            return true;
        }
        let called = match self.before(1) {
            Some(TokenKind::Quoted(_)) => true,
            Some(TokenKind::Word(word)) => !keywords::is_part(word),
            _ => false,
        };
        if called {
            return false;
        }
        if self.in_pattern && !self.brackets.contains(&Bracket::Map) {
            return true;
        }
        // A pattern as an expression: what closes the parenthesis is followed by the beginning of an edge.
        let mut depth = 0;
        for (at, token) in self.tokens.iter().enumerate().skip(self.at).take(NODE_TOKENS_MAX) {
            match token.kind {
                TokenKind::Symbol("(" | "[" | "{") => depth += 1,
                TokenKind::Symbol(")" | "]" | "}") => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let next = |ahead: usize| match self.tokens.get(at + ahead).map(|token| &token.kind) {
                    Some(TokenKind::Symbol(symbol)) => *symbol,
                    _ => "",
                };
                return matches!((next(1), next(2)), ("-", "[" | "-") | ("<", "-"));
            }
        }
        false
    }

    /// Whether a brace is that of a map, not one around clauses.
    fn opens_map(&self) -> bool {
        if matches!(self.inside(), Some(Bracket::Node | Bracket::Edge | Bracket::Map)) {
            return true;
        }
        let named = matches!(self.kind(1), Some(TokenKind::Word(_) | TokenKind::Quoted(_)));
        let projected = match self.before(1) {
            Some(TokenKind::Word(word)) => !keywords::is_part(word),
            Some(TokenKind::Quoted(_)) => true,
            _ => false,
        };
        projected || (named && self.is_symbol(2, ":")) || self.is_symbol(1, ".") || self.is_symbol(1, "}")
    }

    fn word(&mut self, word: &Text, may_be_keyword: bool) -> Option<Class> {
        if self.was_symbol(1, &["$"]) {
            return Some(Class::Parameter);
        }
        if self.is_called() {
            return Some(Class::FunctionApplication);
        }
        if self.was_symbol(1, &["."]) {
            return Some(Class::Property);
        }
        let inside = self.inside();
        if inside == Some(Bracket::Map) && self.is_symbol(1, ":") {
            return Some(Class::Property);
        }
        if inside == Some(Bracket::Edge) && self.was_symbol(1, &[":", "|", "&", "!"]) {
            return Some(Class::EdgeLabel);
        }
        if self.was_symbol(1, &[":"]) && inside != Some(Bracket::Map)
            || inside == Some(Bracket::Node) && self.was_symbol(1, &["|", "&", "!"])
        {
            return Some(Class::NodeLabel);
        }
        if may_be_keyword && let Some(class) = self.keyword(word) {
            return class;
        }
        let declared = match inside {
            Some(Bracket::Node) if self.was_symbol(1, &["("]) => Some(Class::NodeVariable),
            Some(Bracket::Edge) if self.was_symbol(1, &["["]) => Some(Class::Edge),
            _ if self.in_pattern && self.depth == 0 && self.is_symbol(1, "=") => Some(Class::PatternVariable),
            _ => None,
        };
        match declared {
            // A node that was declared as something else stays that.
            Some(class) => Some(*self.known.entry(word.clone()).or_insert(class)),
            None => Some(self.known.get(word).copied().unwrap_or(Class::Variable)),
        }
    }

    /// Whether it is a part of a dotted name that is followed by a parenthesis, or stands after CALL.
    fn is_called(&self) -> bool {
        let mut ahead = 0;
        while self.is_symbol(ahead + 1, ".") && matches!(self.kind(ahead + 2), Some(TokenKind::Word(_) | TokenKind::Quoted(_))) {
            ahead += 2;
            if ahead > NODE_TOKENS_MAX {
                return false;
            }
        }
        let after_call = self.was_word(&["CALL"]) || self.was_symbol(1, &["."]) && self.was_called();
        let dotted = ahead > 0 || self.was_symbol(1, &["."]);
        let name = match self.kind(ahead) {
            Some(TokenKind::Word(word)) => dotted || !keywords::is_part(word) || is_function(word),
            Some(TokenKind::Quoted(_)) => true,
            _ => false,
        };
        (after_call && name) || (name && self.is_symbol(ahead + 1, "(") && !self.was_symbol(1, &[":", "|", "&", "!"]))
    }

    /// Whether what stands before the dot is part of a name that is called.
    fn was_called(&self) -> bool {
        let before = self.marked.len().checked_sub(2).and_then(|at| self.marked.get(at));
        before.is_some_and(|before| before.class == Some(Class::FunctionApplication))
    }

    /// The class of a keyword, if it is one; some have none.
    fn keyword(&mut self, word: &str) -> Option<Option<Class>> {
        let upper = word.to_ascii_uppercase();
        let class = match upper.as_str() {
            "MATCH" | "CREATE" | "MERGE" => {
                // ON CREATE SET and ON MATCH SET belong to MERGE.
                if !self.was_word(&["ON"]) {
                    (self.in_pattern, self.sets) = (true, false);
                }
                if upper == "MATCH" { Class::MatchKeyword } else { Class::CreateKeyword }
            }
            "OPTIONAL" => Class::MatchKeyword,
            "RETURN" | "WITH" => {
                self.end_pattern();
                if self.was_word(&["STARTS", "ENDS"]) {
                    return Some(None);
                }
                Class::ReturnKeyword
            }
            "WHERE" => {
                // The condition inside a node does not end the pattern around it.
                if self.depth == 0 {
                    self.end_pattern();
                }
                Class::WhereKeyword
            }
            "SET" => {
                (self.in_pattern, self.sets) = (false, true);
                Class::CreateKeyword
            }
            "DELETE" | "DETACH" | "REMOVE" | "FOREACH" => {
                self.end_pattern();
                Class::CreateKeyword
            }
            "UNWIND" | "CALL" | "ORDER" | "UNION" | "LOAD" | "YIELD" => {
                self.end_pattern();
                return Some(None);
            }
            "AS" => Class::AsKeyword,
            "AND" | "OR" | "XOR" | "NOT" => Class::AndKeyword,
            "NULL" => Class::NullLiteral,
            "TRUE" | "FALSE" => Class::BooleanLiteral,
            _ if self.known.contains_key(word) => return None,
            _ if keywords::is_part(word) => return Some(None),
            _ => return None,
        };
        Some(Some(class))
    }

    fn end_pattern(&mut self) {
        (self.in_pattern, self.sets) = (false, false);
    }
}

/// Keywords that are functions before a parenthesis.
fn is_function(word: &str) -> bool {
    ["COUNT", "COLLECT", "EXISTS", "ALL"].iter().any(|name| name.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `word/Class` for each that has one.
    fn check(text: &str, expected: &str) {
        let shown: Vec<String> =
            marks(text).iter().map(|(span, class)| format!("{}/{class:?}", &text[span.start..span.end])).collect();
        assert_eq!(shown.join(" "), expected, "{text}");
    }

    #[test]
    fn the_legend_names_the_classes() {
        for (index, name) in LEGEND.iter().enumerate() {
            assert_eq!(LEGEND.len(), Class::EdgeLabel as usize + 1);
            let shown = [
                Class::MatchKeyword,
                Class::ReturnKeyword,
                Class::AsKeyword,
                Class::WhereKeyword,
                Class::CreateKeyword,
                Class::AndKeyword,
                Class::PatternVariable,
                Class::AssignmentOperator,
                Class::AdditionOperator,
                Class::NodeLabel,
                Class::NodeVariable,
                Class::Variable,
                Class::Edge,
                Class::FunctionApplication,
                Class::Parameter,
                Class::StringLiteral,
                Class::NullLiteral,
                Class::BooleanLiteral,
                Class::IntLiteral,
                Class::DoubleLiteral,
                Class::Property,
                Class::EdgeLabel,
            ];
            assert_eq!((format!("{:?}", shown[index]).as_str(), shown[index] as usize), (*name, index));
        }
    }

    #[test]
    fn words_of_patterns_and_expressions() {
        check(
            "MATCH p = (n:Person {name: 'x'})-[r:KNOWS|LIKES]->(m) WHERE n.age >= 1.5 AND NOT m:Dog RETURN p AS q",
            "MATCH/MatchKeyword p/PatternVariable =/AssignmentOperator n/NodeVariable Person/NodeLabel name/Property \
             'x'/StringLiteral r/Edge KNOWS/EdgeLabel LIKES/EdgeLabel m/NodeVariable WHERE/WhereKeyword n/NodeVariable age/Property \
             1.5/DoubleLiteral AND/AndKeyword NOT/AndKeyword m/NodeVariable Dog/NodeLabel RETURN/ReturnKeyword p/PatternVariable \
             AS/AsKeyword q/Variable",
        );
        check(
            "MATCH (n) WHERE id(n) = idFrom($that.a, 1) SET n.x = 1 + null, n += {a: true}",
            "MATCH/MatchKeyword n/NodeVariable WHERE/WhereKeyword id/FunctionApplication n/NodeVariable idFrom/FunctionApplication \
             $/Parameter that/Parameter a/Property 1/IntLiteral SET/CreateKeyword n/NodeVariable x/Property =/AssignmentOperator \
             1/IntLiteral +/AdditionOperator null/NullLiteral n/NodeVariable +=/AssignmentOperator a/Property true/BooleanLiteral",
        );
        check(
            "CALL help.functions() YIELD name RETURN text.split(name, ','), count(*)",
            "help/FunctionApplication functions/FunctionApplication name/Variable RETURN/ReturnKeyword text/FunctionApplication \
             split/FunctionApplication name/Variable ','/StringLiteral count/FunctionApplication",
        );
        check(
            "MATCH (a) WHERE (a)-[:X]->(:B) OR EXISTS { (a)--(c) } RETURN [x IN [1] | x], (1 - 2)",
            "MATCH/MatchKeyword a/NodeVariable WHERE/WhereKeyword a/NodeVariable X/EdgeLabel B/NodeLabel OR/AndKeyword \
             a/NodeVariable c/NodeVariable RETURN/ReturnKeyword x/Variable 1/IntLiteral x/Variable 1/IntLiteral 2/IntLiteral",
        );
        check(
            "MERGE (n) ON CREATE SET n.order = 1",
            "MERGE/CreateKeyword n/NodeVariable CREATE/CreateKeyword SET/CreateKeyword n/NodeVariable order/Property =/AssignmentOperator 1/IntLiteral",
        );
    }

    #[test]
    fn what_is_broken_is_marked_as_far_as_it_goes() {
        check("MATCH (n:", "MATCH/MatchKeyword n/NodeVariable");
        check("RETURN 'abc", "RETURN/ReturnKeyword");
        check(")}] RETURN x", "RETURN/ReturnKeyword x/Variable");
        check("", "");
    }

    /// A text of nothing but openings takes no longer than its length tells.
    #[test]
    fn hostile_texts_take_little_time() {
        let began = std::time::Instant::now();
        for part in ["(", "a.", "{", "[-", "(a)-", "x=", "CALL {"] {
            marks(&part.repeat(100_000));
        }
        assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    }
}
