//! Tokens to syntax tree: recursive descent, one file per part of the grammar.
//!
//! Every attempt to read a symbol or keyword notes what it looked for at the present token, so that a syntax error can say
//! all that would have been understood there. Knows no names and no functions.

mod call;
mod clause;
mod expression;
mod pattern;
mod projection;
mod schema;

use std::borrow::Cow;
use std::collections::HashSet;

use weir_model::Text;

use crate::ast::{Name, Query};
use crate::error::{Code, Diagnostic, Span, nearest};
use crate::lexer::{Token, TokenKind, lex};

type Parsed<T> = Result<T, Box<Diagnostic>>;

/// Deeper nesting is refused: the stages after this one walk the tree recursively.
const DEPTH_MAX: usize = 200;
/// Longest chain of one operator or postfix, for the same reason.
const CHAIN_LENGTH_MAX: usize = 1000;
/// Nodes that one clause looks for: the order in which they are found is weighed for all of them together.
const MATCHED_NODES_MAX: usize = 2000;
/// Nodes that the clauses look for through which one row goes: the steps of all these patterns lie within each other for whoever
/// runs the query.
const MATCHED_IN_ALL_MAX: usize = 3000;
/// Of the whole query, also those on other sides of a UNION and in subqueries: they lie within each other for the stages after
/// this one.
const CLAUSE_COUNT_MAX: usize = 1000;
/// Expressions that lie within each other, by nesting and by chains together.
const HEIGHT_MAX: usize = CHAIN_LENGTH_MAX + DEPTH_MAX;
/// Tokens that are read once and stand twice: the middle of `a < b < c`, which doubles with each level that it is nested.
const COPIED_MAX: usize = 100_000;
/// How often a query may make the parser try one reading before another. Bounds the time of hostile texts.
const SPECULATION_COUNT_MAX: usize = 10_000;

/// Words that cannot be bare variables, because a query with them there means something else.
const RESERVED: &[&str] = &[
    "AND", "AS", "CASE", "CREATE", "DELETE", "DETACH", "DISTINCT", "FALSE", "IN", "IS", "MATCH", "MERGE", "NOT", "NULL",
    "OPTIONAL", "OR", "REMOVE", "RETURN", "THEN", "TRUE", "UNION", "UNWIND", "WHEN", "WHERE", "WITH", "XOR",
];

/// Words that begin a clause, for those who misspell one.
const CLAUSES: &[&str] = &[
    "MATCH",
    "OPTIONAL MATCH",
    "UNWIND",
    "WITH",
    "RETURN",
    "CREATE",
    "MERGE",
    "SET",
    "REMOVE",
    "DELETE",
    "DETACH DELETE",
    "FOREACH",
    "CALL",
];

/// What may follow an operand, in the words in which it is looked for.
const OPERATORS: &[&str] = &[
    ".",
    "[",
    "^",
    "*",
    "/",
    "%",
    "+",
    "-",
    "=~",
    "STARTS WITH",
    "ENDS WITH",
    "CONTAINS",
    "IN",
    "IS NOT NULL",
    "IS NULL",
    "=",
    "<>",
    "<=",
    ">=",
    "<",
    ">",
    "AND",
    "XOR",
    "OR",
];

/// What could be read of a text, and what could not.
pub struct Read {
    /// Without the clauses that have errors.
    pub query: Query,
    pub errors: Vec<Diagnostic>,
    /// The offset from which on clauses are missing, where some are. In bytes.
    pub lost_from: Option<usize>,
}

/// The tree of a text without errors.
pub fn parse(text: &str) -> Result<Query, Vec<Diagnostic>> {
    let read = read(text);
    if read.errors.is_empty() { Ok(read.query) } else { Err(read.errors) }
}

/// After an error reading goes on where the next clause begins, so that all errors of a text are told at once.
pub fn read(text: &str) -> Read {
    let lexed = lex(text);
    if !lexed.sound {
        let query = Query { first: Vec::new(), unions: Vec::new() };
        return Read { query, errors: lexed.errors, lost_from: Some(0) };
    }
    let mut parser = Parser {
        text,
        tokens: lexed.tokens,
        at: 0,
        expected: Vec::new(),
        expected_at: 0,
        depth: 0,
        tallest: 0,
        copied: 0,
        clauses: HashSet::new(),
        matched: 0,
        speculations: 0,
        failed: HashSet::new(),
        bar_ends: false,
        errors: lexed.errors,
        lost_from: None,
    };
    let query = parser.query();
    Read { query, errors: parser.errors, lost_from: parser.lost_from }
}

/// What is tried before something else is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Reading {
    Comprehension,
    PatternComprehension,
    Path,
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// What was looked for at token `expected_at`.
    expected: Vec<Cow<'static, str>>,
    expected_at: usize,
    depth: usize,
    /// The greatest height of the expressions that were read since it was set back.
    tallest: usize,
    copied: usize,
    /// The tokens at which clauses begin: a clause that is read again does not count again.
    clauses: HashSet<usize>,
    /// Nodes that the clauses up to here look for, those on other sides of a UNION and in expressions left aside.
    matched: usize,
    speculations: usize,
    /// Readings that were taken back: what was tried, where, and `bar_ends` then. To try them again, because what is around them
    /// is read in another way, would double the time with each level they nest.
    failed: HashSet<(Reading, usize, bool)>,
    /// See `expression_before_bar`.
    bar_ends: bool,
    /// Errors after which reading went on.
    errors: Vec<Diagnostic>,
    /// Where the first clause begins that could not be read.
    lost_from: Option<usize>,
}

impl Parser<'_> {
    fn kind(&self) -> &TokenKind {
        &self.tokens[self.at].kind
    }

    fn ahead(&self, count: usize) -> &TokenKind {
        &self.tokens[(self.at + count).min(self.tokens.len() - 1)].kind
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// From the start of token `from` to the end of the last token read.
    fn span_from(&self, from: usize) -> Span {
        let start = self.tokens[from].span;
        if self.at > from { start.to(self.tokens[self.at - 1].span) } else { start }
    }

    fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn expect_note(&mut self, what: impl Into<Cow<'static, str>>) {
        if self.expected_at != self.at {
            self.expected.clear();
            self.expected_at = self.at;
        }
        let what = what.into();
        if !self.expected.contains(&what) {
            self.expected.push(what);
        }
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.kind(), TokenKind::Symbol(s) if *s == symbol)
    }

    fn is_word_at(&self, count: usize, word: &str) -> bool {
        self.ahead(count).is_word(word)
    }

    fn symbol(&mut self, symbol: &'static str) -> bool {
        if self.is_symbol(symbol) {
            self.advance();
            return true;
        }
        self.expect_note(match symbol {
            "," => "','",
            ")" => "')'",
            "]" => "']'",
            "}" => "'}'",
            other => other,
        });
        false
    }

    fn need_symbol(&mut self, symbol: &'static str) -> Parsed<()> {
        if self.symbol(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Reads the words if all of them are next.
    fn words(&mut self, words: &'static str) -> bool {
        let count = words.split(' ').count();
        if words.split(' ').enumerate().all(|(i, word)| self.is_word_at(i, word)) {
            (0..count).for_each(|_| self.advance());
            return true;
        }
        self.expect_note(words);
        false
    }

    fn need_words(&mut self, words: &'static str) -> Parsed<()> {
        if self.words(words) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// A name where any word will do: keys, labels, types, aliases.
    fn name(&mut self, what: &'static str) -> Parsed<Name> {
        let span = self.span();
        let text = match self.kind() {
            TokenKind::Word(text) | TokenKind::Quoted(text) => text.clone(),
            _ => {
                self.expect_note(what);
                return Err(self.unexpected());
            }
        };
        if text.is_empty() && matches!(what, "a label" | "a relationship type" | "a type") {
            let message = format!("The name of {what} has at least one character");
            return Err(self.compile_error(span, Code::UnexpectedSyntax, message));
        }
        self.advance();
        Ok(Name { text, span })
    }

    fn variable(&mut self) -> Parsed<Name> {
        if self.is_reserved() {
            self.expect_note("a variable");
            return Err(self.unexpected());
        }
        self.name("a variable")
    }

    fn is_reserved(&self) -> bool {
        matches!(self.kind(), TokenKind::Word(word) if RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved)))
    }

    fn unexpected(&self) -> Box<Diagnostic> {
        let found = match self.kind() {
            TokenKind::End => "Unexpected end of input".to_owned(),
            _ => format!("Invalid input '{}'", &self.text[self.span().start..self.span().end]),
        };
        let mut expected: Vec<String> =
            if self.expected_at == self.at { self.expected.iter().map(|e| e.to_string()).collect() } else { Vec::new() };
        let hint = match self.kind() {
            TokenKind::Word(word) => {
                let clauses = if expected.iter().any(|what| what == "a clause") { CLAUSES } else { &[] };
                nearest(word, expected.iter().map(String::as_str).chain(clauses.iter().copied()))
            }
            _ => None,
        };
        // After an operand any operator may stand. That need not be spelled out.
        let count = expected.iter().filter(|what| OPERATORS.contains(&what.as_str())).count();
        if count > 5 {
            expected.retain(|what| !OPERATORS.contains(&what.as_str()));
            expected.insert(0, "an operator".to_owned());
        }
        let message = match expected.as_slice() {
            [] => found,
            [one] => format!("{found}: expected {one}"),
            [most @ .., last] => format!("{found}: expected {} or {last}", most.join(", ")),
        };
        let mut error = Diagnostic::syntax(self.text, self.span(), Code::UnexpectedSyntax, message);
        error.expected = expected;
        Box::new(error.with_hint(hint))
    }

    fn compile_error(&self, span: Span, code: Code, message: impl Into<String>) -> Box<Diagnostic> {
        Box::new(Diagnostic::compile(self.text, span, code, message))
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.compile_error(
                self.span(),
                Code::TooDeep,
                format!("The query is nested more than {DEPTH_MAX} levels deep here"),
            ));
        }
        let depth = self.depth;
        self.depth += 1;
        let result = parse(self);
        self.depth = depth;
        result
    }

    /// Whether a reading from here on has been taken back before.
    fn has_failed(&self, reading: Reading) -> bool {
        self.failed.contains(&(reading, self.at, self.bar_ends))
    }

    /// Takes a reading back that began at a token.
    fn take_back(&mut self, reading: Reading, at: usize) {
        self.at = at;
        self.failed.insert((reading, at, self.bar_ends));
    }

    /// To be called before a reading that may be taken back.
    fn speculate(&mut self) -> Parsed<()> {
        self.speculations += 1;
        if self.speculations > SPECULATION_COUNT_MAX {
            return Err(self.compile_error(
                self.span(),
                Code::TooDeep,
                "The query is too ambiguous to be read in reasonable time",
            ));
        }
        Ok(())
    }

    fn source(&self, span: Span) -> Text {
        Text::new(&self.text[span.start..span.end])
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The tree, or the errors one a line.
    pub fn check(text: &str, expected: &str) {
        let shown = match parse(text) {
            Ok(query) => query.to_string(),
            Err(errors) => {
                let line = |error: &Diagnostic| format!("{}.{} {}", error.line, error.column, error.message);
                errors.iter().map(line).collect::<Vec<_>>().join("\n")
            }
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn running_queries() {
        check("show queries", "CALL query.running()");
        check("SHOW QUERIES YIELD id, query AS text", "CALL query.running() YIELD id, query AS text");
        check("TERMINATE QUERY '7';", "CALL query.terminate(\"7\")");
        check("TERMINATE QUERIES '7', $id", "CALL query.terminate([\"7\", $id])");
        check("TERMINATE '7'", "1.11 Invalid input ''7'': expected QUERIES or QUERY");
    }

    /// What looks like a pattern and is none was read again for each level around it.
    #[test]
    fn readings_that_fail_are_tried_once() {
        let nested = format!("MATCH {}2]->() RETURN 1", "(n)-[ {w: ".repeat(60));
        let errors = parse(&nested).expect_err("is no query");
        assert_eq!(errors[0].code, Code::UnexpectedSyntax, "{}", errors[0].message);
        let nested = format!("RETURN {}1{}", "[x IN ".repeat(40), ", 2]".repeat(40));
        parse(&nested).expect("lists of lists");
    }

    /// The stages after this one go as deep as chains, nesting, clauses and subqueries together.
    #[test]
    fn what_lies_within_each_other_is_bounded_as_a_whole() {
        let code = |text: &str| parse(text).err().map(|errors| errors[0].code);
        let ones = |symbol: &str, count: usize| vec!["1"; count].join(symbol);
        let nested = |inner: &str| (0..150).fold("1".to_owned(), |within, _| format!("({within}{inner})"));
        let chains = format!("RETURN {} + {}", ones("*", 700), ones("+", 700));
        assert_eq!(code(&chains), Some(Code::TooDeep));
        assert_eq!(code(&format!("RETURN {}", nested(&" + 1".repeat(10)))), Some(Code::TooDeep));
        assert_eq!(code(&format!("RETURN {}", nested(&" + 1".repeat(6)))), None);
        let counted = format!("RETURN {} + COUNT {{ MATCH (a) WHERE a.x = {} }}", ones("+", 700), ones("*", 700));
        assert_eq!(code(&counted.replacen("RETURN ", "RETURN 1 = ", 1)), None, "it lies at the end of the chain");
        let counted = format!("RETURN COUNT {{ MATCH (a {{x: {}}}) }} + {}", ones("*", 700), ones("+", 700));
        assert_eq!(code(&counted), Some(Code::TooDeep));
        let within = |clauses: usize| format!("{}RETURN x", "WITH 1 AS x ".repeat(clauses));
        assert_eq!(code(&format!("CALL {{ {} }} {}", within(490), within(490))), None);
        assert_eq!(code(&format!("CALL {{ {} }} {}", within(500), within(500))), Some(Code::TooLong));
        assert_eq!(code(&format!("RETURN 1 AS x{}", " UNION RETURN 1 AS x".repeat(1_000))), Some(Code::TooLong));
    }

    /// A row goes through the patterns of all clauses at once, and through one side of a UNION and one expression after the
    /// other.
    #[test]
    fn patterns_are_bounded_together() {
        let code = |text: &str| parse(text).err().map(|errors| errors[0].code);
        let long = |clauses: usize| format!("MATCH (a){} ", "-->()".repeat(990)).repeat(clauses);
        let short = |clauses: usize| "OPTIONAL MATCH (a)-->()-->() ".repeat(clauses);
        assert_eq!(code(&format!("{}RETURN 1", long(3))), None);
        assert_eq!(code(&format!("{}RETURN 1", long(4))), Some(Code::TooLong));
        assert_eq!(code(&format!("{}RETURN 1", short(998))), None);
        assert_eq!(code(&format!("{}{}RETURN 1", long(1), short(998))), Some(Code::TooLong));
        assert_eq!(code(&format!("{0}RETURN 1 UNION ALL {0}RETURN 1", long(3))), None);
        assert_eq!(code(&format!("{}RETURN 1 UNION ALL {}RETURN 1", long(1), long(4))), Some(Code::TooLong));
        let sides = |first: usize, second: usize| format!("{}RETURN a UNION {}RETURN a", long(first), long(second));
        assert_eq!(code(&format!("CALL {{ {} }} {}RETURN a", sides(1, 1), long(2))), None);
        assert_eq!(code(&format!("CALL {{ {} }} {}RETURN a", sides(2, 1), long(2))), Some(Code::TooLong));
        let counted = |clauses: usize| format!("COUNT {{ {}RETURN 1 }}", long(clauses));
        assert_eq!(code(&format!("{}WHERE {} = {} {}RETURN 1", long(1), counted(2), counted(2), long(2))), None);
        assert_eq!(code(&format!("{}WHERE {} = 1 RETURN 1", long(2), counted(2))), Some(Code::TooLong));
        // What is read twice counts once.
        assert_eq!(code(&format!("{}RETURN [a IN [{}], 1]", long(1), counted(2))), None);
    }

    /// As many as may be, and not one more. What is flat in the tree may be longer.
    #[test]
    fn chains_are_bounded_by_their_operators() {
        let code = |text: &str| parse(text).err().map(|errors| errors[0].code);
        for link in [" + 1", " - 1", " * 1", " ^ 1", " XOR true", " IN []", " IS NULL", ".a", "[0]"] {
            let chain = |count: usize| format!("RETURN x{}", link.repeat(count));
            assert_eq!(code(&chain(CHAIN_LENGTH_MAX)), None, "{link}");
            assert_eq!(code(&chain(CHAIN_LENGTH_MAX + 1)), Some(Code::TooLong), "{link}");
        }
        for link in [" AND x", " OR x", " < x"] {
            assert_eq!(code(&format!("RETURN x{}", link.repeat(10 * CHAIN_LENGTH_MAX))), None, "{link}");
        }
    }

    /// The middle of a comparison of three stands in two comparisons.
    #[test]
    fn comparisons_within_each_other_do_not_double_without_end() {
        let nested = |levels| (0..levels).fold("1".to_owned(), |within, _| format!("(1 <= {within} <= 1)"));
        let counted =
            |levels| (0..levels).fold("1".to_owned(), |within, _| format!("1 < COUNT {{ WITH {within} AS x RETURN x }} < 1"));
        parse(&format!("RETURN {}", nested(10))).expect("some levels");
        for text in [nested(150), counted(60)] {
            let errors = parse(&format!("RETURN {text}")).expect_err("too many levels");
            assert_eq!(errors[0].code, Code::TooDeep);
        }
    }

    #[test]
    fn clauses() {
        check("match (n) return n;", "MATCH (n)\nRETURN n");
        check(
            "MATCH (a:A:B {x: 1})-[r:R|:S]->(b)<--(c)--() USING SCAN a:A WHERE a.x > 1 RETURN DISTINCT *, a.x AS y ORDER BY y DESC, b SKIP 1 LIMIT $n",
            "MATCH (a:A:B {x: 1})-[r:R|S]->(b)<-[]-(c)-[]-() USING SCAN a WHERE (a.x > 1)\nRETURN DISTINCT *, a.x AS y ORDER BY y DESC, b SKIP 1 LIMIT $n",
        );
        check("OPTIONAL MATCH p = (a)-[*1..2]-(b), (c) RETURN p", "OPTIONAL MATCH p = (a)-[*1..2]-(b), (c)\nRETURN p");
        check("UNWIND [1,2] AS x WITH x WHERE x > 1 RETURN x", "UNWIND [1, 2] AS x\nWITH x WHERE (x > 1)\nRETURN x");
        check(
            "MERGE (n:A {k: 1}) ON CREATE SET n.a = 1 ON MATCH SET n += {b: 2}, n:C",
            "MERGE (n:A {k: 1}) ON CREATE SET n.a = 1 ON MATCH SET n += {b: 2}, n:C",
        );
        check("MATCH (n) REMOVE n.x, n:A DETACH DELETE n", "MATCH (n)\nREMOVE n.x, n:A\nDETACH DELETE n");
        check("FOREACH (x IN [1] | SET n.x = x CREATE (m))", "FOREACH (x IN [1] | SET n.x = x CREATE (m))");
        check(
            "MATCH (n IS A WHERE n.x) OPTIONAL CALL (n) { RETURN 1 AS a }",
            "MATCH (n:A WHERE n.x)\nOPTIONAL CALL (n) { RETURN 1 AS a }",
        );
        check("OPTIONAL CALL db.labels() YIELD label RETURN 1", "OPTIONAL CALL db.labels() YIELD label\nRETURN 1");
        check("RETURN 1 AS a UNION ALL RETURN 2 AS a", "RETURN 1 AS a\nUNION ALL\nRETURN 2 AS a");
    }

    #[test]
    fn expressions() {
        for (text, expected) in [
            ("1 + 2 * 3 ^ 2 ^ 2", "(1 + (2 * ((3 ^ 2) ^ 2)))"),
            ("-2 ^ 2", "(-2 ^ 2)"),
            ("-n.x", "(-n.x)"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("a OR b XOR c AND NOT d = e", "(a OR (b XOR (c AND (NOT (d = e)))))"),
            ("1 < x <= 5", "((1 < x) AND (x <= 5))"),
            ("a.b.c[0][1..][..2] IS NOT NULL", "(a.b.c[0][1..][..2] IS NOT NULL)"),
            ("a STARTS WITH 'x' AND b =~ 'y' OR c IN [1]", "(((a STARTS WITH \"x\") AND (b =~ \"y\")) OR (c IN [1]))"),
            ("CASE x WHEN 1 THEN 'a' ELSE 'b' END", "CASE x WHEN 1 THEN \"a\" ELSE \"b\" END"),
            ("CASE x WHEN 1, 2 THEN 'a' END", "CASE x WHEN 1 THEN \"a\" WHEN 2 THEN \"a\" END"),
            ("CASE WHEN a THEN b END", "CASE WHEN a THEN b END"),
            ("n IS A|B AND (m IS C)", "((n:(A|B)) AND (m:C))"),
            ("trim(LEADING 'x' FROM a) + trim(both FROM b)", "(ltrim(a, \"x\") + btrim(b))"),
            ("trim('x' FROM trim(from)) + trim(x.from) + trim(both)", "((btrim(trim(from), \"x\") + trim(x.from)) + trim(both))"),
            ("[x IN range(1, 3) WHERE x > 1 | x * 2]", "[x IN range(1, 3) WHERE (x > 1) | (x * 2)]"),
            ("all(x IN l WHERE x)", "all(x IN l WHERE x)"),
            ("reduce(s = 0, x IN l | s + x)", "reduce(s = 0, x IN l | (s + x))"),
            ("n {.a, .*, b: 1, v}", "n {.a, .*, b: 1, v}"),
            ("text.split(count(DISTINCT n), $`odd`, $0)", "text.split(count(DISTINCT n), $odd, $0)"),
            ("n:A:B AND (m)-->()", "((n:A:B) AND (m)-[]->())"),
            ("(a) - (b)", "(a - b)"),
            ("{a: 1, `b c`: {}}", "{a: 1, b c: {}}"),
            ("[(a)-[:R]->(b) | b.x]", "[(a)-[:R]->(b) | b.x]"),
            ("[p = (a)-[:R*]->() WHERE a:A | p]", "[p = (a)-[:R*..]->() WHERE (a:A) | p]"),
            ("[x IN l WHERE x:A|x.y]", "[x IN l WHERE (x:A) | x.y]"),
            ("[x IN l WHERE x:(A|B)|x.y]", "[x IN l WHERE (x:(A|B)) | x.y]"),
            ("n:A|B&!C OR n:%", "((n:(A|(B&!C))) OR (n:%))"),
            ("EXISTS { (a)-->(b:A&B WHERE b.x) WHERE a.y }", "EXISTS { (a)-[]->(b:A:B WHERE b.x) WHERE a.y }"),
            ("count { MATCH (a) RETURN a UNION MATCH (b) RETURN b }", "COUNT { MATCH (a) RETURN a UNION MATCH (b) RETURN b }"),
            ("collect{UNWIND l AS x RETURN x}[0]", "COLLECT { UNWIND l AS x RETURN x }[0]"),
            ("exists((a)-[:R|!S]->())", "exists((a)-[:(R|!S)]->())"),
            ("shortestPath((a)-[:R*..3]-(b))", "shortestPath((a)-[:R*..3]-(b))"),
        ] {
            check(&format!("RETURN {text}"), &format!("RETURN {expected}"));
        }
    }

    #[test]
    fn errors() {
        check("", "1.1 Unexpected end of input: expected a clause");
        check("FOO", "1.1 Invalid input 'FOO': expected a clause");
        check("MATCH (n) RETURN", "1.17 Unexpected end of input: expected DISTINCT, * or an expression");
        check("RETURN [1,2,]", "1.13 Invalid input ']': expected an expression");
        check("MATCH n RETURN n", "1.7 Parentheses are required to identify nodes in patterns, i.e. (n)");
        check(
            "RETURN 1 != 2",
            "1.10 Unknown operation '!=' (you probably meant to use '<>', which is the operator for inequality testing)",
        );
        check("RETURN 1; RETURN 2", "1.11 Expected exactly one statement per query");
        check("RETURN $", "1.9 Unexpected end of input: expected a parameter name");
        check("RETURN 1 AS", "1.12 Unexpected end of input: expected a name");
        check("MATCH (n)\nWHERE n.x = \nRETURN n", "3.1 Invalid input 'RETURN': expected an expression");
        check("RETURN all(x IN [1])", "1.8 all(...) requires a WHERE predicate");
        check(&format!("RETURN {}", "(".repeat(5000)), "1.208 The query is nested more than 200 levels deep here");
        check(
            "MATCH (a)-[:R..2]->() RETURN a",
            "1.14 A relationship of variable length is written with an asterisk before the bounds, as in `*1..3`",
        );
        check("MATCH (a)-[:R*-2]->() RETURN a", "1.15 The length of a relationship pattern cannot be negative");
        check(
            "MATCH p = shortestPath((a)-->()-->(b)) RETURN p",
            "1.24 shortestPath(...) requires a pattern containing a single relationship",
        );
        check("RETURN (1", "1.10 Unexpected end of input: expected an operator or ')'");
        check(
            "RETURN 1 2",
            "1.10 Invalid input '2': expected an operator, AS, ',', ORDER BY, SKIP, OFFSET, LIMIT, UNION, ; or a clause",
        );
        let hint = |text: &str| parse(text).expect_err(text)[0].hint.clone().unwrap_or_default();
        assert_eq!(hint("MATCH (n) RETRN n"), "did you mean `RETURN`?");
        assert_eq!(hint("MATCH (n) RETURN n ODER BY n.x"), "did you mean `ORDER BY`?");
        assert_eq!(hint("MATCH (n) RETURN n.x LIMT 1"), "did you mean `LIMIT`?");
        check("RETURN 9223372036854775808", "1.8 The integer 9223372036854775808 does not fit into 64 bits");
    }

    #[test]
    fn reading_goes_on_where_the_next_clause_begins() {
        check(
            "MATCH (a WHERE a.x = \nOPTIONAL MATCH (b)-[->(c)\nRETURN a,",
            "2.1 Invalid input 'OPTIONAL': expected an expression\n\
             2.21 Invalid input '-': expected a variable, :, *, a property map, WHERE or ']'\n3.10 Unexpected end of input: expected an expression",
        );
        // Words inside braces and after other words begin no clause.
        check(
            "CALL { MATCH (n RETURN n } MATCH (m) WHERE m.x STARTS WITH ) RETURN m.match",
            "1.17 Invalid input 'RETURN': expected :, a property map, WHERE or ')'\n\
             1.60 Invalid input ')': expected an expression",
        );
        check(
            "MERGE (a {x: }) ON CREATE SET a.y = 1 RETURN ,",
            "1.14 Invalid input '}': expected an expression\n\
             1.46 Invalid input ',': expected DISTINCT, * or an expression",
        );
        check(
            "RETURN 0x10000000000000000, '\\u00', 1e999",
            "1.8 The integer 0x10000000000000000 does not fit into 64 bits\n\
             1.34 Invalid input '\'': expected four hexadecimal digits specifying a unicode character\n\
             1.37 floating point number is too large",
        );
        check("RETURN # 1 ?", "1.8 Invalid input '#'\n1.12 Invalid input '?'");
        check("RETURN 1 UNION RETRN 2", "1.16 Invalid input 'RETRN': expected a clause");
        assert_eq!(read(&"RETURN , ".repeat(900)).errors.len(), crate::error::ERROR_COUNT_MAX);
    }
}
