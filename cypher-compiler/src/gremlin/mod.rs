//! Gremlin, as far as old clients of the service speak it: traversals that read, told anew in Cypher.
//!
//!     x = 'KNOWS'; g.V(idFrom(1)).out(x).values('name')
//!       ─ read ─> steps ─ tell ─> MATCH (c0) WHERE id(c0) = … MATCH (c0)-[:`KNOWS`]->(c1) UNWIND … RETURN
//!
//! Literals become parameters, so that a traversal that comes again with other values is the same query. What is wrong is
//! found here and told in the places of the Gremlin; the Cypher that comes out compiles.

mod read;
mod tell;

use std::fmt;

use weir_model::{IdScheme, Text, Value};

use crate::error::{Code, Diagnostic, Span};

/// A traversal in Cypher: one column.
#[derive(Debug)]
pub struct Told {
    pub text: String,
    /// The parameters that stand in the text, in the order of their numbers.
    pub parameters: Vec<(Text, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MistakeKind {
    Lexical,
    Parse,
    UnboundVariable,
    TypeMismatch,
    /// A text that should be an id.
    FailedDeserialization,
}

/// What is wrong with a traversal, and where.
#[derive(Debug)]
pub struct Mistake {
    pub kind: MistakeKind,
    place: Diagnostic,
}

impl Mistake {
    fn new(text: &str, span: Span, kind: MistakeKind, message: impl Into<String>) -> Box<Mistake> {
        Box::new(Mistake { kind, place: Diagnostic::syntax(text, span, Code::UnexpectedSyntax, message) })
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { line, column, message, excerpt, indent, .. } = &self.place;
        write!(f, "{:?}Error at {line}.{column}: {message}\n\n{excerpt}\n{}^", self.kind, " ".repeat(*indent))
    }
}

impl std::error::Error for Mistake {}

/// `bindings`: the values of variables that the request brings.
pub fn tell(text: &str, bindings: &[(Text, Value)], ids: IdScheme) -> Result<Told, Box<Mistake>> {
    tell::tell(text, &read::read(text)?, bindings, ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let bindings = [("lbl".into(), Value::text("KNOWS")), ("n".into(), Value::Integer(7))];
        let shown = match tell(text, &bindings, IdScheme::Uuid) {
            Ok(told) => {
                if let Err(errors) = crate::compile(&told.text, &crate::Options::default()) {
                    panic!("{text}\n{}\n{}", told.text, errors[0]);
                }
                told.text
            }
            Err(mistake) => mistake.to_string().lines().next().unwrap_or_default().to_owned(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    /// What comes out compiles, and has as many columns as it should.
    fn compiles(text: &str) {
        let told = tell(text, &[], IdScheme::Uuid).unwrap_or_else(|mistake| panic!("{text}: {mistake}"));
        let plan = crate::compile(&told.text, &crate::Options::default());
        let plan = plan.unwrap_or_else(|errors| panic!("{text}\n{}\n{}", told.text, errors[0]));
        assert_eq!((plan.columns.len(), plan.facts.writes), (1, false), "{text}");
    }

    #[test]
    fn traversals_are_told_in_cypher() {
        check("g.V()", "MATCH (c0) RETURN c0 AS result");
        check(
            "g.V(idFrom('p', 1)).out(lbl).values('name')",
            "MATCH (c0) WHERE id(c0) = idFrom($p2, $p3) MATCH (c0)-[:`KNOWS`]->(c1) \
             UNWIND [x IN [c1.`name`] WHERE x IS NOT NULL] AS c2 RETURN c2 AS result",
        );
        check(
            "x = [1, 2]; g.v().has('a', within(x)).count()",
            "MATCH (c0) WITH * WHERE c0.`a` IN [$p2, $p3] WITH count(*) AS c1 RETURN c1 AS result",
        );
        check(
            "x = [idFrom(1), idFrom(2)]; g.V(x)",
            "UNWIND [idFrom($p2), idFrom($p3)] AS i MATCH (c0) WHERE id(c0) = i RETURN c0 AS result",
        );
        check(
            "g.V().as('a').outE('K').inV().eqToVar('a').limit(n)",
            "MATCH (c0) MATCH (c0)-[c1:`K`]->() MATCH (c2) WHERE id(c2) = id(endNode(c1)) WITH * WHERE id(c2) = id(c0) WITH * LIMIT 7 RETURN c2 AS result",
        );
    }

    #[test]
    fn every_step_compiles() {
        let starts = [
            "g.V()",
            "g.v('3684d3cf-b62e-3437-8fba-25032b2a8a22', idFrom(1))",
            "g.V(recent_nodes)",
            "g.recentV(5)",
            "g.recentV()",
            "g.V([idFrom(1), idFrom(2)])",
        ];
        let steps = [
            "has('k')",
            "has('k', 1)",
            "has('k', neq('x'))",
            "has('k', eq(1.5))",
            "has('k', regex('a.*'))",
            "has('k', within(1, 'b'))",
            "has(label, 'Person')",
            "hasNot('k')",
            "hasLabel('Person')",
            "hasId(idFrom(1), '3684d3cf-b62e-3437-8fba-25032b2a8a22')",
            "dedup()",
            "limit(3)",
            "out()",
            "in('A', 'B')",
            "both(['A', 'B'])",
            "outLimit(2)",
            "inLimit('A', 2)",
            "bothLimit('A', 'B', 2)",
            "outE().inV()",
            "inE('A').outV()",
            "bothE().bothV()",
            "outELimit('A', 1).inV()",
            "inELimit(1).bothV()",
            "bothELimit(1).outV()",
            "as('x')",
            "as('x').out().select('x')",
            "as('x').out().eqToVar('x')",
            "not(_.out())",
            "where(_.has('k').out().has('k', 1))",
            "where(_.values('k').is(1))",
            "and(_.out(), _.in('A'), _.not(_.both()))",
            "or(_.has('k'), _.hasNot('l'))",
            "union(_.out(), _.in(), _.has('k'))",
        ];
        let ends = [
            "",
            ".values()",
            ".values('a', 'b')",
            ".valueMap()",
            ".valueMap('a', 'b')",
            ".id()",
            ".strId()",
            ".unrollPath()",
            ".count()",
            ".groupCount()",
            ".values('a').groupCount()",
            ".values('a').is(within(1, 2))",
            ".values('a').is(regex('b')).dedup()",
            ".as('p').out().as('q').select('p', 'q')",
            ".outE().count()",
            ".outE().hasLabel('A')",
        ];
        for start in starts {
            for step in steps {
                compiles(&format!("{start}.{step}"));
            }
        }
        for step in steps {
            for end in ends {
                compiles(&format!("g.V(idFrom(1)).{step}{end}"));
                compiles(&format!("g.V(idFrom(1)).as('z').{step}.dedup(){end}"));
                compiles(&format!("g.V(idFrom(1)).{step}.{step}.unrollPath().dedup()"));
            }
        }
    }

    #[test]
    fn mistakes_are_told_in_their_places() {
        check("g.V().nope()", "ParseError at 1.7: there is no step `nope`");
        check("g.V(", "ParseError at 1.5: Unexpected end of input: expected a value or ')'");
        check("", "ParseError at 1.1: Unexpected end of input: expected `g`");
        check("g.V() ?", "LexicalError at 1.7: Invalid input '?'");
        check("g.V('abc", "LexicalError at 1.9: Unexpected end of input: expected ' to close the string that began at offset 4");
        check("g.V().out(\n  y)", "UnboundVariableError at 2.3: the variable `y` has no value");
        check("g.V().values('a').out()", "TypeMismatchError at 1.19: `out` begins at a vertex, but this is a value");
        check("g.V().outE().out()", "TypeMismatchError at 1.14: `out` begins at a vertex, but this is an edge");
        check("g.V().inV()", "TypeMismatchError at 1.7: `inV` begins at an edge, but this is a vertex");
        check(
            "x = 1; g.V().values('n').eqToVar(x)",
            "TypeMismatchError at 1.26: `eqToVar` begins at a vertex, but this is a value",
        );
        check("g.V('zzz')", "FailedDeserializationError at 1.5: 'zzz' is no id");
        check("g.V().limit('a')", "TypeMismatchError at 1.13: expected a whole number");
        check("g.V().out(1)", "TypeMismatchError at 1.11: expected a text");
        check("g.V().select('x')", "UnboundVariableError at 1.14: nothing was kept as `x`");
        check("g.V().union()", "ParseError at 1.7: `union` takes at least one traversal");
        check("g.V().where(1)", "ParseError at 1.13: `where` takes a traversal, as in `_.out()`");
        check("g.V().out", "ParseError at 1.10: Unexpected end of input: expected '('");
        check("g.V() g.V()", "ParseError at 1.7: Invalid input 'g': expected '.'");
        check("V()", "ParseError at 1.1: Invalid input 'V': expected `g`, or a variable and `=`");
        check("g.out()", "ParseError at 1.3: a traversal begins with `V` or `recentV`");
        check(&format!("g.V(){}", ".out()".repeat(400)), "ParseError at 1.1201: a traversal has at most 200 steps");
        check(
            &format!("g.V(){}", ".where(_.out()".repeat(50)),
            "ParseError at 1.461: the traversal is nested more than 32 levels deep here",
        );
    }
}
