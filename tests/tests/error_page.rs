//! `docs/cypher-errors.md` is what the table of codes says, and what the compiler says to each example.
//!
//! `UPDATE_EXPECT=1` writes the page anew; the difference is reviewed like any other.

use std::fmt::Write;

use weir_cypher_compiler::{Code, Diagnostic, Example, Options, StandingMode, compile, compile_standing};
use weir_tests::page;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cypher-errors.md");

const HEAD: &str = "# Errors of queries

What is wrong with a query is found before anything of it runs, and all of it is told at once, up to 50 errors: a clause that
cannot be read is left out, and reading goes on where the next one begins. Each error says what is wrong, in which line and
column (counted from 1, in characters), shows the line with a caret under the place, and proposes a name that is spelled alike
where there is one: of a function, a procedure, a variable, a keyword.

## Over HTTP

The status is 400, and the body an array of texts, one an error, in the order of their places:

    [\"CompileError at 1.23 Variable `persn` not defined\\n\\nMATCH (person) RETURN persn\\n                      ^\\ndid you mean `person`?\"]

The first four lines are the form clients of the reference service know: `Kind at line.column message`, an empty line, the
line of the query, a caret. A suggestion follows in a line of its own.

Programs need not take the text apart. The header `Weir-Diagnostics` of the answer is a JSON array with an object for each
error, in the same order:

    [{\"code\": \"UndefinedVariable\", \"kind\": \"CompileError\", \"line\": 1, \"column\": 23, \"offset\": 22, \"length\": 5,
      \"hint\": \"did you mean `person`?\"}]

`code` is one of the words below and does not change; messages may. `offset` counts characters from 0, `length` how many of
the line are wrong. `expected`, of an error of syntax, lists what would have been understood. The header is at most 4096 bytes
long: of very many errors the last are in the body alone. Its characters are ASCII, others are written as `\\uXXXX`.

A query that fails while it runs is answered with 400 too. The text begins with the kind of failure and has no place:
`TypeMismatchError`, `ArithmeticError` (integers that overflow, division by zero), `ConstraintViolationError`,
`WrongSignatureError`, `RuntimeError` for everything else. A read that the parameter `timeout` of its request cuts is answered with 500.

Over HTTP a text is one query. `weir query` and `weir shell` send the statements of a text or of a file one by one, and count lines and
columns from the beginning of the text or the file.

## Kinds

`SyntaxError`: the text is not Cypher. `CompileError`: it is, but means nothing, or something weir does not do.
`PatternError`: the pattern of a standing query is more than its mode can do; over HTTP such an error is its message alone.

## Codes
";

#[test]
fn the_page_says_what_the_compiler_says() {
    let mut page = HEAD.to_owned();
    for code in Code::ALL {
        write!(page, "\n### {code}\n\n{}\n", code.meaning()).expect("a string");
        let standing = |text, mode| compile_standing(text, mode, &Options::default()).err();
        let errors = match code.example() {
            Example::Query(text) => compile(text, &Options::default()).err(),
            Example::DistinctId(text) => standing(text, StandingMode::DistinctId),
            Example::MultipleValues(text) => standing(text, StandingMode::MultipleValues),
            Example::None => continue,
        };
        let errors = errors.unwrap_or_default();
        let found: Vec<Code> = errors.iter().map(|error: &Diagnostic| error.code).collect();
        assert_eq!(found, [*code], "the example of {code}");
        page.push('\n');
        for line in format!("{:#}", errors[0]).lines() {
            page.push_str(format!("    {line}").trim_end());
            page.push('\n');
        }
    }
    page::check(PAGE, &page);
}
