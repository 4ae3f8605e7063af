//! Commands about the graph as a whole: `CREATE`, `DROP` and `SHOW` for indexes and for what expires. A command is the whole
//! text. What chooses from that which is shown, by YIELD or WHERE, is a query like others (`call`).

use weir_model::Text;
use weir_model::schema::{Expires, ExpiryRule, Schema};
use weir_model::temporal::SECONDS_PER_DAY;

use super::{Parsed, Parser};
use crate::ast::{Clause, ClauseKind, Query};
use crate::error::Code;
use crate::functions::read_duration;
use crate::lexer::TokenKind;

/// Words between CREATE and INDEX. One sort of index answers all of them.
const SORTS: &[&str] = &["RANGE", "TEXT", "BTREE", "LOOKUP"];

impl Parser<'_> {
    /// The command the text is, if it is one.
    pub(super) fn schema(&mut self) -> Parsed<Option<Query>> {
        let from = self.at;
        let chooses = self.is_word_at(2, "YIELD") || self.is_word_at(2, "WHERE");
        let shows = self.is_word_at(0, "SHOW") && !chooses;
        let sorted = SORTS.iter().any(|sort| self.is_word_at(1, sort)) && self.is_word_at(2, "INDEX");
        let schema = if self.is_word_at(0, "CREATE") && (sorted || self.is_word_at(1, "INDEX")) {
            let lookup = self.is_word_at(1, "LOOKUP");
            (0..if sorted { 3 } else { 2 }).for_each(|_| self.advance());
            self.create_index(lookup)?
        } else if self.is_word_at(0, "DROP") && self.is_word_at(1, "INDEX") {
            self.advance();
            self.advance();
            let name = self.name("the name of an index")?.text;
            Schema::DropIndex { name, if_exists: self.words("IF EXISTS") }
        } else if shows && (self.is_word_at(1, "INDEXES") || self.is_word_at(1, "INDEX")) {
            self.advance();
            self.advance();
            Schema::ShowIndexes
        } else if self.is_word_at(0, "CREATE") && self.is_word_at(1, "EXPIRY") {
            (0..2).for_each(|_| self.advance());
            self.create_expiry()?
        } else if self.is_word_at(0, "DROP") && self.is_word_at(1, "EXPIRY") {
            (0..2).for_each(|_| self.advance());
            let name = self.name("the name of a rule")?.text;
            Schema::DropExpiry { name, if_exists: self.words("IF EXISTS") }
        } else if shows && (self.is_word_at(1, "EXPIRIES") || self.is_word_at(1, "EXPIRY")) {
            (0..2).for_each(|_| self.advance());
            Schema::ShowExpiries
        } else {
            return Ok(None);
        };
        let clause = Clause { kind: ClauseKind::Schema(schema), span: self.span_from(from) };
        Ok(Some(Query { first: vec![clause], unions: Vec::new() }))
    }

    /// `[name] [IF NOT EXISTS] FOR (n:Label) [ON (n.property)]`, or as it was once written, `ON :Label(property)`.
    fn create_index(&mut self, lookup: bool) -> Parsed<Schema> {
        if self.words("ON") {
            self.need_symbol(":")?;
            let label = self.name("a label")?.text;
            self.need_symbol("(")?;
            let property = Some(self.name("a property key")?.text);
            self.only_one("(")?;
            return Ok(Schema::CreateIndex { name: None, label, property, unless_exists: false });
        }
        let (name, unless_exists) = self.named_for()?;
        let from = self.at;
        self.need_symbol("(")?;
        if self.is_symbol(")") {
            let message = "Only nodes have indexes; relationships are found from their ends";
            return Err(self.compile_error(self.span_from(from), Code::Unsupported, message));
        }
        let variable = self.variable()?.text;
        if self.is_symbol(")") {
            let message = "An index is for the nodes of one label: FOR (n:Label)";
            return Err(self.compile_error(self.span_from(from), Code::Unsupported, message));
        }
        self.need_symbol(":")?;
        let label = self.name("a label")?.text;
        self.need_symbol(")")?;
        if lookup {
            if self.words("ON EACH") {
                self.need_words("LABELS")?;
                self.need_symbol("(")?;
                self.the_variable(&variable)?;
                self.need_symbol(")")?;
            }
            return Ok(Schema::CreateIndex { name, label, property: None, unless_exists });
        }
        self.need_words("ON")?;
        let parentheses = self.symbol("(");
        self.the_variable(&variable)?;
        self.need_symbol(".")?;
        let property = Some(self.name("a property key")?.text);
        self.only_one(if parentheses { "(" } else { "" })?;
        Ok(Schema::CreateIndex { name, label, property, unless_exists })
    }

    /// `[name] [IF NOT EXISTS] FOR`
    fn named_for(&mut self) -> Parsed<(Option<Text>, bool)> {
        let named = !self.words("IF NOT EXISTS") && !self.words("FOR");
        let name = if named { Some(self.name("a name")?.text) } else { None };
        let unless_exists = if named { self.words("IF NOT EXISTS") } else { !self.is_symbol("(") };
        if named || unless_exists {
            self.need_words("FOR")?;
        }
        Ok((name, unless_exists))
    }

    /// `[name] [IF NOT EXISTS] FOR (n:Label) ON n.property [AFTER duration('PT30M')] [REMOVE n.property]`, or for edges
    /// `FOR ()-[r:TYPE]-() …`.
    fn create_expiry(&mut self) -> Parsed<Schema> {
        let (name, unless_exists) = self.named_for()?;
        self.need_symbol("(")?;
        let is_edge = self.symbol(")");
        if is_edge {
            self.need_symbol("-")?;
            self.need_symbol("[")?;
        }
        let variable = self.variable()?.text;
        self.need_symbol(":")?;
        let kind = self.name(if is_edge { "a type" } else { "a label" })?.text;
        if is_edge {
            self.need_symbol("]")?;
            self.need_symbol("-")?;
            // Either direction means the same: an edge is one, from wherever it is seen.
            self.symbol(">");
            self.need_symbol("(")?;
        }
        self.need_symbol(")")?;
        self.need_words("ON")?;
        let on = self.property_of(&variable)?;
        let after_millis = if self.words("AFTER") { self.span_of_time()? } else { 0 };
        let removes = if self.words("REMOVE") { Some(self.property_of(&variable)?) } else { None };
        let of = if is_edge { Expires::Edges(kind) } else { Expires::Nodes(kind) };
        Ok(Schema::CreateExpiry { name, rule: ExpiryRule { of, on, after_millis, removes }, unless_exists })
    }

    fn property_of(&mut self, variable: &Text) -> Parsed<Text> {
        self.the_variable(variable)?;
        self.need_symbol(".")?;
        Ok(self.name("a property key")?.text)
    }

    /// `duration('PT30M')`, in milliseconds.
    fn span_of_time(&mut self) -> Parsed<u64> {
        let from = self.at;
        self.need_words("duration")?;
        self.need_symbol("(")?;
        let TokenKind::Text(text) = self.kind().clone() else {
            self.expect_note("a text such as 'PT30M'");
            return Err(self.unexpected());
        };
        self.advance();
        self.need_symbol(")")?;
        let wrong = |parser: &Self, message: &str| {
            Err(parser.compile_error(parser.span_from(from), Code::InvalidArgumentType, format!("`{text}` {message}")))
        };
        match read_duration(&text) {
            None => wrong(self, "is not a duration; one is written as 'P1DT12H30M5.5S'"),
            Some(duration) if duration.months != 0 => wrong(self, "has months, which differ in length; say it in days"),
            Some(duration) => {
                let seconds = duration.days.checked_mul(SECONDS_PER_DAY).and_then(|days| days.checked_add(duration.seconds));
                let millis = seconds.and_then(|seconds| seconds.checked_mul(1000));
                // What is no whole millisecond ends later, not earlier.
                let millis = millis.map(|millis| millis + (i64::from(duration.nanos) + 999_999) / 1_000_000);
                match millis.and_then(|millis| u64::try_from(millis).ok()) {
                    Some(millis) => Ok(millis),
                    None => wrong(self, "is negative, or too long"),
                }
            }
        }
    }

    fn the_variable(&mut self, variable: &Text) -> Parsed<()> {
        let name = self.variable()?;
        if name.text == *variable {
            return Ok(());
        }
        Err(self.compile_error(name.span, Code::UndefinedVariable, format!("Variable `{}` not defined", name.text)))
    }

    /// The end of a list of properties that has no second one.
    fn only_one(&mut self, opened: &str) -> Parsed<()> {
        if self.is_symbol(",") {
            let message = "An index is of one property; of several, make one each: a query uses the best of them";
            return Err(self.compile_error(self.span(), Code::Unsupported, message));
        }
        if opened == "(" { self.need_symbol(")") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;

    fn parse(text: &str) -> String {
        super::super::parse(text).expect("it is Cypher").to_string()
    }

    #[test]
    fn commands() {
        check("CREATE INDEX FOR (n:A) ON (n.x)", "CREATE INDEX FOR (n:A) ON (n.x)");
        check(
            "create range index `my index` if not exists for (p:Person) on (p.name);",
            "CREATE INDEX my index IF NOT EXISTS FOR (n:Person) ON (n.name)",
        );
        check("CREATE INDEX IF NOT EXISTS FOR (n:A) ON n.x", "CREATE INDEX IF NOT EXISTS FOR (n:A) ON (n.x)");
        check("CREATE INDEX ON :A(x)", "CREATE INDEX FOR (n:A) ON (n.x)");
        check("CREATE LOOKUP INDEX people FOR (n:Person) ON EACH labels(n)", "CREATE LOOKUP INDEX people FOR (n:Person)");
        check("CREATE LOOKUP INDEX FOR (n:Person)", "CREATE LOOKUP INDEX FOR (n:Person)");
        check("DROP INDEX people", "DROP INDEX people");
        check("DROP INDEX people IF EXISTS", "DROP INDEX people IF EXISTS");
        check("SHOW INDEXES", "SHOW INDEXES");
        check("CREATE INDEX FOR (n:A) ON (m.x)", "1.28 Variable `m` not defined");
        check(
            "CREATE INDEX FOR (n:A) ON (n.x, n.y)",
            "1.31 An index is of one property; of several, make one each: a query uses the best of them",
        );
        check("CREATE LOOKUP INDEX FOR (n)", "1.25 An index is for the nodes of one label: FOR (n:Label)");
        check("CREATE INDEX FOR ()-[r:R]-() ON (r.x)", "1.18 Only nodes have indexes; relationships are found from their ends");
        check(
            "CREATE EXPIRY session FOR (n:Session) ON n.seen AFTER duration('PT30M')",
            "CREATE EXPIRY session FOR (n:Session) ON n.seen AFTER duration('PT30M')",
        );
        check("create expiry for (s:S) on s.until;", "CREATE EXPIRY FOR (n:S) ON n.until");
        check(
            "CREATE EXPIRY IF NOT EXISTS FOR (n:S) ON n.until REMOVE n.price",
            "CREATE EXPIRY IF NOT EXISTS FOR (n:S) ON n.until REMOVE n.price",
        );
        check(
            "CREATE EXPIRY seen IF NOT EXISTS FOR ()-[e:SEEN]->() ON e.at AFTER duration('P1DT0.0005S') REMOVE e.weight",
            "CREATE EXPIRY seen IF NOT EXISTS FOR ()-[r:SEEN]-() ON r.at AFTER duration('P1DT0.001S') REMOVE r.weight",
        );
        check("DROP EXPIRY session IF EXISTS", "DROP EXPIRY session IF EXISTS");
        check("SHOW EXPIRIES", "SHOW EXPIRIES");
        check("CREATE EXPIRY FOR (n:S) ON m.until", "1.28 Variable `m` not defined");
        check("CREATE EXPIRY FOR (n) ON n.until", "1.21 Invalid input ')': expected :");
        check(
            "CREATE EXPIRY FOR (n:S) ON n.x AFTER duration('P1M')",
            "1.38 `P1M` has months, which differ in length; say it in days",
        );
        check(
            "CREATE EXPIRY FOR (n:S) ON n.x AFTER duration('soon')",
            "1.38 `soon` is not a duration; one is written as 'P1DT12H30M5.5S'",
        );
        check("CREATE EXPIRY FOR (n:S) ON n.x AFTER duration('-PT1S')", "1.38 `-PT1S` is negative, or too long");
        check("CREATE INDEX", "1.13 Unexpected end of input: expected ON, IF NOT EXISTS, FOR or a name");
        check("SHOW INDEXES RETURN 1", "1.14 Invalid input 'RETURN': expected ;");
        let shown = "CALL schema.indexes() YIELD name, type AS sort\nRETURN name";
        check("show index yield name, type as sort RETURN name;", shown);
        let columns = "name, state, type, label, on, after, removes, waiting, expired";
        check("SHOW EXPIRIES YIELD *", &format!("CALL schema.expiries() YIELD {columns}"));
        assert_eq!(parse("SHOW INDEXES WHERE type = 'RANGE'"), parse("SHOW INDEXES YIELD * WHERE type = 'RANGE'"));
        check("MATCH (n) CREATE INDEX FOR (n:A) ON (n.x)", "1.11 A command about the graph as a whole stands alone");
    }
}
