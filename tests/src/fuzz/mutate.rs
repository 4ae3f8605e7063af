//! How a text is changed, and calls of every function with arguments at the edges.

use weir_cypher_compiler::functions;

use crate::random::Random;

/// Words that mean something somewhere.
const WORDS: &[&str] = &[
    "MATCH",
    "OPTIONAL",
    "WHERE",
    "RETURN",
    "WITH",
    "UNWIND",
    "AS",
    "DISTINCT",
    "ORDER BY",
    "SKIP",
    "LIMIT",
    "UNION",
    "ALL",
    "CALL",
    "YIELD",
    "CREATE",
    "MERGE",
    "SET",
    "REMOVE",
    "DELETE",
    "DETACH",
    "FOREACH",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "AND",
    "OR",
    "XOR",
    "NOT",
    "IN",
    "IS NULL",
    "STARTS WITH",
    "CONTAINS",
    "EXISTS",
    "COUNT",
    "COLLECT",
    "true",
    "null",
    "n",
    "m",
    "x",
    "count(*)",
    "reduce(",
    "[x IN ",
    "all(x IN ",
    "shortestPath(",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "-",
    "--",
    "-->",
    "<--",
    "-[",
    "]->",
    ":",
    ";",
    ",",
    ".",
    "..",
    "|",
    "*",
    "*1..",
    "+",
    "/",
    "%",
    "^",
    "=",
    "<>",
    "<=",
    "=~",
    "+=",
    "!",
    "&",
    "$p",
    "$",
    "`",
    "'",
    "\"",
    "\\",
    "//",
    "/*",
    "*/",
    "\u{0}",
    "\u{feff}",
    "é",
    "𝒳",
    "\u{202e}",
    "0",
    "1e999",
    "9223372036854775807",
    "9223372036854775808",
    "0x",
    "0o9",
    "1.",
    ".5",
    "'\\u12'",
    "'\\U0010FFFF'",
    "\n",
];

/// Values at the edges of what functions take.
const EDGES: &[&str] = &[
    "null",
    "true",
    "0",
    "1",
    "-1",
    "2",
    "63",
    "64",
    "1000000",
    "9223372036854775807",
    "-9223372036854775807 - 1",
    "0.0",
    "-0.5",
    "1.5",
    "1e308",
    "-1e308",
    "0.0/0.0",
    "1.0/0.0",
    "''",
    "'a'",
    "'ab,c'",
    "'é𝒳'",
    "'2020-02-30'",
    "'2024-02-29T23:59:60Z'",
    "'PT1S'",
    "'P1Y2M3DT4H5M6.789S'",
    "'((((('",
    "'(a+)+$'",
    "'%s %d'",
    "'{\"a\": [1, null, {}]}'",
    "'[[[['",
    "'UTC'",
    "'Europe/Berlin'",
    "[]",
    "[1]",
    "[null]",
    "[1, 'a', null, [2]]",
    "{}",
    "{a: 1}",
    "{a: {b: [1]}}",
    "{year: 2020, month: 13}",
    "{year: 999999999, day: 31}",
    "{hours: 9223372036854775807}",
    "{timezone: 'x'}",
    "duration('P1M')",
    "duration({seconds: 9223372036854775807})",
    "date('2020-01-31')",
    "datetime('2020-01-31T00:00:00Z')",
    "localtime('23:59:59.999999999')",
    "time('00:00+18:00')",
    "localdatetime('-999999999-01-01T00:00')",
    "date('+999999999-12-31')",
    "range(1, 3)",
    "bytes('00ff')",
    "idFrom(1)",
    "'year'",
    "'day'",
    "'millennium'",
    "'week'",
    "'utf-8'",
];

/// Longer than this no text gets.
const LENGTH_MAX: usize = 20_000;
/// Long texts take as long as many short ones, and what they find is depth: that many are enough.
const LONG_ONE_IN: u64 = 24;

pub fn mutate(random: &mut Random, text: String, corpus: &[String]) -> String {
    let long = random.once_in(LONG_ONE_IN);
    let mut below = |bound: usize| random.below(bound.max(1) as u64) as usize;
    let characters: Vec<char> = text.chars().collect();
    let (x, y) = (below(characters.len() + 1), below(characters.len() + 1));
    let (from, to) = (x.min(y), x.max(y));
    let piece = |from: usize, to: usize| characters[from..to].iter().collect::<String>();
    let mut changed = match below(9) {
        0 => piece(0, from) + &piece(to, characters.len()),
        1 | 2 => format!("{} {} {}", piece(0, from), WORDS[below(WORDS.len())], piece(from, characters.len())),
        // Again and again: what nests, nests deep.
        3 => {
            let end = to.min(from + 1 + below(12));
            let times = if long { [300, 3_000] } else { [2, 30] }[below(2)];
            let again = piece(from, end).repeat(times.min(LENGTH_MAX / (end - from).max(1)));
            piece(0, from) + &again + &piece(end, characters.len())
        }
        4 => {
            let other: Vec<char> = corpus[below(corpus.len())].chars().collect();
            let at = below(other.len() + 1);
            piece(0, from) + &other[at..].iter().collect::<String>()
        }
        5 => {
            let code = [below(0x80), below(0x11_0000), below(0x300)][below(3)] as u32;
            piece(0, from)
                + &char::from_u32(code).unwrap_or('\u{fffd}').to_string()
                + &piece((from + 1).min(characters.len()), characters.len())
        }
        6 => format!("{} {} {}", piece(0, from), EDGES[below(EDGES.len())], piece(to, characters.len())),
        7 => piece(0, from) + &piece(to, characters.len()) + &piece(from, to),
        _ => {
            let open =
                ["(", "[", "{", "NOT ", "-", "[1, ", "CASE WHEN ", "EXISTS { MATCH ", "(n)-->", "x.y + ", "{a: "][below(11)];
            let times = if long { [200, 2_000] } else { [1, 20] }[below(2)];
            piece(0, from) + &open.repeat(times) + &piece(from, characters.len())
        }
    };
    if changed.len() > LENGTH_MAX {
        let end = (0..=LENGTH_MAX).rev().find(|at| changed.is_char_boundary(*at)).unwrap_or(0);
        changed.truncate(end);
    }
    changed
}

/// `RETURN f(…)`, with a value out of it used now and then.
pub fn random_call(random: &mut Random) -> String {
    format!("UNWIND [1, 2] AS x RETURN {} AS value", expression(random, 2))
}

fn expression(random: &mut Random, depth: usize) -> String {
    let edge = |random: &mut Random| EDGES[random.below(EDGES.len() as u64) as usize].to_owned();
    if depth == 0 {
        return edge(random);
    }
    let inner = |random: &mut Random| if random.once_in(3) { expression(random, depth - 1) } else { edge(random) };
    match random.below(8) {
        0 => {
            let operators =
                ["+", "-", "*", "/", "%", "^", "=", "<", ">=", "IN", "STARTS WITH", "CONTAINS", "=~", "AND", "OR", "XOR"];
            let operator = operators[random.below(operators.len() as u64) as usize];
            format!("(({}) {operator} ({}))", inner(random), inner(random))
        }
        1 => match random.below(5) {
            0 => format!("({})[{}]", inner(random), inner(random)),
            1 => format!("({})[{}..{}]", inner(random), inner(random), inner(random)),
            2 => format!("({}).a", inner(random)),
            3 => format!("[v IN {} WHERE v > {} | v + x]", inner(random), inner(random)),
            _ => format!("reduce(t = {}, v IN {} | t + v)", inner(random), inner(random)),
        },
        _ => {
            let count = functions::all().count() as u64;
            let at = random.below(count) as usize;
            let Some(function) = functions::all().nth(at) else { return edge(random) };
            let most = function.arguments_max.min(function.arguments_min + 3).max(function.arguments_min);
            let arguments = function.arguments_min + random.below((most - function.arguments_min + 1) as u64) as usize;
            let arguments: Vec<String> = (0..arguments).map(|_| inner(random)).collect();
            format!("{}({})", function.name, arguments.join(", "))
        }
    }
}
