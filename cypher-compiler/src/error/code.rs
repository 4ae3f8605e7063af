//! The codes of errors: stable words by which a program tells one mistake from another.
//!
//! Each has a meaning and a text that shows it; `docs/cypher-errors.md` is written out of them, and a test sees to it that
//! every text has the error it is an example of. Names follow the openCypher TCK where it has one.

use std::fmt;

/// A text that has the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Example {
    Query(&'static str),
    /// The pattern of a standing query, in one of its two modes.
    DistinctId(&'static str),
    MultipleValues(&'static str),
    /// No text is known to have it, or one that is too long to show.
    None,
}

macro_rules! codes {
    ($($name:ident: $meaning:literal, $example:expr;)*) => {
        /// What kind of mistake an error is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// In the order in which the page lists them.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The word programs know it by.
            pub fn name(self) -> &'static str {
                match self {
                    $(Code::$name => stringify!($name),)*
                }
            }

            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => $meaning,)*
                }
            }

            pub fn example(self) -> Example {
                use Example::{DistinctId, MultipleValues, None, Query};
                match self {
                    $(Code::$name => $example,)*
                }
            }
        }
    };
}

codes! {
    // What is no Cypher.
    UnexpectedSyntax: "Something else was expected here.", Query("MATCH (n) RETRN n");
    InvalidNumberLiteral: "A number is not written as numbers are.", Query("RETURN 12ab");
    IntegerOverflow: "An integer does not fit into 64 bits.", Query("RETURN 9223372036854775808");
    FloatingPointOverflow: "A number is larger than the largest float.", Query("RETURN 1e400");
    InvalidUnicodeLiteral: "`\\u` in a string is not followed by four hexadecimal digits, or `\\U` by the eight of a character.", Query(r"RETURN '\u00g1'");
    InvalidUnicodeCharacter: "A character that Cypher has no use for.", Query("RETURN 42 — 41");
    TooDeep: "The query is nested deeper than weir reads.", None;
    TooLong: "The query has more clauses, nodes in a pattern, or operators in a row, than weir reads.", None;

    // Names.
    UndefinedVariable: "Nothing declares the variable, or the column.", Query("MATCH (person) RETURN persn.name");
    VariableAlreadyBound: "The variable is there already and cannot be declared again.", Query("UNWIND [1] AS x UNWIND [2] AS x RETURN x");
    VariableTypeConflict: "A variable is used as something it is not: a node as a relationship, a list as a node.", Query("MATCH (a)-[r]->(b) MATCH (r) RETURN r");
    UnknownFunction: "There is no function of that name.", Query("RETURN toUper('a')");
    ProcedureNotFound: "There is no procedure of that name.", Query("CALL recentNode(5)");
    MissingParameter: "The query uses a parameter that was not given.", None;
    NoVariablesInScope: "`*` stands for all variables, and there are none.", Query("MATCH () RETURN *");
    ColumnNameConflict: "Two columns of a result have the same name.", Query("RETURN 1 AS a, 2 AS a");
    NoExpressionAlias: "What WITH computes needs a name.", Query("MATCH (n) WITH n.x RETURN 1");
    DifferentColumnsInUnion: "The sides of a UNION have different columns.", Query("RETURN 1 AS a UNION RETURN 2 AS b");

    // Arguments and types.
    InvalidNumberOfArguments: "A function or a procedure takes fewer or more arguments.", Query("RETURN abs()");
    InvalidArgumentPassingMode: "Inside a query the arguments of a procedure are written out.", Query("MATCH (n) CALL util.sleep RETURN n");
    InvalidArgumentType: "A value of this type cannot stand here.", Query("RETURN 1 AND true");
    InvalidParameterUse: "A parameter cannot stand for the properties of this pattern, or for the bounds of a length.", Query("MATCH (n $properties) RETURN n");
    NonConstantExpression: "SKIP and LIMIT cannot depend on the rows.", Query("MATCH (n) RETURN n LIMIT n.x");
    NegativeIntegerArgument: "SKIP and LIMIT cannot be negative.", Query("RETURN 1 AS x SKIP -1");

    // Aggregates.
    InvalidAggregation: "An aggregate, or DISTINCT in a call, where none can stand.", Query("MATCH (n) WHERE count(n) > 1 RETURN n");
    NestedAggregation: "An aggregate inside an aggregate.", Query("RETURN count(count(*))");
    AmbiguousAggregationExpression: "An expression mixes an aggregate with something that is not grouped by.", Query("MATCH (n) RETURN n.x + count(*)");

    // Clauses and patterns.
    InvalidClauseComposition: "These clauses cannot follow one another.", Query("CREATE (n) MATCH (m) RETURN m");
    InvalidLabelExpression: "A label expression where only labels can stand.", Query("MATCH (n) SET n:A|B");
    InvalidRelationshipPattern: "A relationship cannot be matched in this way.", Query("MATCH (a)-[:R..2]->(b) RETURN b");
    RelationshipUniquenessViolation: "One pattern uses a relationship twice, which never matches.", Query("MATCH (a)-[r]->()-[r]->(a) RETURN r");
    NoSingleRelationshipType: "A relationship is created with exactly one type.", Query("CREATE (a)-[]->(b)");
    RequiresDirectedRelationship: "A relationship is created in one direction.", Query("CREATE (a)-[:R]-(b)");
    CreatingVarLength: "A relationship of variable length cannot be created.", Query("CREATE (a)-[:R*2]->(b)");
    InvalidDelete: "Only nodes, relationships and paths can be deleted.", Query("MATCH (n) DELETE n:A");
    Unsupported: "Cypher, but nothing weir does.", Query("CREATE CONSTRAINT FOR (n:Person) REQUIRE n.name IS UNIQUE");

    // Standing queries.
    WrongFormat: "A standing query is one MATCH and one RETURN.", DistinctId("RETURN 1");
    NotConnected: "The pattern falls apart into several.", DistinctId("MATCH (a), (b) RETURN DISTINCT id(a)");
    HasACycle: "The pattern comes back to where it was.", DistinctId("MATCH (a)-[:R]->(b)-[:R]->(a) RETURN DISTINCT id(a)");
    EdgeVariable: "A relationship of the pattern has a variable.", DistinctId("MATCH (a)-[r:R]->(b) RETURN DISTINCT id(a)");
    EdgeLabel: "A relationship of the pattern needs exactly one type.", DistinctId("MATCH (a)-->(b) RETURN DISTINCT id(a)");
    EdgeDirection: "A relationship of the pattern needs a direction.", DistinctId("MATCH (a)-[:R]-(b) RETURN DISTINCT id(a)");
    EdgeProperties: "A relationship of the pattern has properties.", DistinctId("MATCH (a)-[:R {x: 1}]->(b) RETURN DISTINCT id(a)");
    EdgeLength: "A relationship of the pattern has a variable length.", DistinctId("MATCH (a)-[:R*2]->(b) RETURN DISTINCT id(a)");
    NodeConstraint: "The properties of a node in the pattern are not written as literals.", DistinctId("MATCH (a {x: 1 + 1}) RETURN DISTINCT id(a)");
    NodeVariable: "A node stands where only its properties or its id can.", MultipleValues("MATCH (a) RETURN a");
    LabelExpression: "Something other than labels a node has to have.", MultipleValues("MATCH (a:A|B) RETURN id(a)");
    NamedPath: "The pattern has a name.", DistinctId("MATCH p = (a) RETURN DISTINCT id(a)");
    ShortestPath: "The pattern is a shortest path.", MultipleValues("MATCH p = shortestPath((a)-[:R*]->(b)) RETURN id(a)");
    NotPure: "An expression asks the graph outside the pattern.", MultipleValues("MATCH (a) WHERE (a)-->() RETURN id(a)");
    NotMaintainable: "An expression follows from chance or the time, not from the graph.", MultipleValues("MATCH (n) RETURN rand() AS chance");
    Parameter: "A parameter, where nobody gives any.", MultipleValues("MATCH (a) RETURN $p AS p");
    InvalidRegex: "A regular expression that cannot be read.", MultipleValues("MATCH (a) WHERE a.x =~ '(' RETURN id(a)");
    DistinctIdMustDistinct: "In mode DistinctId the pattern returns DISTINCT.", DistinctId("MATCH (n) RETURN id(n)");
    DistinctIdMustId: "In mode DistinctId the pattern returns the id of its root and nothing else.", DistinctId("MATCH (n) RETURN DISTINCT n.x");
    DistinctIdCannotMap: "In mode DistinctId nothing is computed.", DistinctId("MATCH (n) RETURN DISTINCT n.x + 1");
    DistinctIdCannotFilter: "In mode DistinctId conditions are those that one node alone decides.", DistinctId("MATCH (n) WHERE n.x > 1 RETURN DISTINCT id(n)");
    MultipleValuesCantDistinct: "In mode MultipleValues the pattern does not return DISTINCT.", MultipleValues("MATCH (n) RETURN DISTINCT n.x");

    Internal: "A fault of weir. Please report the query.", None;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
