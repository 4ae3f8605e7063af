//! Text to steps. The words are those of the lexer for Cypher, which are the same.

use weir_model::{Text, Value};

use super::{Mistake, MistakeKind};
use crate::error::Span;
use crate::lexer::{Token, TokenKind, lex};

const DEPTH_MAX: usize = 32;
/// Steps of a whole query, those inside others included.
const STEPS_MAX: usize = 200;
const VALUES_MAX: usize = 10_000;

pub struct Query {
    pub assigned: Vec<(Text, Operand)>,
    pub steps: Vec<Step>,
}

pub struct Step {
    pub name: Text,
    pub span: Span,
    pub arguments: Vec<Argument>,
}

pub enum Argument {
    Value(Operand),
    /// `_.out()`
    Traversal(Vec<Step>),
    /// `within(1, 2)`
    Predicate(Text, Span, Vec<Operand>),
}

pub struct Operand {
    pub kind: OperandKind,
    pub span: Span,
}

pub enum OperandKind {
    Literal(Value),
    Variable(Text),
    List(Vec<Operand>),
    IdFrom(Vec<Operand>),
}

const PREDICATES: &[&str] = &["eq", "neq", "within", "regex"];

type Read<T> = Result<T, Box<Mistake>>;

pub fn read(text: &str) -> Read<Query> {
    let lexed = lex(text);
    if let Some(error) = lexed.errors.into_iter().next() {
        return Err(Box::new(Mistake { kind: MistakeKind::Lexical, place: error }));
    }
    let mut reader = Reader { text, tokens: lexed.tokens, at: 0, depth: 0, steps: 0, values: 0 };
    let query = reader.query()?;
    reader.symbol(";");
    match reader.kind() {
        TokenKind::End => Ok(query),
        _ => Err(reader.unexpected("'.'")),
    }
}

struct Reader<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    steps: usize,
    values: usize,
}

impl Reader<'_> {
    fn kind(&self) -> &TokenKind {
        &self.tokens[self.at].kind
    }

    fn is_next(&self, symbol: &str) -> bool {
        matches!(self.tokens.get(self.at + 1).map(|token| &token.kind), Some(TokenKind::Symbol(s)) if *s == symbol)
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let there = matches!(self.kind(), TokenKind::Symbol(s) if *s == symbol);
        if there {
            self.advance();
        }
        there
    }

    fn need(&mut self, symbol: &str) -> Read<()> {
        if self.symbol(symbol) { Ok(()) } else { Err(self.unexpected(&format!("'{symbol}'"))) }
    }

    fn mistake(&self, span: Span, message: impl Into<String>) -> Box<Mistake> {
        Mistake::new(self.text, span, MistakeKind::Parse, message)
    }

    fn unexpected(&self, expected: &str) -> Box<Mistake> {
        let found = match self.kind() {
            TokenKind::End => "Unexpected end of input".to_owned(),
            _ => format!("Invalid input '{}'", &self.text[self.span().start..self.span().end]),
        };
        self.mistake(self.span(), format!("{found}: expected {expected}"))
    }

    fn query(&mut self) -> Read<Query> {
        let mut assigned = Vec::new();
        loop {
            match self.kind().clone() {
                TokenKind::Word(word) if word == "g" && self.is_next(".") => break,
                TokenKind::Word(name) if self.is_next("=") => {
                    self.advance();
                    self.advance();
                    assigned.push((name, self.operand("a value")?));
                    self.need(";")?;
                }
                TokenKind::End => return Err(self.unexpected("`g`")),
                _ => return Err(self.unexpected("`g`, or a variable and `=`")),
            }
        }
        self.advance();
        let steps = self.steps()?;
        match steps.first() {
            Some(first) if ["V", "v", "recentV"].contains(&first.name.as_str()) => Ok(Query { assigned, steps }),
            first => {
                let span = first.map_or(self.span(), |first| first.span);
                Err(self.mistake(span, "a traversal begins with `V` or `recentV`"))
            }
        }
    }

    fn steps(&mut self) -> Read<Vec<Step>> {
        let mut steps = Vec::new();
        while self.symbol(".") {
            let span = self.span();
            let TokenKind::Word(name) = self.kind().clone() else { return Err(self.unexpected("a step")) };
            self.advance();
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(self.mistake(span, format!("a traversal has at most {STEPS_MAX} steps")));
            }
            self.need("(")?;
            let arguments = self.until(")", Reader::argument)?;
            steps.push(Step { name, span, arguments });
        }
        Ok(steps)
    }

    /// What is separated by commas, and the bracket that closes it.
    fn until<T>(&mut self, end: &str, mut one: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let mut all = Vec::new();
        if self.symbol(end) {
            return Ok(all);
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.mistake(self.span(), format!("the traversal is nested more than {DEPTH_MAX} levels deep here")));
        }
        loop {
            all.push(one(self)?);
            if self.symbol(end) {
                self.depth -= 1;
                return Ok(all);
            }
            if !self.symbol(",") {
                return Err(self.unexpected(&format!("',' or '{end}'")));
            }
        }
    }

    fn argument(&mut self) -> Read<Argument> {
        if let TokenKind::Word(word) = self.kind().clone() {
            let span = self.span();
            if (word == "_" || word == "__") && self.is_next(".") {
                self.advance();
                return Ok(Argument::Traversal(self.steps()?));
            }
            if PREDICATES.contains(&word.as_str()) && self.is_next("(") {
                self.advance();
                self.advance();
                return Ok(Argument::Predicate(word, span, self.until(")", |reader| reader.operand("a value"))?));
            }
        }
        Ok(Argument::Value(self.operand("a value or ')'")?))
    }

    fn operand(&mut self, expected: &str) -> Read<Operand> {
        let start = self.span();
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(self.mistake(start, format!("a traversal has at most {VALUES_MAX} values; send a list as a parameter")));
        }
        let negative = self.symbol("-");
        let kind = match self.kind().clone() {
            TokenKind::Integer(n) if negative => OperandKind::Literal(Value::Integer((n as i64).wrapping_neg())),
            TokenKind::Integer(n) => match i64::try_from(n) {
                Ok(n) => OperandKind::Literal(Value::Integer(n)),
                Err(_) => return Err(self.mistake(start, "the number does not fit into 64 bits")),
            },
            TokenKind::Float(x) => OperandKind::Literal(Value::Float(if negative { -x } else { x })),
            _ if negative => return Err(self.unexpected("a number")),
            TokenKind::Text(text) => OperandKind::Literal(Value::Text(text)),
            TokenKind::Word(word) if word == "true" || word == "false" => OperandKind::Literal(Value::Boolean(word == "true")),
            TokenKind::Word(word) if word == "null" => OperandKind::Literal(Value::Null),
            TokenKind::Word(word) if word == "idFrom" && self.is_next("(") => {
                self.advance();
                self.advance();
                let values = self.until(")", |reader| reader.operand("a value"))?;
                return Ok(Operand { kind: OperandKind::IdFrom(values), span: start });
            }
            TokenKind::Word(name) => OperandKind::Variable(name),
            TokenKind::Symbol("[") => {
                self.advance();
                let values = self.until("]", |reader| reader.operand("a value"))?;
                return Ok(Operand { kind: OperandKind::List(values), span: start });
            }
            _ => return Err(self.unexpected(expected)),
        };
        let span = start.to(self.span());
        self.advance();
        Ok(Operand { kind, span })
    }
}
